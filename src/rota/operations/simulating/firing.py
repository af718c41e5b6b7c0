"""Fire and enqueue in memory, as `engine/fire.py` and `engine/enqueue.py` do it in the database."""

from datetime import datetime

from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.operations.simulating import grouping, recording
from rota.operations.simulating.played import End, PlayedJob, PlayedRun, put
from rota.operations.simulating.recording import finish
from rota.operations.simulating.stage import Due, Skipped, Stage
from rota.rules.due import plan_fire
from rota.rules.overlap import After, Go, Replace
from rota.rules.planned import FirePlan, PlannedRun, planned_id, verdict_among


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


def _enqueue(stage: Stage, played: PlayedJob, verdict: Go | After | Replace, *, scheduled_for: datetime) -> PlayedRun:
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
        finish(stage, grouping.begin(stage, run))
    else:
        recording.begin(stage, run)


def _stop_replaced(stage: Stage, played: PlayedJob, run_ids: tuple[str, ...]) -> bool:
    """Cancel the runs that a new one replaces; tell whether some of them must first be stopped (R-12)."""
    final = [cancel(stage, run) for run in list(played.unfinished) if run.id in run_ids]
    return not all(final)


def cancel(stage: Stage, run: PlayedRun) -> bool:
    """Cancel a run: at once if it is queued, else it is stopped within this instant. Tell whether it is final now."""
    if run.status is Status.QUEUED:
        finish(stage, [End(run, Status.CANCELLED, Reason.REPLACED)])
    elif run.played.is_group and run.group is not None:
        finish(stage, grouping.cancel(stage, run.group))
    else:
        stage.plan(Due.STOP, stage.now, run)
    return run.status.final
