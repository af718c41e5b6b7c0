"""Rows to records and back."""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from functools import cache, lru_cache
from types import NoneType
from typing import Any, TypeVar, cast, get_args, get_origin

from rota.model.clock import MILLISECOND, from_ms, from_ms_or_none, to_ms
from rota.model.proposals import Provenance
from rota.model.records import Execution, Job, Run
from rota.model.serialize import decode, encode, is_record, types_of
from rota.model.spec import JobSpec
from rota.store.driver import Database, Row

Record = Mapping[str, Any]
EMPTY = "{}"
T = TypeVar("T")
Converter = Callable[[Any], Any]

_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def write_json(value: Any) -> str:
    """Return the canonical JSON text of a value: sorted, without blanks."""
    return _encoder.encode(value) if value != {} else EMPTY


def read_object(text: str | None) -> dict[str, Any]:
    """Return the JSON object of a stored text, empty for NULL."""
    value: dict[str, Any] = {} if text is None or text == EMPTY else json.loads(text)
    return value


def merge_objects(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with a JSON merge patch applied: nested objects are merged, null removes a key (RFC 7396)."""
    merged = dict(base)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            under = merged.get(key)
            merged[key] = merge_objects(under if isinstance(under, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def write_spec(spec: JobSpec) -> str:
    """Return a job's definition as it is stored."""
    return write_json(encode(spec))


@lru_cache(maxsize=4096)
def read_spec(text: str) -> JobSpec:
    """Return the definition of a stored text."""
    return decode(JobSpec, json.loads(text))


def value_of(db: Database, query: str, /, **params: Any) -> Any:
    """Return the first column of the first row, None without a row."""
    row = db.row(query, **params)
    return None if row is None else row[0]


def instant_of(db: Database, query: str, /, **params: Any) -> datetime | None:
    """Return the instant in the first column of the first row, None for NULL or without a row."""
    return from_ms_or_none(value_of(db, query, **params))


def record_of(kind: type[T], row: Row, *others: Any) -> T:
    """Return the record of a row whose columns have the order of the record's fields; `others` are the last fields."""
    return records_of(kind, [row], *([other] for other in others))[0]


def record_or_none(kind: type[T], row: Row | None) -> T | None:
    """Return the record of a row, None without a row."""
    return None if row is None else record_of(kind, row)


def records_of(kind: type[T], rows: Iterable[Row], *others: Iterable[Any]) -> list[T]:
    """Return the records of rows whose columns have the order of the record's fields; `others` are the last columns."""
    columns: list[Iterable[Any]] = list(zip(*rows, strict=True))  # by column: a loop in C for each
    for index, read in _readers_by_index(cast(Any, kind), len(columns)):
        columns[index] = map(read, columns[index])
    return list(map(kind, *columns, *others)) if columns else []


def record_by_name(kind: type[T], row: Record, **others: Any) -> T:
    """Return the record of a row by the names of its columns; `others` are fields without a column."""
    readers = _readers(cast(Any, kind))
    values = {name: read(row[name]) if read else row[name] for name, read in readers if name not in others}
    return kind(**values, **others)


def columns_of(record: Any) -> dict[str, Any]:
    """Return the fields of a record as parameters: instants in milliseconds, booleans as 0 and 1, objects as JSON."""
    values = ((name, write, getattr(record, name)) for name, write in _writers(cast(Any, type(record))))
    return {name: value if write is None or value is None else write(value) for name, write, value in values}


@cache
def _readers(kind: type) -> list[tuple[str, Converter | None]]:
    return [(name, _reader(hint)) for name, hint in types_of(kind).items()]


@cache
def _readers_by_index(kind: type, columns: int) -> list[tuple[int, Converter]]:
    return [(index, read) for index, (_, read) in enumerate(_readers(kind)[:columns]) if read is not None]


@cache
def _writers(kind: type) -> list[tuple[str, Converter | None]]:
    hints = ((name, _required(hint)) for name, hint in types_of(kind).items())
    return [(name, _WRITERS.get(get_origin(hint) or hint)) for name, hint in hints if not is_record(hint)]


def _reader(hint: Any) -> Converter | None:
    """Return how a column becomes a value of this type; None: as it is."""
    required = _required(hint)
    if hint in _READERS:
        return _READERS[hint]
    if required is not hint:
        read = _reader(required)
        return None if read is None else lambda value: None if value is None else read(value)
    if get_origin(hint) is Mapping:
        return read_object
    if get_origin(hint) is tuple:
        return lambda text: tuple(json.loads(text or "[]"))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {member.value: member for member in hint}.__getitem__
    return (lambda text: decode(cast(Any, hint), json.loads(text))) if is_record(hint) else None


def _required(hint: Any) -> Any:
    """Return the type of an optional value, or the hint itself."""
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    return kinds[0] if NoneType in get_args(hint) else hint


_READERS: dict[Any, Converter] = {
    bool: bool,
    datetime: from_ms,
    datetime | None: from_ms_or_none,
    timedelta: MILLISECOND.__mul__,
    JobSpec: read_spec,
}
_WRITERS: dict[Any, Converter] = {bool: int, datetime: to_ms, Mapping: write_json}


def job_of(row: Record) -> Job:
    """Return the job of a row of `job` joined with its version's spec."""
    provenance = None
    if row["made_by"] is not None:
        expires_at = from_ms_or_none(row["expires_at"])
        provenance = Provenance(row["made_by"], from_ms(row["made_at"]), row["made_by_run"], row["depth"], expires_at)
    return record_by_name(Job, row, made=provenance)


def run_of(row: Record) -> Run:
    """Return the run of a row of `run` joined with its job's name and the data of its execution."""
    return record_by_name(Run, row)


def execution_of(row: Record) -> Execution:
    """Return the execution of a row."""
    return record_by_name(Execution, row)
