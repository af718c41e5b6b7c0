"""The simulated project: runs, waiting causes and budgets."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Protocol

from rota.model.budgets import Account, Unit, Window
from rota.model.clock import to_ms
from rota.model.records import Job
from rota.model.spec import Draw, GroupMode, JobSpec, Kind, OnFailure, OverlapPolicy
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.rules.admission import ActiveRun, Admission, Admit
from rota.rules.budgets import Charge, Estimate, estimate_of, judge, window_of
from rota.rules.groups import MemberState
from rota.rules.queue_order import NO_POOLS, Head, Order, Room, place_of, walk
from rota.rules.schedule.plan import ExecutionSpan, FireFacts

Largest = Mapping[tuple[str, str], int]
"""The dearest of the last runs of a job, by job and account."""


@dataclass(slots=True, eq=False)
class SimWindow:
    """A window of an account, and what is used of it."""

    window: Window
    settled: int = 0
    reserved: int = 0

    @property
    def used(self) -> int:
        """What is spent, and what runs under way are expected to spend."""
        return self.settled + self.reserved


@dataclass(slots=True)
class Book:
    """An account and its windows, the present one last."""

    account: Account
    windows: list[SimWindow] = field(default_factory=list)

    def open(self, now: datetime) -> SimWindow:
        """Return the window that holds `now`."""
        if not self.windows or now >= self.windows[-1].window.until:
            self.windows.append(SimWindow(window_of(self.account.per, self.account.timezone, now)))
        return self.windows[-1]


@dataclass(frozen=True, slots=True)
class SimReservation:
    """What a run under way holds of a window."""

    window: SimWindow
    amount: int


@dataclass(slots=True)
class Accounts:
    """All accounts, and what runs under way hold of them."""

    books: dict[str, Book] = field(default_factory=dict)
    largest: Largest = field(default_factory=dict)
    _held: dict[str, list[SimReservation]] = field(default_factory=dict)

    def reserve(self, run_id: str, spec: JobSpec, *, now: datetime) -> Admission:
        """Reserve what a run is expected to cost in all of its accounts, or in none."""
        found = [
            (filled, Charge(book.account, filled.window, filled.settled, filled.reserved, estimate))
            for book, estimate in self.estimates(spec)
            for filled in [book.open(now)]
        ]
        verdict = judge([charge for _, charge in found])
        if isinstance(verdict, Admit):
            self._held[run_id] = [SimReservation(filled, charge.estimate.amount) for filled, charge in found]
            for held in self._held[run_id]:
                held.window.reserved += held.amount
        return verdict

    def settle(self, run_id: str) -> None:
        """Charge a run that ended what it was expected to cost."""
        for held in self._held.pop(run_id, ()):
            held.window.reserved -= held.amount
            held.window.settled += held.amount

    def estimates(self, spec: JobSpec) -> list[tuple[Book, Estimate]]:
        """Return the accounts of a job by name, and what a run of it is expected to cost."""
        spends = {spend.account: spend for spend in spec.budgets if spend.account in self.books}
        return [
            (book, estimate_of(spends[name], book.account, largest=self.largest.get((spec.name, name))))
            for name in sorted(spends)
            for book in [self.books[name]]
        ]

    def requests(self, spec: JobSpec) -> int:
        """Return how many remote requests a run is expected to make; accounts of one unit count the same ones."""
        found = [each.amount for book, each in self.estimates(spec) if book.account.unit is Unit.REQUESTS]
        return max(found, default=0)


put = object.__setattr__
"""Changes a field of a job that only the play knows: a new record for each fire would take half of the time."""
_NOTHING = FireFacts()
QUEUED, RUNNING, COMPLETED, FAILED = Status.QUEUED, Status.RUNNING, Status.COMPLETED, Status.FAILED
"""What each run of a play is asked for: a member of an enum takes three times as long to look up as a name."""
HOLDING = (RUNNING, Status.DISPATCHED)


@dataclass(slots=True, eq=False)
class PlayedJob:
    """A job in play: as it stands now, its unfinished runs, and what is assumed of them.

    `spans`: the executions since its cursor that were over before the play began (R-10). `place`: of jobs that are due
    together the one that was made first fires first. `calls`: how many remote calls each of its runs makes.
    `is_group`: its runs are groups, which take no slot; `is_gated`: something stands between claim and start.
    """

    job: Job
    takes: timedelta
    fails: float = 0.0
    unfinished: "list[PlayedRun]" = field(default_factory=list)
    spans: tuple[ExecutionSpan, ...] = ()
    number: int = 0
    place: int = 0
    calls: int = 0
    is_group: bool = field(init=False)
    is_gated: bool = field(init=False)

    def __post_init__(self) -> None:
        spec = self.job.spec
        self.is_group = spec.work.kind is Kind.GROUP
        self.is_gated = bool(spec.gates.needs_poll or spec.gates.expires_after or spec.budgets)

    @property
    def name(self) -> str:
        """The job's name."""
        return self.job.name

    @property
    def scheduled_chain_unfinished(self) -> bool:
        """Whether a chain that the schedule began is not final."""
        return any(run.first.trigger is Trigger.SCHEDULE for run in self.unfinished)

    def alter(self, **changes: object) -> None:
        """Change the job, which only the play knows."""
        for name, value in changes.items():
            put(self.job, name, value)

    def facts(self) -> FireFacts:
        """Return what the rules of a fire look at."""
        return FireFacts(self.active(), self.spans) if self.unfinished or self.spans else _NOTHING

    def active(self) -> tuple[ActiveRun, ...]:
        """Return what overlap looks at, oldest first: a retry is as old as its chain."""
        if not self.unfinished or self.job.spec.overlap.policy is OverlapPolicy.ALLOW:
            return ()
        found = sorted(self.unfinished, key=lambda run: (run.first.id, run.id))
        return tuple(ActiveRun(run.id, run.handle, run.status, run.waiting_for) for run in found)


