"""Plain values in the shape of a file: what Python code declares is read by the same rules as a rota.yaml."""

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from enum import Enum
from os import PathLike, fspath
from typing import Any

from rota.declare.composing import KEY_HINT, TEXT_HINT, UNUSABLE
from rota.declare.files import Document, KeyPath, write_path
from rota.model.durations import write_duration
from rota.model.errors import Problem

NOWHERE = (0, 0)
"""The place of every key: problems are told without one."""


def document_of(data: Mapping[str, Any]) -> Document:
    """Return values as if they were the content of a file; durations, instants and paths may be Python's own."""
    spoilt: dict[KeyPath, Problem] = {}
    values = usable(plain(data), (), spoilt=spoilt)
    keys = dict.fromkeys(_paths(values, ()), NOWHERE)
    return Document("", values, keys, tuple(spoilt.values()), frozenset(spoilt))


def usable(value: Any, path: KeyPath, *, spoilt: dict[KeyPath, Problem]) -> Any:
    """Return a value without the texts and keys that no program can be given; those are told in `spoilt`, as a file's.

    >>> usable({"command": ["a\\0b"]}, (), spoilt={})
    {'command': ['']}
    """
    if isinstance(value, str) and (found := UNUSABLE.search(value)):
        spoilt[path] = _unusable(f"holds the character U+{ord(found[0]):04X}", path, hint=TEXT_HINT)
        return ""
    if isinstance(value, dict):
        keyed = [(_key(key, path, spoilt=spoilt), below) for key, below in value.items()]
        return {key: usable(below, (*path, key), spoilt=spoilt) for key, below in keyed}
    if isinstance(value, list):
        return [usable(below, (*path, number), spoilt=spoilt) for number, below in enumerate(value)]
    return value


def _key(key: str, path: KeyPath, *, spoilt: dict[KeyPath, Problem]) -> str:
    found = UNUSABLE.search(key)
    if found is None:
        return key
    whole = UNUSABLE.sub("\ufffd", key)
    spoilt[(*path, whole)] = _unusable(f"a key holds the character U+{ord(found[0]):04X}", path, hint=KEY_HINT)
    return whole


def _unusable(message: str, path: KeyPath, *, hint: str) -> Problem:
    return Problem(message, "yaml_character", path=write_path(path), hint=hint)


def plain(value: Any) -> Any:
    """Return a value as YAML would have it.

    >>> plain({"timeout": timedelta(minutes=5), "labels": ("a", "b")})
    {'timeout': '5m', 'labels': ['a', 'b']}
    """
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {str(key): plain(below) for key, below in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(below) for below in value]
    if isinstance(value, timedelta):
        return write_duration(value)
    if isinstance(value, date):  # also a datetime
        return value.isoformat()
    return fspath(value) if isinstance(value, PathLike) else value


def _paths(value: Any, path: KeyPath) -> Iterator[KeyPath]:
    yield path
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in below:
        yield from _paths(inner, (*path, key))
