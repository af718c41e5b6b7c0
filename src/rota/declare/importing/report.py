"""What an import made of a file: the text of a rota.yaml, and everything that a person should know about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about one line (0 where it is about the whole) of the file that was read."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Kept:
    """A key that was written to keep the old meaning, and why it is needed."""

    key: str
    why: str


@dataclass(frozen=True, slots=True)
class ImportedJob:
    """One job of the new file: its keys, and where it came from."""

    name: str
    line: int
    keys: Mapping[str, Any]
    comments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Translation:
    """A file of another scheduler in rota's words; `text` is the new rota.yaml."""

    text: str
    read: int
    jobs: tuple[ImportedJob, ...]
    timezone: str = "UTC"
    kept: tuple[Kept, ...] = ()
    by_hand: tuple[Remark, ...] = ()
    left_out: tuple[Remark, ...] = ()
