"""Plain values in the shape of a file: what Python code declares is read by the same rules as a rota.yaml."""

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from enum import Enum
from os import PathLike, fspath
from typing import Any

from rota.declare.files import Document, KeyPath
from rota.model.durations import write_duration

NOWHERE = (0, 0)
"""The place of every key: problems are told without one."""


def document_of(data: Mapping[str, Any]) -> Document:
    """Return values as if they were the content of a file; durations, instants and paths may be Python's own."""
    values = plain(data)
    return Document("", values, dict.fromkeys(_paths(values, ()), NOWHERE))


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
