"""For tests: a clock that stands still, processes that follow a script, and a scene that plays an engine on both."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

from rota.engine.budget import charge_request
from rota.engine.cadence import outlook
from rota.engine.claim import Claimed, Holder
from rota.engine.clock import tzdata_version
from rota.engine.conditions import facts_of
from rota.engine.engine import Engine
from rota.engine.functions import FunctionTable, InProcessFunctions
from rota.engine.record import Finished
from rota.engine.recover import recover
from rota.engine.release import next_release
from rota.engine.session import Entrance, Session, open_session
from rota.engine.shared_state import scheduler_state
from rota.engine.sources import Classes, ThreadedSources
from rota.model.clock import cut_to_ms
from rota.model.durations import parse_duration
from rota.model.records import Job, Outcome, ProcessIdentity, Run
from rota.model.spec import Condition, JobSpec, WorkSource
from rota.model.states import Reason, Status
from rota.model.work import Source
from rota.operations.jobs import create, find_job
from rota.operations.runs import trigger
from rota.operations.sdk import Sdk
from rota.rules.admission import ConditionResult
from rota.settings import Scheduler, Settings
from rota.store import deliveries, jobs, runs, work
from rota.store.driver import Database, Operation, Row, Store, T
from rota.store.migrate import open_store
from rota.store.queries import load_queries
from rota.testing.posting import ScriptedPost

_COMMENT = re.compile(r"--[^\n]*")

BOOT = "test-boot"
YIELDS = 8
COMPLETED = Outcome(Status.COMPLETED, exit_code=0)


class FakeClock:
    """A clock that moves only when told."""

    def __init__(self, now: datetime) -> None:
        self._now = cut_to_ms(now)
        self._monotonic = 1000.0
        self._suspended = 0.0

    def now(self) -> datetime:
        """Return the wall time."""
        return self._now

    def monotonic(self) -> float:
        """Return elapsed seconds without suspended ones."""
        return self._monotonic

    def boottime(self) -> float:
        """Return elapsed seconds with suspended ones."""
        return self._monotonic + self._suspended

    def advance(self, duration: timedelta | str) -> None:
        """Let time pass."""
        passed = parse_duration(duration) if isinstance(duration, str) else duration
        self._now += passed
        self._monotonic += passed.total_seconds()

    def step(self, duration: timedelta) -> None:
        """Set the wall clock forward or back; no time passes."""
        self._now += duration

    def suspend(self, duration: timedelta) -> None:
        """Let the machine sleep: the wall clock moves, the monotonic one does not."""
        self._now += duration
        self._suspended += duration.total_seconds()


@dataclass(slots=True)
class ScriptedProcess:
    """A process that ends when the script says so."""

    run_id: str
    identity: ProcessIdentity
    ends_at: datetime
    ending: Outcome
    stops: bool = True
    begun: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def open(self) -> None:
        """Let it begin."""
        self.begun = True

    def close(self) -> None:
        """Send it away; it never begins."""
        self.end(Outcome(Status.FAILED, Reason.SHUTDOWN, error="sent away"))

    def end(self, ending: Outcome | None = None) -> None:
        """End now."""
        self.ending = ending or self.ending
        self.ended.set()


@dataclass(frozen=True, slots=True)
class Script:
    """What a job's process does: how long it takes and how it ends."""

    takes: timedelta = timedelta()
    ending: Outcome = COMPLETED
    stops: bool = True


