"""The simulated engine: fire, gates, finish and groups."""

from collections.abc import Sequence
from datetime import datetime

from rota.model.records import Outcome
from rota.model.spec import Anchor, Kind
from rota.model.states import GroupStatus, Reason, Status, Trigger, WaitingFor
from rota.operations.simulate.model import COMPLETED, FAILED, HOLDING, Due, SimEnd, SimEngine, SimGroup, SimJob, SimRun
from rota.rules.activity import is_fresh
from rota.rules.admission import Admission, Admit, After, Allow, Replace, Skip, decide, waits_for_all
from rota.rules.groups import Cancel, Finish, Start, next_step
from rota.rules.outcome import backing_off, next_attempt
from rota.rules.schedule.cursor import NOWHERE, cursor_after_chain
from rota.rules.schedule.plan import FirePlan, PlannedRun, plan_fire, planned_id, verdict_among


def begin_group(engine: SimEngine, run: SimRun) -> list[SimEnd]:
    """Insert the members of a group's run; return the runs that must end."""
    run.status, run.waiting_for, run.started_at = Status.RUNNING, None, engine.now
    work = run.sim_job.job.spec.work
    group = run.group = SimGroup(work.mode, work.on_failure, run)
    ends: list[SimEnd] = []
    for place, declared in enumerate(work.members, start=1):
        sim_job = engine.named.get(declared.job)
        if sim_job is None:
            continue  # the file is checked: only a job that is gone from the state could be missing
        member = engine.new_run(sim_job, Trigger.GROUP, run.scheduled_for)
        member.waiting_for = WaitingFor.PREDECESSOR
        member.group, member.place, member.always = group, place, declared.always
        group.members.append(engine.insert(member))
        job = sim_job.job
        if job.retired_at is not None or not job.enabled or job.spec.work.kind is Kind.GROUP:
            ends.append(SimEnd(member, Status.CANCELLED, Reason.RETIRED))
    return ends or step(engine, group)


def step(engine: SimEngine, group: SimGroup) -> list[SimEnd]:
    """Advance a group after the end of a member; return the runs that must end."""
    if group.final:
        return []
    decided = next_step(group.mode, group.on_failure, group.states(), cancelled=group.cancelled)
    if isinstance(decided, Finish):
        return _finish_group(group, decided.status)
    if not isinstance(decided, Start | Cancel):
        return []
    members = [member for member in group.members if member.place in decided.places]
    if isinstance(decided, Cancel):
        return [SimEnd(member, Status.CANCELLED, decided.reason) for member in members]
    for member in members:
        expires_after = member.sim_job.job.spec.gates.expires_after
        if expires_after is not None:  # it counts from here: until now the group held the member
            member.expires_at = engine.now + expires_after
            engine.plan(Due.EXPIRE, member.expires_at, member)
        engine.ready(member)
    return []


def _finish_group(group: SimGroup, status: GroupStatus) -> list[SimEnd]:
    group.final = True
    if group.run is None:
        return []
    if status is GroupStatus.COMPLETED:
        return [SimEnd(group.run, Status.COMPLETED)]
    if status is GroupStatus.CANCELLED:
        return [SimEnd(group.run, Status.CANCELLED, Reason.REPLACED)]
    return [SimEnd(group.run, Status.FAILED, Reason.MEMBERS_FAILED)]


def cancel_group(engine: SimEngine, group: SimGroup) -> list[SimEnd]:
    """Stop the running members of a group; return the other runs, which must end now."""
    group.cancelled = True
    for member in group.members:
        if member.status is Status.RUNNING:
            engine.plan(Due.STOP, engine.now, member)
    return step(engine, group)


def awaits_poll(engine: SimEngine, run: SimRun) -> bool:
    """Return whether a run needs the poll and no result is fresh enough."""
    if not run.sim_job.job.spec.gates.needs_poll:
        return False
    interval = engine.poll.job.interval if engine.poll else None
    return not is_fresh(engine.polled_at, interval=interval, born=run.created_at, now=engine.now)


