"""Doubles for tests: clock, counters, transport and scripted runner."""

import asyncio
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from rota.engine.loops.work_sources import Classes, ThreadedSources
from rota.engine.ports import Message
from rota.engine.transactions.claim import Claimed
from rota.model.agents import AgentResult, Source
from rota.model.clock import cut_to_ms, parse_duration
from rota.model.notifications import DeliveryResult, Target
from rota.model.records import Outcome, PostconditionResult, ProcessIdentity
from rota.model.spec import Condition, SessionMode, Work, WorkSource
from rota.model.states import Reason, Status
from rota.rules.admission import ConditionResult
from rota.rules.agents import agent_outcome
from rota.rules.power import Power
from rota.settings import Settings
from rota.store.driver import PLAIN, Database, Operation, Row, Store, T, WriteOptions
from rota.store.queries import load_queries


class FakeClock:
    """A clock that moves only by its methods."""

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
        """Advance all clocks."""
        passed = parse_duration(duration) if isinstance(duration, str) else duration
        self._now += passed
        self._monotonic += passed.total_seconds()

    def step(self, duration: timedelta) -> None:
        """Set the wall clock forward or back; no time passes."""
        self._now += duration

    def suspend(self, duration: timedelta) -> None:
        """Suspend the machine: the wall clock moves, the monotonic one does not."""
        self._now += duration
        self._suspended += duration.total_seconds()


_COMMENT = re.compile(r"--[^\n]*")


class _Watched:
    """A transaction that counts statements that changed rows."""

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
    texts = {name: _COMMENT.sub("", text).split() for name, text in load_queries("sqlite").items()}
    return frozenset(name for name, words in texts.items() if words and words[0] != "SELECT")


class CountingStore:
    """A store that counts pending writes and statements that changed rows."""

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

    def submit(self, operation: Operation[T], manner: WriteOptions = PLAIN) -> "asyncio.Future[T]":
        """Hand to the writer thread."""
        future = self._store.submit(self.watched(operation), manner)
        self.under_way.add(future)
        future.add_done_callback(self.under_way.discard)
        return future

    def watched(self, operation: Operation[T]) -> Operation[T]:
        """Return the operation with its changes counted."""
        return lambda db: operation(cast(Database, _Watched(db, self)))

    def close(self) -> None:
        """Close the store."""
        self._store.close()


class PromptStore(CountingStore):
    """A store that commits each submitted operation at once, on the calling thread."""

    def submit(self, operation: Operation[T], manner: WriteOptions = PLAIN) -> "asyncio.Future[T]":  # noqa: ARG002
        """Write inline; the future has ended."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            future.set_result(self.write(operation))
        except Exception as error:
            future.set_exception(error)
        return future


DELIVERED = DeliveryResult(ok=True, answer=200)


class ScriptedPost:
    """Records sent notifications. `answer` decides the result; attempts to targets in `held` never end."""

    def __init__(self) -> None:
        self.letters: list[Message] = []
        self.pings: list[Target] = []
        self.answer: Callable[[Message], DeliveryResult] = lambda _letter: DELIVERED
        self.held: set[str] = set()

    async def send(self, letter: Message) -> DeliveryResult:
        """Record a notification."""
        self.letters.append(letter)
        if letter.target.name in self.held:
            await asyncio.Event().wait()
        return self.answer(letter)

    async def ping(self, target: Target) -> DeliveryResult:
        """Record a ping."""
        self.pings.append(target)
        return DELIVERED

    def told(self) -> list[tuple[str, str, str]]:
        """Return target, event and run of each sent notification."""
        return [(message.target.name, message.payload["event"], message.payload["run"]) for message in self.letters]


BOOT = "test-boot"
COMPLETED = Outcome(Status.COMPLETED, exit_code=0)


class ScriptedProcess(Struct):
    """A process that ends by script."""

    run_id: str
    identity: ProcessIdentity
    ends_at: datetime
    ending: Outcome
    stops: bool = True
    begun: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def open(self) -> None:
        """Open the gate."""
        self.begun = True

    def close(self) -> None:
        """Close the gate; the process never starts."""
        self.end(Outcome(Status.FAILED, Reason.SHUTDOWN, error="sent away"))

    def end(self, ending: Outcome | None = None) -> None:
        """End now."""
        self.ending = ending or self.ending
        self.ended.set()


class Script(Struct, frozen=True):
    """The duration and the result of a job's process."""

    takes: timedelta = timedelta()
    ending: Outcome = COMPLETED
    stops: bool = True


