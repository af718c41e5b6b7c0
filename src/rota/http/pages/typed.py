"""What people typed into forms: params, the end of a pause, places in the queue."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.model.clock import cut_to_ms
from rota.model.durations import parse_duration
from rota.model.errors import InvalidValue
from rota.operations.params import read_value, write_value
from rota.rules.times import read_coming

PARAM = "param."


@dataclass(frozen=True, slots=True)
class ParamField:
    """A param as a form shows it; `name` is that of the field."""

    name: str
    label: str
    value: str


def param_fields(params: Mapping[str, Any]) -> tuple[ParamField, ...]:
    """Return the fields of a form for these params."""
    return tuple(ParamField(f"{PARAM}{name}", name, write_value(value)) for name, value in params.items())


def given_params(form: Mapping[str, str], shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params that a form changes: those that differ from what it showed."""
    given = {name.removeprefix(PARAM): text for name, text in form.items() if name.startswith(PARAM)}
    same = {name for name, value in shown.items() if given.get(name) == write_value(value)}
    return {name: read_value(text) for name, text in given.items() if name not in same}


def pause_end(form: Mapping[str, str], *, zone: str, now: datetime) -> datetime | None:
    """Return when a pause ends by itself: after a duration, at a time, or never."""
    duration, until = form.get("for", "").strip(), form.get("until", "").strip()
    if duration and until:
        raise InvalidValue("a pause ends after a time or at a time, not both", hint="fill in one of them")
    if duration:
        return cut_to_ms(now + parse_duration(duration))
    return cut_to_ms(read_coming(until, zone, now=now)) if until else None
