"""The scheduler inside another program: the lifecycle on a thread, without signals, file or console."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from rota.declare.project import Declared
from rota.engine.functions import FunctionTable
from rota.engine.membership.session import (
    Entrance,
    take_serving_lock,
)
from rota.engine.membership.shutdown import Stop
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import RotaError, SchedulerError, SchedulerShutdownError
from rota.model.records import Run
from rota.model.spec import JobSpec
from rota.operations.direct_actions import Reservation, reserve_slot
from rota.operations.project.apply import DECLARED, KEPT, apply_declared, put_job, remove_job
from rota.operations.project.declarations import for_code, run_of
from rota.operations.project.locate import open_state
from rota.serve.host import ServingHost
from rota.store.driver import Operation, Store
from rota.store.tables.processes import Ending

T = TypeVar("T")

WAIT_POLL_SECONDS = 1.0
"""How often a wait for a run checks it: another process may have ended it."""
GOODBYE_SECONDS = 2.0
"""How long waiting callers have to handle the stop."""
WORKER_THREADS = 4
NOT_RUNNING = "the scheduler is not running"
START_HINT = "call `start()`, or enter it with `async with scheduler:`"


class EmbeddedScheduler(ServingHost):
    """One scheduler with its own event loop and threads; other threads call its public methods."""

    _while_running = "while the scheduler ran"
    _title = "the scheduler"

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
        super().__init__(state, clock, kind="guest", table=table)
        self.served: Future[None] = Future()
        """Done when the scheduler serves, or with the error of its start."""
        self.gone: Future[int] = Future()
        """Done when the scheduler has ended: the number of runs that it had to stop, or its error."""
        self._declared = declared
        self._settings = replace(declared.settings, state=state, store=store)
        table.secrets = declared.settings.secrets
        self._kept = kept
        self._allow_empty = allow_empty
        self._host = host
        self._on_over = on_over
        self._workers: ThreadPoolExecutor | None = None
        self._bells: set[asyncio.Event] = set()
        self._calls: set[asyncio.Task[Any]] = set()
        self._stopped = False
        self._thread = threading.Thread(target=self._main, name="rota-scheduler", daemon=True)

    # from other threads

    def begin(self) -> None:
        """Start the thread; `served` has the result."""
        self._thread.start()

    def stop(self, stop: Stop) -> None:
        """Request a stop, which ends with `gone`. A second request stops at once."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._stopping.ask, stop)

    def do(self, work: Callable[[Store], T], *, wakes: bool = False) -> "Future[T]":
        """Call `work` with the store on a worker thread; `wakes`: then wake the scheduler's loops."""
        try:
            if self._workers is None:
                raise RuntimeError
            return self._workers.submit(self._work, work, wakes=wakes)
        except RuntimeError:
            raise SchedulerError(NOT_RUNNING, hint=START_HINT) from None

    def play(self, awaited: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run a coroutine on the scheduler's event loop."""
        if self._workers is None or self._stopped:
            awaited.close()
            raise SchedulerError(NOT_RUNNING, hint=START_HINT)
        return asyncio.run_coroutine_threadsafe(self._track(awaited), self._loop)

    def reserve(
        self, *, pools: Sequence[str] | Mapping[str, int], job: str | None, within: timedelta | None
    ) -> AbstractAsyncContextManager[Reservation]:
        """Return a reservation of a slot; enter and leave it with `play`."""
        return reserve_slot(self._store, self._state, self._clock, pools=pools, job=job, within=within)

    def over(self) -> int:
        """Wait until scheduler and thread have ended; return the number of runs that had to be stopped."""
        try:
            return self.gone.result()
        finally:
            self._thread.join()

    def put(self, spec: JobSpec, *, keep: bool) -> None:
        """Store a job."""
        self._write(partial(put_job, spec=spec, source=KEPT if keep else DECLARED, now=self._clock.now()))

    def retire(self, name: str) -> None:
        """Retire a job."""
        self._write(partial(remove_job, name=name, now=self._clock.now()))

    def _write(self, operation: Operation[object]) -> None:
        self.do(lambda store: store.write(operation), wakes=True).result()

    def _work(self, work: Callable[[Store], T], *, wakes: bool) -> T:
        try:
            return work(self._store)
        except RotaError as error:
            for_code(error)
            raise
        finally:
            if wakes:
                with contextlib.suppress(RuntimeError):  # the loop is closed
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
        store = open_state(self._state, self._clock, create=True, store=self._settings.store)
        with self._open(store), contextlib.ExitStack() as stack:
            stack.callback((await take_serving_lock(self._state, self._clock)).release)
            await self._serve()
        return self._stopping.ended

    def _give_up(self, error: RotaError) -> None:
        if not self.served.done():
            raise error

    async def _register(self) -> None:
        entrance = Entrance(slots=self._settings.scheduler.concurrency)
        await self._enter(entrance, environ=os.environ.copy(), host=self._host)

    async def _apply(self) -> None:
        apply = partial(
            apply_declared,
            declared=self._declared,
            kept=self._kept,
            allow_empty=self._allow_empty,
            now=self._clock.now(),
        )
        await self._attempt(partial(self._store.submit, apply))

    async def _schedule(self, recovered: int, _threads: ThreadPoolExecutor | None = None) -> Ending:
        with ThreadPoolExecutor(WORKER_THREADS, thread_name_prefix="rota-guest") as self._workers:
            ending = await super()._schedule(recovered, self._workers)
            if not self._lease_lost:
                await self._say_goodbye()
        return ending

    def _announce(self, _recovered: int) -> None:
        if not self.served.done():
            self.served.set_result(None)

    async def _say_goodbye(self) -> None:
        """Notify waiting callers, and release the slots that are still reserved."""
        self._stopped = True
        self._ring()
        if self._calls:
            await asyncio.wait(self._calls, timeout=GOODBYE_SECONDS)
        for task in self._calls:
            task.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        await self._loop.shutdown_asyncgens()

    # talking

    async def finished(self, handle: str) -> Run:
        """Wait until a run is final, and return it; raise SchedulerShutdownError when the scheduler stops first."""
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
                again = self._loop.call_later(WAIT_POLL_SECONDS, bell.set)
                try:
                    await bell.wait()
                finally:
                    again.cancel()
        finally:
            self._bells.discard(bell)

    async def _track(self, awaited: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            return await awaited
        except RotaError as error:
            for_code(error)
            raise
        finally:
            self._calls.discard(task)

    def _take_finished(self, _run_ids: Sequence[str]) -> None:
        self._ring()

    def _ring(self) -> None:
        for bell in self._bells:
            bell.set()

    def _wake(self) -> None:
        self._engine.wake()
        self._ring()
