"""The simulated engine's memory: jobs, runs, groups, queue, budgets, and the times at which something happens."""

import heapq
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import force_setattr

from rota.model.budgets import Account, Unit, Window
from rota.model.clock import to_ms
from rota.model.records import Job
from rota.model.spec import Draw, GroupMode, JobSpec, Kind, OnFailure, OverlapPolicy
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.rules.admission import ActiveRun, Admission, Admit
from rota.rules.budgets import Charge, Estimate, estimate_of, judge, window_of
from rota.rules.groups import MemberState
from rota.rules.queue_order import NO_POOLS, Head, Order, Room, place_of, walk
from rota.rules.schedule.plan import ExecutionSpan, FireFacts, PlannedSkip

Largest = Mapping[tuple[str, str], int]
"""The most expensive of the last runs, by job and account."""
Draws = tuple[Draw, ...]


class SimWindow(Struct, eq=False):
    """A window of an account and its usage."""

    window: Window
    settled: int = 0
    reserved: int = 0

    @property
    def used(self) -> int:
        """The settled amount plus the reservations of running runs."""
        return self.settled + self.reserved


class Book(Struct):
    """An account and its windows, the current one last."""

    account: Account
    windows: list[SimWindow] = field(default_factory=list)

    def open(self, now: datetime) -> SimWindow:
        """Return the window that holds `now`."""
        if not self.windows or now >= self.windows[-1].window.until:
            self.windows.append(SimWindow(window_of(self.account.per, self.account.timezone, now)))
        return self.windows[-1]


class Accounts(Struct):
    """All accounts and the reservations of running runs."""

    books: dict[str, Book] = field(default_factory=dict)
    largest: Largest = field(default_factory=dict)
    _reserved: dict[str, list[tuple[SimWindow, int]]] = field(default_factory=dict)

    def reserve(self, run_id: str, spec: JobSpec, *, now: datetime) -> Admission:
        """Reserve the estimated cost of a run in all of its accounts, or in none."""
        windows = [(book, book.open(now), estimate) for book, estimate in self.estimates(spec)]
        verdict = judge(
            [Charge(book.account, each.window, each.settled, each.reserved, cost) for book, each, cost in windows]
        )
        if isinstance(verdict, Admit):
            self._reserved[run_id] = [(window, estimate.amount) for _, window, estimate in windows]
            for window, amount in self._reserved[run_id]:
                window.reserved += amount
        return verdict

    def settle(self, run_id: str) -> None:
        """Charge a finished run its estimated cost."""
        for window, amount in self._reserved.pop(run_id, ()):
            window.reserved -= amount
            window.settled += amount

    def estimates(self, spec: JobSpec) -> list[tuple[Book, Estimate]]:
        """Return the accounts of a job in order of name, each with the estimated cost of a run."""
        spends = {spend.account: spend for spend in spec.budgets if spend.account in self.books}
        return [
            (
                self.books[name],
                estimate_of(spend, self.books[name].account, largest=self.largest.get((spec.name, name))),
            )
            for name, spend in sorted(spends.items())
        ]

    def requests(self, spec: JobSpec) -> int:
        """Return the estimated number of remote requests of a run; accounts of one unit count the same requests."""
        estimates = self.estimates(spec)
        return max((each.amount for book, each in estimates if book.account.unit is Unit.REQUESTS), default=0)


put = force_setattr
"""Changes a field of a frozen job record: a new record for each fire would double the time of a simulation."""
_NOTHING = FireFacts()
QUEUED, RUNNING, COMPLETED, FAILED = Status.QUEUED, Status.RUNNING, Status.COMPLETED, Status.FAILED
"""Global names: the lookup of an enum member takes three times as long."""
HOLDING = (RUNNING, Status.DISPATCHED)
BEHIND_STORED = 1 << 62
"""Simulated runs stand behind the stored ones of the same instant."""


