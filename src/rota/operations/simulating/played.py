"""Jobs, runs and groups in play: what the engine keeps in rows, kept in memory."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rota.model.records import Job
from rota.model.spec import Draw, GroupMode, Kind, OnFailure, OverlapPolicy
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.rules.group import Place
from rota.rules.lanes import Order
from rota.rules.overlap import ActiveRun
from rota.rules.planned import FireFacts, Span

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
    spans: tuple[Span, ...] = ()
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

    def places(self) -> list[Place]:
        """Return the places as the rule looks at them."""
        return [
            Place(
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
class End:
    """How a run ends."""

    run: PlayedRun
    status: Status
    reason: Reason | None = None
