"""The starting state of a simulation, copied from the store."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median

from msgspec import Struct, field
from msgspec.structs import replace

from rota.engine.activity import PauseState, everything_paused
from rota.model.budgets import Account
from rota.model.clock import MILLISECOND, to_ms
from rota.model.errors import UnknownJob, nearest
from rota.model.records import Group, Job, Run
from rota.model.spec import Draw, JobSpec, Kind, Mode
from rota.model.states import Status, Trigger, WaitingFor
from rota.operations.simulate import model
from rota.operations.simulate.model import CapacityLevel, Due, SimEngine, SimJob, SimRun
from rota.operations.simulate.transitions import remote_calls
from rota.rules.budgets import RECENT, window_of
from rota.rules.schedule.cursor import first_cursor
from rota.rules.schedule.plan import ExecutionSpan
from rota.settings import Settings
from rota.store.driver import Database
from rota.store.tables import activity, budgets, groups, jobs, queue, run_queries
from rota.store.tables.groups import GroupMember
from rota.store.tables.run_queries import Chain

MEDIAN_RUNS = 30
MAX_UNFINISHED = 100_000


class State(Struct, frozen=True):
    """The state at the start of a simulation; `holds`: until when the pool of a provider is closed."""

    jobs: tuple[Job, ...]
    pools: Mapping[str, int]
    aging: timedelta | None = None
    durations: Mapping[str, timedelta] = field(default_factory=dict)
    spans: Mapping[str, tuple[ExecutionSpan, ...]] = field(default_factory=dict)
    runs: tuple[Run, ...] = ()
    lanes: Mapping[int, tuple[Draw, ...]] = field(default_factory=dict)
    chains: Mapping[str, Chain] = field(default_factory=dict)
    groups: tuple[tuple[Group, tuple[GroupMember, ...]], ...] = ()
    pause: PauseState | None = None
    activity: datetime | None = None
    polled_at: datetime | None = None
    accounts: tuple[Account, ...] = ()
    used: Mapping[str, int] = field(default_factory=dict)
    largest: model.Largest = field(default_factory=dict)
    holds: Mapping[str, datetime] = field(default_factory=dict)


def copy_state(db: Database, *, now: datetime) -> State:
    """Return a copy of the stored state."""
    unfinished = tuple(run_queries.all_unfinished_runs(db, limit=MAX_UNFINISHED))
    busy = {run.job_id for run in unfinished}
    stored = sorted(jobs.all_jobs(db), key=lambda job: job.id)
    current = tuple(job for job in stored if job.retired_at is None or job.id in busy)
    last, poll = activity.last_activity(db), activity.last_poll(db)
    accounts, pools = tuple(stored.account for stored in budgets.accounts(db)), queue.pools(db)
    chain_ids = {run.chain_id for run in unfinished if run.chain_id is not None}
    group_ids = dict.fromkeys(run.group_id for run in unfinished if run.group_id is not None)
    stored_groups = [groups.group_by_id(db, group_id) for group_id in group_ids]
    return State(
        current,
        pools={pool.name: pool.capacity for pool in pools},
        holds={pool.name: pool.held_until for pool in pools if pool.held_until is not None},
        aging=queue.aging(db),
        durations={job.name: took for job in current if (took := _median_duration(db, job)) is not None},
        spans={job.name: spans for job in current if (spans := _spans(db, job, now=now))},
        runs=unfinished,
        lanes=queue.lane_draws(db),
        chains={chain_id: run_queries.chain_of(db, chain_id) for chain_id in chain_ids},
        groups=tuple((group, tuple(groups.seats(db, group.id))) for group in stored_groups if group is not None),
        pause=everything_paused(db),
        activity=None if last is None else last.at,
        polled_at=None if poll is None else poll.good_at,
        accounts=accounts,
        used={
            account.name: window.used
            for account in accounts
            if (window := budgets.find_window(db, account, window_of(account.per, account.timezone, now))) is not None
        },
        largest=_largest(db, current, accounts),
    )


def fresh_state(specs: Sequence[JobSpec], settings: Settings, *, now: datetime) -> State:
    """Return the state just after the first apply of these jobs."""
    new_jobs = tuple(_new_job(spec, index, now) for index, spec in enumerate(specs))
    accounts = tuple(settings.budgets.values())
    return State(new_jobs, pools=settings.pools, aging=settings.scheduler.aging, accounts=accounts)


def reset_state(state: State, *, now: datetime) -> State:
    """Return a state with its jobs planned as if they were applied at `now`: no job runs, waits or is paused."""
    specs = [job.spec for job in state.jobs if job.retired_at is None]
    return State(
        tuple(_new_job(spec, index, now) for index, spec in enumerate(specs)),
        pools=state.pools,
        aging=state.aging,
        durations=state.durations,
        accounts=state.accounts,
        largest=state.largest,
    )


def _new_job(spec: JobSpec, index: int, now: datetime) -> Job:
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


def _median_duration(db: Database, job: Job) -> timedelta | None:
    if job.spec.work.kind is Kind.GROUP:
        return None
    durations = [took // MILLISECOND for took in run_queries.durations(db, job.id, limit=MEDIAN_RUNS)]
    return round(median(durations)) * MILLISECOND if durations else None


def _spans(db: Database, job: Job, *, now: datetime) -> tuple[ExecutionSpan, ...]:
    """Return the executions that decide whether a late instant was missed or overlapped another run."""
    if job.next_for is None or now - job.next_for <= job.spec.misfire.grace:
        return ()
    grouped = job.spec.work.kind is Kind.GROUP
    spans = run_queries.executed_spans(db, job.id, since=job.next_for, until=now, grouped=grouped)
    return tuple(ExecutionSpan(start, end, handle) for start, end, handle in spans)


def _largest(db: Database, current: Sequence[Job], accounts: Sequence[Account]) -> dict[tuple[str, str], int]:
    named = {account.name: account for account in accounts}
    spends = [(job, named[spend.account]) for job in current for spend in job.spec.budgets if spend.account in named]
    costs = {(job.name, account.name): budgets.largest(db, job.id, account, recent=RECENT) for job, account in spends}
    return {key: amount for key, amount in costs.items() if amount is not None}


DEFAULT_DURATION = timedelta(seconds=1)
DEFAULT_POLL_DURATION = timedelta(milliseconds=200)


class Assumptions(Struct, frozen=True):
    """Assumptions by job name: the duration of a run, and the share of runs that fail."""

    durations: Mapping[str, timedelta] = field(default_factory=dict)
    failures: Mapping[str, float] = field(default_factory=dict)


class RunDuration(Struct, frozen=True):
    """The duration of a job's runs and its origin: `given`, `history` or `assumed`."""

    duration: timedelta
    known: str