def wait_for_poll(engine: SimEngine, run: SimRun) -> None:
    """Return a run to the queue to wait for the next poll; insert a poll if none is scheduled or running."""
    run.status, run.waiting_for, run.not_before = Status.QUEUED, WaitingFor.POLL, None
    engine.polling.append(run)
    engine.observer.waits(run)
    poll = engine.poll
    if poll is not None and poll.job.schedules and poll.job.interval is None and not poll.unfinished:
        engine.ready(engine.insert(engine.new_run(poll, Trigger.NEED, None)))


def follow_poll(engine: SimEngine, run: SimRun) -> list[SimEnd]:
    """Release the runs that waited for a finished poll; return the runs that end because it failed."""
    run.sim_job.update_record(suggested=None)  # the server's suggestion holds until the next poll
    waiting = [each for each in engine.polling if each.status is Status.QUEUED and each.waiting_for is WaitingFor.POLL]
    engine.polling = []
    if run.status is not Status.COMPLETED:
        return [SimEnd(each, Status.SKIPPED, Reason.POLL_FAILED) for each in waiting]
    engine.polled_at = run.finished_at
    for each in waiting:
        engine.ready(each)
    return []


def pass_gates(engine: SimEngine, run: SimRun) -> Admission | None:
    """Return whether a claimed run may start; None if it was returned to the queue to wait for the poll."""
    spec = run.sim_job.job.spec
    if run.expires_at is not None:
        admission = decide(spec.gates, expires_at=run.expires_at, forced=False, conditions=(), now=engine.now)
        if isinstance(admission, Skip):
            return admission
    if awaits_poll(engine, run):
        engine.queue.give_back(run, engine.now)
        wait_for_poll(engine, run)
        return None
    if not spec.budgets:
        return Admit()
    verdict = engine.accounts.reserve(run.id, spec, now=engine.now)
    engine.observer.charged(engine.accounts)
    return verdict


def remote_calls(engine: SimEngine, sim_job: SimJob) -> int:
    """Return the remote calls of a run: at least one for the poll, for other jobs the estimate of their accounts."""
    calls = engine.accounts.requests(sim_job.job.spec)
    return max(calls, 1) if sim_job is engine.poll else calls


def finish(engine: SimEngine, ends: Sequence[SimEnd]) -> None:
    """End runs, and then the runs that end because of them, such as the rest of a group."""
    while ends:
        ended = [end.run for end in ends if _end(engine, end)]
        ends = _follow_up(engine, ended)


def _end(engine: SimEngine, end: SimEnd) -> bool:
    run, sim_job = end.run, end.run.sim_job
    if run.finished_at is not None:
        return False
    if run.status in HOLDING and not sim_job.is_group:
        engine.queue.give_back(run, engine.now)
    if sim_job.is_gated and run.started_at is not None:
        engine.accounts.settle(run.id)
    run.status, run.reason, run.waiting_for, run.finished_at = end.status, end.reason, None, engine.now
    sim_job.unfinished.remove(run)
    if sim_job.job.spec.work.agent is not None and run.started_at is not None and not _started_by_mode(run):
        engine.agent_ended_at = engine.now
    engine.observer.ended(run)
    return True


def _started_by_mode(run: SimRun) -> bool:
    """Return whether a run, by retries and groups, goes back to the schedule of a job with intervals by mode."""
    first = run.first
    while first.place and first.group is not None and first.group.run is not None:
        first = first.group.run.first
    return first.trigger is Trigger.SCHEDULE and first.sim_job.job.spec.schedule.by_mode is not None


def _follow_up(engine: SimEngine, ended: Sequence[SimRun]) -> list[SimEnd]:
    """Return the runs that end because others ended. A retry leaves its chain unfinished."""
    ends: list[SimEnd] = []
    if engine.poll is not None:
        for run in ended:
            if run.sim_job is engine.poll:
                ends += follow_poll(engine, run)
    retried = {run.id for run in ended if run.status is FAILED and _retry(engine, run)}
    for run in ended:
        if run.id in retried:
            continue
        if run.followers or run.sim_job.unfinished:
            ends += _release_waiting(engine, run)
        if run.first.trigger is Trigger.SCHEDULE:
            _end_scheduled(engine, run)
        elif run.status is COMPLETED and run.sim_job.job.failures:
            run.sim_job.update_record(failures=0, backing_off_until=None)
    for group in {run.group: None for run in ended if run.place}:
        ends += [] if group is None else step(engine, group)
    return ends


