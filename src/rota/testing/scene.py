"""A scheduler under a fake clock for tests: hours pass in a moment."""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from rota.engine.activity import next_release, outlook
from rota.engine.agents import task_text
from rota.engine.clock import tzdata_version
from rota.engine.functions import FunctionTable, InProcessFunctions
from rota.engine.loops.executor import facts_of
from rota.engine.loops.loop import Loop
from rota.engine.membership.session import Entrance, Session, open_session
from rota.engine.processes import run_facts
from rota.engine.recovery import RecoveryContext, recover
from rota.engine.scheduler import Engine
from rota.engine.transactions.budgets import charge_request
from rota.engine.transactions.claim import Claimed, ClaimOwner
from rota.engine.transactions.digests import plan as digest_plan
from rota.engine.transactions.finish import Finished
from rota.engine.transactions.poll import scheduler_state
from rota.model.agents import AgentResult, Source
from rota.model.attention import Attention
from rota.model.clock import parse_duration
from rota.model.errors import InvalidInstant, InvalidValue
from rota.model.ids import begin_again
from rota.model.records import Job, Outcome, ProcessIdentity, Run
from rota.model.spec import JobSpec
from rota.model.states import Reason, Status
from rota.operations.jobs import find_job
from rota.operations.project.apply import DECLARED, KEPT, apply_declared, create, put_job, remove_job
from rota.operations.project.declarations import (
    Declarations,
    Declaring,
    SchedulerStatus,
    Sdk,
    TriggerResult,
    fires_of,
    shown,
    status_of,
    trigger_job,
)
from rota.operations.run_actions import trigger
from rota.operations.status.attention import AttentionItem
from rota.operations.status.digest import digest_of
from rota.operations.status.heartbeat import Heartbeat, Liveness
from rota.operations.status.status import needs_at
from rota.runners.agent_step import judge_result
from rota.settings import SchedulerSettings, Settings
from rota.store.driver import Database, Store
from rota.store.migrate import open_store
from rota.store.tables import jobs, notifications, queue, run_queries, work_items
from rota.store.tables.jobs import timezone_of
from rota.testing import doubles

YIELDS = 8


