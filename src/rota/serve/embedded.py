"""The composition root of a guest: a scheduler on a thread of somebody's process, without signals, file or console."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from rota.declare.project import Declared
from rota.engine.clock import tzdata_version
from rota.engine.functions import FunctionTable
from rota.engine.membership.session import (
    Entrance,
    take_serving_lock,
)
from rota.engine.membership.shutdown import StartupRetry, Stop
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import RotaError, SchedulerError, SchedulerShutdownError
from rota.model.records import Run
from rota.model.spec import JobSpec
from rota.operations.direct_actions import Reservation, reserve_slot
from rota.operations.project.apply import DECLARED, KEPT, adopt_tzdata, apply_declared, put_job, remove_job
from rota.operations.project.declarations import for_code, run_of
from rota.operations.project.locate import open_state
from rota.serve.host import ServingHost
from rota.store.driver import Store
from rota.store.tables.processes import Ending

T = TypeVar("T")

KIND = "guest"
LOOK_AROUND = timedelta(seconds=2)
LOOK_AGAIN = 1.0
"""Who waits for a run looks again after so many seconds: another process may have ended it."""
LAST_WORDS = 2.0
"""How long those who wait have to hear that the scheduler stops."""
WORKERS = 4
NOT_RUNNING = "the scheduler is not running"
START_HINT = "call `start()`, or enter it with `async with scheduler:`"


class EmbeddedScheduler(ServingHost):
    """One scheduler at work. Its loop and its threads are its own; other threads call its public methods."""

    _while_running = "while the scheduler ran"

    def __init__(
        self,
        declared: Declared,
        clock: Clock,
        *,
        state: Path,
        store: str,
        table: FunctionTable,
        kept: frozenset[str],
        allow_empty: bool,
        host: asyncio.AbstractEventLoop | None,
        on_over: Callable[[], None],
    ) -> None:
        super().__init__(state, clock, kind=KIND, table=table, who="the scheduler")
        self.served: Future[None] = Future()
        """Ends when the scheduler is at work, or with the reason why it cannot be."""
        self.gone: Future[int] = Future()
        """Ends when everything is over: how many runs had to be ended, or what went wrong."""
        self._declared = declared
        self._settings = replace(declared.settings, state=state, store=store)
        self._kept = kept
        self._allow_empty = allow_empty
        self._host = host
        self._on_over = on_over
        self._workers: ThreadPoolExecutor | None = None
        self._bells: set[asyncio.Event] = set()
        self._asked: set[asyncio.Task[Any]] = set()
        self._stopped = False
        self._thread = threading.Thread(target=self._main, name="rota-scheduler", daemon=True)

    # from other threads

    def begin(self) -> None:
        """Start the thread; `served` tells what becomes of it."""
        self._thread.start()

    def stop(self, stop: Stop) -> None:
        """Ask it to stop; `gone` tells when it has. A second wish means now."""
        with contextlib.suppress(RuntimeError):  # it has stopped already
            self._loop.call_soon_threadsafe(self._stopping.ask, stop)

    def do(self, work: Callable[[Store], T], *, wakes: bool = False) -> "Future[T]":
        """Do something with the store on a thread beside the loop; `wakes`: the loop has a look at it afterwards."""
        try:
            if self._workers is None:
                raise RuntimeError
            return self._workers.submit(self._work, work, wakes=wakes)
        except RuntimeError:
            raise SchedulerError(NOT_RUNNING, hint=START_HINT) from None

    def play(self, awaited: Coroutine[Any, Any, T]) -> "Future[T]":
        """Await something on the scheduler's own loop."""
        if self._workers is None or self._stopped:
            awaited.close()
            raise SchedulerError(NOT_RUNNING, hint=START_HINT)
        return asyncio.run_coroutine_threadsafe(self._noted(awaited), self._loop)

    def reserve(
        self, *, pools: Sequence[str] | Mapping[str, int], job: str | None, within: timedelta | None
    ) -> AbstractAsyncContextManager[Reservation]:
        """Return a slot to be held, entered and left by `play`."""
        return reserve_slot(self._store, self._state, self._clock, pools=pools, job=job, within=within)

    def over(self) -> int:
        """Wait until everything is over, the thread too; return how many runs had to be ended."""
        try:
            return self.gone.result()
        finally:
            self._thread.join()

    def put(self, spec: JobSpec, *, keep: bool) -> None:
        """Store a job."""
        source = KEPT if keep else DECLARED
        operation = partial(put_job, spec=spec, source=source, now=self._clock.now())
        self.do(lambda store: store.write(operation), wakes=True).result()

    def retire(self, name: str) -> None:
        """Retire a job."""
        operation = partial(remove_job, name=name, now=self._clock.now())
        self.do(lambda store: store.write(operation), wakes=True).result()

    def _work(self, work: Callable[[Store], T], *, wakes: bool) -> T:
        try:
            return work(self._store)
        except RotaError as error:
            for_code(error)
            raise
        finally:
            if wakes:
                with contextlib.suppress(RuntimeError):  # it has just stopped
                    self._loop.call_soon_threadsafe(self._engine.wake)

    # its own thread

    def _main(self) -> None:
        try:
            ended = asyncio.run(self._run())
        except BaseException as error:
            if isinstance(error, RotaError):
                for_code(error)
            self._on_over()
            if not self.served.done():
                self.served.set_exception(error)
            elif not self._stopped:
                log.error("scheduler stopped unexpectedly", error=str(error))
            self.gone.set_exception(error)
        else:
            self._on_over()
            self.gone.set_result(ended)

    async def _run(self) -> int:
        self._loop = asyncio.get_running_loop()
        self._store = store = open_state(self._state, self._clock, create=True, store=self._settings.store)
        try:
            store.read(lambda db: db.row("probe_indexes"))
            lock = await take_serving_lock(self._state, self._clock)
            try:
                await self._serve()
            finally:
                lock.release()
        finally:
            store.close()
        return self._stopping.ended

    def _give_up(self, error: RotaError) -> None:
        if not self.served.done():
            raise error

    async def _register(self) -> None:
        entrance = Entrance(slots=self._settings.scheduler.concurrency)
        await self._enter(entrance, environ=os.environ.copy(), host=self._host)
        self._started_at = self._clock.now()

    async def _apply(self, patience: StartupRetry) -> None:
        """Make the stored jobs equal to the code, before the first fire (R-23)."""
        now = self._clock.now()
        adopt = partial(adopt_tzdata, tzdata=tzdata_version(), now=now)
        await patience.do(partial(self._store.submit, adopt))
        apply = partial(
            apply_declared, declared=self._declared, kept=self._kept, allow_empty=self._allow_empty, now=now
        )
        await patience.do(partial(self._store.submit, apply))

    async def _schedule(self, recovered: int) -> Ending:
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="rota-guest") as self._workers:
            with self._damage_check(self._workers):
                async with self._store.listening(self._engine.wake):
                    ending = await self._until_stopped(recovered)
            if not self._declared_lost:
                await self._say_goodbye()
        return ending

    def _announce(self, _recovered: int) -> None:
        if not self.served.done():
            self.served.set_result(None)

    async def _say_goodbye(self) -> None:
        """Let everybody know who waits for something, and give back the slots that are still reserved."""
        self._stopped = True
        self._ring()
        if self._asked:
            await asyncio.wait(self._asked, timeout=LAST_WORDS)
        for task in self._asked:
            task.cancel()
        await asyncio.gather(*self._asked, return_exceptions=True)
        await self._loop.shutdown_asyncgens()

    async def _watch_round(self) -> datetime | None:
        """Look whether the state folder is still there, and take over what ticks carried that died since (R-23)."""
        if self._state_lost():
            return None
        await self._take_over()
        return self._clock.now() + LOOK_AROUND

    # talking

    async def finished(self, handle: str) -> Run:
        """Wait until a run is final, and return it; raise SchedulerShutdownError when the scheduler stops before."""
        bell = asyncio.Event()
        self._bells.add(bell)
        try:
            while True:
                bell.clear()
                run = run_of(self._store, handle)
                if run.status.final:
                    return run
                if self._stopped:
                    raise SchedulerShutdownError(f"the scheduler stopped while {run.handle} was {run.status}")
                await self._hear(bell)
        finally:
            self._bells.discard(bell)

    async def _hear(self, bell: asyncio.Event) -> None:
        again = self._loop.call_later(LOOK_AGAIN, bell.set)
        try:
            await bell.wait()
        finally:
            again.cancel()

    async def _noted(self, awaited: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._asked.add(task)
        try:
            return await awaited
        except RotaError as error:
            for_code(error)
            raise
        finally:
            self._asked.discard(task)

    def _take_finished(self, _run_id: str) -> None:
        self._ring()

    def _ring(self) -> None:
        for bell in self._bells:
            bell.set()

    def _wake(self) -> None:
        self._engine.wake()
        self._ring()