def takes(job: Job, state: State, assumptions: Assumptions) -> RunDuration:
    """Return the duration of a run: from the assumptions, else the median of its last runs, else a default."""
    if job.name in assumptions.durations:
        return RunDuration(assumptions.durations[job.name], "given")
    if job.name in state.durations:
        return RunDuration(state.durations[job.name], "history")
    return RunDuration(DEFAULT_POLL_DURATION if job.spec.work.kind is Kind.POLL else DEFAULT_DURATION, "assumed")


def refuse_unknown(state: State, names: Iterable[str]) -> None:
    """Raise UnknownJob for a name that no job has."""
    known = [job.name for job in state.jobs]
    for name in names:
        if name not in known:
            raise UnknownJob(name, nearest(name, known))


def make_engine(
    state: State, assumptions: Assumptions, *, concurrency: int, observer: model.Observer, now: datetime
) -> SimEngine:
    """Return a simulated engine in this state."""
    refuse_unknown(state, (*assumptions.durations, *assumptions.failures))
    pools = {name: CapacityLevel(capacity) for name, capacity in state.pools.items()}
    sim_queue = model.SimQueue(CapacityLevel(concurrency), pools, holds=state.holds)
    accounts = model.Accounts({account.name: model.Book(account) for account in state.accounts}, state.largest)
    for book in accounts.books.values():  # reservations of running runs count as settled
        book.open(now).settled = state.used.get(book.account.name, 0)
    engine = SimEngine(now, now, sim_queue, observer, aging=state.aging, accounts=accounts, polled_at=state.polled_at)
    for until in state.holds.values():
        engine.plan(Due.RELEASE, until)  # claims the runs that waited for the provider
    for job in state.jobs:
        sim_job = SimJob(
            replace(job),
            takes(job, state, assumptions).duration,
            assumptions.failures.get(job.name, 0.0),
            spans=state.spans.get(job.name, ()),
            number=job.run_number,
        )
        engine.add(sim_job)
        sim_job.calls = remote_calls(engine, sim_job)
        if job.paused_until is not None:
            engine.plan(Due.PAUSE_END, job.paused_until, sim_job)
    _add_runs(engine, state)
    if state.pause is not None and (state.pause.until is None or state.pause.until > now):
        engine.paused = True
        if state.pause.until is not None:
            engine.plan(Due.PAUSE_END, state.pause.until)
    return engine


