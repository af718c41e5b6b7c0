"""The simulated engine: fire, gates, record and groups."""

from collections.abc import Sequence
from datetime import datetime

from rota.model.records import Outcome
from rota.model.spec import Anchor, Kind
from rota.model.states import GroupStatus, Reason, Status, Trigger, WaitingFor
from rota.operations.simulate.model import (
    COMPLETED,
    FAILED,
    HOLDING,
    Due,
    PlayedGroup,
    PlayedJob,
    PlayedRun,
    SimEnd,
    Skipped,
    Stage,
    put,
)
from rota.rules.activity import is_fresh
from rota.rules.admission import Admission, Admit, After, Allow, Replace, Skip, decide, waits_for_all
from rota.rules.groups import Cancel, Finish, Start, next_step
from rota.rules.outcome import backing_off, next_attempt
from rota.rules.schedule.cursor import NOWHERE, cursor_after_chain
from rota.rules.schedule.plan import FirePlan, PlannedRun, plan_fire, planned_id, verdict_among


def begin_group(stage: Stage, run: PlayedRun) -> list[SimEnd]:
    """Give a group's run its members; return what must end."""
    run.status, run.waiting_for, run.started_at = Status.RUNNING, None, stage.now
    work = run.played.job.spec.work
    group = run.group = PlayedGroup(work.mode, work.on_failure, run)
    ends: list[SimEnd] = []
    for place, member in enumerate(work.members, start=1):
        played = stage.named.get(member.job)
        if played is None:
            continue  # the file is checked: only a job that is gone from the state could be missing
        seat = _bear_member(stage, group, played, run=run, place=place, always=member.always)
        if _absent(played):
            ends.append(SimEnd(seat, Status.CANCELLED, Reason.RETIRED))
    return ends or step(stage, group)


def _bear_member(
    stage: Stage, group: PlayedGroup, played: PlayedJob, *, run: PlayedRun, place: int, always: bool
) -> PlayedRun:
    seat = stage.newborn(played, Trigger.GROUP, run.scheduled_for)
    seat.waiting_for = WaitingFor.PREDECESSOR
    seat.group, seat.place, seat.always = group, place, always
    group.seats.append(seat)
    return stage.bear(seat)


def _absent(played: PlayedJob) -> bool:
    return played.job.retired_at is not None or not played.job.enabled or played.job.spec.work.kind is Kind.GROUP


def step(stage: Stage, group: PlayedGroup) -> list[SimEnd]:
    """Move a group on after one of its members ended; return what must end because of it."""
    if group.final:
        return []
    decided = next_step(group.mode, group.on_failure, group.places(), cancelled=group.cancelled)
    if isinstance(decided, Start):
        _start(stage, [seat for seat in group.seats if seat.place in decided.places])
    if isinstance(decided, Cancel):
        return [SimEnd(seat, Status.CANCELLED, decided.reason) for seat in group.seats if seat.place in decided.places]
    if isinstance(decided, Finish):
        return _finish(group, decided.status)
    return []


def _start(stage: Stage, seats: Sequence[PlayedRun]) -> None:
    """Let members go; `expires_after` counts from here, for until now the group held them."""
    for seat in seats:
        expires_after = seat.played.job.spec.gates.expires_after
        if expires_after is not None:
            seat.expires_at = stage.now + expires_after
            stage.plan(Due.EXPIRE, seat.expires_at, seat)
        stage.ready(seat)


def _finish(group: PlayedGroup, status: GroupStatus) -> list[SimEnd]:
    group.final = True
    if group.run is None:
        return []
    if status is GroupStatus.COMPLETED:
        return [SimEnd(group.run, Status.COMPLETED)]
    if status is GroupStatus.CANCELLED:
        return [SimEnd(group.run, Status.CANCELLED, Reason.REPLACED)]
    return [SimEnd(group.run, Status.FAILED, Reason.MEMBERS_FAILED)]


def cancel_group(stage: Stage, group: PlayedGroup) -> list[SimEnd]:
    """Ask a group to end: members that run are stopped; return the others, which must end now."""
    group.cancelled = True
    for seat in group.seats:
        if seat.status is Status.RUNNING:
            stage.plan(Due.STOP, stage.now, seat)
    return step(stage, group)


