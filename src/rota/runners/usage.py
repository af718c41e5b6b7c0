"""What a run used: counted on the way, reported by a function, or told in a result file (R-19)."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from decimal import ROUND_HALF_UP, Decimal
from math import isfinite
from typing import Any

from rota.model.budget import MILLION, Usage
from rota.model.errors import InvalidValue

LARGEST = 10**15
MODEL_LIMIT = 200
KEYS = ("requests", "tokens_in", "tokens_cached", "tokens_out", "usd", "model")
ENDED = "the run has ended: it may send no more requests"

Counter = Callable[[], "Future[None]"]
"""Charges one request to the run's accounts; the future fails where one of them has no room."""


class Meter:
    """What one call of a function uses; safe from any thread."""

    __slots__ = ("_closed", "_count", "_lock", "_reported", "_requests")

    def __init__(self, count: Counter | None = None) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._requests = 0
        self._reported: dict[str, Any] = {}
        self._closed = False

    def charge(self) -> "Future[None] | None":
        """Begin to charge a request that is about to be sent; None: nothing to wait for."""
        if self._closed:
            raise RuntimeError(ENDED)
        return None if self._count is None else self._count()

    def counted(self) -> None:
        """Note that a request was charged."""
        with self._lock:
            self._requests += 1

    def add(self, **used: Any) -> None:
        """Add what the function says it used."""
        told = judge_keys({key: value for key, value in used.items() if value is not None})
        with self._lock:
            for key, value in told.items():
                self._reported[key] = value if key == "model" else self._reported.get(key, 0) + value

    def usage(self, *, sends: bool) -> Usage:
        """Return what is known; `sends`: the function has a client, so that its requests are all that it sent."""
        with self._lock:
            reported, sent = dict(self._reported), self._requests
        requests = reported.pop("requests", None)
        known = sends or requests is not None
        return Usage(requests=sent + (requests or 0) if known else None, counted=sent, **reported)

    def close(self) -> None:
        """Let no more requests be sent: the run is over, and its accounts are settled."""
        self._closed = True

    @property
    def closed(self) -> bool:
        """Whether the run is over."""
        return self._closed


def judge_usage(value: Any) -> Usage | None:
    """Return the `usage` of a result; InvalidValue names what is wrong."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise InvalidValue("`usage` is not an object", hint=f"its keys are {', '.join(KEYS)}")
    return Usage(**judge_keys({str(key): one for key, one in value.items() if one is not None}))


def judge_keys(used: Mapping[str, Any]) -> dict[str, Any]:
    """Return numbers and a model as they are counted: whole ones, money in millionths."""
    return {key: _READERS.get(key, _unknown)(key, value) for key, value in used.items()}


def _unknown(key: str, _value: Any) -> Any:
    raise InvalidValue(f"`usage` has an unknown key {key!r}", hint=f"its keys are {', '.join(KEYS)}")


def _whole(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
        raise InvalidValue(f"`{key}` of the usage is {value!r:.80}, not a whole number from 0 on")
    return value


def _money(key: str, value: Any) -> int:
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if not number or not isfinite(value) or not 0 <= value <= LARGEST // MILLION:
        raise InvalidValue(f"`{key}` of the usage is {value!r:.80}, not a number of dollars from 0 on")
    return int((Decimal(str(value)) * MILLION).quantize(Decimal(1), ROUND_HALF_UP))


def _model(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > MODEL_LIMIT or not value.isprintable():
        raise InvalidValue(f"`{key}` of the usage is {value!r:.80}, not the name of a model")
    return value


_READERS: Mapping[str, Callable[[str, Any], Any]] = {
    "requests": _whole,
    "tokens_in": _whole,
    "tokens_cached": _whole,
    "tokens_out": _whole,
    "usd": _money,
    "model": _model,
}