class PlayedRun:
    """A run in play. Most of it stays as it is below: only what a run is born with is set for each of them."""

    status: Status = QUEUED
    reason: Reason | None = None
    waiting_for: WaitingFor | None = None
    not_before: datetime | None = None
    expires_at: datetime | None = None
    draws: tuple[Draw, ...] = ()
    order: Order = (0, 0, 0, "")
    attempt: int = 1
    begun: "PlayedRun | None" = None
    predecessor: "PlayedRun | None" = None
    followers: "tuple[PlayedRun, ...]" = ()
    group: "PlayedGroup | None" = None
    place: int = 0
    always: bool = False
    ready_at: datetime | None = None
    started_at: datetime | None = None
    ends_at: datetime | None = None
    finished_at: datetime | None = None

    def __init__(
        self,
        run_id: str,
        played: PlayedJob,
        *,
        number: int,
        trigger: Trigger,
        created_at: datetime,
        scheduled_for: datetime | None = None,
    ) -> None:
        self.id = run_id
        self.played = played
        self.number = number
        self.trigger = trigger
        self.created_at = created_at
        self.scheduled_for = scheduled_for

    def follow(self, predecessor: "PlayedRun") -> None:
        """Wait for another run."""
        self.predecessor = predecessor
        predecessor.followers = (*predecessor.followers, self)

    @property
    def handle(self) -> str:
        """The run as people write it: `backup:112`."""
        return f"{self.played.job.name}:{self.number}"

    @property
    def first(self) -> "PlayedRun":
        """The run that began the chain: itself where it is no retry."""
        return self.begun or self

    @property
    def claimable(self) -> bool:
        """Whether the run stands in the queue and waits for nothing."""
        return self.status is QUEUED and self.waiting_for is None


@dataclass(slots=True, eq=False)
class PlayedGroup:
    """A group in play: the newest attempt at each place, and the run that it belongs to."""

    mode: GroupMode
    on_failure: OnFailure
    run: PlayedRun | None
    seats: list[PlayedRun] = field(default_factory=list)
    cancelled: bool = False
    final: bool = False

    def places(self) -> list[MemberState]:
        """Return the places as the rule looks at them."""
        return [
            MemberState(
                run.place,
                run.status,
                always=run.always,
                held=run.waiting_for is WaitingFor.PREDECESSOR,
                tried=run.attempt > 1,
            )
            for run in self.seats
        ]

    def sit(self, run: PlayedRun) -> None:
        """Let a new attempt take the place of the one before it."""
        self.seats[self.seats.index(next(seat for seat in self.seats if seat.place == run.place))] = run


@dataclass(slots=True)
class SimEnd:
    """How a run ends."""

    run: PlayedRun
    status: Status
    reason: Reason | None = None


Draws = tuple[Draw, ...]