def awaits_poll(stage: Stage, run: PlayedRun) -> bool:
    """Tell whether a run needs the poll and finds no result that serves it."""
    if not run.played.job.spec.gates.needs_poll:
        return False
    interval = stage.poll.job.interval if stage.poll else None
    return not is_fresh(stage.polled_at, interval=interval, born=run.created_at, now=stage.now)


def wait_for_poll(stage: Stage, run: PlayedRun) -> PlayedRun | None:
    """Let a run wait for the next poll; return the one that is made for it where none would come by itself."""
    run.status, run.waiting_for, run.not_before = Status.QUEUED, WaitingFor.POLL, None
    stage.polling.append(run)
    stage.observer.waits(run)
    poll = stage.poll
    if poll is None or not poll.job.schedules or poll.job.interval is not None or poll.unfinished:
        return None
    demanded = stage.bear(stage.newborn(poll, Trigger.NEED, None))
    stage.ready(demanded)
    return demanded


def follow_poll(stage: Stage, run: PlayedRun) -> list[SimEnd]:
    """Let go who waited for a poll that ended; return those that end because it failed."""
    run.played.alter(suggested=None)  # what the server asked for holds until the next poll
    waiting, stage.polling = [one for one in stage.polling if _waits(one)], []
    if run.status is not Status.COMPLETED:
        return [SimEnd(one, Status.SKIPPED, Reason.POLL_FAILED) for one in waiting]
    stage.polled_at = run.finished_at
    for one in waiting:
        stage.ready(one)
    return []


def _waits(run: PlayedRun) -> bool:
    return run.status is Status.QUEUED and run.waiting_for is WaitingFor.POLL


def pass_gates(stage: Stage, run: PlayedRun) -> Admission | None:
    """Return whether a claimed run goes on; None: it was put back to wait for the poll."""
    spec = run.played.job.spec
    if run.expires_at is not None:
        admission = decide(spec.gates, expires_at=run.expires_at, forced=False, conditions=(), now=stage.now)
        if isinstance(admission, Skip):
            return admission
    if awaits_poll(stage, run):
        stage.waiting.give_back(run, stage.now)
        wait_for_poll(stage, run)
        return None
    if not spec.budgets:
        return Admit()
    verdict = stage.accounts.reserve(run.id, spec, now=stage.now)
    stage.observer.charged(stage.accounts)
    return verdict


def remote_calls(stage: Stage, played: PlayedJob) -> int:
    """Return how many remote calls a run of a job makes: a poll one, others what their accounts expect."""
    calls = stage.accounts.requests(played.job.spec)
    return max(calls, 1) if played is stage.poll else calls


def finish(stage: Stage, ends: Sequence[SimEnd]) -> None:
    """End runs and do what follows; what ends because of that, the rest of a group and the group itself, too."""
    while ends:
        ended = [end.run for end in ends if _end(stage, end)]
        ends = _follow_up(stage, ended)


def _end(stage: Stage, end: SimEnd) -> bool:
    run, played = end.run, end.run.played
    if run.finished_at is not None:
        return False
    if run.status in HOLDING and not played.is_group:
        stage.waiting.give_back(run, stage.now)
    if played.is_gated and run.started_at is not None:
        stage.accounts.settle(run.id)
    run.status, run.reason, run.waiting_for, run.finished_at = end.status, end.reason, None, stage.now
    played.unfinished.remove(run)
    if played.job.spec.work.agent is not None and run.started_at is not None and not _begun_by_mode(run):
        stage.agent_ended_at = stage.now
    stage.observer.ended(run)
    return True


def _begun_by_mode(run: PlayedRun) -> bool:
    """Tell whether a run goes back to the schedule of a job with intervals by mode, by retries and groups."""
    first = run.first
    while first.place and first.group is not None and first.group.run is not None:
        first = first.group.run.first
    return first.trigger is Trigger.SCHEDULE and first.played.job.spec.schedule.by_mode is not None


def _follow_up(stage: Stage, ended: Sequence[PlayedRun]) -> list[SimEnd]:
    """Do what follows from ends, and return what must end because of them; a retry leaves its chain unfinished."""
    further: list[SimEnd] = []
    if stage.poll is not None:
        for run in ended:
            if run.played is stage.poll:
                further += follow_poll(stage, run)
    retried = {run.id for run in ended if run.status is FAILED and _retry(stage, run)}
    for run in ended:
        if run.id in retried:
            continue
        if run.followers or run.played.unfinished:
            further += _let_go_waiting(stage, run)
        if run.first.trigger is Trigger.SCHEDULE:
            _end_scheduled(stage, run)
        elif run.status is COMPLETED and run.played.job.failures:
            run.played.alter(failures=0, backing_off_until=None)
    for group in {run.group: None for run in ended if run.place}:
        further += [] if group is None else step(stage, group)
    return further