def _retry(engine: SimEngine, failed: SimRun) -> bool:
    """Insert the next attempt of a failed run if its job allows one; followers of the run wait for the attempt."""
    retry, outcome = failed.sim_job.job.spec.retry, Outcome(FAILED, failed.reason)
    at = next_attempt(retry, outcome, attempt=failed.attempt, run_id=failed.id, finished_at=engine.now)
    if at is None:
        return False
    run = engine.new_run(failed.sim_job, Trigger.RETRY, failed.scheduled_for)
    run.attempt, run.chain_start = failed.attempt + 1, failed.first
    run.group, run.place, run.always = failed.group, failed.place, failed.always
    for follower in failed.followers:
        follower.follow(run)
    failed.followers = ()
    expires_after = failed.sim_job.job.spec.gates.expires_after
    run.expires_at = max(at, engine.now) + expires_after if expires_after else None
    if at > engine.now:
        run.waiting_for, run.not_before = WaitingFor.BACKOFF, at
    if run.group is not None:
        run.group.replace_attempt(run)
    engine.insert(run)
    if at <= engine.now:
        _enter_queue(engine, run)
    return True


def _enter_queue(engine: SimEngine, run: SimRun) -> None:
    if run.sim_job.is_gated and awaits_poll(engine, run):
        wait_for_poll(engine, run)
    else:
        engine.ready(run)


def _release_waiting(engine: SimEngine, ended: SimRun) -> list[SimEnd]:
    ends: list[SimEnd] = []
    before = ended.predecessor if not ended.place else None  # the predecessor of a member concerns its group alone
    for follower in ended.followers:
        ends += _pass_on(engine, follower, before)
    unfinished = ended.sim_job.unfinished
    for replacing in [run for run in unfinished if run.waiting_for is WaitingFor.REPLACED_RUN]:
        if not any(run.id < replacing.id for run in unfinished):
            ends += release(engine, replacing)
    return ends


def _pass_on(engine: SimEngine, run: SimRun, predecessor: SimRun | None) -> list[SimEnd]:
    """Release a run whose predecessor ended, or let it wait for `predecessor`, which the ended run followed."""
    if run.status is not Status.QUEUED:
        return []
    if waits_for_all(run.sim_job.job.spec.overlap, run.trigger):
        # The last unfinished run that came before this one; a retry counts from the start of its chain.
        ahead = [each for each in run.sim_job.unfinished if each.first.id < run.id]
        predecessor = max(ahead, key=lambda each: each.first.id, default=None)
    if predecessor is not None and not predecessor.status.final:
        run.follow(predecessor)
        return []
    return release(engine, run)


def release(engine: SimEngine, run: SimRun) -> list[SimEnd]:
    """Make a run claimable, or begin its group; return the runs that must end because of that."""
    if run.sim_job.is_group:
        return begin_group(engine, run)
    engine.ready(run)
    return []


def _end_scheduled(engine: SimEngine, ended: SimRun) -> None:
    """Count failed chains in a row, which may hold the next instants back, and move the cursor."""
    job = ended.sim_job.job
    if ended.status is COMPLETED and job.failures:
        ended.sim_job.update_record(failures=0, backing_off_until=None)
    elif ended.status is FAILED and ended.finished_at is not None:
        failures = job.failures + 1
        until = backing_off(job.spec.on_repeated_failure, failures=failures, finished_at=ended.finished_at)
        ended.sim_job.update_record(failures=failures, backing_off_until=until)
    _move_cursor(engine, ended)