class SimJob(Struct, eq=False):
    """A simulated job: its current record, its unfinished runs, and the assumptions about its runs.

    `spans`: executions since its cursor that ended before the simulation began. `place`: order of creation; of jobs
    that are due together the oldest fires first. `calls`: remote calls of each run. `is_group`: its runs are groups and
    take no slot. `is_gated`: a check stands between claim and start.
    """

    job: Job
    takes: timedelta
    fails: float = 0.0
    unfinished: "list[SimRun]" = field(default_factory=list)
    spans: tuple[ExecutionSpan, ...] = ()
    number: int = 0
    place: int = 0
    calls: int = 0
    is_group: bool = False
    is_gated: bool = False

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

    def update_record(self, **changes: object) -> None:
        """Change fields of the job record."""
        for name, value in changes.items():
            put(self.job, name, value)

    def facts(self) -> FireFacts:
        """Return the facts for the rules of a fire: active runs oldest first, where a retry is as old as its chain."""
        if not self.unfinished and not self.spans:
            return _NOTHING
        if not self.unfinished or self.job.spec.overlap.policy is OverlapPolicy.ALLOW:
            return FireFacts((), self.spans)
        runs = sorted(self.unfinished, key=lambda run: (run.first.id, run.id))
        active = tuple(ActiveRun(run.id, run.handle, run.status, run.waiting_for) for run in runs)
        return FireFacts(active, self.spans)


class SimRun:
    """A simulated run. Most fields keep the class defaults, so that a new run sets only a few."""

    status: Status = QUEUED
    reason: Reason | None = None
    waiting_for: WaitingFor | None = None
    not_before: datetime | None = None
    expires_at: datetime | None = None
    draws: Draws = ()
    order: Order = (0, 0, 0, 0)
    attempt: int = 1
    chain_start: "SimRun | None" = None
    predecessor: "SimRun | None" = None
    followers: "tuple[SimRun, ...]" = ()
    group: "SimGroup | None" = None
    place: int = 0
    always: bool = False
    ready_at: datetime | None = None
    started_at: datetime | None = None
    ends_at: datetime | None = None
    finished_at: datetime | None = None

    def __init__(
        self,
        run_id: str,
        sim_job: SimJob,
        *,
        number: int,
        trigger: Trigger,
        created_at: datetime,
        scheduled_for: datetime | None = None,
    ) -> None:
        self.id = run_id
        self.sim_job = sim_job
        self.number = number
        self.trigger = trigger
        self.created_at = created_at
        self.scheduled_for = scheduled_for

    def follow(self, predecessor: "SimRun") -> None:
        """Wait for another run."""
        self.predecessor = predecessor
        predecessor.followers = (*predecessor.followers, self)

    @property
    def handle(self) -> str:
        """The name of the run: `backup:112`."""
        return f"{self.sim_job.job.name}:{self.number}"

    @property
    def first(self) -> "SimRun":
        """The first run of the chain: the run itself unless it is a retry."""
        return self.chain_start or self

    @property
    def claimable(self) -> bool:
        """Whether the run is queued and waits for nothing."""
        return self.status is QUEUED and self.waiting_for is None


class SimGroup(Struct, eq=False):
    """A simulated group: the newest attempt of each member, and the group's own run."""

    mode: GroupMode
    on_failure: OnFailure
    run: SimRun | None
    members: list[SimRun] = field(default_factory=list)
    cancelled: bool = False
    final: bool = False

    def states(self) -> list[MemberState]:
        """Return the members as the rules of groups need them."""
        return [
            MemberState(
                run.place,
                run.status,
                always=run.always,
                held=run.waiting_for is WaitingFor.PREDECESSOR,
                tried=run.attempt > 1,
            )
            for run in self.members
        ]

    def replace_attempt(self, run: SimRun) -> None:
        """Put a new attempt in the place of the previous one."""
        self.members = [run if member.place == run.place else member for member in self.members]


class SimEnd(Struct):
    """The end of a run."""

    run: SimRun
    status: Status
    reason: Reason | None = None


class CapacityLevel(Struct):
    """The usage of a capacity, its peak, and how long it was full."""

    capacity: int
    used: int = 0
    peak: int = 0
    full_for: timedelta = timedelta()
    full_since: datetime | None = None

    def take(self, amount: int, now: datetime) -> None:
        """Add to the usage."""
        self.used += amount
        if self.used > self.peak:
            self.peak = self.used
        if self.used >= self.capacity and self.full_since is None:
            self.full_since = now

    def give_back(self, amount: int, now: datetime) -> None:
        """Subtract from the usage."""
        self.used -= amount
        if self.full_since is not None and self.used < self.capacity:
            self.full_for += now - self.full_since
            self.full_since = None


