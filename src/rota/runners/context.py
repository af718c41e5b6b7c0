"""The context that a function gets, with its HTTP client."""

import asyncio
import json
import threading
import traceback
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.model.budgets import Usage
from rota.model.clock import iso
from rota.model.spec import OutputPolicy
from rota.model.states import Trigger
from rota.rules.activity import changes
from rota.runners.output import make_folder
from rota.runners.result import Counter, Meter
from rota.runners.writer import OUTPUT_LIMIT, BoundedWriter
from rota.sources.http import trusted

if TYPE_CHECKING:
    import httpx2


CONNECT = 10.0
TIMEOUT = 30.0
"""Seconds without an answer, or without a further part of it."""


def open_client(meter: Meter) -> "httpx2.Client":
    """Return a client for functions on threads."""
    import httpx2

    def charge(_request: Any) -> None:
        charged = meter.charge()
        if charged is not None:
            charged.result()
        meter.counted()

    hooks = {"request": [charge]}
    return httpx2.Client(timeout=_timeout(), verify=trusted(), follow_redirects=True, event_hooks=hooks)


def open_async_client(meter: Meter) -> "httpx2.AsyncClient":
    """Return a client for async functions."""
    import httpx2

    async def charge(_request: Any) -> None:
        charged = meter.charge()
        if charged is not None:
            await asyncio.wrap_future(charged)
        meter.counted()

    hooks = {"request": [charge]}
    return httpx2.AsyncClient(timeout=_timeout(), verify=trusted(), follow_redirects=True, event_hooks=hooks)


def _timeout() -> "httpx2.Timeout":
    import httpx2

    return httpx2.Timeout(TIMEOUT, connect=CONNECT)


NO_SDK = "ctx.sdk is there only inside a scheduler's process"


class RunInfo(NamedTuple):
    """The run that a function is part of; `scheduled_for` is nominal and aware (R-05)."""

    id: str
    handle: str
    job: str
    number: int
    attempt: int
    trigger: Trigger
    scheduled_for: datetime
    timezone: str


class RunLog:
    """Lines for the run's output: call it, or use its levels. Safe from any thread; free until the first line."""

    __slots__ = ("_folder", "_lock", "_now", "_policy", "_writer")

    def __init__(
        self, folder: Callable[[], Path], now: Callable[[], datetime], *, policy: OutputPolicy = OutputPolicy.FULL
    ) -> None:
        self._folder = folder
        self._now = now
        self._policy = policy
        self._lock = threading.Lock()
        self._writer: BoundedWriter | None = None

    def __call__(self, *parts: object) -> None:
        """Write one line."""
        self._line("", parts)

    def debug(self, *parts: object) -> None:
        """Write one line for whoever looks for a mistake."""
        self._line("debug ", parts)

    def info(self, *parts: object) -> None:
        """Write one line of information."""
        self._line("info ", parts)

    def warning(self, *parts: object) -> None:
        """Write one line that somebody should look at."""
        self._line("warning ", parts)

    def error(self, *parts: object) -> None:
        """Write one line about something that went wrong."""
        self._line("error ", parts)

    def exception(self, *parts: object) -> None:
        """Write one line about something that went wrong, and the traceback of the exception that is being handled."""
        self.error(*parts)
        self.write(traceback.format_exc())

    def _line(self, level: str, parts: tuple[object, ...]) -> None:
        text = " ".join(map(str, parts))
        self.write(f"{iso(self._now())} {level}{text}\n")

    def write(self, text: str) -> None:
        """Append text to the run's output as it is."""
        data = text.encode("utf-8", "backslashreplace")
        with self._lock:
            if self._writer is None:
                self._writer = self._open()
            self._writer.write(data)

    def _open(self) -> BoundedWriter:
        folder = self._folder()
        if self._policy is not OutputPolicy.NONE:
            make_folder(folder)
        return BoundedWriter(str(folder), self._policy, limit=OUTPUT_LIMIT)

    @property
    def total(self) -> int:
        """How many bytes were written, kept or not."""
        return self._writer.total if self._writer else 0

    def close(self) -> None:
        """Close the file; a later line, of a thread that was abandoned, opens the next one."""
        if self._writer is not None:
            with self._lock:
                self._writer.close()


