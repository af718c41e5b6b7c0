"""The starting state of a simulation, copied from the store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from statistics import median

from rota.engine.activity import PauseState, everything_paused
from rota.model.budgets import Account
from rota.model.clock import MILLISECOND, to_ms
from rota.model.errors import UnknownJob
from rota.model.records import Group, Job, Run
from rota.model.spec import Draw, JobSpec, Kind, Mode
from rota.model.states import Status, Trigger, WaitingFor
from rota.operations.simulate.model import (
    Accounts,
    Book,
    CapacityLevel,
    Due,
    Largest,
    Observer,
    PlayedGroup,
    PlayedJob,
    PlayedRun,
    SimQueue,
    Stage,
)
from rota.operations.simulate.transitions import remote_calls
from rota.rules.budgets import RECENT, window_of
from rota.rules.schedule.cursor import first_cursor
from rota.rules.schedule.plan import ExecutionSpan
from rota.settings import Settings
from rota.store.driver import Database
from rota.store.tables import activity, budgets, groups, jobs, queue, run_queries
from rota.store.tables.groups import GroupMember
from rota.store.tables.run_queries import Chain

LAST_RUNS = 30
UNFINISHED = 100_000


@dataclass(frozen=True, slots=True)
class State:
    """What a scheduler begins with."""

    jobs: tuple[Job, ...]
    pools: Mapping[str, int]
    aging: timedelta | None = None
    durations: Mapping[str, timedelta] = field(default_factory=dict)
    spans: Mapping[str, tuple[ExecutionSpan, ...]] = field(default_factory=dict)
    runs: tuple[Run, ...] = ()
    lanes: Mapping[int, tuple[Draw, ...]] = field(default_factory=dict)
    begun: Mapping[str, Chain] = field(default_factory=dict)
    parties: tuple[tuple[Group, tuple[GroupMember, ...]], ...] = ()
    pause: PauseState | None = None
    activity: datetime | None = None
    polled_at: datetime | None = None
    accounts: tuple[Account, ...] = ()
    used: Mapping[str, int] = field(default_factory=dict)
    largest: Largest = field(default_factory=dict)
    holds: Mapping[str, datetime] = field(default_factory=dict)
    """Until when the pools of providers that take no more work have no room."""


def copy_state(db: Database, *, now: datetime) -> State:
    """Return a copy of what is stored."""
    unfinished = tuple(run_queries.all_unfinished_runs(db, limit=UNFINISHED))
    busy = {run.job_id for run in unfinished}
    found = sorted(jobs.all_jobs(db), key=lambda job: job.id)
    kept = tuple(job for job in found if job.retired_at is None or job.id in busy)
    last, poll = activity.last_activity(db), activity.last_poll(db)
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
        begun={one: run_queries.chain_of(db, one) for one in {run.chain_id for run in unfinished} if one is not None},
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
    found = [took // MILLISECOND for took in run_queries.durations(db, job.id, limit=LAST_RUNS)]
    return round(median(found)) * MILLISECOND if found else None


def _spans(db: Database, job: Job, *, now: datetime) -> tuple[ExecutionSpan, ...]:
    """Return the executions that decide whether a late instant was missed or met another run (R-10)."""
    if job.next_for is None or now - job.next_for <= job.spec.misfire.grace:
        return ()
    grouped = job.spec.work.kind is Kind.GROUP
    found = run_queries.executed_spans(db, job.id, since=job.next_for, until=now, grouped=grouped)
    return tuple(ExecutionSpan(start, end, handle) for start, end, handle in found)


def _used(db: Database, account: Account, *, now: datetime) -> int:
    found = budgets.find_window(db, account, window_of(account.per, account.timezone, now))
    return 0 if found is None else found.used


def _largest(db: Database, found: Sequence[Job], accounts: Sequence[Account]) -> dict[tuple[str, str], int]:
    """Return the dearest of the last runs of each job, by job and account."""
    named = {account.name: account for account in accounts}
    spends = [(job, named[spend.account]) for job in found for spend in job.spec.budgets if spend.account in named]
    told = {(job.name, one.name): budgets.largest(db, job.id, one, recent=RECENT) for job, one in spends}
    return {key: amount for key, amount in told.items() if amount is not None}


def _groups(db: Database, unfinished: Sequence[Run]) -> tuple[tuple[Group, tuple[GroupMember, ...]], ...]:
    ids = dict.fromkeys(run.group_id for run in unfinished if run.group_id is not None)
    found = [groups.group_by_id(db, group_id) for group_id in ids]
    return tuple((group, tuple(groups.seats(db, group.id))) for group in found if group is not None)


USUAL = timedelta(seconds=1)
POLL = timedelta(milliseconds=200)
"""How long a run, or a poll, takes that nobody has seen."""


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is assumed of jobs by name: how long a run takes, and which share of them fails."""

    durations: Mapping[str, timedelta] = field(default_factory=dict)
    failures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunDuration:
    """How long a job's runs take, and how that is known: `given`, `history` or `assumed`."""

    duration: timedelta
    known: str


def takes(job: Job, state: State, assumptions: Assumptions) -> RunDuration:
    """Return how long a run of a job takes: as given, else as its last runs did, else as is usual."""
    if job.name in assumptions.durations:
        return RunDuration(assumptions.durations[job.name], "given")
    if job.name in state.durations:
        return RunDuration(state.durations[job.name], "history")
    return RunDuration(POLL if job.spec.work.kind is Kind.POLL else USUAL, "assumed")


