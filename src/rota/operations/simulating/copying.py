"""A copy of the state: all that a scheduler would begin with, read once; or what a file alone would make."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median

from rota.engine.pauses import Pause, everything_paused
from rota.model.budget import Account
from rota.model.clock import MILLISECOND
from rota.model.records import Group, Job, Run
from rota.model.spec import Draw, JobSpec, Kind, Mode
from rota.operations.simulating.accounts import Largest
from rota.rules.budget import RECENT
from rota.rules.budget_windows import window_of
from rota.rules.cursor import first_cursor
from rota.rules.planned import Span
from rota.settings import Settings
from rota.store import budgets, cadence, chains, finding, groups, jobs, polls, queue
from rota.store.chains import Chain
from rota.store.driver import Database
from rota.store.groups import Seat

LAST_RUNS = 30
UNFINISHED = 100_000


@dataclass(frozen=True, slots=True)
class State:
    """What a scheduler begins with."""

    jobs: tuple[Job, ...]
    pools: Mapping[str, int]
    aging: timedelta | None = None
    durations: Mapping[str, timedelta] = field(default_factory=dict)
    spans: Mapping[str, tuple[Span, ...]] = field(default_factory=dict)
    runs: tuple[Run, ...] = ()
    lanes: Mapping[int, tuple[Draw, ...]] = field(default_factory=dict)
    begun: Mapping[str, Chain] = field(default_factory=dict)
    parties: tuple[tuple[Group, tuple[Seat, ...]], ...] = ()
    pause: Pause | None = None
    activity: datetime | None = None
    polled_at: datetime | None = None
    accounts: tuple[Account, ...] = ()
    used: Mapping[str, int] = field(default_factory=dict)
    largest: Largest = field(default_factory=dict)
    holds: Mapping[str, datetime] = field(default_factory=dict)
    """Until when the pools of providers that take no more work have no room."""


def copy_state(db: Database, *, now: datetime) -> State:
    """Return a copy of what is stored."""
    unfinished = tuple(finding.all_unfinished_runs(db, limit=UNFINISHED))
    busy = {run.job_id for run in unfinished}
    found = sorted(jobs.all_jobs(db), key=lambda job: job.id)
    kept = tuple(job for job in found if job.retired_at is None or job.id in busy)
    last, poll = cadence.last_activity(db), polls.last_poll(db)
    accounts, pools = tuple(stored.account for stored in budgets.accounts(db)), queue.pools(db)
    return State(
        kept,
        pools={pool.name: pool.capacity for pool in pools},
        holds={pool.name: pool.held_until for pool in pools if pool.held_until is not None},
        aging=queue.aging(db),
        durations={job.name: took for job in kept if (took := _usual(db, job)) is not None},
        spans={job.name: spans for job in kept if (spans := _spans(db, job, now=now))},
        runs=unfinished,
        lanes=queue.lane_draws(db),
        begun={one: chains.chain_of(db, one) for one in {run.chain_id for run in unfinished} if one is not None},
        parties=_groups(db, unfinished),
        pause=everything_paused(db),
        activity=None if last is None else last.at,
        polled_at=None if poll is None else poll.good_at,
        accounts=accounts,
        used={account.name: _used(db, account, now=now) for account in accounts},
        largest=_largest(db, kept, accounts),
    )


def fresh_state(specs: Sequence[JobSpec], settings: Settings, *, now: datetime) -> State:
    """Return the state as it would be just after these jobs were applied for the first time."""
    made = tuple(_newborn(spec, index, now) for index, spec in enumerate(specs))
    accounts = tuple(settings.budgets.values())
    return State(made, pools=settings.pools, aging=settings.scheduler.aging, accounts=accounts)


def afresh(state: State, *, now: datetime) -> State:
    """Return a state with its jobs planned as if they were applied at `now`: nothing runs, waits or is paused."""
    specs = [job.spec for job in state.jobs if job.retired_at is None]
    return State(
        tuple(_newborn(spec, index, now) for index, spec in enumerate(specs)),
        pools=state.pools,
        aging=state.aging,
        durations=state.durations,
        accounts=state.accounts,
        largest=state.largest,
    )


def _newborn(spec: JobSpec, index: int, now: datetime) -> Job:
    adaptive = spec.schedule.by_mode is not None
    cursor = first_cursor(spec, created_at=now, mode=Mode.DORMANT)
    return Job(
        id=f"{index:06}",
        name=spec.name,
        source="",
        version=1,
        spec=spec,
        created_at=now,
        updated_at=now,
        enabled=spec.enabled,
        retired_at=None,
        used_up_at=None,
        next_for=cursor.next_for,
        next_at=cursor.next_at,
        anchored_at=None,
        fire_number=0,
        run_number=0,
        ledger_from=now,
        mode=Mode.DORMANT if adaptive else None,
    )


def _usual(db: Database, job: Job) -> timedelta | None:
    """Return how long the job's last runs took: half of them longer, half of them shorter."""
    if job.spec.work.kind is Kind.GROUP:
        return None
    found = [took // MILLISECOND for took in finding.durations(db, job.id, limit=LAST_RUNS)]
    return round(median(found)) * MILLISECOND if found else None


def _spans(db: Database, job: Job, *, now: datetime) -> tuple[Span, ...]:
    """Return the executions that decide whether a late instant was missed or met another run (R-10)."""
    if job.next_for is None or now - job.next_for <= job.spec.misfire.grace:
        return ()
    grouped = job.spec.work.kind is Kind.GROUP
    found = finding.executed_spans(db, job.id, since=job.next_for, until=now, grouped=grouped)
    return tuple(Span(start, end, handle) for start, end, handle in found)


def _used(db: Database, account: Account, *, now: datetime) -> int:
    found = budgets.find_window(db, account, window_of(account.per, account.timezone, now))
    return 0 if found is None else found.used


def _largest(db: Database, found: Sequence[Job], accounts: Sequence[Account]) -> dict[tuple[str, str], int]:
    """Return the dearest of the last runs of each job, by job and account."""
    named = {account.name: account for account in accounts}
    spends = [(job, named[spend.account]) for job in found for spend in job.spec.budgets if spend.account in named]
    told = {(job.name, one.name): budgets.largest(db, job.id, one, recent=RECENT) for job, one in spends}
    return {key: amount for key, amount in told.items() if amount is not None}


def _groups(db: Database, unfinished: Sequence[Run]) -> tuple[tuple[Group, tuple[Seat, ...]], ...]:
    ids = dict.fromkeys(run.group_id for run in unfinished if run.group_id is not None)
    found = [groups.group_by_id(db, group_id) for group_id in ids]
    return tuple((group, tuple(groups.seats(db, group.id))) for group in found if group is not None)