class Scene:
    """A whole scheduler on a fake clock: real rules, engine and database, scripted processes."""

    kind = "serve"
    trusts_wakes = False
    """Whether a loop goes round again at an instant only when it was woken or is due, as in a real process."""

    def __init__(self, folder: Path, now: datetime, *, concurrency: int = 16) -> None:
        self.clock = doubles.FakeClock(now)
        self.processes = doubles.ScriptedProcesses(self.clock)
        self.table = FunctionTable()
        self.settings = Settings(folder, folder, scheduler=SchedulerSettings(concurrency=concurrency))
        self.sources = doubles.ScriptedSources(self.settings, lambda: self.table.sources)
        self.post = doubles.ScriptedPost()
        self.logins = doubles.ScriptedLogins()
        self.power = doubles.ScriptedPower()
        self.store = self.watch(self.open_database())
        self.boot = doubles.BOOT
        self.skew = timedelta()
        """By how much the machine's clock is ahead of the database server's."""
        self._pid = 500
        self._living = 0
        self._due: dict[str, datetime | None] = {}
        """When each loop wants to go round next."""
        self.session: Session
        self.engine: Engine
        self.functions: InProcessFunctions

    def open_database(self) -> Store:
        """Open or create the database of the scene."""
        return open_store(self.settings.database, now=self.clock.now())

    def watch(self, store: Store) -> doubles.CountingStore:
        """Count the writes of a store."""
        return doubles.CountingStore(store)

    async def start(self) -> int:
        """Start like a new process, with a new epoch and recovery; return the number of recovered runs."""
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
            power=self.power.read,
        )
        self.engine = self._make_engine(self.session.holder)
        heir = RecoveryContext(
            self.store,
            self.clock,
            holder=self.session.holder,
            children=self.processes,
            executor=self.engine.executor,
            slots=self.engine.slots,
        )
        return await recover(heir, self.session.dead)

    def _make_engine(self, holder: ClaimOwner) -> Engine:
        engine = Engine(
            self.store,
            self.clock,
            settings=self.settings,
            holder=holder,
            processes=self.processes,
            functions=self.functions,
            sources=self.sources,
            post=self.post,
            logins=self.logins,
            power=self.power,
            find_items=self._find_items,
            build_digest=self._build_digest,
            stays=self.kind == "serve",
            server_now=self.server_now,
        )
        engine.attention.pause = timedelta()  # a settled scene has looked at everything
        return engine

    def _find_items(self, db: Database, now: datetime) -> list[Attention]:
        """Return what needs attention, as `rota status` would ask this process."""
        return [need.attention for need in self._needs(db, now)]

    def _build_digest(self, db: Database, since: datetime, until: datetime) -> dict[str, Any]:
        """Return what happened from one instant to another, with the open items."""
        items = [need.attention for need in self._needs(db, until) if need.seen is None]
        return digest_of(db, since, until, items=items)

    def _needs(self, db: Database, now: datetime) -> tuple[AttentionItem, ...]:
        beat = Heartbeat(Liveness.RUNNING, self._pid, {}, state=self.settings.state)
        return needs_at(db, beat=beat, zone=timezone_of(db), now=now)

    async def claim_now(self) -> None:
        """Claim as the loop does, by the clock of the database server."""
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
            self.engine.free_slot(run_id)

    async def crash(self) -> None:
        """Crash as by kill -9: write nothing more; scripted processes continue, as keepers do."""
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
        """Wait until nothing is pending."""
        if not self.store.under_way and not getattr(asyncio.get_running_loop(), "_ready", True):
            return
        calm = 0
        while calm < YIELDS:
            if self.store.under_way:
                await asyncio.wait(self.store.under_way)
                calm = 0
            calm += await _turn_of_the_loop()

    async def settle(self, *, passed: bool = False) -> None:
        """Run everything that is due at this instant of the fake clock. `passed`: only time passed since the last."""
        again = passed
        while True:
            self.processes.end_due()
            before = self.store.changes
            for loop in self._loops():
                if again and not self._calls(loop):
                    continue
                loop.take_wake()
                self._due[loop.name] = await loop.turn()
                assert loop.pulse.error is None, f"the {loop.name} loop failed: {loop.pulse.error}"
                await self.quiet()
            if not (again and self.trusts_wakes and (passed or self.store.changes == before)):
                self.engine.claim_now()
            await self.quiet()
            if self.store.changes == before:
                return
            again = True

    def _loops(self) -> tuple[Loop, ...]:
        engine = self.engine
        return (
            engine.cadence_loop,
            engine.fire_loop,
            engine.release_loop,
            engine.cancel_loop,
            engine.direct_loop,
            engine.outbox.loop,
            engine.logins.loop,
            engine.attention.loop,
            engine.digests.loop,
            engine.deliveries.loop,
            engine.awake.loop,
        )

    def _calls(self, loop: Loop) -> bool:
        """Return whether a loop has something to do at an instant at which it went round already."""
        due = self._due.get(loop.name)
        return not self.trusts_wakes or loop.take_wake() or (due is not None and due <= self.clock.now())

    async def advance(self, duration: timedelta | str) -> None:
        """Advance the clock, stopping at every instant at which something is due."""
        passed = parse_duration(duration) if isinstance(duration, str) else duration
        until = self.clock.now() + passed
        await self.settle()
        while (due := self.next_due()) is not None and due <= until:
            self.clock.advance(max(due - self.clock.now(), timedelta(milliseconds=1)))
            await self.settle(passed=True)
        self.clock.advance(until - self.clock.now())
        await self.settle()

    def next_due(self) -> datetime | None:
        """Return the next due instant: a fire, a release, an expiry, the end of a process."""
        found = [self.processes.next_end(), self.engine.attention.next_at, *self.store.read(self._next_in_store)]
        return min((at for at in found if at is not None and at > self.clock.now()), default=None)

    def _next_in_store(self, db: Database) -> list[datetime | None]:
        looks = (jobs.next_due, next_release, work_items.next_due, queue.next_check)
        told = (notifications.next_due(db), notifications.next_deadline(db))
        now = self.clock.now()
        return [*(look(db) for look in looks), *told, digest_plan(db, now=now).next_at, outlook(db, now=now).changes_at]

    def declare(self, *specs: JobSpec, source: str = "test") -> None:
        """Store new jobs at this instant."""
        for spec in specs:
            self.store.write(partial(create, spec=spec, source=source, tzdata=tzdata_version(), now=self.clock.now()))

    def trigger(self, name: str, **kwargs: Any) -> str:
        """Start a job manually; return its handle."""
        return trigger(self.store, name, now=self.clock.now(), **kwargs).handle

    def job(self, name: str) -> Job:
        """Return a stored job."""
        return self.store.read(partial(find_job, name=name))

    def history(self, name: str) -> list[Run]:
        """Return a job's runs, oldest first."""
        job = self.job(name)
        runs = self.store.read(partial(run_queries.newest_runs, job_id=job.id, limit=100_000))
        return runs[::-1]

    def told(self, name: str) -> list[tuple[str, str | None]]:
        """Return status and reason of a job's runs, oldest first."""
        return [(run.status.value, run.reason.value if run.reason else None) for run in self.history(name)]


