"""Processes and work sources for tests: they do what a script says, on the clock of the test."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from rota.engine.claim import Claimed
from rota.engine.sources import Classes, ThreadedSources
from rota.model.records import Outcome, ProcessIdentity
from rota.model.spec import Condition, Work, WorkSource
from rota.model.states import Reason, Status
from rota.model.work import Source
from rota.rules.admission import ConditionResult
from rota.settings import Settings
from rota.store.driver import T
from rota.testing.clock import FakeClock

BOOT = "test-boot"
COMPLETED = Outcome(Status.COMPLETED, exit_code=0)


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

    async def outcome(self, run_id: str, identity: ProcessIdentity, work: Work | None = None) -> Outcome:  # noqa: ARG002
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