class JobContext:
    """The one argument of a job's function and of a condition; what tells of its `run` is made when it is asked for."""

    __slots__ = (
        "_asynchronous",
        "_cancelled",
        "_client",
        "_count",
        "_given",
        "_make_run",
        "_meter",
        "_original",
        "_params",
        "_poll_data",
        "_run",
        "_scheduler_state",
        "_sdk",
        "_settled",
        "_shared",
        "_shared_before",
        "_state",
        "log",
    )

    def __init__(
        self,
        run: Callable[[], RunInfo],
        log: RunLog,
        *,
        params: Mapping[str, Any],
        state: Mapping[str, Any],
        poll_data: Mapping[str, Any] | None = None,
        scheduler_state: Callable[[], Mapping[str, Any]] = dict,
        sdk: Any = None,
        count: Counter | None = None,
        asynchronous: bool = False,
    ) -> None:
        self._make_run = run
        self._run: RunInfo | None = None
        self.log = log
        self._given = params
        self._params: dict[str, Any] | None = None
        self._original = state
        self._state: dict[str, Any] | None = None
        self._poll_data = poll_data
        self._scheduler_state = scheduler_state
        self._shared_before: Mapping[str, Any] = {}
        self._shared: dict[str, Any] | None = None
        self._sdk = sdk
        self._cancelled = False
        self._count = count
        self._asynchronous = asynchronous
        self._settled = False
        self._meter: Meter | None = None
        self._client: Any = None

    @property
    def run(self) -> RunInfo:
        """The run that the function is part of."""
        if self._run is None:
            self._run = self._make_run()
        return self._run

    @property
    def poll_data(self) -> Mapping[str, Any] | None:
        """What the shared poll brought, read-only; None for a job that does not need the poll (R-16)."""
        return None if self._poll_data is None else MappingProxyType(_copy(self._poll_data))

    @property
    def params(self) -> dict[str, Any]:
        """The run's params; a copy, since those of the run are frozen."""
        if self._params is None:
            self._params = _copy(self._given)
        return self._params

    @property
    def state(self) -> dict[str, Any]:
        """The job's own JSON object, kept from run to run when the run completes; 16 KB at most."""
        if self._state is None:
            self._state = _copy(self._original)
        return self._state

    @property
    def changed_state(self) -> dict[str, Any] | None:
        """The state if the function changed it, else None."""
        return self._state if self._state is not None and self._state != self._original else None

    @property
    def scheduler_state(self) -> dict[str, Any]:
        """One JSON object that all jobs share, read when it is first used; 64 KB at most.

        When the run completes, the keys that the function changed are stored, and no others: of runs that change the
        same key the one that ends last wins. Setting a key to None takes it away.
        """
        if self._shared is None:
            self._shared_before = self._scheduler_state()
            self._shared = _copy(self._shared_before)
        return self._shared

    @property
    def changed_scheduler_state(self) -> dict[str, Any] | None:
        """The keys of the shared object that the function changed, None for none."""
        return None if self._shared is None else changes(self._shared_before, self._shared) or None

    @property
    def sdk(self) -> Any:
        """The scheduler's operations: `trigger`, `status`, `summary`, `queue_counts`, `run`, `runs`."""
        if self._sdk is None:
            raise RuntimeError(NO_SDK)
        return self._sdk

    @property
    def http(self) -> Any:
        """A client of httpx2: `Client`, for an async function `AsyncClient`; closed with the run.

        Every request is charged before it is sent; without room in an account `rota.BudgetExceeded` is raised instead.
        """
        if self._client is None or self._client.is_closed:
            self._client = (open_async_client if self._asynchronous else open_client)(self._metering())
        return self._client

    def add_usage(
        self,
        *,
        requests: int | None = None,
        tokens_in: int | None = None,
        tokens_cached: int | None = None,
        tokens_out: int | None = None,
        usd: float | None = None,
        model: str | None = None,
    ) -> None:
        """Tell what the function used beside `ctx.http`; it adds up. `usd` is in dollars (R-19)."""
        told = {"tokens_in": tokens_in, "tokens_cached": tokens_cached, "tokens_out": tokens_out}
        self._metering().add(requests=requests, usd=usd, model=model, **told)

    def _metering(self) -> Meter:
        if self._meter is None:
            self._meter = Meter(self._count)
        if self._settled:
            self._meter.close()
        return self._meter

    def settle(self) -> Usage | None:
        """Return what the function used, None where it did not say; it may send no more requests."""
        self._settled = True
        return None if self._meter is None else self._metering().usage(sends=self._client is not None)

    @property
    def opened(self) -> bool:
        """Whether there is a client to close."""
        return self._client is not None

    def close(self) -> None:
        """Close the client of a function on a thread."""
        self._client.close()

    async def aclose(self) -> None:
        """Close the client of an async function."""
        await self._client.aclose()

    @property
    def cancelled(self) -> bool:
        """Whether the run was asked to end: stopped, replaced or out of time. Long functions look at it."""
        return self._cancelled

    def cancel(self) -> None:
        """Tell the function that its run was asked to end."""
        self._cancelled = True


def _copy(value: Mapping[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(dict(value)))
    return copied
