"""The scheduler as a library, its blocking calls, and its tools for agents."""

import asyncio
import contextlib
import math
import os
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from rota.engine.clock import SystemClock
from rota.engine.membership.shutdown import Stop
from rota.model import errors
from rota.model.amounts import counted
from rota.model.clock import Clock, parse_duration
from rota.model.proposals import USER, Author
from rota.model.records import Run
from rota.model.store_url import SQLITE, is_postgres
from rota.operations.direct_actions import Reservation
from rota.operations.project.declarations import (
    Declarations,
    Declaring,
    SchedulerStatus,
    TriggerResult,
    declared_status,
    fires_of,
    fires_of_spec,
    for_code,
    running_count,
    status_of,
    story_of,
    trigger_job,
)
from rota.operations.project.locate import DATABASE, is_applied, locate, open_place, open_state
from rota.operations.tools.context import RUN_ID, maker_of, named_maker, project_declares, tools_maker
from rota.rules.schedule import cursor
from rota.serve.embedded import NOT_RUNNING, START_HINT, EmbeddedScheduler
from rota.settings import STATE_NAME
from rota.store.driver import Store

if TYPE_CHECKING:
    from rota.operations.tools.catalog import Tool

Play = Callable[[Coroutine[Any, Any, Any]], "Future[Any]"]
"""Awaits something on the scheduler's own loop."""
Opened = tuple[AbstractAsyncContextManager[Reservation], Play]


