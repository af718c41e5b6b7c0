"""What is shared while a simulation plays: the virtual clock, what is due when, the jobs, the queue."""

import heapq
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Protocol

from rota.model.clock import to_ms
from rota.model.spec import Kind
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.operations.simulating.accounts import Accounts
from rota.operations.simulating.played import PlayedJob, PlayedRun, put
from rota.operations.simulating.waiting import Waiting
from rota.rules.order import place_of


class Due(IntEnum):
    """What comes up beside fires and ends, in the order in which the engine looks at it within one instant."""

    EXPIRE = 0
    RELEASE = 1
    PAUSE_END = 2
    STOP = 3


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row of instants that do not run, as `rota history` would show it."""

    reason: Reason
    scheduled_for: datetime
    covers_to: datetime | None
    count: int | None


class Observer(Protocol):
    """Who looks on: counts, or keeps what it is told."""

    def look(self, now: datetime) -> None:
        """All that is told from here on happens at this moment."""

    def fired(self, run: PlayedRun) -> None:
        """An instant leads to a run."""

    def skipped(self, played: PlayedJob, row: Skipped) -> None:
        """Instants do not run."""

    def ended(self, run: PlayedRun) -> None:
        """A run is final."""

    def waits(self, run: PlayedRun) -> None:
        """A run goes back to wait for a poll or a budget."""

    def charged(self, accounts: Accounts) -> None:
        """Budgets are used differently from now on."""

    def moded(self, played: PlayedJob) -> None:
        """A job is planned in another mode from now on."""


Subject = PlayedJob | PlayedRun | None


@dataclass(slots=True)
class Stage:
    """A scheduler in memory at one moment of its virtual clock, and what comes up when.

    Of fires, ends and all else each has a heap of its own: nearly everything that comes up is one of the first two.
    """

    now: datetime
    waiting: Waiting
    observer: Observer
    aging: timedelta | None = None
    accounts: Accounts = field(default_factory=Accounts)
    paused: bool = False
    poll: PlayedJob | None = None
    polled_at: datetime | None = None
    polling: list[PlayedRun] = field(default_factory=list)
    jobs: dict[str, PlayedJob] = field(default_factory=dict)
    named: dict[str, PlayedJob] = field(default_factory=dict)
    mode_at: datetime | None = None
    agent_ended_at: datetime | None = None
    """When the last run of an agent ended that counts as activity (R-18)."""
    fires: list[tuple[datetime, int, int, PlayedJob]] = field(default_factory=list)
    ends: list[tuple[datetime, int, PlayedRun]] = field(default_factory=list)
    others: list[tuple[datetime, Due, int, Subject]] = field(default_factory=list)
    began: datetime = field(init=False)
    _planned: int = 0
    _born: int = 0

    def __post_init__(self) -> None:
        self.began = self.now

    def plan(self, due: Due, at: datetime, subject: Subject = None) -> None:
        """Note that something comes up."""
        self._planned += 1
        heapq.heappush(self.others, (at, due, self._planned, subject))

    def plan_end(self, run: PlayedRun, at: datetime) -> None:
        """Note when a run ends."""
        self._planned += 1
        run.ends_at = at
        heapq.heappush(self.ends, (at, self._planned, run))

    def next_at(self) -> datetime | None:
        """Return when the next thing comes up."""
        first = self.mode_at
        for coming in (self.fires, self.ends, self.others):
            if coming and (first is None or coming[0][0] < first):
                first = coming[0][0]
        return first

    def due_fires(self) -> list[PlayedJob]:
        """Return the jobs that are due, the longest due first, of equals the one that was made first."""
        found: list[PlayedJob] = []
        while self.fires and self.fires[0][0] <= self.now:
            found.append(heapq.heappop(self.fires)[3])
        return found

    def due_ends(self) -> list[PlayedRun]:
        """Return the runs that end now, in the order in which they started."""
        found: list[PlayedRun] = []
        while self.ends and self.ends[0][0] <= self.now:
            run = heapq.heappop(self.ends)[2]
            if run.finished_at is None:
                found.append(run)
        return found

    def due_others(self) -> list[tuple[Due, Subject]]:
        """Return what else is due."""
        found: list[tuple[Due, Subject]] = []
        while self.others and self.others[0][0] <= self.now:
            _, due, _, subject = heapq.heappop(self.others)
            found.append((due, subject))
        return found

    def add(self, played: PlayedJob) -> None:
        """Let a job take part."""
        played.place = len(self.jobs)
        self.jobs[played.job.id] = self.named[played.name] = played
        if played.job.spec.work.kind is Kind.POLL:
            self.poll = played
        self.move(played, played.job.next_for, played.job.next_at)

    def move(self, played: PlayedJob, next_for: datetime | None, next_at: datetime | None) -> None:
        """Give a job its cursor."""
        put(played.job, "next_for", next_for)
        put(played.job, "next_at", next_at)
        if next_at is not None:
            self._planned += 1
            heapq.heappush(self.fires, (next_at, played.place, self._planned, played))

    def bear(self, run: PlayedRun) -> PlayedRun:
        """Let a run enter play; its place in the queue is that of its birth (INV-004)."""
        played = run.played
        spec = played.job.spec
        played.unfinished.append(run)
        created = to_ms(run.created_at)
        place = place_of(spec.priority, created_ms=created, aging=self.aging)
        run.order = (-place.rank, place.position, created, run.id)
        run.draws = () if played.is_group else spec.pools
        if run.expires_at is not None:
            self.plan(Due.EXPIRE, run.expires_at, run)
        if run.not_before is not None:
            self.plan(Due.RELEASE, run.not_before, run)
        return run

    def newborn(self, played: PlayedJob, trigger: Trigger, scheduled_for: datetime | None) -> PlayedRun:
        """Return a run made now, which is not in play yet."""
        self._born += 1
        played.number += 1
        run_id = f"z{self._born:012}"  # behind all that are stored
        return PlayedRun(
            run_id,
            played,
            number=played.number,
            trigger=trigger,
            created_at=self.now,
            scheduled_for=scheduled_for,
        )

    def ready(self, run: PlayedRun) -> None:
        """Let a run that waits for nothing stand in the queue."""
        run.waiting_for = run.not_before = None
        run.ready_at = self.now
        self.waiting.add(run)

    def wait(self, run: PlayedRun, waiting_for: WaitingFor, until: datetime) -> None:
        """Let a run wait until a moment."""
        run.status, run.waiting_for, run.not_before = Status.QUEUED, waiting_for, until
        self.plan(Due.RELEASE, until, run)
        self.observer.waits(run)