class AgentScript(Struct):
    """The duration and the results of a job's agent: each run takes the next one, the last one repeats."""

    results: list[AgentResult]
    takes: timedelta = timedelta()

    def next(self, claimed: Claimed) -> Script:
        """Return the script of a run."""
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        work = claimed.spec.work.agent
        assert work is not None, "only agents have such scripts"
        resumes = work.session is SessionMode.RESUME
        ending = agent_outcome(COMPLETED, result, resumed=claimed.brief.session, resumes=resumes)
        session = ending.session and replace(ending.session, adapter=work.adapter)
        agent = work.agent if work.choices else None
        return Script(self.takes, replace(ending, provider=work.provider, agent=agent, session=session))


class ScriptedProcesses:
    """Scripted processes on the fake clock; none is started. They outlive an engine, as keepers do."""

    def __init__(self, clock: FakeClock) -> None:
        self.scripts: dict[str, Script] = {}
        self.agents: dict[tuple[str, str | None], AgentScript] = {}
        """The scripts of agents by job and agent; None: any agent of the job."""
        self.conditions: dict[str, str] = {}
        self.living: dict[str, ScriptedProcess] = {}
        self.callers: dict[ProcessIdentity, asyncio.Event] = {}
        self.begun: list[str] = []
        self.given: dict[str, Claimed] = {}
        """The arguments of each run at its start, by its handle."""
        self.refused: dict[str, Exception] = {}
        self.turned_away: list[str] = []
        """The runs that were not started because of `refused`."""
        self._clock = clock
        self._pid = 100_000

    async def prepare(self, claimed: Claimed) -> Claimed:
        """Return the parameters of a start, or raise the error in `refused`."""
        if claimed.run.job in self.refused:
            self.turned_away.append(claimed.run.handle)
            raise self.refused[claimed.run.job]
        return claimed

    async def launch(self, run_id: str, prepared: Claimed) -> ScriptedProcess:
        """Create a process that waits at its gate."""
        script = self._script(prepared)
        self._pid += 1
        identity = ProcessIdentity(BOOT, self._pid, self._pid)
        process = ScriptedProcess(run_id, identity, self._clock.now() + script.takes, script.ending, script.stops)
        self.living[run_id] = process
        self.begun.append(prepared.run.handle)
        self.given[prepared.run.handle] = prepared
        if not script.takes:
            process.end()
        return process

    def reserve(self, count: int, ended: Sequence[ProcessIdentity]) -> Sequence[ProcessIdentity]:  # noqa: ARG002
        """Reserve nothing: each command is launched on its own."""
        return ()

    def launch_reserved(self, claimed: Claimed, reserved: ProcessIdentity) -> None:
        """Launch nothing."""

    def release(self, reserved: Sequence[ProcessIdentity], *, claimed: bool) -> None:
        """Keep nothing."""

    def _script(self, claimed: Claimed) -> Script:
        job, work = claimed.run.job, claimed.spec.work.agent
        own = None if work is None else self.agents.get((job, work.agent)) or self.agents.get((job, None))
        return self.scripts.get(job, Script()) if own is None else own.next(claimed)

    async def outcome(self, run_id: str, identity: ProcessIdentity, work: Work | None = None) -> Outcome:  # noqa: ARG002
        """Wait until the process is gone."""
        process = self.living.get(run_id)
        if process is None or process.identity != identity:
            return Outcome(Status.FAILED, Reason.PROCESS_RESTARTED, error="gone")
        await process.ended.wait()
        del self.living[run_id]
        return process.ending

    async def check(self, claimed: Claimed, condition: Condition, *, index: int) -> ConditionResult:
        """Return the scripted answer: pass, false or error."""
        del claimed, index
        answer: Any = self.conditions.get(condition.title, "pass")
        return ConditionResult(condition.title, answer)

    async def check_work(
        self, claimed: Claimed, outcome: Outcome, *, begun: Callable[[ProcessIdentity], None]
    ) -> Outcome:
        """Return the outcome after a postcondition that passes."""
        del claimed, begun
        return replace(outcome, postcondition=PostconditionResult(passed=True, exit_code=0))

    def stop(self, identity: ProcessIdentity, *, at_once: bool) -> None:
        """Stop a process, if its script allows it."""
        for process in self.living.values():
            if process.identity == identity and process.stops:
                process.end(Outcome(Status.FAILED, Reason.SHUTDOWN, error="stopped" if not at_once else "killed"))

    def caller(self) -> ProcessIdentity:
        """Create a process that may call directly; it lives until `leave`."""
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
        """Return whether the process runs."""
        if identity in self.callers:
            return not self.callers[identity].is_set()
        return any(process.identity == identity and not process.ended.is_set() for process in self.living.values())

    def settle(self, identity: ProcessIdentity, *, stored: bool) -> None:
        """Forget nothing: each process has one run."""

    def outcome_left(self, run_id: str) -> bool:
        """Return whether the process ended unobserved."""
        process = self.living.get(run_id)
        return process is not None and process.ended.is_set()

    async def sweep(self, run_id: str) -> list[int]:
        """Kill the rest of a run."""
        self.living.pop(run_id, None)
        return []

    def next_end(self) -> datetime | None:
        """Return when the next process ends."""
        return min((process.ends_at for process in self.living.values() if not process.ended.is_set()), default=None)

    def end_due(self) -> None:
        """End the processes that are due."""
        for process in list(self.living.values()):
            if process.ends_at <= self._clock.now() and not process.ended.is_set():
                process.end(replace(process.ending, finished_at=process.ends_at))


