"""The result file and the usage of a run."""

import json
import os
import stat
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from math import isfinite
from pathlib import Path
from typing import Any

from rota.model.budgets import MILLION, Usage
from rota.model.errors import InvalidValue
from rota.model.records import SCHEDULER_STATE_LIMIT, STATE_LIMIT, SUMMARY_LIMIT, cut

LARGEST = 10**15
MODEL_LIMIT = 200
USAGE_KEYS = ("requests", "tokens_in", "tokens_cached", "tokens_out", "usd", "model")
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
        raise InvalidValue("`usage` is not an object", hint=f"its keys are {', '.join(USAGE_KEYS)}")
    return Usage(**judge_keys({str(key): one for key, one in value.items() if one is not None}))


def judge_keys(used: Mapping[str, Any]) -> dict[str, Any]:
    """Return numbers and a model as they are counted: whole ones, money in millionths."""
    return {key: _READERS.get(key, _unknown)(key, value) for key, value in used.items()}


def _unknown(key: str, _value: Any) -> Any:
    raise InvalidValue(f"`usage` has an unknown key {key!r}", hint=f"its keys are {', '.join(USAGE_KEYS)}")


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


FILE_LIMIT = 64 * 1024
FILES_LIMIT = 100
KEYS = ("summary", "state", "scheduler_state", "files", "usage")


@dataclass(frozen=True, slots=True)
class Result:
    """The parts of an outcome that the work itself decides."""

    summary: str | None = None
    state: Mapping[str, Any] | None = None
    scheduler_state: Mapping[str, Any] | None = None
    files: tuple[str, ...] = ()
    usage: Usage | None = None


def storable(text: str) -> str:
    """Return `text` without what a database or a JSON reader would refuse."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def read_result(path: Path) -> Result:
    """Return the result file's content, an empty result when there is none; InvalidValue names what is wrong."""
    data = _read(path)
    return Result() if data is None else judge(_parse(data))


def read_usage(path: Path) -> Usage | None:
    """Return what a run that failed says it used: what was spent is spent. A wrong result file says nothing."""
    try:
        return read_result(path).usage
    except InvalidValue:
        return None


def _read(path: Path) -> bytes | None:
    try:
        # NONBLOCK: a command may have left a pipe under this name.
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidValue(f"the result file cannot be read: {(error.strerror or '').lower()}") from error
    with open(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise InvalidValue("the result file is not a plain file")
        data = opened.read(FILE_LIMIT + 1)
    if len(data) > FILE_LIMIT:
        raise InvalidValue(f"the result file is larger than {FILE_LIMIT // 1024} KB")
    return data


def _parse(data: bytes) -> Any:
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except RecursionError:
        raise InvalidValue("the result file is nested too deeply") from None
    except ValueError as error:
        raise InvalidValue(f"the result file is not JSON: {error}") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


def judge(value: Any) -> Result:
    """Return a result from the value of a result file; InvalidValue names what is wrong."""
    if not isinstance(value, dict):
        raise InvalidValue(f"the result is {_kind(value)}, not an object", hint=f"its keys are {', '.join(KEYS)}")
    unknown = next((key for key in value if key not in KEYS), None)
    if unknown is not None:
        raise InvalidValue(f"the result has an unknown key {unknown!r}", hint=f"its keys are {', '.join(KEYS)}")
    return Result(
        summary=_summary(value.get("summary")),
        state=judge_state(value.get("state")),
        scheduler_state=judge_scheduler_state(value.get("scheduler_state")),
        files=_files(value.get("files")),
        usage=judge_usage(value.get("usage")),
    )


def _summary(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InvalidValue(f"`summary` of the result is {_kind(value)}, not a text")
    return None if value is None else cut(storable(value), SUMMARY_LIMIT)


def judge_state(value: Any) -> Mapping[str, Any] | None:
    """Return a job's new state, refused unless it is a JSON object of at most 16 KB."""
    return _object(value, "state", limit=STATE_LIMIT)


def judge_scheduler_state(value: Any) -> Mapping[str, Any] | None:
    """Return what changes in the document of all jobs, refused unless it is a JSON object of at most 64 KB."""
    return _object(value, "scheduler_state", limit=SCHEDULER_STATE_LIMIT)


def _object(value: Any, name: str, *, limit: int) -> Mapping[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InvalidValue(f"`{name}` is {_kind(value)}, not an object")
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(f"`{name}` cannot be stored as JSON: {error}") from None
    if len(text) > limit:
        raise InvalidValue(f"`{name}` is {len(text):,} bytes, the limit is {limit:,}")
    stored: dict[str, Any] = json.loads(text)
    return stored


def _files(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidValue("`files` of the result is not a list of texts")
    if len(value) > FILES_LIMIT:
        raise InvalidValue(f"`files` of the result has {len(value)} entries, the limit is {FILES_LIMIT}")
    return tuple(storable(item) for item in value)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
