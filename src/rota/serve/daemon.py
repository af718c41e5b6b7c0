"""The composition root of `rota serve` and `rota worker`: opens the store, recovers, applies, runs, stops in order."""

import asyncio
import contextlib
import signal
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rota.declare.plan import Plan
from rota.engine.clock import tzdata_version
from rota.engine.functions import FunctionTable
from rota.engine.membership.control import collect_rarely
from rota.engine.membership.session import (
    UNNAMED,
    Entrance,
    take_serving_lock,
    with_slots,
)
from rota.engine.membership.shutdown import (
    ShortLockStore,
    StartupRetry,
    Stop,
)
from rota.engine.transactions.fire import Fired
from rota.engine.transactions.pause import pause_in_crash_loop
from rota.http.server import Flags
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import RotaError, StateError, StoreNotShared
from rota.operations.project.apply import adopt_tzdata
from rota.operations.project.load import Loaded
from rota.operations.project.locate import ProjectPaths, open_place
from rota.operations.status.attention import MOVED, moved_to
from rota.operations.status.feed import QueueWatch, SchedulerObserver, ended_with
from rota.operations.views import pauses
from rota.operations.workers import SHARED_HINT
from rota.serve.file_watch import ServedFile
from rota.serve.host import ServingHost
from rota.settings import Settings
from rota.store.driver import OpenStore, Store
from rota.store.tables import processes
from rota.store.tables.processes import Ending

if TYPE_CHECKING:
    from rota.http.server import HttpServerThread

Kind = Literal["serve", "worker"]

LOOK_AT_FILES = timedelta(seconds=2)
UPGRADE_HINT = "to downgrade: stop rota, replace rota.db with the copy, install the previous version"
DRAIN_HINT = "fix the cause, then run `rota workers resume NAME`; other workers continue"
LOST_HINT = "the machine slept, was suspended, or lost its connection to the database"
RESUME_HINT = "fix the cause, then run `rota resume --all`"
SWITCHED_OFF = "scheduler disabled by `scheduler.enabled: false`: no job fires, no run starts"