class Reserved:
    """A slot held during a block: `async with`, or `with` through `scheduler.sync`."""

    def __init__(self, opening: Callable[[], Opened]) -> None:
        self._opening = opening
        self._opened: Opened | None = None

    def begin(self) -> "Future[Reservation]":
        """Start to wait for the slot."""
        held, play = self._opened = self._opening()
        return play(_enter(held))

    def give_back(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> "Future[None] | None":
        """Start to return the slot; None if the scheduler has stopped."""
        assert self._opened is not None
        held, play = self._opened
        with contextlib.suppress(errors.SchedulerError):
            return play(_leave(held, kind, error, traceback))
        return None

    async def __aenter__(self) -> Reservation:
        """Wait for the slot."""
        return await asyncio.wrap_future(self.begin())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Give the slot back; the block's end is recorded as it was."""
        future = self.give_back(kind, error, traceback)
        if future is not None:
            await asyncio.shield(asyncio.wrap_future(future))


async def _enter(held: AbstractAsyncContextManager[Reservation]) -> Reservation:
    return await held.__aenter__()


async def _leave(
    held: AbstractAsyncContextManager[Reservation],
    kind: type[BaseException] | None,
    error: BaseException | None,
    traceback: TracebackType | None,
) -> None:
    try:
        await held.__aexit__(kind, error, traceback)
    except BaseException as raised:
        if raised is not error:
            raise


class Blocking:
    """Blocking variants of the async methods. Do not call them on the thread of an event loop."""

    def __init__(self, scheduler: "Scheduler") -> None:
        self._scheduler = scheduler

    def trigger(
        self,
        agent_or_job: str,
        schedule: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        force: bool = False,
    ) -> TriggerResult:
        """Start a job, or a schedule of an agent, manually; at capacity its run waits in the queue."""
        return self._scheduler.begin_trigger(agent_or_job, schedule, params=params, force=force).result()

    def wait(self, run: str | TriggerResult, timeout: float | None = None) -> Run:
        """Wait until a run is final; raise TimeoutError when that takes longer."""
        name = run_named(run)
        waiting = self._scheduler.begin_wait(name)
        try:
            return waiting.result(timeout)
        except TimeoutError:
            waiting.cancel()
            raise late(name, timeout) from None

    @contextlib.contextmanager
    def reserve_slot(
        self,
        pools: Sequence[str] | Mapping[str, int] = (),
        *,
        job: str | None = None,
        within: str | float | timedelta | None = None,
    ) -> Iterator[Reservation]:
        """Hold the next free slot, and room in `pools`, for the code of a `with` block."""
        reserved = self._scheduler.reserve_slot(pools, job=job, within=within)
        reservation = reserved.begin().result()
        try:
            yield reservation
        except BaseException as error:
            _finish(reserved.give_back(type(error), error, error.__traceback__))
            raise
        _finish(reserved.give_back(None, None, None))


def run_named(run: str | TriggerResult) -> str:
    """Return the identifier or handle of a run, or of a trigger's result."""
    return run if isinstance(run, str) else run.run


def late(run: str, timeout: float | None) -> TimeoutError:
    """Return the error of a wait that was too short."""
    return TimeoutError(f"{run} is not final after {timeout} s; it continues")


def _finish(given: "Future[None] | None") -> None:
    with contextlib.suppress(CancelledError):  # the scheduler stopped, and took it back itself
        if given is not None:
            given.result()


def state_of(store: Path) -> Path:
    """Return the state folder: that of a database named rota.db, or the given folder."""
    if "://" in str(store) or ":/" in str(store):
        raise errors.InvalidValue(f"store {str(store)!r} is not a path", hint='write a path such as "state/rota.db"')
    if store.suffix and store.name != DATABASE and not store.is_dir():
        hint = f"write {str(store.with_name(DATABASE))!r}, or the folder alone"
        raise errors.InvalidValue(f"store {str(store)!r} is not named {DATABASE}", hint=hint)
    folder = Path(os.path.abspath(store.parent if store.name == DATABASE else store))
    _refuse_foreign(folder)
    return folder


def _refuse_foreign(folder: Path) -> None:
    """Refuse a folder with other files: rota owns its state folder."""
    found = os.listdir(folder) if folder.is_dir() else []
    if found and DATABASE not in found and found != [".gitignore"]:
        hint = f"give it a folder of its own: {str(folder / 'rota' / DATABASE)!r}"
        raise errors.InvalidValue(f"{folder} contains files that are not rota's", hint=hint)


def duration_of(within: str | float | timedelta | None) -> timedelta | None:
    """Return a timeout as a timedelta: from a text such as `5m`, seconds, or a timedelta."""
    if within is None or isinstance(within, timedelta):
        return within
    return parse_duration(within) if isinstance(within, str) else timedelta(seconds=within)


T = TypeVar("T")

MEMORY = ":memory:"
STOP_TIMEOUT = 30.0
RUNS = 50
NOW = Stop("now", timedelta())


class Scheduler(Declaring):
    """A scheduler embedded in this process: its own thread, no signal handlers, no globals.

    `store` is the database, `state/rota.db`, or the folder that holds it; ":memory:" is a temporary folder that is
    removed at the stop; "postgresql://user@host/name" is one that machines share, with the state of this one in `.rota`
    of `folder`. The other sections are those of a rota.yaml. `trigger`, `wait` and `reserve_slot` are awaited;
    `scheduler.sync` has the same three for code without an event loop.
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        *,
        timezone: str = "UTC",
        concurrency: int = 16,
        folder: str | os.PathLike[str] | None = None,
        stop_timeout: float = STOP_TIMEOUT,
        allow_empty: bool = False,
        defaults: Mapping[str, Any] | None = None,
        pools: Mapping[str, int] | None = None,
        budgets: Mapping[str, Any] | None = None,
        prices: Mapping[str, Any] | None = None,
        notify: Mapping[str, Any] | None = None,
        quiet_hours: Any = None,
        poll: Mapping[str, Any] | None = None,
        groups: Mapping[str, Any] | None = None,
        agents: Mapping[str, Any] | None = None,
        agent_policy: Mapping[str, Any] | None = None,
        retention: Mapping[str, Any] | None = None,
        scheduler: Mapping[str, Any] | None = None,
    ) -> None:
        self._memory = os.fspath(store) == MEMORY
        self._address = os.fspath(store) if is_postgres(os.fspath(store)) else SQLITE
        place = Path(os.path.abspath(folder if folder is not None else os.curdir))
        if is_postgres(self._address):
            self._state = place / STATE_NAME
        else:
            self._state = Path() if self._memory else state_of(Path(store))
        self._stop_timeout = stop_timeout
        self._allow_empty = allow_empty
        self._clock = SystemClock()
        self._starting = threading.Lock()
        self._guest: EmbeddedScheduler | None = None
        self._host: asyncio.AbstractEventLoop | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        sections = {
            "timezone": timezone,
            "scheduler": {"concurrency": concurrency, **(scheduler or {})},
            "defaults": defaults,
            "pools": pools,
            "budgets": budgets,
            "prices": prices,
            "notify": notify,
            "quiet_hours": quiet_hours,
            "poll": poll,
            "groups": groups,
            "agents": agents,
            "agent_policy": agent_policy,
            "retention": retention,
        }
        super().__init__(Declarations(sections, folder=place, state=self._state, environ=os.environ))

    # running

    @property
    def is_running(self) -> bool:
        """Whether the scheduler runs."""
        guest = self._guest
        return guest is not None and guest.served.done() and not guest.gone.done()

    def start(self) -> None:
        """Start the scheduler on a thread and return when it runs; no effect if it runs already."""
        with self._starting:
            if self._guest is None:
                guest, since = self._begin(host=None)
                guest.served.result()
                self._go_live(guest, since)

    def stop(self, wait: bool = True, timeout: float | None = None, *, detach: bool = False) -> None:  # noqa: FBT001, FBT002
        """Start no new runs, wait `timeout` seconds for running ones, kill the rest, and return.

        `timeout` None is `stop_timeout`, 30 s. Where runs had to be ended SchedulerShutdownError says so. Without
        `wait` they are ended at once. With `detach` commands go on, and the next start records how they end.
        """
        guest = self._guest
        if guest is None:
            return
        self._refuse_on_host()
        bound = self._stop_timeout if timeout is None else timeout
        guest.stop(self._how(bound, wait=wait, detach=detach))
        _judge(guest.over(), bound=bound, asked=not wait)

    async def __aenter__(self) -> "Scheduler":
        """Begin; async functions run on this event loop."""
        with self._starting:
            if self._guest is not None:
                raise errors.SchedulerError(
                    "the scheduler is already running", hint="enter it once, or use `start()` alone"
                )
            guest, since = self._begin(host=asyncio.get_running_loop())
        try:
            await asyncio.shield(asyncio.wrap_future(guest.served))
        except asyncio.CancelledError:
            guest.served.add_done_callback(lambda _: guest.stop(NOW))
            raise
        self._go_live(guest, since)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop as `stop()` does; the event loop goes on meanwhile."""
        guest = self._guest
        if guest is None:
            return
        guest.stop(self._how(self._stop_timeout, wait=True, detach=False))
        try:
            await asyncio.shield(asyncio.wrap_future(guest.gone))
        except asyncio.CancelledError:
            guest.stop(NOW)
            raise
        ended = guest.over()
        if kind is None:
            _judge(ended, bound=self._stop_timeout, asked=False)

    def __enter__(self) -> "Scheduler":
        """Begin on a thread."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop as `stop()` does."""
        with contextlib.suppress(errors.SchedulerShutdownError) if kind is not None else contextlib.nullcontext():
            self.stop()

    # acting

    async def trigger(
        self,
        agent_or_job: str,
        schedule: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        force: bool = False,
    ) -> TriggerResult:
        """Start a job, or a schedule of an agent, manually; at capacity its run waits in the queue.

        `params` are params that the job declares. What the job refuses is told by the result; UnknownJob and other
        mistakes of the caller are raised.
        """
        return await asyncio.wrap_future(self.begin_trigger(agent_or_job, schedule, params=params, force=force))

    async def wait(self, run: str | TriggerResult, timeout: float | None = None) -> Run:  # noqa: ASYNC109
        """Wait until a run is final; raise TimeoutError when that takes longer.

        The run is the answer of `trigger`, an identifier or a handle.
        """
        name = run_named(run)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self.begin_wait(name)), timeout)
        except TimeoutError:
            raise late(name, timeout) from None

    def reserve_slot(
        self,
        pools: Sequence[str] | Mapping[str, int] = (),
        *,
        job: str | None = None,
        within: str | float | timedelta | None = None,
    ) -> Reserved:
        """Hold the next free slot, and room in `pools`, for the code of an `async with` block."""
        return Reserved(partial(self._reserve, pools=pools, job=job, within=duration_of(within)))

    @property
    def sync(self) -> Blocking:
        """`trigger`, `wait` and `reserve_slot` for code without an event loop."""
        return Blocking(self)

    # seeing

    def status(self) -> SchedulerStatus:
        """Return whether the scheduler runs, the number of running runs, and the state of each job."""
        running = self.is_running
        if not running and not self._stored:
            return declared_status(self.declarations.everything().jobs)
        return self.operate(partial(status_of, running=running))

    def running_count(self, agent_or_job: str | None = None) -> int:
        """Return the number of running runs of an agent, of a job, or of all."""
        return self.operate(partial(running_count, name=agent_or_job)) if self.is_running else 0

    def next_fires(self, job: str, n: int = 3) -> list[datetime]:
        """Return the next fires of a job, in its own time zone."""
        if self.is_running or self._stored:
            with contextlib.suppress(errors.UnknownJob):
                return self.operate(partial(fires_of, name=job, n=n))
        return fires_of_spec(self.declarations.everything().jobs, job, n=n, now=self._clock.now())

    def history(self, job: str | None = None, limit: int = RUNS) -> list[Run]:
        """Return the newest runs of a job or of all jobs, oldest first."""
        return self.operate(partial(story_of, name=job, limit=limit))

    @property
    def state(self) -> Path:
        """The state folder; for a scheduler in memory only while it runs."""
        return self._state

    @property
    def clock(self) -> Clock:
        """The clock of the scheduler."""
        return self._clock

    def operate(self, work: Callable[[Store], T], *, wakes: bool = False) -> T:
        """Run an operation on the store and return its result; `wakes` wakes the loops afterwards."""
        guest = self._guest
        if guest is not None:
            return guest.do(work, wakes=wakes).result()
        if not self._stored:
            raise errors.SchedulerError(NOT_RUNNING, hint=START_HINT)
        try:
            store = open_state(self._state, self._clock, create=False, store=self._address)
            try:
                return work(store)
            finally:
                store.close()
        except errors.RotaError as error:
            for_code(error)
            raise

    # for the faces beside this one

    def begin_trigger(
        self, name: str, schedule: str | None, *, params: Mapping[str, Any] | None, force: bool
    ) -> "Future[TriggerResult]":
        """Start to trigger a job."""

        def work(store: Store) -> TriggerResult:
            now = self._clock.now()
            try:
                return trigger_job(store, name, schedule=schedule, params=params, force=force, now=now)
            except errors.StateError as error:
                raise errors.ScheduleTriggerError(name, str(error), schedule=schedule) from error

        return self._running().do(work, wakes=True)

    def begin_wait(self, run: str) -> "Future[Run]":
        """Start to wait for a run."""
        guest = self._running()
        return guest.play(guest.finished(run))

    # its inner life

    @property
    def _stored(self) -> bool:
        return not self._memory and (is_postgres(self._address) or (self._state / DATABASE).exists())

    def _running(self) -> EmbeddedScheduler:
        guest = self._guest
        if guest is None:
            raise errors.SchedulerError(NOT_RUNNING, hint=START_HINT)
        return guest

    def _begin(self, *, host: asyncio.AbstractEventLoop | None) -> tuple[EmbeddedScheduler, Mapping[str, Any]]:
        declarations = self.declarations
        with declarations.changing:
            declared, since = declarations.everything(), dict(declarations.entries)
        if self._memory:
            self._temporary = tempfile.TemporaryDirectory(prefix="rota-")
            self._state = Path(self._temporary.name)
        guest = EmbeddedScheduler(
            declared,
            self._clock,
            state=self._state,
            store=self._address,
            table=declarations.table,
            kept=declarations.kept,
            allow_empty=self._allow_empty,
            host=host,
            on_over=self._take_end,
        )
        self._guest, self._host = guest, host
        guest.begin()
        return guest, since

    def _go_live(self, guest: EmbeddedScheduler, since: Mapping[str, Any]) -> None:
        try:
            self.declarations.go_live(guest, since=since)
        except BaseException:
            guest.stop(NOW)
            raise

    def _take_end(self) -> None:
        self.declarations.live = None
        self._guest = self._host = None
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def _refuse_on_host(self) -> None:
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            return
        if here is self._host:
            hint = "leave the `async with` block, or call stop from another thread: `await asyncio.to_thread(…)`"
            raise errors.SchedulerError("`stop` would block the event loop of its async functions", hint=hint)

    def _how(self, timeout: float, *, wait: bool, detach: bool) -> Stop:
        if detach and self._memory:
            hint = "let them end, or keep the state in a folder"
            raise errors.InvalidValue("commands cannot outlive a scheduler whose state is in memory", hint=hint)
        bound = None if math.isinf(timeout) else timedelta(seconds=timeout)
        if detach:
            return Stop("detach", bound)
        return Stop("grace", bound) if wait else NOW

    def _reserve(
        self, *, pools: Sequence[str] | Mapping[str, int], job: str | None, within: timedelta | None
    ) -> Opened:
        guest = self._running()
        return guest.reserve(pools=pools, job=job, within=within), guest.play