def set_stage(state: State, assumptions: Assumptions, *, concurrency: int, observer: Observer, now: datetime) -> Stage:
    """Return a stage on which everything stands as in the copy of the state."""
    _refuse_unknown(state, assumptions)
    pools = {name: CapacityLevel(capacity) for name, capacity in state.pools.items()}
    waiting = SimQueue(CapacityLevel(concurrency), pools, holds=state.holds)
    stage = Stage(now, waiting, observer, aging=state.aging, accounts=_accounts(state, now), polled_at=state.polled_at)
    for until in state.holds.values():
        stage.plan(Due.RELEASE, until)  # who waits is looked at again
    for job in state.jobs:
        played = PlayedJob(
            replace(job),
            takes(job, state, assumptions).duration,
            assumptions.failures.get(job.name, 0.0),
            spans=state.spans.get(job.name, ()),
            number=job.run_number,
        )
        stage.add(played)
        played.calls = remote_calls(stage, played)
        if job.paused_until is not None:
            stage.plan(Due.PAUSE_END, job.paused_until, played)
    _set_runs(stage, state)
    if state.pause is not None and (state.pause.until is None or state.pause.until > now):
        stage.paused = True
        if state.pause.until is not None:
            stage.plan(Due.PAUSE_END, state.pause.until)
    return stage


def _accounts(state: State, now: datetime) -> Accounts:
    """Return the accounts with what is used of them; what runs under way hold counts as spent."""
    accounts = Accounts({account.name: Book(account) for account in state.accounts}, state.largest)
    for book in accounts.books.values():
        book.open(now).settled = state.used.get(book.account.name, 0)
    return accounts


def _refuse_unknown(state: State, assumptions: Assumptions) -> None:
    known = [job.name for job in state.jobs]
    for name in (*assumptions.durations, *assumptions.failures):
        if name not in known:
            raise UnknownJob(name, get_close_matches(name, known, n=1))


def _set_runs(stage: Stage, state: State) -> None:
    """Let the unfinished runs take part: those that run go on for as long as they usually do."""
    placed = {run.id: _placed(stage, state, run) for run in sorted(state.runs, key=lambda run: run.id)}
    for run in state.runs:
        _link(state, run, placed)
    for group, seats in state.parties:
        head = placed.get(group.run_id or "")
        made = PlayedGroup(group.mode, group.on_failure, head, cancelled=group.cancel_requested_at is not None)
        made.seats = [placed.get(seat.run_id) or _final(stage, seat) for seat in seats]
        for seat in made.seats:
            seat.group = made
        if head is not None:
            head.group = made
    for one in placed.values():
        _go_on(stage, one)


def _placed(stage: Stage, state: State, run: Run) -> PlayedRun:
    played = stage.jobs[run.job_id]
    placed = PlayedRun(
        run.id,
        played,
        number=run.number,
        trigger=run.trigger,
        created_at=run.created_at,
        scheduled_for=run.scheduled_for,
    )
    placed.status = Status.QUEUED if run.status is Status.DISPATCHED else run.status
    placed.waiting_for, placed.not_before, placed.expires_at = run.waiting_for, run.not_before, run.expires_at
    placed.draws = state.lanes.get(run.lane_id, ())
    placed.order = (-run.rank, run.position, to_ms(run.created_at), run.id)
    placed.attempt, placed.place, placed.always = run.attempt, run.place or 0, run.always
    placed.started_at = run.started_at
    played.unfinished.append(placed)
    return placed


def _link(state: State, run: Run, placed: Mapping[str, PlayedRun]) -> None:
    one = placed[run.id]
    if run.chain_id is not None and run.chain_id != run.id:
        one.begun = placed.get(run.chain_id) or _begun(state, run, one.played)
    predecessor = placed.get(run.predecessor_id or "")
    if predecessor is not None and not one.place:
        one.follow(predecessor)


def _begun(state: State, run: Run, played: PlayedJob) -> PlayedRun:
    """Return the first run of a chain, which has ended: only how and when it began counts."""
    chain = state.begun[run.chain_id or ""]
    first = PlayedRun(run.chain_id or "", played, number=0, trigger=chain.trigger, created_at=run.created_at)
    first.started_at = chain.first_started_at
    return first


def _final(stage: Stage, seat: GroupMember) -> PlayedRun:
    """Return a member that has ended: only how counts."""
    played = stage.jobs.get(seat.job_id) or next(iter(stage.jobs.values()))
    run = PlayedRun(seat.run_id, played, number=seat.number, trigger=Trigger.GROUP, created_at=stage.now)
    run.status, run.finished_at = seat.status, seat.finished_at
    run.attempt, run.place, run.always = seat.attempt, seat.place, seat.always
    return run


def _go_on(stage: Stage, run: PlayedRun) -> None:
    if run.status is Status.RUNNING:
        if not run.played.is_group:
            stage.waiting.occupy(run, stage.now)
            stage.plan_end(run, max(stage.now, (run.started_at or stage.now) + run.played.takes))
        return
    if run.expires_at is not None:
        run.expires_at = max(run.expires_at, stage.now)
        stage.plan(Due.EXPIRE, run.expires_at, run)
    if run.waiting_for is None:
        stage.ready(run)
    elif run.waiting_for is WaitingFor.POLL:
        stage.polling.append(run)
    elif run.not_before is not None:
        run.not_before = max(run.not_before, stage.now)
        stage.plan(Due.RELEASE, run.not_before, run)
