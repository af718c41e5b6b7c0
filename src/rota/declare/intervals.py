"""Intervals as the file writes them: one duration, or one for each mode (R-18)."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from rota.declare.fields import Refused, or_word, read_duration
from rota.declare.keyed import read_keys
from rota.declare.parts import Parts
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
    with Parts() as parts:
        found = read_keys(value, dict.fromkeys(MODES, read_one), parts=parts, hint=f"write {_MAP}")
        if Mode.ACTIVE not in value and not parts.mistyped:
            raise _no_active()
    return by_mode(found)


def _no_active() -> Refused:
    return Refused("has no `active`", code="missing_value", hint=f"write {_MAP}")


def by_mode(given: Mapping[str, timedelta | None]) -> ByMode:
    """Return the interval of every mode: one that is not given is that of the livelier mode before it."""
    if Mode.ACTIVE not in given:
        raise _no_active()
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
    if len(found) == len(MODES) and plain is not None and not isinstance(plain, ByMode):
        used = ", ".join(f"`{spelling}`" for spelling in SPELLINGS)
        hint = "remove `interval`, or the intervals of the modes that it shall hold for"
        raise Refused(f"has no effect beside {used}", code="no_effect", hint=hint, at=("interval",))
    if isinstance(plain, ByMode):
        raise Refused(
            "`interval` has its own `active`, `idle` and `dormant`", code="conflict", hint=f"keep one: {_MAP}"
        )
    base = dict.fromkeys(MODES, plain) if plain is not None else {}
    keys["interval"] = by_mode({**base, **found})