class SimQueue(Struct):
    """The claimable runs by lane, and the usage of slots and pools; `holds`: until when a provider's pool is closed."""

    slots: CapacityLevel
    pools: dict[str, CapacityLevel] = field(default_factory=dict)
    lanes: dict[Draws, list[tuple[Order, SimRun]]] = field(default_factory=dict)
    holds: Mapping[str, datetime] = field(default_factory=dict)

    def add(self, run: SimRun) -> None:
        """Add a run to its lane."""
        heapq.heappush(self.lanes.setdefault(run.draws, []), (run.order, run))

    def take(self, now: datetime) -> list[SimRun]:
        """Return the runs that go into the free slots, in order, and take slots and pools for them."""
        free = self.slots.capacity - self.slots.used
        if free <= 0 or not self.lanes:
            return []
        plain = len(self.lanes) == 1 and () in self.lanes
        chosen = self._first(free) if plain else self._walk(free, now)
        for run in chosen:
            self.occupy(run, now)
        return chosen

    def _first(self, free: int) -> list[SimRun]:
        """Return the first runs if no run uses a pool."""
        lane = self.lanes.pop(())
        chosen: list[SimRun] = []
        while lane and len(chosen) < free:
            _, run = heapq.heappop(lane)
            if run.claimable:
                chosen.append(run)
        if lane:
            self.lanes[()] = lane
        return chosen

    def _walk(self, free: int, now: datetime) -> list[SimRun]:
        """Return the first runs that have room in their pools."""
        heads = [head for draws in list(self.lanes) if (head := self._head(draws)) is not None]
        chosen: dict[int, SimRun] = {}

        def following(head: Head) -> Head | None:
            order, run = heapq.heappop(self.lanes[head.draws])
            chosen[order[3]] = run
            return self._head(head.draws)

        capacity = {name: level.capacity for name, level in self.pools.items()}
        left = {name: level.capacity - level.used for name, level in self.pools.items()}
        closed = frozenset(name for name, until in self.holds.items() if until > now)
        room = Room(capacity, {**left, **dict.fromkeys(closed, 0)}, closed=closed)
        heads.sort(key=lambda head: head.order)
        return [chosen[head.seq] for head in walk(heads, room, free=free, following=following)]

    def occupy(self, run: SimRun, now: datetime) -> None:
        """Count the slot and the pools of a run as used."""
        self.slots.take(1, now)
        for draw in run.draws:
            self._pool(draw.pool).take(draw.cost, now)

    def give_back(self, run: SimRun, now: datetime) -> None:
        """Count the slot and the pools of a run as free."""
        self.slots.give_back(1, now)
        for draw in run.draws:
            self._pool(draw.pool).give_back(draw.cost, now)

    def _pool(self, name: str) -> CapacityLevel:
        """Return a pool. A pool that is no longer declared has no room, but older runs still use it."""
        return self.pools.setdefault(name, CapacityLevel(0))

    def _head(self, draws: Draws) -> Head | None:
        """Return the first claimable run of a lane; delete an empty lane."""
        lane = self.lanes[draws]
        while lane and not lane[0][1].claimable:
            heapq.heappop(lane)
        if not lane:
            del self.lanes[draws]
            return None
        return Head(lane[0][0], NO_POOLS, draws)


class Due(IntEnum):
    """Events beside fires and ends, in the order in which the engine handles them within one instant."""

    EXPIRE = 0
    RELEASE = 1
    PAUSE_END = 2
    STOP = 3


class Observer(Protocol):
    """Receives the events of a simulation."""

    def look(self, now: datetime) -> None:
        """Set the time of the following events."""

    def fired(self, run: SimRun) -> None:
        """Receive an instant that became a run."""

    def skipped(self, sim_job: SimJob, row: PlannedSkip) -> None:
        """Receive instants that do not run."""

    def ended(self, run: SimRun) -> None:
        """Receive a run that is final."""

    def waits(self, run: SimRun) -> None:
        """Receive a run that returns to the queue to wait for a poll or a budget."""

    def charged(self, accounts: Accounts) -> None:
        """Receive a change of the usage of budgets."""

    def mode_changed(self, sim_job: SimJob) -> None:
        """Receive a job that is planned in another mode."""


Subject = SimJob | SimRun | None


