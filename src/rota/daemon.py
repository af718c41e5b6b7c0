"""The composition root of `rota serve`: opens the store, recovers, applies the file, runs the loops, stops in order."""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

from rota import faults
from rota.declare.plan import Plan
from rota.engine.clock import make_alarm, tzdata_version
from rota.engine.engine import Engine
from rota.engine.fire import Fired
from rota.engine.functions import FunctionTable, InProcessFunctions
from rota.engine.lock import take_serve_lock
from rota.engine.loop import Loop
from rota.engine.pause import pause_in_crash_loop
from rota.engine.processes import KeeperProcesses
from rota.engine.record import Finished
from rota.engine.recover import recover
from rota.engine.session import Session, close_session, open_session, sweep_locks
from rota.engine.stopping import Stop, StopMode, Stopping
from rota.engine.wake import WakeSocket
from rota.log import log
from rota.model.clock import Clock, iso
from rota.model.errors import RotaError, StateError, StorageFull
from rota.model.records import Run
from rota.operations.pausing import Pauses, pauses
from rota.operations.project import Place, open_state
from rota.operations.served_file import ServedFile
from rota.operations.zones import adopt_tzdata
from rota.runners.processes import identity
from rota.settings import Settings
from rota.store import groups, runs
from rota.store.copying import quick_check
from rota.store.driver import Store

Ending = Literal["clean", "detached"]

LOOK_AT_FILES = timedelta(seconds=2)
UPGRADE_HINT = "to go back, stop rota, put the copy in the place of rota.db and install the rota that made it"
DAMAGE_HINT = "work goes on as far as it can; stop rota and put back a backup with `rota restore`"
RESUME_HINT = "find the cause, then `rota resume --all`"


class Observer(Protocol):
    """Who watches a serving scheduler, such as its console."""

    def serving(self, settings: Settings, *, recovered: int) -> None:
        """The scheduler is up."""
        ...

    def applied(self, plan: Plan) -> None:
        """The file was applied."""
        ...

    def broken(self, error: RotaError) -> None:
        """The file cannot be applied; the last good set goes on."""
        ...

    def paused(self, found: Pauses) -> None:
        """Pauses began, changed or ended."""
        ...

    def fired(self, fired: Fired) -> None:
        """Instants of a job were accounted for."""
        ...

    def finished(self, run: Run) -> None:
        """A run ended, or went back to wait."""
        ...

    def stopping(self, stop: Stop, *, running: int) -> None:
        """The scheduler was asked to stop."""
        ...


