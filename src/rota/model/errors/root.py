"""The root of the tree of errors, and how a value and a guess are told."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

_SHOWN_LIMIT = 80


def shown(value: object) -> str:
    """Return a value for a message: escaped, one line, and never longer than a reader wants."""
    if isinstance(value, int) and value.bit_length() > 4 * _SHOWN_LIMIT:
        return "a number of more than 90 digits"  # Python refuses to print numbers of more than 4,300
    text = repr(value)
    return text if len(text) <= _SHOWN_LIMIT else text[: _SHOWN_LIMIT - 1] + "…"


def guess(near: Sequence[str]) -> str:
    """Return the beginning of a hint: the nearest name, where there is one."""
    return f"did you mean {near[0]!r}? " if near else ""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a user's file: where, which key, what, and what to do."""

    message: str
    code: str
    file: str = ""
    line: int = 0
    column: int = 0
    path: str = ""
    hint: str = ""

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        where = ": ".join(part for part in (place, self.path) if part)
        text = f"{where}: {self.message}" if where else self.message
        return f"{text}; {self.hint}" if self.hint else text


class RotaError(Exception):
    """Something that rota refuses or cannot do, told so that a person can act."""

    code: ClassVar[str] = "error"
    problems: "tuple[Problem, ...]" = ()
    """The places in files that it is about."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message
