"""Sets the stage: a copy of the state and what is assumed of it become jobs and runs in play."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from difflib import get_close_matches

from rota.model.clock import to_ms
from rota.model.errors import UnknownJob
from rota.model.records import Job, Run
from rota.model.spec import Kind
from rota.model.states import Status, Trigger, WaitingFor
from rota.operations.simulating.accounts import Accounts, Book
from rota.operations.simulating.copying import State
from rota.operations.simulating.gating import remote_calls
from rota.operations.simulating.played import PlayedGroup, PlayedJob, PlayedRun
from rota.operations.simulating.stage import Due, Observer, Stage
from rota.operations.simulating.waiting import Level, Waiting
from rota.store.groups import Seat

USUAL = timedelta(seconds=1)
POLL = timedelta(milliseconds=200)
"""How long a run, or a poll, takes that nobody has seen."""


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is assumed of jobs by name: how long a run takes, and which share of them fails."""

    durations: Mapping[str, timedelta] = field(default_factory=dict)
    failures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Takes:
    """How long a job's runs take, and how that is known: `given`, `history` or `assumed`."""

    duration: timedelta
    known: str


def takes(job: Job, state: State, assumptions: Assumptions) -> Takes:
    """Return how long a run of a job takes: as given, else as its last runs did, else as is usual."""
    if job.name in assumptions.durations:
        return Takes(assumptions.durations[job.name], "given")
    if job.name in state.durations:
        return Takes(state.durations[job.name], "history")
    return Takes(POLL if job.spec.work.kind is Kind.POLL else USUAL, "assumed")


def set_stage(state: State, assumptions: Assumptions, *, concurrency: int, observer: Observer, now: datetime) -> Stage:
    """Return a stage on which everything stands as in the copy of the state."""
    _refuse_unknown(state, assumptions)
    pools = {name: Level(capacity) for name, capacity in state.pools.items()}
    waiting = Waiting(Level(concurrency), pools, holds=state.holds)
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


def _final(stage: Stage, seat: Seat) -> PlayedRun:
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
