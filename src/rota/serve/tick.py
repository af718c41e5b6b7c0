"""The composition root of `rota tick`: one look at what is due, what that starts carried to its end (R-24)."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, Protocol

from rota import faults
from rota.declare.plan import Plan
from rota.engine.activity import KIND, note_look
from rota.engine.clock import make_alarm, tzdata_version
from rota.engine.functions import FunctionTable
from rota.engine.loops.in_flight import InFlightRun, handle_of
from rota.engine.loops.loop import Loop
from rota.engine.membership.locks import SERVE_LOCK, TICK_LOCK, holder_pid, serving_pid
from rota.engine.membership.session import Entrance, take_turn
from rota.engine.membership.shutdown import Stop
from rota.engine.scheduler import run_once
from rota.engine.transactions.fire import Fired
from rota.engine.transactions.pause import next_release
from rota.log import log
from rota.model.clock import EPOCH, Clock
from rota.model.errors import RotaError, StateError
from rota.model.records import Run
from rota.operations.project.apply import adopt_tzdata
from rota.operations.project.load import Loaded
from rota.operations.project.locate import ProjectPaths, open_place
from rota.operations.status.feed import ended_with
from rota.serve.file_watch import ServedFile
from rota.serve.host import Host
from rota.settings import Settings
from rota.store.driver import Database, OpenStore
from rota.store.sqlite.store import is_held
from rota.store.tables import jobs, queue, runs

PATIENCE = timedelta(seconds=10)
"""How long a tick waits for another one that looks at the same moment."""
LOOK_AGAIN = timedelta(seconds=1)
"""How often a tick that carries runs looks for wishes: nothing wakes it."""
COUNTED = 10_000

LeftTo = Literal["serve", "tick"]


@dataclass(slots=True)
class TickReport:
    """What a tick did. `left_to`: it did nothing, since a serving process or another tick is at it, `pid`.

    `carried` is what it still carried when its look was over, `ready` what it found no slot for, `next_at` when
    something is due again.
    """

    left_to: LeftTo | None = None
    pid: int | None = None
    enabled: bool = True
    recovered: int = 0
    fired: list[Fired] = field(default_factory=list)
    finished: list[Run] = field(default_factory=list)
    carried: tuple[str, ...] = ()
    ready: int = 0
    next_at: datetime | None = None
    problems: list[str] = field(default_factory=list)
    file_problem: str | None = None


class TickObserver(Protocol):
    """Who watches a tick, such as its console."""

    def begun(self, settings: Settings) -> None:
        """The tick has its turn and begins to look."""
        ...

    def applied(self, plan: Plan) -> None:
        """The file was applied."""
        ...

    def broken(self, error: RotaError) -> None:
        """The file cannot be applied; the last good set goes on."""
        ...

    def fired(self, fired: Fired) -> None:
        """Instants of a job were accounted for."""
        ...

    def finished(self, run: Run) -> None:
        """A run ended, or went back to wait."""
        ...

    def looked(self, report: TickReport) -> None:
        """The look is over: what is carried goes on, other ticks may look."""
        ...

    def stopping(self, stop: Stop, *, running: int) -> None:
        """The tick was asked to stop."""
        ...


class Tick(Host):
    """One tick. All ticks of a project are one worker with one set of slots; each is a process with its own epoch."""

    _stays = False
    _successor = "the next tick"
    _while_running = "while a tick carried runs"
    _unstored_end = "could not record the end of this tick; the next one will run crash recovery"

    def __init__(
        self,
        place: ProjectPaths,
        clock: Clock,
        *,
        environ: Mapping[str, str],
        observer: TickObserver | None = None,
        patience: timedelta = PATIENCE,
    ) -> None:
        super().__init__(place.state, clock, kind=KIND, table=FunctionTable())
        self._place = place
        self._environ = environ
        self._observer = observer
        self._patience = patience
        self._report = TickReport()
        self._file = ServedFile(
            place, clock, environ=environ, table=self._table, applied=self._take_plan, broken=self._take_broken
        )
        self._looked_at: datetime | None = None
        self._watch = Loop("watch", self._watch_round, clock=clock)

    async def run(self) -> TickReport:
        """Do what is due, carry what that starts to its end, and return what was done."""
        state = self._state
        store = open_place(self._place, self._clock, create=True)
        try:
            store.read(lambda db: db.row("probe_indexes"))
            if store.copied_to is not None:
                log.warning("database upgraded", copy=str(store.copied_to))
            turn = await take_turn(state, self._clock, within=self._patience)
            if turn is None:
                return TickReport(left_to="tick", pid=holder_pid(state / TICK_LOCK))
            with contextlib.ExitStack() as turn_over:
                turn_over.callback(turn.release)
                if is_held(state / SERVE_LOCK):
                    return TickReport(left_to="serve", pid=serving_pid(state))
                await self._work(store, turn_over)
        finally:
            store.close()
        return self._report

    async def _work(self, store: OpenStore, turn_over: contextlib.ExitStack) -> None:
        loaded = await self._file.first_load(store)
        settings = loaded.declared.settings if loaded else Settings(self._place.folder, self._state)
        self._store, self._settings = store, settings
        await self._enter(Entrance(slots=settings.scheduler.concurrency), environ=self._environ)
        if self._observer:
            self._observer.begun(settings)
        try:
            with self._signals(), self._lease():
                await self._look(loaded)
                turn_over.close()  # the lock covers fire and claim, not execution
                faults.point("tick.looked")
                await self._carry()
        finally:
            self._leave()
        self._refuse_losses()

    # the look

    async def _look(self, loaded: Loaded | None) -> None:
        """Recover, apply the file, and give every duty its round; claim what has come until the end of it."""
        engine, report = self._engine, self._report
        with engine.slots.shut():
            report.recovered = await self._runtime.recover(self._session.dead)
            await self._runtime.sweep_strays()
            await self._store.submit(partial(adopt_tzdata, tzdata=tzdata_version(), now=self._clock.now()))
            if loaded is not None:
                await self._file.first_apply(self._store, loaded)
            if self._settings.scheduler.enabled:
                await self._runtime.fire_at_boot()
        engine.claimer.allowed = report.enabled = self._settings.scheduler.enabled
        looked_at = await run_once(engine, self._clock)
        self._sum_up()
        if not report.problems:  # else what was not seen is still to be seen
            self._looked_at = looked_at
            if not engine.executor.idle:
                await self._note_look(looked_at)
        if self._observer:
            self._observer.looked(report)

    async def _note_look(self, looked_at: datetime) -> None:
        try:
            await self._store.submit(partial(note_look, slots=self._settings.scheduler.concurrency, now=looked_at))
        except StateError as error:
            log.error("could not record this tick", error=str(error))

    def _sum_up(self) -> None:
        report, engine = self._report, self._engine
        report.carried = self._store.read(partial(_handles, carried=list(engine.executor.carried.values())))
        report.problems += [f"{loop.name}: {loop.pulse.error}" for loop in engine.loops if loop.pulse.error]
        if (wrong := engine.wrong_clock) is not None:
            report.problems.append(f"{wrong.stage}: {wrong.error}")
        report.file_problem = self._file.problem
        report.ready, report.next_at = self._store.read(_coming)

    # what was started

    async def _carry(self) -> None:
        """Stay until everything that this tick started or adopted has ended and is recorded, or a stop is asked for."""
        engine = self._engine
        watching = asyncio.create_task(self._watch.run(partial(make_alarm, self._clock)), name="rota-watch")
        empty = asyncio.create_task(engine.until_empty(), name="rota-empty")
        asked = asyncio.create_task(self._stopping.asked(), name="rota-stop")
        try:
            await engine.prune_loop.turn()
            await asyncio.wait([empty, asked], return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                await self._stop(asked.result())
            else:
                await engine.workspace_loop.turn()
        finally:
            for task in (watching, empty, asked):
                task.cancel()
            await asyncio.gather(watching, empty, asked, return_exceptions=True)
            await engine.end()

    async def _watch_round(self) -> datetime | None:
        """Look for wishes to cancel and for callers who left; leave further claims to a serving process."""
        if self._state_lost():
            return None
        if is_held(self._state / SERVE_LOCK):
            self._engine.claimer.until = EPOCH
        await self._engine.cancel_loop.turn()
        await self._engine.direct_loop.turn()
        return self._clock.now() + LOOK_AGAIN

    # stopping

    def _announce_stop(self, stop: Stop) -> None:
        if self._observer:
            self._observer.stopping(stop, running=len(self._engine.executor.carried))

    def _last_words(self, db: Database) -> None:
        """Store the look of a tick that carried nothing, and leave its epoch to the next."""
        if self._engine.executor.idle and self._looked_at is not None:
            holder = self._session.holder
            unused = {holder.worker_id: holder.epoch}
            note_look(db, slots=self._settings.scheduler.concurrency, now=self._looked_at, unused=unused)

    def _refuse_losses(self) -> None:
        super()._refuse_losses()
        if self._declared_lost:
            raise StateError(
                "other machines declared this tick lost: its lease was over; what it ran was ended",
                hint="the machine slept, was stopped, or could not reach the database; the runs are retried elsewhere",
            )

    # telling

    def _take_plan(self, plan: Plan) -> None:
        if self._observer:
            self._observer.applied(plan)

    def _take_broken(self, error: RotaError) -> None:
        if self._observer:
            self._observer.broken(error)

    def _take_fired(self, fired: Fired) -> None:
        self._report.fired.append(fired)
        if self._observer:
            self._observer.fired(fired)

    def _take_finished(self, run_id: str) -> None:
        for run in ended_with(self._store, run_id):
            if run.status.final:
                self._report.finished.append(run)
            if self._observer:
                self._observer.finished(run)


def _handles(db: Database, *, carried: Sequence[InFlightRun]) -> tuple[str, ...]:
    """Return how people call what is carried; an adopted run is known by its row alone."""
    adopted = {one.run_id: runs.run_by_id(db, one.run_id) for one in carried if one.claimed is None}
    return tuple(run.handle if (run := adopted.get(one.run_id)) else handle_of(one) for one in carried)


def _coming(db: Database) -> tuple[int, datetime | None]:
    """Return how many runs are ready and have no slot, and when something is due again."""
    due = [at for at in (jobs.next_due(db), next_release(db)) if at is not None]
    return queue.count_ready(db, limit=COUNTED), min(due, default=None)
