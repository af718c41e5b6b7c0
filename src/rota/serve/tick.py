"""`rota tick`: fire and claim once, carry the started runs to their end."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, Protocol

from msgspec import Struct, field

from rota import faults
from rota.engine.activity import KIND, next_release, note_look
from rota.engine.functions import FunctionTable
from rota.engine.loops.in_flight import InFlightRun, handle_of
from rota.engine.membership.locks import SERVE_LOCK, TICK_LOCK, holder_pid, serving_pid
from rota.engine.membership.session import Entrance, take_turn
from rota.engine.scheduler import run_once
from rota.engine.transactions.fire import Fired
from rota.log import log
from rota.model.clock import EPOCH, Clock
from rota.model.errors import StateError
from rota.model.records import Run
from rota.operations.project.locate import ProjectPaths, open_place
from rota.operations.status.feed import ended_with
from rota.serve.file_watch import ServedFile
from rota.serve.host import Host, ProcessObserver
from rota.settings import Settings
from rota.store.driver import Database
from rota.store.sqlite.store import is_held
from rota.store.tables import jobs, queue, runs

PATIENCE = timedelta(seconds=10)
"""How long a tick waits for the lock of another tick."""
READY_COUNT_LIMIT = 10_000

LeftTo = Literal["serve", "tick"]


class TickReport(Struct):
    """The result of a tick. `left_to`: the tick did nothing, because a daemon or another tick, `pid`, schedules.

    `carried` are the runs that the tick started or adopted, `ready` counts those without a slot, `next_at` is the next
    due instant.
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


class TickObserver(ProcessObserver, Protocol):
    """A display of the events of a tick."""

    def begun(self, settings: Settings) -> None:
        """The tick has the lock and starts."""

    def looked(self, report: TickReport) -> None:
        """The tick has fired and claimed; its runs continue, and other ticks may start."""


