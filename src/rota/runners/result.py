"""The result file and the usage of a run."""

import json
import os
import stat
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from decimal import ROUND_HALF_UP, Decimal
from math import isfinite
from pathlib import Path
from typing import Any

from msgspec import Struct

from rota.model.budgets import MILLION, Usage
from rota.model.errors import InvalidValue
from rota.model.records import SCHEDULER_STATE_LIMIT, STATE_LIMIT, SUMMARY_LIMIT, cut, whole_result

NUMBER_LIMIT = 10**15
MODEL_LIMIT = 200
ENDED = "the run has ended and cannot send requests"

Counter = Callable[[], "Future[None]"]
"""Charges one request to the run's accounts; the future fails if an account has no room."""


class Meter:
    """The usage of one call of a function; thread-safe."""

    __slots__ = ("_closed", "_count", "_lock", "_reported", "_requests")

    def __init__(self, count: Counter | None = None) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._requests = 0
        self._reported: dict[str, Any] = {}
        self._closed = False

    def charge(self) -> "Future[None] | None":
        """Charge a request before it is sent; None: nothing to wait for."""
        if self._closed:
            raise RuntimeError(ENDED)
        return None if self._count is None else self._count()

    def counted(self) -> None:
        """Count a charged request."""
        with self._lock:
            self._requests += 1

    def add(self, **used: Any) -> None:
        """Add usage that the function reports."""
        judged = judge_keys({key: value for key, value in used.items() if value is not None})
        with self._lock:
            for key, value in judged.items():
                self._reported[key] = value if key == "model" else self._reported.get(key, 0) + value

    def usage(self, *, sends: bool) -> Usage:
        """Return the known usage; `sends`: the function has a client, which counts all its requests."""
        with self._lock:
            reported, sent = dict(self._reported), self._requests
        requests = reported.pop("requests", None)
        count = sent + (requests or 0) if sends or requests is not None else None
        return Usage(requests=count, counted=sent, **reported)

    def close(self) -> None:
        """Refuse further requests: the run is over, and its accounts are settled."""
        self._closed = True


def judge_usage(value: Any) -> Usage | None:
    """Return the `usage` of a result, or raise InvalidValue."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise InvalidValue("`usage` is not an object", hint=USAGE_HINT)
    return Usage(**judge_keys({str(key): value[key] for key in value if value[key] is not None}))


def judge_keys(used: Mapping[str, Any]) -> dict[str, Any]:
    """Return usage as it is counted: whole numbers, money in millionths."""
    unknown = next((key for key in used if key not in _READERS), None)
    if unknown is not None:
        raise InvalidValue(f"`usage` has an unknown key {unknown!r}", hint=USAGE_HINT)
    return {key: _READERS[key](key, value) for key, value in used.items()}


def _whole(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= NUMBER_LIMIT:
        raise InvalidValue(f"`{key}` of the usage is {value!r:.80}, not a whole number from 0 on")
    return value


def _money(key: str, value: Any) -> int:
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if not number or not isfinite(value) or not 0 <= value <= NUMBER_LIMIT // MILLION:
        raise InvalidValue(f"`{key}` of the usage is {value!r:.80}, not a number of dollars from 0 on")
    return int((Decimal(str(value)) * MILLION).quantize(Decimal(1), ROUND_HALF_UP))


def _model(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > MODEL_LIMIT or not value.isprintable():
        raise InvalidValue(f"`{key}` of the usage is {value!r:.80}, not the name of a model")
    return value


_READERS: Mapping[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("requests", "tokens_in", "tokens_cached", "tokens_out"), _whole),
    "usd": _money,
    "model": _model,
}
USAGE_HINT = f"its keys are {', '.join(_READERS)}"


FILE_LIMIT = 64 * 1024
FILES_LIMIT = 100
KEYS = ("summary", "state", "scheduler_state", "files", "usage")


class Result(Struct, frozen=True):
    """The parts of an outcome that come from the work."""

    summary: str | None = None
    result: str | None = None
    state: Mapping[str, Any] | None = None
    scheduler_state: Mapping[str, Any] | None = None
    files: tuple[str, ...] = ()
    usage: Usage | None = None


def storable(text: str) -> str:
    """Return `text` without characters that a database or a JSON reader refuses."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def read_result(path: Path) -> Result:
    """Return the content of the result file, empty without a file, or raise InvalidValue."""
    data = _read(path)
    if data is None:
        return Result()
    try:
        value = json.loads(data, parse_constant=_refuse_constant)
    except RecursionError:
        raise InvalidValue("the result file is nested too deeply") from None
    except ValueError as error:
        raise InvalidValue(f"the result file is not JSON: {error}") from None
    return judge(value)


def read_usage(path: Path) -> Usage | None:
    """Return the usage of a failed run, None for an invalid result file."""
    try:
        return read_result(path).usage
    except InvalidValue:
        return None


def _read(path: Path) -> bytes | None:
    try:
        # NONBLOCK: the file may be a pipe.
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


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON value")


def judge(value: Any) -> Result:
    """Return the result in the value of a result file, or raise InvalidValue."""
    if not isinstance(value, dict):
        raise InvalidValue(f"the result is {_kind(value)}, not an object", hint=f"its keys are {', '.join(KEYS)}")
    unknown = next((key for key in value if key not in KEYS), None)
    if unknown is not None:
        raise InvalidValue(f"the result has an unknown key {unknown!r}", hint=f"its keys are {', '.join(KEYS)}")
    summary = value.get("summary")
    if not isinstance(summary, str | None):
        raise InvalidValue(f"`summary` of the result is {_kind(summary)}, not a text")
    text = None if summary is None else storable(summary)
    return Result(
        summary=cut(text, SUMMARY_LIMIT),
        result=whole_result(text),
        state=judge_state(value.get("state")),
        scheduler_state=judge_scheduler_state(value.get("scheduler_state")),
        files=_files(value.get("files")),
        usage=judge_usage(value.get("usage")),
    )


def judge_state(value: Any) -> Mapping[str, Any] | None:
    """Return a job's new state: a JSON object of at most 16 KB."""
    return _object(value, "state", limit=STATE_LIMIT)


def judge_scheduler_state(value: Any) -> Mapping[str, Any] | None:
    """Return the changes of the shared state: a JSON object of at most 64 KB."""
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