def _retry(stage: Stage, failed: PlayedRun) -> bool:
    """Bear the next attempt of a failed run where its definition allows one; who waited for the run waits for that."""
    retry, outcome = failed.played.job.spec.retry, Outcome(FAILED, failed.reason)
    at = next_attempt(retry, outcome, attempt=failed.attempt, run_id=failed.id, finished_at=stage.now)
    if at is None:
        return False
    run = stage.newborn(failed.played, Trigger.RETRY, failed.scheduled_for)
    run.attempt, run.begun = failed.attempt + 1, failed.first
    run.group, run.place, run.always = failed.group, failed.place, failed.always
    for follower in failed.followers:
        follower.follow(run)
    failed.followers = ()
    expires_after = failed.played.job.spec.gates.expires_after
    run.expires_at = max(at, stage.now) + expires_after if expires_after else None
    if at > stage.now:
        run.waiting_for, run.not_before = WaitingFor.BACKOFF, at
    if run.group is not None:
        run.group.sit(run)
    stage.bear(run)
    if at <= stage.now:
        begin_run(stage, run)
    return True


def begin_run(stage: Stage, run: PlayedRun) -> None:
    """Let a newborn run that waits for nothing stand in the queue, or wait for the poll (R-16)."""
    if run.played.is_gated and awaits_poll(stage, run):
        wait_for_poll(stage, run)
    else:
        stage.ready(run)


def _let_go_waiting(stage: Stage, ended: PlayedRun) -> list[SimEnd]:
    further: list[SimEnd] = []
    before = ended.predecessor if not ended.place else None  # what held a member concerns its group alone
    for follower in ended.followers:
        further += _pass_on(stage, follower, before)
    for replacing in [run for run in ended.played.unfinished if run.waiting_for is WaitingFor.REPLACED_RUN]:
        if not any(run.id < replacing.id for run in ended.played.unfinished):
            further += let_go(stage, replacing)
    return further


def _pass_on(stage: Stage, run: PlayedRun, predecessor: PlayedRun | None) -> list[SimEnd]:
    """Release a run whose predecessor ended, or let it wait for another one; `predecessor`: for whom that waited."""
    if run.status is not Status.QUEUED:
        return []
    if waits_for_all(run.played.job.spec.overlap, run.trigger):
        predecessor = _last_ahead(run)
    if predecessor is not None and not predecessor.status.final:
        run.follow(predecessor)
        return []
    return let_go(stage, run)


def _last_ahead(run: PlayedRun) -> PlayedRun | None:
    """Return the last of the job's unfinished runs that came before this one; a retry stands where its chain began."""
    ahead = [one for one in run.played.unfinished if one.first.id < run.id]
    return max(ahead, key=lambda one: one.first.id, default=None)


def let_go(stage: Stage, run: PlayedRun) -> list[SimEnd]:
    """Make a run claimable, or begin the group whose run it is; return what must end because of that."""
    if run.played.is_group:
        return begin_group(stage, run)
    stage.ready(run)
    return []


def _end_scheduled(stage: Stage, ended: PlayedRun) -> None:
    if ended.status is FAILED or ended.played.job.failures:
        _count_failures(ended)
    _move_cursor(stage, ended)


def _count_failures(ended: PlayedRun) -> None:
    """Count the chains that failed in a row; from some number on the job's instants are held back (DEC-007)."""
    job = ended.played.job
    if ended.status is COMPLETED and job.failures:
        ended.played.alter(failures=0, backing_off_until=None)
    elif ended.status is FAILED and ended.finished_at is not None:
        failures = job.failures + 1
        until = backing_off(job.spec.on_repeated_failure, failures=failures, finished_at=ended.finished_at)
        ended.played.alter(failures=failures, backing_off_until=until)