def _move_cursor(engine: SimEngine, ended: SimRun) -> None:
    """Plan the next instant if it depends on this chain, or mark the job as used up."""
    sim_job, job, finished_at = ended.sim_job, ended.sim_job.job, ended.finished_at
    if job.next_for or job.held_for or ended.scheduled_for is None or finished_at is None or not job.schedules:
        return
    schedule, began = job.spec.schedule, ended.first.started_at
    cursor = cursor_after_chain(job, scheduled_for=ended.scheduled_for, first_started_at=began, finished_at=finished_at)
    if schedule.at is not None or (schedule.run_once and not (ended.status is Status.SKIPPED and cursor.next_for)):
        sim_job.update_record(used_up_at=finished_at)
        cursor = NOWHERE
    elif schedule.follows_runs:
        started = began if schedule.anchor is Anchor.START else None
        sim_job.update_record(anchored_at=started or finished_at)
    if job.paused_at is None:
        engine.move(sim_job, cursor.next_for, cursor.next_at)
    else:
        sim_job.update_record(held_for=cursor.next_for)  # a paused job holds its cursor back


def fire(engine: SimEngine, sim_job: SimJob) -> None:
    """Account for every due instant of a job, and move its cursor beyond them."""
    job = sim_job.job
    if job.next_at is None or job.next_at > engine.now:
        return
    plan = plan_fire(job, sim_job.facts(), now=engine.now)
    sim_job.spans = ()
    _move(engine, sim_job, plan)
    inserted: dict[str, str] = {}
    for step in plan.steps:
        if isinstance(step, PlannedRun):
            verdict = verdict_among(step, inserted) if inserted else step.verdict
            run = _enqueue(engine, sim_job, verdict, scheduled_for=step.scheduled_for)
            if len(plan.steps) > 1:
                inserted[planned_id(step.slot_key)] = run.id
        else:
            engine.observer.skipped(sim_job, step)


def _move(engine: SimEngine, sim_job: SimJob, plan: FirePlan) -> None:
    """Move the cursor. Only skips can use a job up here; a run does so when its chain is final."""
    job, schedule = sim_job.job, sim_job.job.spec.schedule
    if not any(isinstance(step, PlannedRun) for step in plan.steps):
        if plan.next_for is None and (schedule.at is not None or schedule.run_once):
            sim_job.update_record(used_up_at=engine.now)
        if schedule.follows_runs:
            sim_job.update_record(anchored_at=engine.now)
    sim_job.update_record(fire_number=job.fire_number + len(plan.steps))
    engine.move(sim_job, plan.next_for, plan.next_at)


def _enqueue(
    engine: SimEngine, sim_job: SimJob, verdict: Allow | After | Replace, *, scheduled_for: datetime
) -> SimRun:
    run = engine.new_run(sim_job, Trigger.SCHEDULE, scheduled_for)
    if sim_job.is_gated and (expires_after := sim_job.job.spec.gates.expires_after):
        run.expires_at = engine.now + expires_after
    if isinstance(verdict, After):
        run.waiting_for = WaitingFor.PREDECESSOR
        run.follow(next(each for each in sim_job.unfinished if each.id == verdict.predecessor_id))
    elif isinstance(verdict, Replace):
        replaced = [each for each in sim_job.unfinished if each.id in verdict.run_ids]
        final = [cancel(engine, each) for each in replaced]
        if not all(final):  # some must stop first
            run.waiting_for = WaitingFor.REPLACED_RUN
    engine.insert(run)
    engine.observer.fired(run)
    if run.waiting_for is None and sim_job.is_group:
        finish(engine, begin_group(engine, run))
    elif run.waiting_for is None:
        _enter_queue(engine, run)
    return run


def cancel(engine: SimEngine, run: SimRun) -> bool:
    """Cancel a queued run, or plan the stop of a running one; return whether the run is final now."""
    if run.status is Status.QUEUED:
        finish(engine, [SimEnd(run, Status.CANCELLED, Reason.REPLACED)])
    elif run.sim_job.is_group and run.group is not None:
        finish(engine, cancel_group(engine, run.group))
    else:
        engine.plan(Due.STOP, engine.now, run)
    return run.status.final