def _judge(ended: int, *, bound: float, asked: bool) -> None:
    """Raise if runs had to be killed at the stop."""
    if ended and not asked:
        what = f"{counted(ended, 'run')} did not end within {bound:g} s and was killed"
        raise errors.SchedulerShutdownError(what, timed_out=True)


def next_trigger(
    last_completed: datetime | None, interval: str | timedelta, jitter: float = 0, *, now: datetime | None = None
) -> datetime:
    """Return when an interval is due: immediately the first time, else one interval after the last completion.

    Never before now; `jitter` delays it by up to so many percent of the interval, 50 at most.
    """
    return cursor.next_trigger(last_completed, interval, jitter=jitter, now=_now(now))


def is_due(next_run_at: datetime, now: datetime | None = None) -> bool:
    """Return whether an instant is in the past."""
    return cursor.is_due(next_run_at, _now(now))


def _now(given: datetime | None) -> datetime:
    return SystemClock().now() if given is None else cursor.aware(given)


def tools(project: Scheduler | str | os.PathLike[str], *, made_by: str = USER, run: str | None = None) -> "list[Tool]":
    """Return the tools for agents: each has a name, a description, JSON Schemas, hints, `call` and `call_async`.

    `project` is a scheduler of this process, or the folder of a rota.yaml. What is made with them belongs to `made_by`,
    within `agent_policy`; where a `run` hands them out (`task.run_id`), also within the limits of that run. A call that
    is refused raises RotaError; its text says what to do instead.
    """
    from rota.operations.tools.catalog import tools_of

    maker = replace(named_maker(made_by), run_id=run)
    call = partial(_with_scheduler, project) if isinstance(project, Scheduler) else partial(_on_disk, Path(project))
    return list(tools_of(partial(call, maker)))