class SimEngine(Struct):
    """A scheduler in memory at one moment of its virtual clock, and its future events.

    Fires, ends and other events each have their own heap: nearly all events are fires and ends.
    """

    began: datetime
    now: datetime
    queue: SimQueue
    observer: Observer
    aging: timedelta | None = None
    accounts: Accounts = field(default_factory=Accounts)
    paused: bool = False
    poll: SimJob | None = None
    polled_at: datetime | None = None
    polling: list[SimRun] = field(default_factory=list)
    jobs: dict[str, SimJob] = field(default_factory=dict)
    named: dict[str, SimJob] = field(default_factory=dict)
    mode_at: datetime | None = None
    agent_ended_at: datetime | None = None
    """The end of the last agent run that counts as activity."""
    fires: list[tuple[datetime, int, int, SimJob]] = field(default_factory=list)
    ends: list[tuple[datetime, int, SimRun]] = field(default_factory=list)
    others: list[tuple[datetime, Due, int, Subject]] = field(default_factory=list)
    _planned: int = 0
    _ordered: int = 0
    _inserted: int = 0

    def plan(self, due: Due, at: datetime, subject: Subject = None) -> None:
        """Add an event."""
        self._planned += 1
        heapq.heappush(self.others, (at, due, self._planned, subject))

    def plan_end(self, run: SimRun, at: datetime) -> None:
        """Add the end of a run."""
        self._planned += 1
        run.ends_at = at
        heapq.heappush(self.ends, (at, self._planned, run))

    def next_at(self) -> datetime | None:
        """Return the time of the next event."""
        first = self.mode_at
        for events in (self.fires, self.ends, self.others):
            if events and (first is None or events[0][0] < first):
                first = events[0][0]
        return first

    def due_fires(self) -> list[SimJob]:
        """Return the due jobs, the longest due first, of equals the oldest first."""
        sim_jobs: list[SimJob] = []
        while self.fires and self.fires[0][0] <= self.now:
            sim_jobs.append(heapq.heappop(self.fires)[3])
        return sim_jobs

    def due_ends(self) -> list[SimRun]:
        """Return the runs that end now, in the order in which they started."""
        runs: list[SimRun] = []
        while self.ends and self.ends[0][0] <= self.now:
            run = heapq.heappop(self.ends)[2]
            if run.finished_at is None:
                runs.append(run)
        return runs

    def due_others(self) -> list[tuple[Due, Subject]]:
        """Return the other events that are due."""
        events: list[tuple[Due, Subject]] = []
        while self.others and self.others[0][0] <= self.now:
            _, due, _, subject = heapq.heappop(self.others)
            events.append((due, subject))
        return events

    def add(self, sim_job: SimJob) -> None:
        """Add a job."""
        sim_job.place = len(self.jobs)
        self.jobs[sim_job.job.id] = self.named[sim_job.name] = sim_job
        if sim_job.job.spec.work.kind is Kind.POLL:
            self.poll = sim_job
        self.move(sim_job, sim_job.job.next_for, sim_job.job.next_at)

    def move(self, sim_job: SimJob, next_for: datetime | None, next_at: datetime | None) -> None:
        """Set the cursor of a job."""
        put(sim_job.job, "next_for", next_for)
        put(sim_job.job, "next_at", next_at)
        if next_at is not None:
            self._planned += 1
            heapq.heappush(self.fires, (next_at, sim_job.place, self._planned, sim_job))

    def insert(self, run: SimRun) -> SimRun:
        """Insert a run; its place in the queue counts from its creation."""
        sim_job = run.sim_job
        spec = sim_job.job.spec
        sim_job.unfinished.append(run)
        created = to_ms(run.created_at)
        place = place_of(spec.priority, created_ms=created, aging=self.aging)
        self._ordered += 1
        run.order = (-place.rank, place.position, created, BEHIND_STORED + self._ordered)
        run.draws = () if sim_job.is_group else spec.pools
        if run.expires_at is not None:
            self.plan(Due.EXPIRE, run.expires_at, run)
        if run.not_before is not None:
            self.plan(Due.RELEASE, run.not_before, run)
        return run

    def new_run(self, sim_job: SimJob, trigger: Trigger, scheduled_for: datetime | None) -> SimRun:
        """Return a run created now, not yet inserted."""
        self._inserted += 1
        sim_job.number += 1
        run_id = f"z{self._inserted:012}"  # sorts after all stored runs
        number, now = sim_job.number, self.now
        return SimRun(run_id, sim_job, number=number, trigger=trigger, created_at=now, scheduled_for=scheduled_for)

    def ready(self, run: SimRun) -> None:
        """Add a run to the queue, claimable from now on."""
        run.waiting_for = run.not_before = None
        run.ready_at = self.now
        self.queue.add(run)

    def wait(self, run: SimRun, waiting_for: WaitingFor, until: datetime) -> None:
        """Return a run to the queue to wait until a time."""
        run.status, run.waiting_for, run.not_before = Status.QUEUED, waiting_for, until
        self.plan(Due.RELEASE, until, run)
        self.observer.waits(run)
