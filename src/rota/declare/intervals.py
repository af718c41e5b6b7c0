"""Intervals as the file writes them: one duration, or one for each mode (R-18)."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from rota.declare.fields import Refused, or_word, read_duration
from rota.declare.hints import unknown_key
from rota.model.spec import ByMode, Mode

NEVER = "never"
MODES = tuple(mode.value for mode in Mode)
SPELLINGS = {f"interval_{mode}": mode for mode in MODES}
"""Accepted spellings of the keys of an interval by mode."""
_MAP = "`interval: {active: 15s, idle: 60s, dormant: never}`"

read_one = or_word(NEVER, read_duration)
"""Reads the interval of one mode."""


def read_interval(value: Any) -> timedelta | ByMode:
    """Return the duration of an interval, or those of its modes."""
    if not isinstance(value, Mapping):
        return read_duration(value)
    for key in value:
        if key not in MODES:
            raise Refused("unknown key", code="unknown_key", hint=unknown_key(str(key), MODES), at=(key,))
    return by_mode({mode: _read(mode, text) for mode, text in value.items()})


def _read(mode: str, value: Any) -> timedelta | None:
    try:
        return read_one(value)
    except Refused as error:
        raise Refused(error.message, code=error.code, hint=error.hint, at=(mode, *error.at)) from None


def by_mode(given: Mapping[str, timedelta | None]) -> ByMode:
    """Return the interval of every mode: one that is not given is that of the livelier mode before it."""
    if Mode.ACTIVE not in given:
        raise Refused("has no `active`", code="missing_value", hint=f"write {_MAP}")
    active = given[Mode.ACTIVE]
    idle = given.get(Mode.IDLE, active)
    found = ByMode(active, idle, given.get(Mode.DORMANT, idle))
    if found == ByMode(None, None, None):
        raise Refused("is never in all modes", hint="leave the interval out to start it by hand only")
    return found


def one_interval(keys: dict[str, Any]) -> None:
    """Put `interval_active` and its like into `interval`, in `keys`; the other modes keep a plain interval."""
    found = {mode: keys.pop(spelling) for spelling, mode in SPELLINGS.items() if spelling in keys}
    if not found:
        return
    plain = keys.get("interval")
    if isinstance(plain, ByMode):
        raise Refused(
            "`interval` has its own `active`, `idle` and `dormant`", code="conflict", hint=f"keep one: {_MAP}"
        )
    base = dict.fromkeys(MODES, plain) if plain is not None else {}
    keys["interval"] = by_mode({**base, **found})