async def _turn_of_the_loop() -> int:
    """Run one turn of the loop; return its weight: half of all turns if nothing is ready afterwards."""
    loop = asyncio.get_running_loop()
    turned: asyncio.Future[None] = loop.create_future()
    loop.call_soon(turned.set_result, None)
    await turned
    ready = getattr(loop, "_ready", True)  # other loops than asyncio's own do not tell
    return 1 if ready else YIELDS // 2


T = TypeVar("T")

REAL_TIMEOUT_SECONDS = 60.0
"""How many seconds of real time a function that is played may take."""


class WorkingScene(Scene):
    """A scene that runs the functions of a program for real, in no time."""

    trusts_wakes = True

    def open_database(self) -> Store:
        """Create the database; its folder is thrown away."""
        store = open_store(self.settings.database, now=self.clock.now())
        store.relax()
        return store

    def watch(self, store: Store) -> doubles.CountingStore:
        """Write at once."""
        return doubles.PromptStore(store)

    async def quiet(self) -> None:
        """Wait until nothing is pending, functions included."""
        await super().quiet()
        while self.functions.busy:
            try:
                await asyncio.wait_for(self.functions.until_idle(), REAL_TIMEOUT_SECONDS)
            except TimeoutError:
                under_way = ", ".join(run.handle for run in self.store.read(run_queries.running_runs))
                raise AssertionError(f"no end of {under_way} within {REAL_TIMEOUT_SECONDS:g} s of real time") from None
            await super().quiet()


class Told(NamedTuple):
    """A run in short: its instant in the job's time zone, status and reason."""

    at: str
    status: str
    reason: str | None = None