class Daemon:
    """One serving scheduler."""

    def __init__(
        self, place: Place, clock: Clock, *, environ: Mapping[str, str], observer: Observer | None = None
    ) -> None:
        self._place = place
        self._clock = clock
        self._environ = environ
        self._observer = observer
        self._stopping = Stopping()
        self._table = FunctionTable()
        self._file = ServedFile(
            place, clock, environ=environ, table=self._table, applied=self._take_plan, broken=self._take_broken
        )
        self._lost_state = False
        self._database: tuple[int, int] | None = None
        self._damage: str | None = None
        self._started_at = clock.now()
        self._watch = Loop("watch", self._watch_round, clock=clock)

    async def run(self) -> None:
        """Serve until asked to stop."""
        store = open_state(self._place.state, self._clock, create=True)
        self._database = _file_identity(self._place.state / "rota.db")
        try:
            store.read(lambda db: db.row("probe_indexes"))
            if store.copied_to is not None:
                log.warning("the database was upgraded", copy=str(store.copied_to), hint=UPGRADE_HINT)
            lock = take_serve_lock(self._place.state)
            try:
                await self._serve(store)
            finally:
                lock.release()
        finally:
            store.close()

    async def _serve(self, store: Store) -> None:
        loaded = await self._file.first_load(store)
        settings = loaded.declared.settings if loaded else Settings(self._place.folder, self._place.state)
        me = identity(os.getpid())
        session = open_session(store, self._place.state, self._clock, kind="serve", identity=me)
        sweep_locks(self._place.state)
        self._store, self._settings, self._session = store, settings, session
        self._processes = KeeperProcesses(self._clock, settings, self._environ)
        self._functions = InProcessFunctions(
            self._clock,
            settings,
            self._table,
            ended=self._take_outcomes,
            released=self._take_released,
        )
        self._engine = Engine(
            store,
            self._clock,
            settings=settings,
            holder=session.holder,
            processes=self._processes,
            functions=self._functions,
            on_fired=self._observe_fired,
            on_finished=self._observe_finished,
        )
        socket = WakeSocket(self._place.state, wake=self._wake, answer=self._answer)
        ending: Ending = "clean"
        try:
            with self._signals():  # from the first answer on: whoever sees us serve may ask us to stop
                with self._engine.slots.shut():  # a run that ends meanwhile must not start another one too early
                    recovered = await self._recover()
                    await self._guard()
                    if loaded is not None:
                        await self._file.first_apply(store, loaded)
                with self._looking_for_damage():
                    ending = await self._until_stopped(recovered)
        finally:
            socket.close()
            self._functions.close()
            self._processes.close()
            if not self._lost_state:
                self._close_session(store, session, ending)
        if self._stopping.unstored:
            problem = self._engine.storage_problem
            raise StorageFull(
                f"{self._stopping.unstored} results could not be stored in {self._place.state}: {problem}",
                hint="free some space and start `rota serve` again: it records how commands ended from what they left",
            )
        if self._lost_state:
            raise StateError(
                f"the state folder {self._place.state} vanished or was replaced while rota served it",
                hint="nothing more was started; put it back, or start `rota serve` again with an empty one",
            )

    def _close_session(self, store: Store, session: Session, ending: Ending) -> None:
        try:
            close_session(store, session, self._clock, ending=ending)
        except StateError as error:
            log.error("the stop could not be stored; the next start sees an unclean one", error=str(error))

    @contextlib.contextmanager
    def _looking_for_damage(self) -> Any:
        """After an unclean stop, read the whole database for damage beside the work; it is told, nothing is changed."""
        if not self._session.unclean:
            yield
            return
        stop = threading.Event()
        looking = asyncio.create_task(self._look_for_damage(stop), name="rota-check")
        try:
            yield
        finally:
            stop.set()
            looking.cancel()

    async def _look_for_damage(self, stop: threading.Event) -> None:
        try:
            found = await asyncio.to_thread(quick_check, self._place.state / "rota.db", stop=stop)
        except RotaError as error:
            found = (str(error),)
        if found:
            self._damage = f"{self._place.state / 'rota.db'} is damaged: {found[0]}; put back a backup"
            log.error("the database is damaged", path=str(self._place.state / "rota.db"), found=found, hint=DAMAGE_HINT)
        else:
            log.debug("the database is whole")

    def _take_outcomes(self, finished: list[Finished]) -> None:
        self._engine.all_ended(finished)

    def _take_released(self, run_id: str) -> None:
        self._engine.released(run_id)

    async def _recover(self) -> int:
        """Record what happened to the runs of dead processes, before the first fire (R-23)."""
        return await recover(
            self._store,
            self._clock,
            holder=self._session.holder,
            dead=self._session.dead,
            children=self._processes,
            executor=self._engine.executor,
            slots=self._engine.slots,
        )

    async def _guard(self) -> None:
        """Note what changed under us: new zone data is adopted; too many crashes in a row start us paused (R-23)."""
        now = self._clock.now()
        await self._store.submit(partial(adopt_tzdata, tzdata=tzdata_version(), now=now))
        if self._settings.scheduler.crash_guard:
            lost = await self._store.submit(partial(pause_in_crash_loop, now=now))
            if lost:
                log.error("started paused: the scheduler crashed again and again", crashes=lost, hint=RESUME_HINT)

    async def _until_stopped(self, recovered: int) -> Ending:
        alarm = partial(make_alarm, self._clock)
        if self._settings.scheduler.enabled:
            self._engine.start(alarm)
        else:
            log.warning("the scheduler is switched off by `scheduler.enabled: false`; nothing is fired or started")
        watching = asyncio.create_task(self._watch.run(alarm), name="rota-watch")
        if self._observer:
            self._observer.serving(self._settings, recovered=recovered)
        try:
            stop = await self._stopping.asked()
            return await self._stop_in_order(stop)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await self._engine.end()

    # stopping

    @contextlib.contextmanager
    def _signals(self) -> Any:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        loop.add_signal_handler(signal.SIGHUP, self._look_again)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.remove_signal_handler(number)

    def _signalled(self) -> None:
        self._stopping.ask(Stop("grace", self._settings.scheduler.shutdown_grace))

    async def _stop_in_order(self, stop: Stop) -> Ending:
        engine = self._engine
        engine.quiesce()
        faults.point("shutdown.quiesced")
        if self._lost_state:
            stop = Stop("now", timedelta())
        if self._observer:
            self._observer.stopping(stop, running=len(engine.executor.carried))
        return "detached" if await self._stopping.carry_out(stop, engine) else "clean"

    # the file

    async def _watch_round(self) -> datetime | None:
        """Look whether the file changed or the state folder is gone; a stat costs less than a watcher."""
        if _file_identity(self._place.state / "rota.db") != self._database:
            self._lost_state = True
            self._stopping.ask(Stop("now", timedelta()))
            return None
        await self._file.look(self._store, self._settings)
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
        self._engine.wake()

    def _answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        asked = question["ask"]
        if asked == "status":
            return self.status()
        if asked == "stop":
            self._stopping.ask(self._wanted_stop(question["mode"], question.get("within")))
            return self._carries()
        if asked == "pauses":
            self._observe_pauses()
            return {}
        if asked == "reload":
            self._look_again()
            return {}
        raise KeyError(f"unknown question {asked!r}")

    def _carries(self) -> Mapping[str, int]:
        carried = self._engine.executor.carried.values()
        calls = sum(one.direct for one in carried)
        return {"running": len(carried) - calls, "direct": calls}

    def _wanted_stop(self, mode: StopMode, within: float | None) -> Stop:
        """Return the stop that a command asked for; grace and detach use the server's own `shutdown_grace`."""
        if within is None and mode in ("grace", "detach"):
            return Stop(mode, self._settings.scheduler.shutdown_grace)
        return Stop(mode, None if within is None else timedelta(seconds=within))

    def status(self) -> Mapping[str, Any]:
        """Return how the scheduler is, told by its own loop."""
        loops = (*self._engine.loops, self._watch)
        return {
            "pid": os.getpid(),
            "started_at": iso(self._started_at),
            "now": iso(self._clock.now()),
            "enabled": self._settings.scheduler.enabled,
            "concurrency": self._settings.scheduler.concurrency,
            "slots_taken": self._engine.slots.taken,
            "carries": self._carries(),
            "file_problem": self._file.problem,
            "storage_problem": self._engine.storage_problem,
            "damage": self._damage,
            "loops": [
                {
                    "name": loop.name,
                    "rounds": loop.pulse.rounds,
                    "last_at": iso(loop.pulse.last_at) if loop.pulse.last_at else None,
                    "error": loop.pulse.error,
                }
                for loop in loops
            ],
        }

    def _observe_pauses(self) -> None:
        if self._observer:
            self._observer.paused(pauses(self._store))

    def _observe_fired(self, fired: Fired) -> None:
        if self._observer:
            self._observer.fired(fired)

    def _observe_finished(self, run_id: str) -> None:
        if self._observer:
            run = self._store.read(partial(runs.run_by_id, run_id=run_id))
            if run is not None:
                self._observer.finished(run)
                self._observe_group(run)

    def _observe_group(self, run: Run) -> None:
        """Tell of a group that ended with this member."""
        if self._observer is None or run.group_id is None:
            return
        group = self._store.read(partial(groups.group_by_id, group_id=run.group_id))
        if group is None or group.run_id is None or group.finished_at != run.finished_at:
            return
        whole = self._store.read(partial(runs.run_by_id, run_id=group.run_id))
        if whole is not None and whole.status.final:
            self._observer.finished(whole)


def _file_identity(path: Path) -> tuple[int, int] | None:
    """Return which file a name leads to, None for none: another one in its place is not the one that is served."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return (found.st_dev, found.st_ino)
