"""`rota serve` and `rota worker`: the lifecycle with file, signals, console and HTTP."""

import asyncio
import contextlib
import signal
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from msgspec.structs import replace

from rota.engine.functions import FunctionTable
from rota.engine.membership.control import collect_rarely
from rota.engine.membership.session import UNNAMED, Entrance, take_serving_lock, with_slots
from rota.engine.transactions.fire import Fired
from rota.engine.transactions.pause import pause_in_crash_loop
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import StateError, StoreNotShared
from rota.model.telemetry import wanted_signals
from rota.operations.activity import Pauses, pauses
from rota.operations.project.locate import ProjectPaths, open_place
from rota.operations.status.attention import MOVED, moved_to
from rota.operations.status.feed import QueueWatch, ended_with
from rota.operations.workers import SHARED_HINT
from rota.serve.file_watch import ServedFile
from rota.serve.host import ProcessObserver, ServingHost
from rota.settings import TAKEOVER_NAME, Settings
from rota.store.driver import OpenStore
from rota.store.tables import processes

if TYPE_CHECKING:
    from rota.http.server import Flags, HttpServerThread

Kind = Literal["serve", "worker"]

CRONTAB_EVERY = timedelta(minutes=1)
DRAIN_HINT = "fix the cause, then run `rota workers resume NAME`; other workers continue"
LOST_HINT = "the machine slept, was suspended, or lost its connection to the database"
RESUME_HINT = "fix the cause, then run `rota resume --all`"


class SchedulerObserver(ProcessObserver, Protocol):
    """A display of the events of a daemon."""

    def serving(self, settings: Settings, *, recovered: int, going_on: Collection[str] = ()) -> None:
        """The scheduler serves; it recovered so many runs of an earlier process, and `going_on` still run."""

    def paused(self, found: Pauses) -> None:
        """Pauses began, changed or ended."""

    def listening(self, url: str) -> None:
        """HTTP is served at this address."""


