"""The context that a function gets, with its HTTP client."""

import asyncio
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.model.budgets import Usage
from rota.model.clock import iso
from rota.model.questions import DEFAULT_TIMEOUT
from rota.model.spec import OutputPolicy
from rota.model.states import Trigger
from rota.rules.activity import changes
from rota.runners.child import Log
from rota.runners.output import make_folder
from rota.runners.result import Counter, Meter
from rota.runners.writer import OUTPUT_LIMIT, BoundedWriter
from rota.sources.http import trusted

if TYPE_CHECKING:
    import httpx2


CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 30.0


def open_client(meter: Meter, *, asynchronous: bool) -> "httpx2.Client | httpx2.AsyncClient":
    """Return a client that charges each request before it is sent."""
    import httpx2

    def charge(_request: Any) -> None:
        charged = meter.charge()
        if charged is not None:
            charged.result()
        meter.counted()

    async def charge_async(_request: Any) -> None:
        charged = meter.charge()
        if charged is not None:
            await asyncio.wrap_future(charged)
        meter.counted()

    timeout = httpx2.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
    options: Any = {"timeout": timeout, "verify": trusted(), "follow_redirects": True}
    if asynchronous:
        return httpx2.AsyncClient(event_hooks={"request": [charge_async]}, **options)
    return httpx2.Client(event_hooks={"request": [charge]}, **options)


NO_SDK = "ctx.sdk is available only inside the scheduler"


class RunInfo(NamedTuple):
    """The run of a function; `scheduled_for` is the nominal instant, with a time zone."""

    id: str
    handle: str
    job: str
    number: int
    attempt: int
    trigger: Trigger
    scheduled_for: datetime
    timezone: str


class RunLog(Log):
    """Writes lines into the run's output: call it, or use its levels. Thread-safe; no file until the first line."""

    __slots__ = ("_folder", "_lock", "_now", "_policy", "_writer")

    def __init__(
        self, folder: Callable[[], Path], now: Callable[[], datetime], *, policy: OutputPolicy = OutputPolicy.FULL
    ) -> None:
        self._folder = folder
        self._now = now
        self._policy = policy
        self._lock = threading.Lock()
        self._writer: BoundedWriter | None = None

    def _stamp(self) -> str:
        return iso(self._now())

    def write(self, text: str) -> None:
        """Append text to the run's output unchanged."""
        data = text.encode("utf-8", "backslashreplace")
        with self._lock:
            if self._writer is None:
                folder = self._folder()
                if self._policy is not OutputPolicy.NONE:
                    make_folder(folder)
                self._writer = BoundedWriter(str(folder), self._policy, limit=OUTPUT_LIMIT)
            self._writer.write(data)

    @property
    def total(self) -> int:
        """The number of bytes written, kept or not."""
        return self._writer.total if self._writer else 0

    def close(self) -> None:
        """Close the file; a later line of an abandoned thread opens the next one."""
        if self._writer is not None:
            with self._lock:
                self._writer.close()


class JobContext:
    """The argument of a job's function and of a condition; `run` is made on first use."""

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
        """The run of the function."""
        if self._run is None:
            self._run = self._make_run()
        return self._run

    @property
    def poll_data(self) -> Mapping[str, Any] | None:
        """The data of the shared poll, read-only; None for a job that does not need the poll."""
        return None if self._poll_data is None else MappingProxyType(_copy(self._poll_data))

    @property
    def params(self) -> dict[str, Any]:
        """A copy of the run's params."""
        if self._params is None:
            self._params = _copy(self._given)
        return self._params

    @property
    def state(self) -> dict[str, Any]:
        """The job's own JSON object, stored when the run completes; 16 KB at most."""
        if self._state is None:
            self._state = _copy(self._original)
        return self._state

    @property
    def changed_state(self) -> dict[str, Any] | None:
        """The state if the function changed it, else None."""
        return self._state if self._state is not None and self._state != self._original else None

    @property
    def scheduler_state(self) -> dict[str, Any]:
        """One JSON object that all jobs share, read on first use; 64 KB at most.

        When the run completes, only the keys that the function changed are stored. If several runs change a key, the
        last end wins. None removes a key.
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

    def ask(
        self,
        question: str,
        *,
        choices: Sequence[str] = (),
        timeout: timedelta = DEFAULT_TIMEOUT,
        default: str | None = None,
    ) -> str | None:
        """Ask a person. Return the answer to the same question of an earlier run of the job; None before that.

        It does not wait: the next run that asks the same question with the same choices gets the answer. An answer is
        used up when a run that got it completes. `default` is the answer if none comes within `timeout`.
        """
        answer: str | None = self.sdk.ask(self.run.id, question, choices=choices, timeout=timeout, default=default)
        return answer

    @property
    def http(self) -> Any:
        """A client of httpx2: `Client`, for an async function `AsyncClient`; closed with the run.

        Every request is charged before it is sent; `rota.BudgetExceeded` is raised if an account has no room.
        """
        if self._client is None or self._client.is_closed:
            self._client = open_client(self._metering(), asynchronous=self._asynchronous)
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
        """Add usage beside `ctx.http`; `usd` is in dollars."""
        tokens = {"tokens_in": tokens_in, "tokens_cached": tokens_cached, "tokens_out": tokens_out}
        self._metering().add(requests=requests, usd=usd, model=model, **tokens)

    def _metering(self) -> Meter:
        if self._meter is None:
            self._meter = Meter(self._count)
        if self._settled:
            self._meter.close()
        return self._meter

    def settle(self) -> Usage | None:
        """Return the usage of the function, None if unknown; refuse further requests."""
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
        """Whether the run shall end: stopped, replaced or out of time. Long functions check it."""
        return self._cancelled

    def cancel(self) -> None:
        """Set `cancelled`."""
        self._cancelled = True


def _copy(value: Mapping[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(dict(value)))
    return copied