@dataclass(slots=True)
class CapacityLevel:
    """How much of a capacity is in use, the most that ever was, and for how long nothing more had room."""

    capacity: int
    used: int = 0
    peak: int = 0
    full_for: timedelta = timedelta()
    full_since: datetime | None = None

    def take(self, amount: int, now: datetime) -> None:
        """Count an amount as used."""
        self.used += amount
        if self.used > self.peak:
            self.peak = self.used
        if self.used >= self.capacity and self.full_since is None:
            self.full_since = now

    def give_back(self, amount: int, now: datetime) -> None:
        """Count an amount as free again."""
        self.used -= amount
        if self.full_since is not None and self.used < self.capacity:
            self.full_for += now - self.full_since
            self.full_since = None

    def full_until(self, until: datetime) -> timedelta:
        """Return for how long nothing more had room, up to a moment."""
        return self.full_for if self.full_since is None else self.full_for + (until - self.full_since)


@dataclass(slots=True)
class SimQueue:
    """Who may be claimed, and how much room slots and pools have."""

    slots: CapacityLevel
    pools: dict[str, CapacityLevel] = field(default_factory=dict)
    lanes: dict[Draws, list[tuple[Order, PlayedRun]]] = field(default_factory=dict)
    holds: Mapping[str, datetime] = field(default_factory=dict)
    """Until when the pools of providers that take no more work have no room."""

    def add(self, run: PlayedRun) -> None:
        """Let a run stand in its lane."""
        heapq.heappush(self.lanes.setdefault(run.draws, []), (run.order, run))

    def take(self, now: datetime) -> list[PlayedRun]:
        """Return the runs that go into the free slots, in order, and take slots and pools for them."""
        free = self.slots.capacity - self.slots.used
        if free <= 0 or not self.lanes:
            return []
        plain = len(self.lanes) == 1 and () in self.lanes
        chosen = self._first(free) if plain else self._walk(free, now)
        for run in chosen:
            self.occupy(run, now)
        return chosen

    def _first(self, free: int) -> list[PlayedRun]:
        """Return the first runs where nobody draws on any pool."""
        lane = self.lanes.pop(())
        chosen: list[PlayedRun] = []
        while lane and len(chosen) < free:
            _, run = heapq.heappop(lane)
            if run.claimable:
                chosen.append(run)
        if lane:
            self.lanes[()] = lane
        return chosen

    def _walk(self, free: int, now: datetime) -> list[PlayedRun]:
        """Return the first runs that have room in their pools (R-03)."""
        found = [head for draws in list(self.lanes) if (head := self._head(draws)) is not None]
        heads = sorted(found, key=lambda head: head.order)
        going: dict[str, PlayedRun] = {}

        def following(head: Head) -> Head | None:
            _, run = heapq.heappop(self.lanes[head.draws])
            going[run.id] = run
            return self._head(head.draws)

        return [going[head.run_id] for head in walk(heads, self._room(now), free=free, following=following)]

    def occupy(self, run: PlayedRun, now: datetime) -> None:
        """Count the slot and the pools of a run that has them."""
        self.slots.take(1, now)
        for draw in run.draws:
            self._pool(draw.pool).take(draw.cost, now)

    def give_back(self, run: PlayedRun, now: datetime) -> None:
        """Count the slot and the pools of a run as free again."""
        self.slots.give_back(1, now)
        for draw in run.draws:
            self._pool(draw.pool).give_back(draw.cost, now)

    def _pool(self, name: str) -> CapacityLevel:
        """Return a pool; one that is no longer there has no room, but older runs draw on it."""
        return self.pools.setdefault(name, CapacityLevel(0))

    def _head(self, draws: Draws) -> Head | None:
        """Return the first of a lane that still may be claimed; a lane that is empty is forgotten."""
        lane = self.lanes[draws]
        while lane and not lane[0][1].claimable:
            heapq.heappop(lane)
        if not lane:
            del self.lanes[draws]
            return None
        return Head(lane[0][0], NO_POOLS, draws)

    def _room(self, now: datetime) -> Room:
        capacity = {name: level.capacity for name, level in self.pools.items()}
        left = {name: level.capacity - level.used for name, level in self.pools.items()}
        closed = frozenset(name for name, until in self.holds.items() if until > now)
        return Room(capacity, {**left, **dict.fromkeys(closed, 0)}, closed=closed)


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
    waiting: SimQueue
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