class ScriptedProcesses:
    """Processes by script: no process is started, time is the fake clock's. They outlive an engine, as keepers do."""

    def __init__(self, clock: FakeClock) -> None:
        self.scripts: dict[str, Script] = {}
        self.conditions: dict[str, str] = {}
        self.living: dict[str, ScriptedProcess] = {}
        self.callers: dict[ProcessIdentity, asyncio.Event] = {}
        self.begun: list[str] = []
        self.given: dict[str, Claimed] = {}
        """What each run was given when it started, by its handle."""
        self.refused: dict[str, Exception] = {}
        self.turned_away: list[str] = []
        """The runs that were not started because of `refused`."""
        self._clock = clock
        self._pid = 100_000

    def prepare(self, claimed: Claimed) -> Claimed:
        """Return what a start needs, or raise what the test put into `refused`."""
        if claimed.run.job in self.refused:
            self.turned_away.append(claimed.run.handle)
            raise self.refused[claimed.run.job]
        return claimed

    async def launch(self, run_id: str, prepared: Claimed) -> ScriptedProcess:
        """Make a process that waits at its gate."""
        script = self.scripts.get(prepared.run.job, Script())
        self._pid += 1
        identity = ProcessIdentity(BOOT, self._pid, self._pid)
        process = ScriptedProcess(run_id, identity, self._clock.now() + script.takes, script.ending, script.stops)
        self.living[run_id] = process
        self.begun.append(prepared.run.handle)
        self.given[prepared.run.handle] = prepared
        if not script.takes:
            process.end()
        return process

    async def outcome(self, run_id: str, identity: ProcessIdentity) -> Outcome:
        """Wait until the process is gone."""
        process = self.living.get(run_id)
        if process is None or process.identity != identity:
            return Outcome(Status.FAILED, Reason.PROCESS_RESTARTED, error="gone")
        await process.ended.wait()
        del self.living[run_id]
        return process.ending

    async def check(self, claimed: Claimed, condition: Condition, *, index: int) -> ConditionResult:
        """Answer as the test says: pass, false or error."""
        del claimed, index
        answer: Any = self.conditions.get(condition.title, "pass")
        return ConditionResult(condition.title, answer)

    def stop(self, identity: ProcessIdentity, *, at_once: bool) -> None:
        """End a process as one that was stopped, when its script lets it."""
        for process in self.living.values():
            if process.identity == identity and process.stops:
                process.end(Outcome(Status.FAILED, Reason.SHUTDOWN, error="stopped" if not at_once else "killed"))

    def caller(self) -> ProcessIdentity:
        """Make a process that may call directly; it lives until `leave`."""
        self._pid += 1
        identity = ProcessIdentity(BOOT, self._pid, self._pid)
        self.callers[identity] = asyncio.Event()
        return identity

    def leave(self, identity: ProcessIdentity) -> None:
        """End a caller."""
        self.callers[identity].set()

    async def gone(self, identity: ProcessIdentity) -> None:
        """Wait until a caller has ended."""
        await self.callers[identity].wait()

    def alive(self, identity: ProcessIdentity) -> bool:
        """Tell whether it runs."""
        if identity in self.callers:
            return not self.callers[identity].is_set()
        return any(process.identity == identity and not process.ended.is_set() for process in self.living.values())

    def outcome_left(self, run_id: str) -> bool:
        """Tell whether it ended while nobody looked."""
        process = self.living.get(run_id)
        return process is not None and process.ended.is_set()

    async def sweep(self, run_id: str) -> list[int]:
        """Kill what is left of a run."""
        self.living.pop(run_id, None)
        return []

    def next_end(self) -> datetime | None:
        """Return when the next process ends by itself."""
        return min((one.ends_at for one in self.living.values() if not one.ended.is_set()), default=None)

    def end_due(self) -> None:
        """End what is due by the clock."""
        for process in list(self.living.values()):
            if process.ends_at <= self._clock.now() and not process.ended.is_set():
                process.end(replace(process.ending, finished_at=process.ends_at))


class ScriptedSources:
    """Work sources by script: those that a test puts into `sources` by place, called at once; the others are real."""

    def __init__(self, settings: Settings, classes: Classes) -> None:
        self.sources: dict[str, Source] = {}
        self._real = ThreadedSources(settings, {}, classes)

    def find(self, wanted: WorkSource) -> Source:
        """Return a source."""
        return self.sources.get(wanted.place) or self._real.find(wanted)

    async def ask(self, call: Callable[[], T], *, within: float, late: Callable[[], None] = lambda: None) -> T:
        """Return what a call brings; it takes no time."""
        del within, late
        return call()


class _Watched:
    """A transaction that counts the statements which changed something; what is set is set in it."""

    _database: Database
    _store: "CountingStore"

    def __init__(self, database: Database, store: "CountingStore") -> None:
        object.__setattr__(self, "_database", database)
        object.__setattr__(self, "_store", store)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._database, name, value)

    def rows(self, query: str, /, **params: Any) -> list[Row]:
        """Return all rows of a named query."""
        found = self._database.rows(query, **params)
        self._count(query, len(found))
        return found

    def row(self, query: str, /, **params: Any) -> Row | None:
        """Return the first row of a named query, None for none."""
        found = self._database.row(query, **params)
        self._count(query, found is not None)
        return found

    def execute(self, query: str, /, **params: Any) -> int:
        """Run a named statement and return how many rows it changed."""
        changed = self._database.execute(query, **params)
        self._count(query, changed)
        return changed

    def _count(self, query: str, found: int) -> None:
        self._store.changes += found > 0 and query in _writing()


@cache
def _writing() -> frozenset[str]:
    """Return the names of the statements that do not only look."""
    texts = {name: _COMMENT.sub("", text).split() for name, text in load_queries("sqlite").items()}
    return frozenset(name for name, words in texts.items() if words and words[0] != "SELECT")


class CountingStore:
    """A store that knows how many submitted writes are under way, and how many statements changed something."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.under_way: set[asyncio.Future[Any]] = set()
        self.changes = 0

    def read(self, operation: Operation[T]) -> T:
        """Read on one snapshot."""
        return self._store.read(operation)

    def write(self, operation: Operation[T]) -> T:
        """Write inline."""
        return self._store.write(self.watched(operation))

    def submit(self, operation: Operation[T]) -> "asyncio.Future[T]":
        """Hand to the writer thread."""
        future = self._store.submit(self.watched(operation))
        self.under_way.add(future)
        future.add_done_callback(self.under_way.discard)
        return future

    def watched(self, operation: Operation[T]) -> Operation[T]:
        """Return the operation with its changes counted."""
        return lambda db: operation(cast(Database, _Watched(db, self)))

    def close(self) -> None:
        """Close the store."""
        self._store.close()


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
            self.store, self.settings.state, self.clock, kind=self.kind, identity=me, entrance=entrance
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
        return await recover(
            self.store,
            self.clock,
            holder=self.session.holder,
            dead=self.session.dead,
            children=self.processes,
            executor=self.engine.executor,
            slots=self.engine.slots,
        )

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
        )

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
        self.engine.claims = False
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
        found = self.store.read(partial(runs.newest_runs, job_id=job.id, limit=100_000))
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