class Daemon(ServingHost):
    """One serving scheduler."""

    _successor = "the next `rota serve`"
    _while_running = "while rota served it"
    _lease_hint: ClassVar[Mapping[str, str]] = {"hint": LOST_HINT}

    def __init__(
        self,
        place: ProjectPaths,
        clock: Clock,
        *,
        environ: Mapping[str, str],
        observer: SchedulerObserver | None = None,
        http: Flags | None = None,
        kind: Kind = "serve",
        entrance: Entrance = UNNAMED,
    ) -> None:
        super().__init__(place.state, clock, kind=kind, table=FunctionTable(), who="rota")
        self._entrance = entrance
        self._place = place
        self._environ = environ
        self._observer = observer
        self._flags = http
        self._http: HttpServerThread | None = None
        self._file = ServedFile(
            place,
            clock,
            environ=environ,
            table=self._table,
            applied=self._take_plan,
            broken=self._take_broken,
            applies=kind == "serve",
        )
        self._unapplied: Loaded | None = None

    async def run(self) -> None:
        """Serve until asked to stop."""
        store = open_place(self._place, self._clock, create=True)
        try:
            self._refuse_alone(store)
            store.read(lambda db: db.row("probe_indexes"))
            if store.copied_to is not None:
                log.warning("database upgraded", copy=str(store.copied_to), hint=UPGRADE_HINT)
            self._tell_if_moved(store)
            lock = await take_serving_lock(self._state, self._clock)
            try:
                await self._load(store)
                with self._signals({signal.SIGHUP: self._look_again}):
                    await self._serve()
            finally:
                self._close_http()
                lock.release()
        finally:
            store.close()

    async def _load(self, store: OpenStore) -> None:
        loaded = await self._file.first_load(store)
        settings = loaded.declared.settings if loaded else Settings(self._place.folder, self._state)
        settings = with_slots(settings, self._entrance.slots)
        self._bind_http(store, settings)
        self._store, self._settings, self._unapplied = store, settings, loaded

    async def _register(self) -> None:
        scheduler = self._settings.scheduler
        entrance = replace(self._entrance, slots=scheduler.concurrency if scheduler.enabled else 0)
        await self._enter(entrance, environ=self._environ)
        self._queue = QueueWatch(self._store)

    async def _prepare(self, patience: StartupRetry) -> int:
        await patience.do(self._queue.begin)
        return await super()._prepare(patience)

    async def _apply(self, patience: StartupRetry) -> None:
        await patience.do(self._guard)
        if self._unapplied is not None:
            await self._file.first_apply(self._store, self._unapplied)
            self._unapplied = None

    def _refuse_alone(self, store: Store) -> None:
        if (self._kind == "worker" or not self._entrance.takes.everything) and not store.read(processes.is_shared):
            what = "a worker runs jobs for" if self._kind == "worker" else "runs are left to other workers of"
            raise StoreNotShared(f"{what} a database that machines share; this one is SQLite's", hint=SHARED_HINT)

    def _tell_if_moved(self, store: Store) -> None:
        moved = store.read(moved_to)
        if moved is not None:
            log.warning("serving a database that was migrated elsewhere", to=moved, hint=MOVED)

    def _bind_http(self, store: Store, settings: Settings) -> None:
        """Take the port of HTTP; what forbids it is told before anything else is done."""
        if self._flags is None:
            return
        from rota.http.server import HttpServerThread

        self._http = HttpServerThread(
            store,
            self._clock,
            folder=self._place.folder,
            state=self._state,
            wanted=self._flags.over(settings.http),
            environ=self._environ,
            settings=settings,
        )

    def _close_http(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    async def _guard(self) -> None:
        """Note what changed under us: new zone data is adopted; too many crashes in a row start us paused (R-23)."""
        now, store = self._clock.now(), ShortLockStore(self._store)
        await store.submit(partial(adopt_tzdata, tzdata=tzdata_version(), now=now))
        lost = 0
        if self._settings.scheduler.crash_guard:
            worker_id = self._session.holder.worker_id
            lost = await store.submit(partial(pause_in_crash_loop, worker_id=worker_id, now=now))
        if lost and self._session.leased:
            log.error("crash loop: worker started drained", crashes=lost, hint=DRAIN_HINT)
        elif lost:
            log.error("crash loop: scheduler started paused", crashes=lost, hint=RESUME_HINT)
        elif self._session.leased:
            self._tell_if_drained(store)

    def _tell_if_drained(self, store: Store) -> None:
        worker = store.read(partial(processes.worker_by_id, worker_id=self._session.holder.worker_id))
        if worker is not None and worker.draining:
            hint = f"resume it with `rota workers resume {worker.called}`"
            log.warning("worker is drained and claims no runs", hint=hint)

    async def _schedule(self, recovered: int) -> Ending:
        with self._damage_check():
            async with self._store.listening(self._wake):
                if not self._settings.scheduler.enabled:
                    log.warning(SWITCHED_OFF)
                return await self._until_stopped(recovered)

    def _announce(self, recovered: int) -> None:
        if self._observer:
            try:
                going_on = frozenset(self._engine.executor.carried)
                self._observer.serving(self._settings, recovered=recovered, going_on=going_on)
            except StateError as error:  # the database went just now: a console that cannot read ends nobody
                log.warning("could not display the startup", error=str(error))
        if self._http is not None:
            self._http.start()
            if self._observer:
                self._observer.listening(self._http.url)
        collect_rarely()

    def _announce_stop(self, stop: Stop) -> None:
        if self._observer:
            self._observer.stopping(stop, running=len(self._engine.executor.carried))

    # the file

    async def _watch_round(self) -> datetime | None:
        """Look whether the file changed or the state folder is gone; a stat costs less than a watcher."""
        if self._state_lost():
            return None
        await self._take_over()
        await self._file.look(self._store, self._settings)
        with contextlib.suppress(StateError):  # it is looked for again
            await self._observe_queue()
        return self._clock.now() + LOOK_AT_FILES

    def _look_again(self) -> None:
        self._file.forget()
        self._watch.wake()

    def _take_plan(self, plan: Plan) -> None:
        if self._observer:
            self._observer.applied(plan)
        self._engine.wake()

    def _take_broken(self, error: RotaError) -> None:
        if self._observer:
            self._observer.broken(error)

    # talking

    def _wake(self) -> None:
        self._queue.stir()
        self._engine.wake()

    def _answer_further(self, asked: str) -> Mapping[str, Any]:
        if asked == "pauses":
            self._observe_pauses()
            return {}
        if asked == "reload":
            self._look_again()
            return {}
        if asked == "login":
            return {"url": self._http.login() if self._http is not None else None}
        if asked == "token":
            return self._renew_token()
        raise KeyError(f"unknown question {asked!r}")

    def _renew_token(self) -> Mapping[str, Any]:
        if self._http is not None:
            self._http.renew()
        return {}

    def status(self) -> Mapping[str, Any]:
        """Return how the scheduler is, told by its own loop."""
        told = self._describe(self._watch, *((self._leases.loop,) if self._leases is not None else ()))
        gone = self._store.problem
        return {
            **told,
            "file_problem": self._file.problem,
            "kind": self._kind,
            "http": self._http.url if self._http is not None else None,
            "storage_problem": gone or told["storage_problem"],
            "gone": gone is not None,
        }

    def _observe_pauses(self) -> None:
        if self._observer:
            self._observer.paused(pauses(self._store))

    def _take_fired(self, fired: Fired) -> None:
        self._queue.stir()  # it may have replaced others
        if self._observer:
            self._observer.fired(fired)

    def _take_finished(self, run_id: str) -> None:
        if self._observer:
            for run in ended_with(self._store, run_id):
                if run.group_id is not None:
                    self._queue.stir()  # it may have taken others along
                if self._queue.tells(run):
                    self._observer.finished(run)

    async def _observe_queue(self) -> None:
        """Tell of runs that ended in no slot: cancelled before they began, or of a group."""
        if self._observer:
            for run in await asyncio.to_thread(self._queue.look):
                self._observer.finished(run)