class PlayedScheduler(Declaring):
    """A scheduler on a fake clock. Functions run for real; commands follow a `script`."""

    def __init__(self, declarations: Declarations, folder: Path, now: datetime) -> None:
        super().__init__(declarations)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rota-played")
        self._runner = asyncio.Runner()
        self.scene = self._do(partial(WorkingScene, folder, now))

    @property
    def now(self) -> datetime:
        """The time of the clock, in UTC."""
        return self.scene.clock.now()

    def begin(self) -> None:
        """Store the declared jobs and run everything that is due at this instant."""
        declared = self.declarations.everything()
        folder = self.scene.settings.folder
        self.scene.settings = replace(declared.settings, folder=folder, state=folder)
        self.scene.table = self.declarations.table
        apply = partial(apply_declared, declared=declared, kept=self.declarations.kept, allow_empty=True, now=self.now)
        self._do(partial(self.scene.store.write, apply))
        self._play(self.scene.start)
        self.declarations.go_live(self, since=dict(self.declarations.entries))
        self._play(self.scene.settle)

    def end(self) -> None:
        """Close the scene."""
        self.declarations.live = None
        try:
            self._play(self.scene.close)
        finally:
            self._do(self._runner.close)
            self._thread.shutdown()

    def put(self, spec: JobSpec, *, keep: bool) -> None:
        """Store a job and run everything that is due."""
        source = KEPT if keep else DECLARED
        self._do(partial(self.scene.store.write, partial(put_job, spec=spec, source=source, now=self.now)))
        self._play(self.scene.settle)

    def retire(self, name: str) -> None:
        """Retire a job."""
        self._do(partial(self.scene.store.write, partial(remove_job, name=name, now=self.now)))

    def put_source(self, place: str, source: Source) -> None:
        """Replace the work source at `place`: a repository, a folder, an address."""
        self.scene.sources.sources[place] = source

    def advance(self, duration: timedelta | str) -> None:
        """Advance the clock, stopping at every instant at which something is due."""
        self._play(partial(self.scene.advance, duration))

    def trigger(
        self, agent_or_job: str, schedule: str | None = None, params: Mapping[str, Any] | None = None
    ) -> TriggerResult:
        """Start a job manually and run everything that is due."""
        act = partial(trigger_job, self.scene.store, agent_or_job, schedule=schedule, params=params, now=self.now)
        result = self._do(act)
        self._play(self.scene.settle)
        return result

    def script(self, job: str, *, takes: timedelta | str = timedelta(), exit_code: int = 0) -> None:
        """Set duration and result of a job's commands; without a script they succeed at once."""
        lasts = parse_duration(takes) if isinstance(takes, str) else takes
        failed = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=exit_code)
        self.scene.processes.scripts[job] = doubles.Script(lasts, failed if exit_code else doubles.COMPLETED)

    def script_agent(
        self, job: str, *results: AgentResult, agent: str | None = None, takes: timedelta | str = timedelta()
    ) -> None:
        """Set the results of a job's agent: each run takes the next one, the last one repeats.

        With a list of agents, `agent` names one of them. Without a script an agent succeeds at once, with no answer.
        """
        lasts = parse_duration(takes) if isinstance(takes, str) else takes
        judged = [judge_result(result) for result in results or (AgentResult(),)]
        self.scene.processes.agents[job, agent] = doubles.AgentScript(judged, lasts)

    def prompts(self, job: str) -> list[str]:
        """Return the task of each run of an agent job as its agent got it, without the envelope, oldest first."""
        found = [claimed for claimed in self.scene.processes.given.values() if claimed.run.job == job]
        return [self._prompt(claimed) for claimed in found]

    def _prompt(self, claimed: Claimed) -> str:
        work = claimed.spec.work.agent
        if work is None:
            raise InvalidValue(f"{claimed.run.job!r} is no job of an agent", hint="name a job with `prompt`")
        return task_text(work, run_facts(claimed), brief=claimed.brief, project=self.scene.settings.folder)

    def history(self, job: str) -> list[Told]:
        """Return the runs of a job in short, oldest first; they equal plain tuples."""
        zone = ZoneInfo(self._do(partial(self.scene.job, job)).spec.schedule.timezone)
        return [
            Told(run.nominal.astimezone(zone).isoformat(), run.status.value, run.reason.value if run.reason else None)
            for run in self.runs(job)
        ]

    def runs(self, job: str) -> list[Run]:
        """Return the stored runs of a job, oldest first."""
        return shown(self._do(partial(self.scene.history, job)))

    def next_fires(self, job: str, n: int = 3) -> list[datetime]:
        """Return the next fires of a job, in its own time zone."""
        return self._do(partial(fires_of, self.scene.store, job, n=n))

    def status(self) -> SchedulerStatus:
        """Return the state of each job."""
        return self._do(partial(status_of, self.scene.store, running=True))

    def _do(self, work: Callable[[], T]) -> T:
        return self._thread.submit(work).result()

    def _play(self, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._do(lambda: self._runner.run(act()))


@contextlib.contextmanager
def scheduler(of: Declaring | None = None, *, now: str | datetime, **sections: Any) -> Iterator[PlayedScheduler]:
    """Play a scheduler from `now` on: with the jobs of another one, or those declared inside the block.

    `sections` are those of `rota.Scheduler`, such as `timezone` and `pools`. Nothing is left on disk.
    """
    begin_again(os.urandom)  # identifiers of what really ran may lie in the future of what is played
    with tempfile.TemporaryDirectory(prefix="rota-") as name:
        folder = Path(name)
        declarations = Declarations(sections, folder=folder, state=folder, environ=os.environ)
        if of is not None:
            declarations.take_from(of.declarations)
        played = PlayedScheduler(declarations, folder, _instant(now))
        try:
            played.begin()
            yield played
        finally:
            played.end()
            begin_again(os.urandom)


def _instant(now: str | datetime) -> datetime:
    at = datetime.fromisoformat(now) if isinstance(now, str) else now
    if at.tzinfo is None:
        raise InvalidInstant(f"{at.isoformat()} has no time zone", hint="write one: 2026-03-29T00:00Z")
    return at
