"""What a file says about failures: how often and when a run is tried again, and when a failing job is held back."""

from collections.abc import Mapping
from typing import Any

from rota.declare.fields import Refused, read_duration, read_grace, read_jitter, shown, whole, wrong_type
from rota.declare.keyed import Reader, read_keys
from rota.declare.parts import Parts
from rota.model.spec import Jitter, RepeatedFailure, Retry

ATTEMPTS = 100
FACTOR = 100
FAILURES = 1000
RETRY_HINT = "write `retry: {max_attempts: 5, backoff: 30s}`, or `retry: false` for none"
REPEATED_HINT = "write `on_repeated_failure: {after: 5, backoff_max: 1d}`, or `on_repeated_failure: false` for none"
_RETRY_WORDS = {
    "attempts": "write `max_attempts: 3`; it counts the first one",
    "retries": "write `max_attempts: 4` for three retries; it counts the first one",
    "max_retries": "write `max_attempts: 4` for three retries; it counts the first one",
    "delay": "write `backoff: 30s`",
    "wait": "write `backoff: 30s`",
    "max_backoff": "write `max: 10m`",
    "backoff_max": "write `max: 10m`",
    "multiplier": "write `factor: 2`",
    "exponential": "write `factor: 2`; `factor: 1` waits equally long each time",
}


def read_retry(value: Any) -> Retry:
    """Return how often a failed run is tried again; `false` is one attempt, `true` is the default."""
    if isinstance(value, bool):
        return Retry() if value else Retry(max_attempts=1)
    if isinstance(value, int):
        hint = f"write `retry: {{max_attempts: {shown(value)}}}`; it counts the first attempt"
        raise wrong_type(value, "a map of keys", hint=hint)
    with Parts() as parts:
        found = read_keys(value, _RETRY, parts=parts, hint=RETRY_HINT, words=_RETRY_WORDS)
        backoff, most = found.get("backoff", Retry().backoff), found.get("max")
        if found.get("max_attempts") == 1 and len(found) > 1:
            other = next(name for name in found if name != "max_attempts")
            raise Refused("has no effect with `max_attempts: 1`", code="no_effect", at=(other,))
        known = "backoff" in found or ("backoff" not in value and not parts.mistyped)
        if most is not None and known and backoff > most:
            hint = "raise it, or lower `backoff`"
            raise Refused("is shorter than the first backoff", code="conflict", hint=hint, at=("max",))
    return Retry(**{**found, "max": most or max(Retry().max, backoff)})


def read_repeated_failure(value: Any) -> RepeatedFailure | None:
    """Return when a job that keeps failing is held back; `false` is never, `true` is the default."""
    if isinstance(value, bool):
        return RepeatedFailure() if value else None
    if isinstance(value, int):
        raise wrong_type(value, "a map of keys", hint=f"write `on_repeated_failure: {{after: {shown(value)}}}`")
    with Parts() as parts:
        found = read_keys(value, _REPEATED, parts=parts, hint=REPEATED_HINT)
    return RepeatedFailure(**found)


def _read_factor(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(value, "a number", hint=f"write one from 1 to {FACTOR}; 1 waits equally long each time")
    if not 1 <= value <= FACTOR:
        raise Refused(f"{shown(value)} is not between 1 and {FACTOR}", code="out_of_range")
    return float(value)


def _read_jitter(value: Any) -> Jitter | None:
    jitter = read_jitter(value)
    return None if jitter == Jitter() else jitter


_RETRY: Mapping[str, Reader] = {
    "max_attempts": whole(1, ATTEMPTS),
    "backoff": read_grace,
    "factor": _read_factor,
    "max": read_duration,
    "jitter": _read_jitter,
}
_REPEATED: Mapping[str, Reader] = {"after": whole(1, FAILURES), "backoff_max": read_duration}
