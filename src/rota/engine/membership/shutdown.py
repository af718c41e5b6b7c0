"""Shutdown in order, and retry of a failing start-up."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rota import faults
from rota.engine.loops.loop import pause_for
from rota.engine.scheduler import Engine
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import DatabaseBusy, DatabaseGone, StorageFull
from rota.settings import SchedulerSettings
from rota.store.driver import PLAIN, Database, OpenStore, Operation, Store, WriteOptions
from rota.store.tables.processes import wait_briefly

STORAGE_PATIENCE = 5
A_SECOND = timedelta(seconds=1)

StopMode = Literal["grace", "idle", "within", "now", "detach"]


class Stop(Struct, frozen=True):
    """How to stop: `within` bounds the wait for runs, None means without bound."""

    mode: StopMode
    within: timedelta | None
    agents: timedelta | None = None
    """The bound of agents in its place; None: the same."""


def wanted_stop(mode: StopMode, within: float | None, *, scheduler: SchedulerSettings) -> Stop:
    """Return the stop that a command asked for; grace and detach use what the file says."""
    if within is None and mode in ("grace", "detach"):
        return Stop(mode, scheduler.shutdown_grace, scheduler.agent_shutdown_grace)
    return Stop(mode, None if within is None else timedelta(seconds=within))


def fitting(stop: Stop, engine: Engine) -> Stop:
    """Return a stop without the time limit of agents, if none runs."""
    return stop if any(run.agent for run in engine.executor.carried.values()) else replace(stop, agents=None)


class Stopping:
    """The wishes to stop, and how the first of them is carried out; a second one means now."""

    def __init__(self, *, gone: Callable[[], str | None] = lambda: None) -> None:
        self._wishes: asyncio.Queue[Stop] = asyncio.Queue()
        self._gone = gone
        """Reports why the database cannot be reached."""
        self._stopped: Engine | None = None
        self._ends_at: float | None = None
        """When what still runs is ended, by the event loop's clock; None: never."""
        self.ending = False
        """Whether what still runs is being ended."""
        self.stop: Stop | None = None
        """The stop that is under way."""
        self.unstored = 0
        self.ended = 0
        """How many runs did not end by themselves."""

    def ask(self, stop: Stop) -> None:
        """Note a wish to stop."""
        self._wishes.put_nowait(stop)

    @property
    def wished(self) -> bool:
        """Whether a wish waits to be heard."""
        return not self._wishes.empty()

    async def asked(self) -> Stop:
        """Wait for a wish to stop."""
        return await self._wishes.get()

    @property
    def left(self) -> timedelta | None:
        """How long runs may still go on; None: without bound."""
        now = asyncio.get_running_loop().time()
        return None if self._ends_at is None else timedelta(seconds=max(0.0, self._ends_at - now))

    async def carry_out(self, stop: Stop, engine: Engine) -> bool:
        """Bring everything to its end; return whether commands were left to their keepers for the next scheduler."""
        self._stopped = engine
        self.stop = stop = fitting(stop, engine)
        self._ends_at = _end_of(stop)
        await engine.callers.dismiss()
        if stop.mode == "detach":
            engine.executor.detach()
        if not await self._wait_for_all(engine, stop):
            await self._end_runs(engine, at_once=stop.mode == "now")
        await engine.callers.dismiss()  # also calls that were at the gate or came since
        faults.point("shutdown.runs_ended")
        return engine.executor.detached > 0

    async def _wait_for_all(self, engine: Engine, stop: Stop) -> bool:
        """Wait as long as the runs may go on; where agents may longer, or shorter, end the others of them meanwhile."""
        carried = engine.executor.carried
        if stop.agents is None or stop.within is None:
            return await self._wait(engine, stop.within)
        first, last = sorted((stop.within, stop.agents))
        if await self._wait(engine, first):
            return True
        if not self._wishes.empty() or first == last:
            return False
        over = [run_id for run_id, run in carried.items() if run.agent is (stop.agents == first)]
        for run_id in over:
            engine.executor.stop(run_id)
        self.ended += len(over)
        return await self._wait(engine, last - first)

    async def _wait(self, engine: Engine, within: timedelta | None) -> bool:
        """Wait until nothing runs, the time is over, or another wish comes; return whether nothing runs."""
        bound = None if within is None else within.total_seconds()
        empty = asyncio.create_task(engine.until_empty())
        again = asyncio.create_task(self._wishes.get())
        await asyncio.wait([empty, again], timeout=bound, return_when=asyncio.FIRST_COMPLETED)
        if again.done() and not empty.done():
            self._wishes.put_nowait(again.result())
        for task in (empty, again):
            task.cancel()
        return not engine.busy

    async def _end_runs(self, engine: Engine, *, at_once: bool) -> None:
        """End every run's tree: TERM, grace, KILL; at once where asked, or after another wish."""
        executor, self.ending = engine.executor, True
        at_once = at_once or not self._wishes.empty()
        while not self._wishes.empty():
            self._wishes.get_nowait()
        self.ended += sum(not run.stopping for run in executor.carried.values())
        for run_id in list(executor.carried):
            executor.stop(run_id, at_once=at_once)
        patience = STORAGE_PATIENCE
        while patience and not await self._wait(engine, A_SECOND):
            again = not self._wishes.empty()
            at_once = at_once or again
            if again:
                self._wishes.get_nowait()
            for run_id in list(executor.carried):  # also runs of a later claim; no run is stopped twice
                executor.stop(run_id, at_once=again)
            gone = self._gone() is not None and (at_once or engine.nothing_runs)
            patience -= (engine.only_unstored or gone) and not again
        self.unstored = len(executor.carried)

    def refuse_unstored(self, place: Path, *, who: str) -> None:
        """Log the number of results that could not be stored; `who` names the process that recovers them."""
        if not self.unstored or self._stopped is None:
            return
        results, gone = f"{self.unstored} results" if self.unstored > 1 else "a result", self._gone()
        if gone is not None:
            hint = f"when it is back, {who} records how commands ended from what they left"
            raise DatabaseGone(f"{results} could not be stored: {gone}", hint=hint)
        hint = f"when that is over, {who} records how commands ended from what they left"
        raise StorageFull(f"{results} could not be stored in {place}: {self._stopped.refusals.problem}", hint=hint)