class Daemon(ServingHost):
    """One serving scheduler."""

    _successor = "the next `rota serve`"
    _while_running = "while rota served it"
    _lease_hint: ClassVar[Mapping[str, str]] = {"hint": LOST_HINT}
    _observer: SchedulerObserver | None

    def __init__(
        self,
        place: ProjectPaths,
        clock: Clock,
        *,
        environ: Mapping[str, str],
        observer: SchedulerObserver | None = None,
        http: "Flags | None" = None,
        kind: Kind = "serve",
        entrance: Entrance = UNNAMED,
    ) -> None:
        super().__init__(place.state, clock, kind=kind, table=FunctionTable(), observer=observer)
        self._entrance = entrance
        self._place = place
        self._environ = environ
        self._flags = http
        self._http: HttpServerThread | None = None
        self._crontab_problem: str | None = None
        self._crontab_read_at: datetime | None = None
        applies = kind == "serve"
        self._file = ServedFile(place, clock, environ=environ, table=self._table, observer=observer, applies=applies)

    async def run(self) -> None:
        """Serve until asked to stop."""
        with self._open(open_place(self._place, self._clock, create=True)) as store, contextlib.ExitStack() as stack:
            if (self._kind == "worker" or not self._entrance.takes.everything) and not store.read(processes.is_shared):
                what = "a worker runs jobs for" if self._kind == "worker" else "runs go to other workers of"
                raise StoreNotShared(f"{what} a database that machines share; this one is SQLite's", hint=SHARED_HINT)
            if (moved := store.read(moved_to)) is not None:
                log.warning("serving a database that was migrated elsewhere", to=moved, hint=MOVED)
            stack.callback((await take_serving_lock(self._state, self._clock)).release)
            self._settings = with_slots(await self._file.first_load(store), self._entrance.slots)
            self._http = self._bind_http(store)
            if self._http is not None:
                stack.callback(self._http.close)
            if wanted_signals(self._environ):
                from rota.serve.telemetry import Telemetry

                telemetry = Telemetry(store, self._clock, self._state, self._environ)
                telemetry.start()
                stack.callback(telemetry.close)
            with self._signals({signal.SIGHUP: self._look_again}):
                await self._serve()

    def _bind_http(self, store: OpenStore) -> "HttpServerThread | None":
        """Bind the port of HTTP before the scheduler enters; serve it later."""
        if self._flags is None:
            return None
        from rota.http.server import HttpServerThread

        return HttpServerThread(
            store,
            self._clock,
            folder=self._place.folder,
            state=self._state,
            wanted=self._flags.over(self._settings.http),
            environ=self._environ,
            settings=self._settings,
        )

    async def _register(self) -> None:
        scheduler = self._settings.scheduler
        entrance = replace(self._entrance, slots=scheduler.concurrency if scheduler.enabled else 0)
        await self._enter(entrance, environ=self._environ)
        self._queue = QueueWatch(self._store)

    async def _prepare(self) -> int:
        await self._attempt(self._queue.begin)
        return await super()._prepare()

    async def _apply(self) -> None:
        await self._attempt(self._guard)
        await self._file.first_apply(self._store)

    async def _guard(self) -> None:
        """Start paused, or drained, after too many crashes in a row."""
        lost, store, worker_id = 0, self._brief_store, self._session.holder.worker_id
        if self._settings.scheduler.crash_guard:
            lost = await store.submit(partial(pause_in_crash_loop, worker_id=worker_id, now=self._clock.now()))
        if lost and self._session.leased:
            log.error("crash loop: worker started drained", crashes=lost, hint=DRAIN_HINT)
        elif lost:
            log.error("crash loop: scheduler started paused", crashes=lost, hint=RESUME_HINT)
        elif self._session.leased:
            worker = store.read(partial(processes.worker_by_id, worker_id=worker_id))
            if worker is not None and worker.draining:
                hint = f"resume it with `rota workers resume {worker.called}`"
                log.warning("worker is drained and claims no runs", hint=hint)

    def _announce(self, recovered: int) -> None:
        if self._observer:
            try:
                going_on = frozenset(self._engine.executor.carried)
                self._observer.serving(self._settings, recovered=recovered, going_on=going_on)
            except StateError as error:  # a console that cannot read the database must not end the scheduler
                log.warning("could not display the startup", error=str(error))
        if self._http is not None:
            self._http.start()
            if self._observer:
                self._observer.listening(self._http.url)
        collect_rarely()

    async def _watch_further(self) -> None:
        """Check also whether the file changed; a stat costs less than a watcher."""
        await super()._watch_further()
        if await self._file.look(self._store, self._settings):
            self._engine.wake()
        await self._watch_crontab()
        # Show the runs that ended in no slot: cancelled in the queue, or ended with their group.
        if self._observer and self._queue.stirred:
            with contextlib.suppress(StateError):  # the next round retries
                for run in await asyncio.to_thread(self._queue.look):
                    self._observer.finished(run)

    async def _watch_crontab(self) -> None:
        """Check each minute whether lines that a takeover gave to rota are active in the crontab again."""
        now, read_at = self._clock.now(), self._crontab_read_at
        if read_at is not None and timedelta() <= now - read_at < CRONTAB_EVERY:
            return
        self._crontab_read_at = now
        if (self._state / TAKEOVER_NAME).exists():
            from rota.operations.project.takeover import crontab_problem

            self._crontab_problem = await asyncio.to_thread(crontab_problem, self._state, self._environ)

    def _look_again(self) -> None:
        self._file.forget()
        self._crontab_read_at = None
        self._watch.wake()

    def _wake(self) -> None:
        self._queue.stir()
        self._engine.wake()

    def _answer_further(self, asked: str) -> Mapping[str, Any]:
        if asked == "login":
            return {"url": self._http.login() if self._http is not None else None}
        if asked == "pauses":
            if self._observer:
                self._observer.paused(pauses(self._store))
        elif asked == "reload":
            self._look_again()
        elif asked == "token":
            if self._http is not None:
                self._http.renew()
        else:
            raise KeyError(f"unknown request {asked!r}")
        return {}

    def status(self) -> Mapping[str, Any]:
        """Return the answer to `rota status`."""
        http = self._http.url if self._http is not None else None
        own = {"file_problem": self._file.problem, "crontab_problem": self._crontab_problem, "http": http}
        return {**super().status(), **own}

    def _take_fired(self, fired: Fired) -> None:
        self._queue.stir()  # it may have replaced others
        super()._take_fired(fired)

    def _take_finished(self, run_ids: Sequence[str]) -> None:
        if self._observer:
            for run in ended_with(self._store, run_ids):
                if run.group_id is not None:
                    self._queue.stir()  # other runs may have ended with it
                if self._queue.tells(run):
                    self._observer.finished(run)