class Tick(Host):
    """One tick. All ticks of a project are one worker with one set of slots; each is a process with its own epoch."""

    _stays = False
    _successor = "the next tick"
    _while_running = "while a tick carried runs"
    _unstored_end = "could not record the end of this tick; the next one will run crash recovery"
    _watch_interval = timedelta(seconds=1)
    _observer: TickObserver | None

    def __init__(
        self,
        place: ProjectPaths,
        clock: Clock,
        *,
        environ: Mapping[str, str],
        observer: TickObserver | None = None,
        patience: timedelta = PATIENCE,
    ) -> None:
        super().__init__(place.state, clock, kind=KIND, table=FunctionTable(), observer=observer)
        self._place = place
        self._environ = environ
        self._patience = patience
        self._report = TickReport()
        self._file = ServedFile(place, clock, environ=environ, table=self._table, observer=observer)
        self._looked_at: datetime | None = None

    async def run(self) -> TickReport:
        """Fire and claim what is due, carry the runs to their end, and return a report."""
        state = self._state
        with self._open(open_place(self._place, self._clock, create=True)) as store:
            turn = await take_turn(state, self._clock, within=self._patience)
            if turn is None:
                return TickReport(left_to="tick", pid=holder_pid(state / TICK_LOCK))
            with contextlib.ExitStack() as turn_over:
                turn_over.callback(turn.release)
                if is_held(state / SERVE_LOCK):
                    return TickReport(left_to="serve", pid=serving_pid(state))
                self._settings = await self._file.first_load(store)
                await self._work(turn_over)
        return self._report

    async def _work(self, turn_over: contextlib.ExitStack) -> None:
        await self._enter(Entrance(slots=self._settings.scheduler.concurrency), environ=self._environ)
        if self._observer:
            self._observer.begun(self._settings)
        try:
            with self._signals(), self._lease():
                await self._look()
                turn_over.close()  # the lock covers fire and claim, not execution
                faults.point("tick.looked")
                await self._carry()
        finally:
            self._leave()
        self._refuse_losses()

    # the look

    async def _look(self) -> None:
        """Recover, apply the file, run one round of every loop, and claim."""
        engine, report = self._engine, self._report
        with engine.slots.shut():
            report.recovered = await self._prepare()
        engine.claimer.allowed = report.enabled = self._settings.scheduler.enabled
        looked_at = await run_once(engine, self._clock)
        self._sum_up()
        if not report.problems:  # a failed round has to be repeated by the next tick
            self._looked_at = looked_at
            if not engine.executor.idle:
                try:
                    slots = self._settings.scheduler.concurrency
                    await self._store.submit(partial(note_look, slots=slots, now=looked_at))
                except StateError as error:
                    log.error("could not record this tick", error=str(error))
        if self._observer:
            self._observer.looked(report)

    async def _apply(self) -> None:
        await self._file.first_apply(self._store)

    def _sum_up(self) -> None:
        report, engine = self._report, self._engine
        report.carried = self._store.read(partial(_handles, carried=list(engine.executor.carried.values())))
        report.problems += [f"{loop.name}: {loop.pulse.error}" for loop in engine.loops if loop.pulse.error]
        if (wrong := engine.wrong_clock) is not None:
            report.problems.append(f"{wrong.stage}: {wrong.error}")
        report.file_problem = self._file.problem
        report.ready, report.next_at = self._store.read(_coming)

    # the started runs

    async def _carry(self) -> None:
        """Wait until all runs of this tick have ended and are recorded, or a stop is requested."""
        engine = self._engine
        stopped = False
        async with self._background(engine.awake.loop):
            empty = asyncio.create_task(engine.until_empty(), name="rota-empty")
            task = asyncio.create_task(self._stopping.asked(), name="rota-stop")
            try:
                await asyncio.wait([empty, task], return_when=asyncio.FIRST_COMPLETED)
                if stopped := task.done():
                    await self._stop(task.result())
            finally:
                empty.cancel()
                task.cancel()
                await asyncio.gather(empty, task, return_exceptions=True)
        if not stopped:
            await engine.workspace_loop.turn()
            await engine.prune_loop.turn()

    async def _watch_round(self) -> datetime | None:
        """Watch from the first interval on: the look has just checked everything."""
        if self._watch.pulse.rounds == 0:
            return self._clock.now() + self._watch_interval
        return await super()._watch_round()

    async def _watch_further(self) -> None:
        """Handle cancellations and callers that left, which wake no tick; leave further claims to a daemon."""
        if is_held(self._state / SERVE_LOCK):
            self._engine.claimer.until = EPOCH
        await self._engine.cancel_loop.turn()
        await self._engine.direct_loop.turn()

    def _last_words(self, db: Database) -> None:
        """Record a tick without runs, and leave its epoch to the next."""
        if self._engine.executor.idle and self._looked_at is not None:
            holder = self._session.holder
            unused = {holder.worker_id: holder.epoch}
            note_look(db, slots=self._settings.scheduler.concurrency, now=self._looked_at, unused=unused)

    def _refuse_losses(self) -> None:
        super()._refuse_losses()
        if self._lease_lost:
            raise StateError(
                "lease expired: other machines declared this tick lost, its runs were killed",
                hint="the machine slept, was stopped, or could not reach the database; the runs are retried elsewhere",
            )

    def _take_fired(self, fired: Fired) -> None:
        self._report.fired.append(fired)
        super()._take_fired(fired)

    def _take_finished(self, run_ids: Sequence[str]) -> None:
        for run in ended_with(self._store, run_ids):
            if run.status.final:
                self._report.finished.append(run)
            if self._observer:
                self._observer.finished(run)


def _handles(db: Database, *, carried: Sequence[InFlightRun]) -> tuple[str, ...]:
    """Return the handles of the carried runs; the handle of an adopted run is in its row."""
    adopted = {run.run_id: runs.run_by_id(db, run.run_id) for run in carried if run.claimed is None}
    return tuple(row.handle if (row := adopted.get(run.run_id)) else handle_of(run) for run in carried)


def _coming(db: Database) -> tuple[int, datetime | None]:
    due = [at for at in (jobs.next_due(db), next_release(db)) if at is not None]
    return queue.count_ready(db, limit=READY_COUNT_LIMIT), min(due, default=None)