def _end_of(stop: Stop) -> float | None:
    bounds = [bound.total_seconds() for bound in (stop.within, stop.agents) if bound is not None]
    return asyncio.get_running_loop().time() + max(bounds) if stop.within is not None else None


T = TypeVar("T")

PASSING = (DatabaseBusy, DatabaseGone)
"""Ends by itself; no look is needed."""
FIRST_PAUSE, MAX_PAUSE = timedelta(milliseconds=100), timedelta(seconds=2)
AT_FIRST = timedelta(minutes=2)
"""How long a process tries that has not served yet: its service manager, or a person, waits for it."""
LOOK_EVERY = timedelta(seconds=1)


class ShortLockStore:
    """A store for the steps of a start: they wait a second at most for rows that others hold, and are done again.

    So a stop that is requested meanwhile is noticed in time.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self, operation: Operation[T]) -> T:
        """Run `operation` on one consistent snapshot, without waiting."""
        return self._store.read(operation)

    def write(self, operation: Operation[T]) -> T:
        """Run `operation` in a transaction."""
        return self._store.write(partial(_briefly, operation))

    def submit(self, operation: Operation[T], manner: WriteOptions = PLAIN) -> "asyncio.Future[T]":
        """Hand `operation` to the writer thread."""
        return self._store.submit(partial(_briefly, operation), manner)

    def close(self) -> None:
        """Close the database."""
        self._store.close()


def _briefly(operation: Operation[T], db: Database) -> T:
    wait_briefly(db)
    return operation(db)


class StartupRetry:
    """Does the steps of one start; each may be done twice.

    `over`: the start was cancelled. `within`: for how long it tries again, None: without end.
    """

    def __init__(
        self, store: OpenStore, clock: Clock, *, over: Callable[[], bool], within: timedelta | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._over = over
        self._until = None if within is None else clock.monotonic() + within.total_seconds()
        self._told: str | None = None

    async def do(self, step: Callable[[], Awaitable[T]]) -> T:
        """Do a step, again after a growing pause where the database was away or others held its rows."""
        pause = FIRST_PAUSE
        while True:
            try:
                done = await self._attempt(step)
            except PASSING as error:
                if self._over() or (self._until is not None and self._clock.monotonic() >= self._until):
                    raise
                self._tell(error)
            else:
                self._tell_through()
                return done
            await self._rest(pause)
            pause = min(2 * pause, MAX_PAUSE)

    async def _attempt(self, step: Callable[[], Awaitable[T]]) -> T:
        """Run a step; stop waiting for an unreachable database once the start was cancelled."""
        task = asyncio.ensure_future(step())
        try:
            while not task.done():
                await asyncio.wait([task], timeout=LOOK_EVERY.total_seconds())
                if self._over() and self._store.problem is not None and not task.done():
                    raise DatabaseGone(self._store.problem, hint="the caller no longer waits")
            return task.result()
        finally:
            task.cancel()

    async def _rest(self, pause: timedelta) -> None:
        deadline = self._clock.monotonic() + pause.total_seconds()
        while not self._over() and self._clock.monotonic() < deadline:
            await pause_for(FIRST_PAUSE)

    def _tell(self, error: Exception) -> None:
        if self._told is None:
            log.warning("database not ready at startup, retrying", error=str(error))
        self._told = str(error)

    def _tell_through(self) -> None:
        if self._told is not None:
            log.info("startup continues")
        self._told = None