def _with_scheduler(scheduler: Scheduler, maker: Author, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    from rota.operations.tools.toolbox import Toolbox

    def work(store: Store) -> dict[str, Any]:
        declare, acting = scheduler.declarations.declare_made, _acting(store, maker)
        return Toolbox(store, scheduler.state, scheduler.clock, maker=acting, declare=declare).call(name, arguments)

    return scheduler.operate(work, wakes=True)


def _on_disk(folder: Path, maker: Author, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    from rota.operations.tools.toolbox import Toolbox

    place, clock = locate(str(folder), os.environ, Path.cwd()), SystemClock()
    if not is_applied(place, clock):
        raise errors.NotApplied(str(place.folder))
    store = open_place(place, clock, create=False)
    try:
        acting = _acting(store, maker) if maker.run_id else _acting_here(store, maker)
        declare = project_declares(place, os.environ)
        return Toolbox(store, place.state, clock, maker=acting, declare=declare).call(name, arguments)
    finally:
        store.close()


def _acting_here(store: Store, maker: Author) -> Author:
    """Return the author of changes in a project on disk: inside a run that run, under the given name."""
    author = tools_maker(store, os.environ)
    return maker if author.run_id is None else replace(author, name=author.name if maker.name == USER else maker.name)


def _acting(store: Store, maker: Author) -> Author:
    """Return the author: the given name, in the given run."""
    if maker.run_id is None:
        return maker
    author = maker_of(store, {RUN_ID: maker.run_id})
    if author.run_id is None:
        raise errors.UnknownRun(maker.run_id)
    return replace(author, name=maker.name)