def _add_runs(engine: SimEngine, state: State) -> None:
    runs = {run.id: _sim_run(engine, state, run) for run in sorted(state.runs, key=lambda run: run.id)}
    for run in state.runs:
        _link(state, run, runs)
    for group, members in state.groups:
        head = runs.get(group.run_id or "")
        sim_group = model.SimGroup(group.mode, group.on_failure, head, cancelled=group.cancel_requested_at is not None)
        sim_group.members = [runs.get(member.run_id) or _final_member(engine, member) for member in members]
        for sim_run in sim_group.members:
            sim_run.group = sim_group
        if head is not None:
            head.group = sim_group
    for sim_run in runs.values():
        _resume(engine, sim_run)


def _sim_run(engine: SimEngine, state: State, run: Run) -> SimRun:
    sim_job = engine.jobs[run.job_id]
    sim_run = SimRun(
        run.id,
        sim_job,
        number=run.number,
        trigger=run.trigger,
        created_at=run.created_at,
        scheduled_for=run.scheduled_for,
    )
    sim_run.status = Status.QUEUED if run.status is Status.DISPATCHED else run.status
    sim_run.waiting_for, sim_run.not_before, sim_run.expires_at = run.waiting_for, run.not_before, run.expires_at
    sim_run.draws = state.lanes.get(run.lane_id, ())
    sim_run.order = (-run.rank, run.position, to_ms(run.created_at), run.seq)
    sim_run.attempt, sim_run.place, sim_run.always = run.attempt, run.place or 0, run.always
    sim_run.started_at = run.started_at
    sim_job.unfinished.append(sim_run)
    return sim_run


def _link(state: State, run: Run, runs: Mapping[str, SimRun]) -> None:
    sim_run, chain_id = runs[run.id], run.chain_id
    if chain_id is not None and chain_id != run.id and chain_id in runs:
        sim_run.chain_start = runs[chain_id]
    elif chain_id is not None and chain_id != run.id:  # the first run of the chain has ended
        chain = state.chains[chain_id]
        first = SimRun(chain_id, sim_run.sim_job, number=0, trigger=chain.trigger, created_at=run.created_at)
        first.started_at = chain.first_started_at
        sim_run.chain_start = first
    predecessor = runs.get(run.predecessor_id or "")
    if predecessor is not None and not sim_run.place:
        sim_run.follow(predecessor)


def _final_member(engine: SimEngine, member: GroupMember) -> SimRun:
    sim_job = engine.jobs.get(member.job_id) or next(iter(engine.jobs.values()))
    run = SimRun(member.run_id, sim_job, number=member.number, trigger=Trigger.GROUP, created_at=engine.now)
    run.status, run.finished_at = member.status, member.finished_at
    run.attempt, run.place, run.always = member.attempt, member.place, member.always
    return run


def _resume(engine: SimEngine, run: SimRun) -> None:
    """Plan the next event of an unfinished run; a running one takes as long as its job's runs usually do."""
    if run.status is Status.RUNNING:
        if not run.sim_job.is_group:
            engine.queue.occupy(run, engine.now)
            engine.plan_end(run, max(engine.now, (run.started_at or engine.now) + run.sim_job.takes))
        return
    if run.expires_at is not None:
        run.expires_at = max(run.expires_at, engine.now)
        engine.plan(Due.EXPIRE, run.expires_at, run)
    if run.waiting_for is None:
        engine.ready(run)
    elif run.waiting_for is WaitingFor.POLL:
        engine.polling.append(run)
    elif run.not_before is not None:
        run.not_before = max(run.not_before, engine.now)
        engine.plan(Due.RELEASE, run.not_before, run)