def _move_cursor(stage: Stage, ended: PlayedRun) -> None:
    """Plan the job's next instant where it depends on this chain, or note that the job is used up (R-06, R-07)."""
    played, job, finished_at = ended.played, ended.played.job, ended.finished_at
    if job.next_for or job.held_for or ended.scheduled_for is None or finished_at is None or not job.schedules:
        return
    schedule, begun = job.spec.schedule, ended.first.started_at
    cursor = cursor_after_chain(job, scheduled_for=ended.scheduled_for, first_started_at=begun, finished_at=finished_at)
    if schedule.at is not None or (schedule.run_once and not (ended.status is Status.SKIPPED and cursor.next_for)):
        played.alter(used_up_at=finished_at)
        cursor = NOWHERE
    elif schedule.follows_runs:
        started = begun if schedule.anchor is Anchor.START else None
        put(job, "anchored_at", started or finished_at)
    if job.paused_at is None:
        stage.move(played, cursor.next_for, cursor.next_at)
    else:
        played.alter(held_for=cursor.next_for)  # a paused job holds its cursor back


def fire(stage: Stage, played: PlayedJob) -> None:
    """Account for every instant of a job that has come, and move its cursor beyond them."""
    job = played.job
    if job.next_at is None or job.next_at > stage.now:
        return
    plan = plan_fire(job, played.facts(), now=stage.now)
    played.spans = ()
    _move(stage, played, plan)
    born: dict[str, str] = {}
    for step in plan.steps:
        if isinstance(step, PlannedRun):
            verdict = verdict_among(step, born) if born else step.verdict
            run = _enqueue(stage, played, verdict, scheduled_for=step.scheduled_for)
            if len(plan.steps) > 1:
                born[planned_id(step.slot_key)] = run.id
        else:
            row = Skipped(step.reason, step.scheduled_for, step.covers_to, step.count)
            stage.observer.skipped(played, row)


def _move(stage: Stage, played: PlayedJob, plan: FirePlan) -> None:
    """Move the cursor. Only skips can use a job up here: a run does so when its chain is final (R-07)."""
    job, schedule = played.job, played.job.spec.schedule
    if not [step for step in plan.steps if isinstance(step, PlannedRun)]:
        if plan.next_for is None and (schedule.at is not None or schedule.run_once):
            played.alter(used_up_at=stage.now)
        if schedule.follows_runs:
            played.alter(anchored_at=stage.now)
    put(job, "fire_number", job.fire_number + len(plan.steps))
    stage.move(played, plan.next_for, plan.next_at)


def _enqueue(
    stage: Stage, played: PlayedJob, verdict: Allow | After | Replace, *, scheduled_for: datetime
) -> PlayedRun:
    run = stage.newborn(played, Trigger.SCHEDULE, scheduled_for)
    if played.is_gated and (expires_after := played.job.spec.gates.expires_after):
        run.expires_at = stage.now + expires_after
    if isinstance(verdict, After):
        run.waiting_for = WaitingFor.PREDECESSOR
        run.follow(next(one for one in played.unfinished if one.id == verdict.predecessor_id))
    elif isinstance(verdict, Replace) and _stop_replaced(stage, played, verdict.run_ids):
        run.waiting_for = WaitingFor.REPLACED_RUN
    stage.bear(run)
    stage.observer.fired(run)
    if run.waiting_for is None:
        begin(stage, run)
    return run


def begin(stage: Stage, run: PlayedRun) -> None:
    """Let a run that waits for nothing go on: to the queue, or a group with all of its members (R-15)."""
    if run.played.is_group:
        finish(stage, begin_group(stage, run))
    else:
        begin_run(stage, run)


def _stop_replaced(stage: Stage, played: PlayedJob, run_ids: tuple[str, ...]) -> bool:
    """Cancel the runs that a new one replaces; tell whether some of them must first be stopped (R-12)."""
    final = [cancel(stage, run) for run in list(played.unfinished) if run.id in run_ids]
    return not all(final)


def cancel(stage: Stage, run: PlayedRun) -> bool:
    """Cancel a run: at once if it is queued, else it is stopped within this instant. Tell whether it is final now."""
    if run.status is Status.QUEUED:
        finish(stage, [SimEnd(run, Status.CANCELLED, Reason.REPLACED)])
    elif run.played.is_group and run.group is not None:
        finish(stage, cancel_group(stage, run.group))
    else:
        stage.plan(Due.STOP, stage.now, run)
    return run.status.final
