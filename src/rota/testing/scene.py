"""A scene for tests: a whole scheduler on a clock that stands still, with processes that follow a script."""

import asyncio
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from rota.engine.budget import charge_request
from rota.engine.cadence import outlook
from rota.engine.claim import Holder
from rota.engine.clock import tzdata_version
from rota.engine.conditions import facts_of
from rota.engine.engine import Engine
from rota.engine.functions import FunctionTable, InProcessFunctions
from rota.engine.heir import Heir
from rota.engine.record import Finished
from rota.engine.recover import recover
from rota.engine.release import next_release
from rota.engine.session import Entrance, Session, open_session
from rota.engine.shared_state import scheduler_state
from rota.model.durations import parse_duration
from rota.model.records import Job, ProcessIdentity, Run
from rota.model.spec import JobSpec
from rota.operations.applying import create
from rota.operations.jobs import find_job
from rota.operations.sdk import Sdk
from rota.operations.starting import trigger
from rota.settings import Scheduler, Settings
from rota.store import deliveries, finding, jobs, work
from rota.store.driver import Database, Store
from rota.store.migrate import open_store
from rota.testing.clock import FakeClock
from rota.testing.counting import CountingStore
from rota.testing.posting import ScriptedPost
from rota.testing.scripted import BOOT, ScriptedProcesses, ScriptedSources

YIELDS = 8


