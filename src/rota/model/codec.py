"""Frozen records to plain JSON values and back, by their type hints. No import is ever made from stored data."""

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from rota.model.clock import MILLISECOND, from_ms, to_ms

T = TypeVar("T")
Coder = Callable[[Any], Any]


def encode(value: Any) -> Any:
    """Return a record, enum, instant or duration as a JSON value; instants and durations in milliseconds."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, timedelta):
        return value // MILLISECOND
    if isinstance(value, datetime):
        return to_ms(value)
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    record: Any = type(value)
    return {name: encode(getattr(value, name)) for name in _names(record)}


@cache
def _names(record: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(record))


def decode(record: type[T], value: Any) -> T:
    """Return the `record` that `encode` made `value` from. Keys it does not know are ignored, missing ones default."""
    hint: Any = record
    return typing.cast(T, _decoder(hint)(value))


@cache
def _decoder(hint: Any) -> Coder:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _optional(hint)
    if origin is tuple:
        item = _decoder(typing.get_args(hint)[0])
        return lambda values: tuple(item(value) for value in values)
    if hint is timedelta:
        return lambda ms: timedelta(milliseconds=ms)
    if hint is datetime:
        return from_ms
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if dataclasses.is_dataclass(hint):
        return _record(typing.cast(type, hint))
    return _as_it_is


def _as_it_is(value: Any) -> Any:
    return value


def _optional(hint: Any) -> Coder:
    inner = [arg for arg in typing.get_args(hint) if arg is not type(None)]
    coder = _decoder(inner[0]) if len(inner) == 1 else _as_it_is
    return lambda value: None if value is None else coder(value)


def _record(record: type) -> Coder:
    hints = typing.get_type_hints(record)
    coders = {name: _decoder(hints[name]) for name in _names(record)}

    def build(values: Mapping[str, Any]) -> Any:
        return record(**{name: coder(values[name]) for name, coder in coders.items() if name in values})

    return build
