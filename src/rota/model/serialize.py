"""Records as JSON: the codec of stored records and the shapes shown to users."""

import types
import typing
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from rota.model.clock import MILLISECOND, from_ms, iso, to_ms
from rota.model.notifications import Delivery
from rota.model.records import Run

T = TypeVar("T")
Coder = Callable[[Any], Any]
Make = Callable[[Any], Coder | None]
"""Returns the coder of a type hint; None says that values pass as they are."""


def encode(value: Any) -> Any:
    """Return a record, enum, instant or duration as a JSON value; instants and durations in milliseconds."""
    kind: Any = type(value)
    coder = _encoder(kind)
    return value if coder is None else coder(value)


def encode_changed(value: Any) -> Any:
    """Return a value as `encode` does, without the fields of records that have their default.

    A field that a later version of rota adds does not change it.
    """
    if isinstance(value, Struct):
        found = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: encode_changed(held) for field, held in found if held != _default(field)}
    return [encode_changed(one) for one in value] if isinstance(value, tuple | list) else encode(value)


def _default(field: FieldInfo) -> Any:
    return field.default if field.default_factory is NODEFAULT else field.default_factory()


def decode(record: type[T], value: Any) -> T:
    """Return the `record` that `encode` made `value` from. Keys it does not know are ignored, missing ones default."""
    hint: Any = record
    coder = _decoder(hint)
    return typing.cast(T, value if coder is None else coder(value))


def is_record(hint: Any) -> typing.TypeGuard[type[Struct]]:
    """Return whether a type hint is a record."""
    return isinstance(hint, type) and issubclass(hint, Struct)


@cache
def _encoder(hint: Any) -> Coder | None:
    """Return how values of a hint are written; where the hint does not say it, each value's own type does."""
    if not isinstance(hint, type):
        return _composed(hint, _encoder, sequence=list, otherwise=encode)
    for kind, coder in _WRITTEN:
        if issubclass(hint, kind):
            return coder
    if is_record(hint):
        return _record_encoder(hint)
    raise TypeError(f"a {hint.__name__} has no place in a record")


_WRITTEN: tuple[tuple[Any, Coder | None], ...] = (
    (Enum, attrgetter("_value_")),  # `value` is a property: three times as slow
    (str | int | float | None, None),
    (timedelta, lambda duration: duration // MILLISECOND),
    (datetime, to_ms),
    (Mapping, lambda values: {key: encode(value) for key, value in values.items()}),
    (tuple | list, lambda values: [encode(value) for value in values]),
)


@cache
def _decoder(hint: Any) -> Coder | None:
    if hint is timedelta:
        return lambda ms: timedelta(0, 0, ms * 1000)  # positional: twice as fast as by name
    if hint is datetime:
        return from_ms
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _member_decoder(hint)
    if is_record(hint):
        return _record_decoder(hint)
    return _composed(hint, _decoder, sequence=tuple, otherwise=None)


def _composed(hint: Any, make: Make, *, sequence: type, otherwise: Coder | None) -> Coder | None:
    """Return the coder of an optional or a tuple, built from the coder of what it holds."""
    origin = typing.get_origin(hint)
    inner = [arg for arg in typing.get_args(hint) if arg not in (types.NoneType, ...)]
    if origin not in (typing.Union, types.UnionType, tuple) or len(inner) != 1:
        return otherwise
    coder = make(inner[0])
    if origin is tuple:
        return sequence if coder is None else lambda values: sequence(map(coder, values))
    return None if coder is None else lambda value: None if value is None else coder(value)


def _record_encoder(record: type[Struct]) -> Coder:
    coders = _coders(record, _encoder)
    names, values_of = tuple(coders), attrgetter(*coders)
    changing = [(name, coder) for name, coder in coders.items() if coder is not None]

    def write(value: Any) -> Any:
        written = dict(zip(names, values_of(value)))  # noqa: B905 - both are made from `coders`
        for name, coder in changing:
            found = written[name]
            if found is not None:  # of an optional; nothing else may be None
                written[name] = coder(found)
        return written

    return write


def _record_decoder(record: type[Struct]) -> Coder:
    coders = _coders(record, _decoder)

    def build(values: Mapping[str, Any]) -> Any:
        known = {}
        for name, value in values.items():
            if name in coders:
                coder = coders[name]
                known[name] = value if coder is None else coder(value)
        return record(**known)

    return build


def _member_decoder(kind: type[Enum]) -> Coder:
    members = {member.value: member for member in kind}
    return lambda value: members.get(value) or kind(value)


def _coders(record: type[Struct], make: Make) -> dict[str, Coder | None]:
    return {name: make(hint) for name, hint in types_of(record).items()}


def types_of(record: type) -> dict[str, typing.Any]:
    """Return the types of a record's fields, in order; `get_type_hints` costs a command more than reading its rows."""
    hints = record.__annotations__
    names = getattr(record, "__struct_fields__", hints)
    if any(name not in hints or isinstance(hints[name], str) for name in names):
        hints = typing.get_type_hints(record)
    return {name: hints[name] for name in names}


class RunJson(typing.TypedDict):
    """A run, as `rota history --json` tells it."""

    id: str
    run: str
    job: str
    status: typing.Literal["QUEUED", "RUNNING", "COMPLETED", "FAILED", "SKIPPED", "CANCELLED"]
    reason: str | None
    waiting_for: str | None
    trigger: str
    scheduled_for: str | None
    covers_to: str | None
    count: int | None
    created_at: str
    started_at: str | None
    finished_at: str | None
    attempt: int
    retry_of: str | None
    exit_code: int | None
    error: str | None
    result_summary: str | None
    usage: dict[str, Any] | None
    denied_tools: list[str]
    session_id: str | None
    checked: bool | None


class DeliveryJson(typing.TypedDict):
    """A notification to one target; its status is its own, never that of the run."""

    id: str
    run: str
    run_id: str | None
    event: str
    target: str
    status: str
    attempts: int
    created_at: str
    next_at: str | None
    finished_at: str | None
    answer: int | None
    error: str | None


_AS_THEY_ARE = frozenset({str, int, float, bool, list, dict, types.NoneType})


def to_shape(shape: type[T], record: object, **computed: Any) -> T:
    """Return a record in a JSON shape, a TypedDict: each key is `computed`, or the attribute of its name."""
    return typing.cast(
        T, {key: _plain(computed[key] if key in computed else getattr(record, key)) for key in shape.__annotations__}
    )


def fields_json(record: object, *names: str) -> dict[str, Any]:
    """Return some attributes of a record in JSON, each under its own name."""
    return {name: _plain(getattr(record, name)) for name in names}


def _plain(value: Any) -> Any:
    if type(value) in _AS_THEY_ARE:
        return value
    match value:
        case Enum():
            return value.value
        case datetime():
            return iso(value)
        case tuple():
            return list(value)
        case Mapping():
            return dict(value)
    return value


def run_json(run: Run) -> RunJson:
    """Return a run in the fixed shape that others build on."""
    return to_shape(RunJson, run, run=run.handle, status=run.status.shown, usage=dict(run.usage) or None)


def delivery_json(delivery: Delivery) -> DeliveryJson:
    """Return a delivery as JSON."""
    return to_shape(DeliveryJson, delivery, run=delivery.handle)


def iso_or_none(at: datetime | None) -> str | None:
    """Return an instant as ISO 8601, None for none."""
    return None if at is None else iso(at)