class Scene:
    """A whole scheduler on a fake clock: real rules, engine and database, scripted processes."""

    kind = "serve"

    def __init__(self, folder: Path, now: datetime, *, concurrency: int = 16) -> None:
        self.clock = FakeClock(now)
        self.processes = ScriptedProcesses(self.clock)
        self.table = FunctionTable()
        self.settings = Settings(folder, folder, scheduler=Scheduler(concurrency=concurrency))
        self.sources = ScriptedSources(self.settings, lambda: self.table.sources)
        self.post = ScriptedPost()
        self.store = CountingStore(self.open_database())
        self.boot = BOOT
        self.skew = timedelta()
        """By how much the machine's clock is ahead of the database server's."""
        self._pid = 500
        self._living = 0
        self.session: Session
        self.engine: Engine
        self.functions: InProcessFunctions

    def open_database(self) -> Store:
        """Open the database that the scene plays on: the file of its folder, made where it is not there."""
        return open_store(self.settings.database, now=self.clock.now())

    async def start(self) -> int:
        """Begin as a new process would, with a new epoch and recovery; return how many runs were recovered."""
        self._pid += 1
        self._living = self._pid
        me = ProcessIdentity(self.boot, self._pid, self._pid)
        entrance = Entrance(slots=self.settings.scheduler.concurrency)
        self.session = open_session(
            self.store,
            self.settings.state,
            self.clock,
            kind=self.kind,
            identity=me,
            entrance=entrance,
            server_now=self.server_now,
        )
        self.functions = InProcessFunctions(
            self.clock,
            self.settings,
            self.table,
            ended=partial(self._all_ended, self._pid),
            released=partial(self._released, self._pid),
            facts=facts_of(self.store, self.clock),
            charge=partial(charge_request, self.store, self.clock),
            scheduler_state=partial(self.store.read, scheduler_state),
            sdk=Sdk(self.store, self.settings.state, self.clock),
        )
        self.engine = self._make_engine(self.session.holder)
        heir = Heir(
            self.store,
            self.clock,
            holder=self.session.holder,
            children=self.processes,
            executor=self.engine.executor,
            slots=self.engine.slots,
        )
        return await recover(heir, self.session.dead)

    def _make_engine(self, holder: Holder) -> Engine:
        return Engine(
            self.store,
            self.clock,
            settings=self.settings,
            holder=holder,
            processes=self.processes,
            functions=self.functions,
            sources=self.sources,
            post=self.post,
            stays=self.kind == "serve",
            server_now=self.server_now,
        )

    async def claim_now(self) -> None:
        """Claim at once, as a loop does: after a look at the clock of the database server."""
        await self.engine.follows_clock()
        self.engine.claim_now()

    def server_now(self, _db: Database) -> datetime:
        """Return the time of the database server: the scene's own, moved by `skew`."""
        return self.clock.now() - self.skew

    def _all_ended(self, pid: int, finished: list[Finished]) -> None:
        if pid == self._living:
            self.engine.all_ended(finished)

    def _released(self, pid: int, run_id: str) -> None:
        if pid == self._living:
            self.engine.released(run_id)

    async def crash(self) -> None:
        """Vanish as by kill -9: nothing more is written; scripted processes go on, as keepers do."""
        await self.quiet()
        self._living = 0
        for carried in self.engine.executor.carried.values():
            if carried.task is not None:
                carried.task.cancel()
        self.engine.executor.carried.clear()
        self.engine.callers.close()
        self.engine.deliveries.abandon()
        self.engine.claimer.allowed = False
        await self.quiet()
        self.functions.close()
        self.session.lock.release()

    async def close(self) -> None:
        """End the scene."""
        await self.crash()
        self.store.close()

    async def quiet(self) -> None:
        """Let everything that is under way come to rest."""
        calm = 0
        while calm < YIELDS:
            if self.store.under_way:
                await asyncio.wait(self.store.under_way)
                calm = 0
            calm += await _turn_of_the_loop()

    async def settle(self) -> None:
        """Do all that is due at this instant of the fake clock."""
        while True:
            self.processes.end_due()
            before = self.store.changes
            engine = self.engine
            for loop in (
                engine.cadence_loop,
                engine.fire_loop,
                engine.release_loop,
                engine.cancel_loop,
                engine.direct_loop,
                engine.outbox.loop,
                engine.deliveries.loop,
            ):
                await loop.turn()
                assert loop.pulse.error is None, f"the {loop.name} loop failed: {loop.pulse.error}"
                await self.quiet()
            self.engine.claim_now()
            await self.quiet()
            if self.store.changes == before:
                return

    async def advance(self, duration: timedelta | str) -> None:
        """Let time pass, stopping at every instant at which something is due."""
        passed = parse_duration(duration) if isinstance(duration, str) else duration
        until = self.clock.now() + passed
        await self.settle()
        while (due := self.next_due()) is not None and due <= until:
            self.clock.advance(max(due - self.clock.now(), timedelta(milliseconds=1)))
            await self.settle()
        self.clock.advance(until - self.clock.now())
        await self.settle()

    def next_due(self) -> datetime | None:
        """Return when something happens next: a fire, a release, an expiry, the end of a process."""
        found = [self.store.read(jobs.next_due), self.store.read(next_release), self.processes.next_end()]
        found += [self.store.read(work.next_due), self.store.read(deliveries.next_due)]
        found.append(self.store.read(deliveries.next_deadline))
        found.append(self.store.read(partial(outlook, now=self.clock.now())).changes_at)
        return min((at for at in found if at is not None and at > self.clock.now()), default=None)

    def declare(self, *specs: JobSpec, source: str = "test") -> None:
        """Store new jobs at this instant."""
        for spec in specs:
            self.store.write(partial(create, spec=spec, source=source, tzdata=tzdata_version(), now=self.clock.now()))

    def trigger(self, name: str, **kwargs: Any) -> str:
        """Start a job by hand; return its handle."""
        return trigger(self.store, name, now=self.clock.now(), **kwargs).handle

    def job(self, name: str) -> Job:
        """Return a job as it is stored."""
        return self.store.read(partial(find_job, name=name))

    def history(self, name: str) -> list[Run]:
        """Return a job's runs, oldest first."""
        job = self.job(name)
        found = self.store.read(partial(finding.newest_runs, job_id=job.id, limit=100_000))
        return found[::-1]

    def told(self, name: str) -> list[tuple[str, str | None]]:
        """Return status and reason of a job's runs, oldest first."""
        return [(run.status.value, run.reason.value if run.reason else None) for run in self.history(name)]


async def _turn_of_the_loop() -> int:
    """Let the loop go round; return for how many turns it counts: for half of all where nothing is ready after it."""
    loop = asyncio.get_running_loop()
    turned: asyncio.Future[None] = loop.create_future()
    loop.call_soon(turned.set_result, None)
    await turned
    ready = getattr(loop, "_ready", True)  # other loops than asyncio's own do not tell
    return 1 if ready else YIELDS // 2