class ScriptedSources:
    """Scripted work sources: those in `sources`, by place; the others are real."""

    def __init__(self, settings: Settings, classes: Classes) -> None:
        self.sources: dict[str, Source] = {}
        self._real = ThreadedSources(settings, {}, classes)

    def find(self, wanted: WorkSource) -> Source:
        """Return a source."""
        return self.sources.get(wanted.place) or self._real.find(wanted)

    async def ask(self, call: Callable[[], T], *, within: float, late: Callable[[], None] = lambda: None) -> T:
        """Return the result of a call, which takes no time."""
        del within, late
        return call()


class ScriptedPower:
    """A scripted machine: its power, whether it is kept awake and when it is woken. `refusal` refuses both."""

    def __init__(self) -> None:
        self.power = Power()
        self.refusal = ""
        self.held = ""
        """Why the machine is kept awake; empty: it may sleep."""
        self.alarm: datetime | None = None

    def read(self) -> Power:
        """Return the power."""
        return self.power

    def hold(self, why: str) -> str:
        """Keep the machine awake."""
        self.held = self.held or ("" if self.refusal else why)
        return self.refusal

    def release(self) -> None:
        """Allow sleep."""
        self.held = ""

    def wake_at(self, at: datetime | None) -> str:
        """Set the alarm."""
        self.alarm = None if self.refusal else at
        return self.refusal

    def close(self) -> None:
        """Allow sleep, without an alarm."""
        self.held, self.alarm = "", None


class ScriptedLogins:
    """Scripted logins: every agent is logged in, except those whose providers are in `missing`."""

    def __init__(self) -> None:
        self.missing: set[str] = set()
        self.versions: dict[str, str] = {}
        """The versions of programs by adapter."""
        self.checked: list[str] = []

    async def works(self, work: Work) -> bool:
        """Return whether an agent is logged in."""
        provider = work.agent.provider if work.agent is not None else ""
        self.checked.append(provider)
        return provider not in self.missing

    async def version(self, work: Work) -> str:
        """Return the version in `versions`."""
        return self.versions.get(work.agent.adapter, "") if work.agent is not None else ""
