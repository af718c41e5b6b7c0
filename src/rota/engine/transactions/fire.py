"""Fire: insert the runs of due instants and move the cursor, in one transaction."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota import faults
from rota.engine.activity import MOVED, _activity, take_look, unseen
from rota.engine.transactions.enqueue import active_for, enqueue, skip, skip_planned
from rota.engine.transactions.insert import RunRef
from rota.model.clock import MILLISECOND, iso
from rota.model.records import Job
from rota.model.spec import Kind, Mode
from rota.model.states import Reason, Trigger
from rota.rules.activity import mode_at
from rota.rules.admission import Refuse, judge, verdict_word
from rota.rules.schedule.blackouts import waiting_run
from rota.rules.schedule.cursor import cursor_in_mode
from rota.rules.schedule.plan import (
    ExecutionSpan,
    FireFacts,
    FirePlan,
    PlannedRun,
    PlannedSkip,
    plan_close,
    plan_fire,
    planned_handle,
    planned_id,
    verdict_among,
)
from rota.store.driver import Database
from rota.store.tables import activity as activity_table
from rota.store.tables import jobs, run_queries

Moved = Mapping[str, Any] | None
"""The request of an earlier run for this instant."""


class Fired(Struct, frozen=True):
    """The result of one fire: rows in the order of their instants."""

    job: str
    runs: tuple[RunRef, ...] = ()
    skips: tuple[tuple[RunRef, Reason, int | None], ...] = ()
    notifies: bool = False
    """Whether a notification may follow."""


def fire(db: Database, job_id: str, *, now: datetime) -> Fired:
    """Account for every instant of a job that has come, and move its cursor beyond them.

    Skip a job that another scheduler has locked; the next round retries it.
    """
    name = jobs.due_name(db, job_id, now)
    if name is None:
        return Fired(job_id)
    job = jobs.job_by_id(db, job_id)
    if job.next_at is None or job.next_at > now:
        return Fired(job.name)
    return _fire(db, job, as_of=now, now=now)


def settle(db: Database, job_id: str, *, now: datetime, closing: bool) -> None:
    """Fire what has come before a job's definition changes: also the instant that still waits out its jitter.

    A definition owns every instant up to the moment it ends, so none may be left to the next one. Instants that wait
    for quiet hours to end go on waiting, unless the schedule itself ends, which is `closing`: never before it
    began, also where the clock was set back.
    """
    job = jobs.job_by_id(db, job_id)
    end = ends_at(db, job, now=now) if closing else now
    while _has_come(job, end) and not _waits(job, end):
        _fire(db, job, as_of=max(end, job.next_at or end), now=now)
        job = jobs.job_by_id(db, job_id)
    if closing and _has_come(job, end):
        _carry_out(db, job, plan_close(job, now=end), now=now)


def ends_at(db: Database, job: Job, *, now: datetime) -> datetime:
    """Return when a schedule that is given up ends: a calendar not before it began, what follows its runs now."""
    return now if job.spec.schedule.follows_runs else max(now, jobs.accounted_until(db, job))


def _has_come(job: Job, now: datetime) -> bool:
    return job.next_for is not None and job.next_for <= now


def _waits(job: Job, now: datetime) -> bool:
    quiet = None if job.next_for is None else waiting_run(job.spec.schedule, job.next_for)
    return quiet is not None and quiet.until > now


def _fire(db: Database, job: Job, *, as_of: datetime, now: datetime) -> Fired:
    faults.point("fire.begun")
    return _carry_out(db, job, plan_fire(job, _facts(db, job, now), now=as_of), now=now)


def _carry_out(db: Database, job: Job, plan: FirePlan, *, now: datetime) -> Fired:
    _move(db, job, plan, now=now)
    faults.point("fire.cursor_moved")
    moved = take_look(db, job)
    born: dict[str, RunRef] = {}
    names: dict[str, str] = {}
    skips: list[tuple[RunRef, Reason, int | None]] = []
    for step in plan.steps:
        if isinstance(step, PlannedRun):
            run = born[planned_id(step.slot_key)] = _enqueue(db, job, step, born=born, moved=moved, now=now)
            names[planned_handle(step.scheduled_for)] = run.handle
        else:
            planned_skip = replace(step, blocking=names.get(step.blocking or "", step.blocking))
            skips.append((_skip(db, job, planned_skip, moved=moved, now=now), step.reason, step.count))
    faults.point("fire.rows_written")
    return Fired(job.name, tuple(born.values()), tuple(skips), notifies=job.spec.notifies)


def _facts(db: Database, job: Job, now: datetime) -> FireFacts:
    assert job.next_for is not None
    spans: tuple[ExecutionSpan, ...] = ()
    grace, waited = job.spec.misfire.grace, now - job.next_for
    unwatched = unseen(db, now=now) if waited > grace else timedelta()
    if waited > max(grace, unwatched):
        grouped = job.spec.work.kind is Kind.GROUP
        found = run_queries.executed_spans(db, job.id, since=job.next_for, until=now, grouped=grouped)
        spans = tuple(ExecutionSpan(start, end, handle) for start, end, handle in found)
    return FireFacts(active=active_for(db, job), executed=spans, unseen=unwatched)


def _move(db: Database, job: Job, plan: FirePlan, *, now: datetime) -> None:
    """Move the cursor. Only skips can use a job up here: a run does so when its chain is final."""
    ran = any(isinstance(step, PlannedRun) for step in plan.steps)
    used_up = plan.next_for is None and not ran and (job.spec.schedule.at is not None or job.spec.schedule.run_once)
    follows_runs = job.spec.schedule.follows_runs
    moved = jobs.move_cursor(
        db,
        job,
        next_for=plan.next_for,
        next_at=plan.next_at,
        anchored_at=now if follows_runs and not ran else job.anchored_at,
        used_up_at=now if used_up else None,
        fire_number=job.fire_number + len(plan.steps),
    )
    assert moved, "the job was read in this transaction"


def _enqueue(
    db: Database, job: Job, step: PlannedRun, *, born: Mapping[str, RunRef], moved: Moved, now: datetime
) -> RunRef:
    verdict = verdict_among(step, {planned: run.id for planned, run in born.items()})
    return enqueue(
        db,
        job,
        verdict,
        trigger=Trigger.SCHEDULE,
        now=now,
        slot_key=step.slot_key,
        scheduled_for=step.scheduled_for,
        decisions=_decisions(job, step, {"verdict": verdict_word(verdict)}, moved=moved),
    )


def _skip(db: Database, job: Job, step: PlannedSkip, *, moved: Moved, now: datetime) -> RunRef:
    overlap = {"verdict": "refuse", "blocking": step.blocking} if step.blocking else None
    decisions = _decisions(job, step, overlap, moved=moved)
    return skip_planned(db, job, step, now=now, error=_why_not(job, step, now), decisions=decisions)


def _why_not(job: Job, step: PlannedSkip, now: datetime) -> str | None:
    if step.quiet_until is not None and step.quiet_until > now:
        return f"the schedule was changed before the quiet hours ended at {iso(step.quiet_until)}"
    if step.reason is Reason.BACKING_OFF and job.backing_off_until is not None:
        return f"failed {job.failures} times in a row, held back until {iso(job.backing_off_until)}"
    return f"{step.blocking} was not finished" if step.blocking else None


def _decisions(
    job: Job, step: PlannedRun | PlannedSkip, overlap: dict[str, Any] | None, *, moved: Moved
) -> dict[str, Any]:
    """Return what only this moment knows and `explain` will tell."""
    late = step.late_by // MILLISECOND
    told: dict[str, Any] = {"late_ms": late}
    if moved is not None:
        told |= {MOVED: moved}
    if job.mode is not None:
        told |= {"mode": job.mode.value, "every_ms": None if job.interval is None else job.interval // MILLISECOND}
    if step.unseen > job.spec.misfire.grace:
        told["grace_ms"] = step.unseen // MILLISECOND
    if isinstance(step, PlannedRun) and step.made_up:
        told["made_up"] = job.spec.misfire.policy.value
    if step.quiet_until is not None:
        told["quiet_until"] = iso(step.quiet_until)
    if overlap is not None:
        told["overlap"] = {"policy": job.spec.overlap.policy.value, **overlap}
    return told


def fire_at_boot(db: Database, *, boot: str, now: datetime, booted_at: datetime | None = None) -> list[Fired]:
    """Fire the jobs at boot that have not run for this one; each has one row for it, a paused one a skipped one.

    `booted_at`: leave out jobs that were made later, where another machine made them.
    """
    job_list = [jobs.job_by_id(db, job_id) for job_id in jobs.not_booted(db, boot)]
    job_list = [job for job in job_list if booted_at is None or job.created_at < booted_at]
    return [_fire_at_boot(db, job, boot=boot, now=now) for job in job_list]


def _fire_at_boot(db: Database, job: Job, *, boot: str, now: datetime) -> Fired:
    jobs.set_booted(db, job.id, boot)
    verdict = judge(job.spec.overlap, active_for(db, job))
    if job.paused_at is not None:
        why = f"paused: {job.pause_reason}" if job.pause_reason else None
        return _skip_at_boot(db, job, Reason.PAUSED, boot=boot, now=now, error=why)
    if isinstance(verdict, Refuse):
        error = f"{verdict.blocking.handle} was not finished"
        return _skip_at_boot(db, job, verdict.reason, boot=boot, now=now, error=error)
    born = enqueue(
        db, job, verdict, trigger=Trigger.SCHEDULE, now=now, slot_key=boot, scheduled_for=now, decisions={"boot": boot}
    )
    return Fired(job.name, (born,))


def _skip_at_boot(db: Database, job: Job, reason: Reason, *, boot: str, now: datetime, error: str | None) -> Fired:
    born = skip(db, job, reason, now=now, slot_key=boot, scheduled_for=now, error=error, decisions={"boot": boot})
    return Fired(job.name, (), ((born, reason, 1),))


def replan(db: Database, *, now: datetime) -> dict[str, Mode]:
    """Give every job with intervals by mode the cursor of the mode that holds now; return those that changed."""
    activity = _activity(db, now)
    changed: dict[str, Mode] = {}
    for planned in activity_table.planned_modes(db):
        mode = mode_at(now, activity=activity, quiet=planned.quiet)
        for job_id in activity_table.jobs_planned(db, planned) if mode is not planned.mode else ():
            changed[_replan(db, job_id, mode=mode, now=now)] = mode
            faults.point("cadence.replanned")
    return changed


def _replan(db: Database, job_id: str, *, mode: Mode, now: datetime) -> str:
    """Re-plan one job. What has come is fired first: it belongs to the mode that it was planned in."""
    held = jobs.job_by_id(db, job_id)
    if held.mode is mode:
        return held.name  # another scheduler was faster
    fire(db, job_id, now=now)
    job = jobs.job_by_id(db, job_id)
    activity_table.set_mode(db, job_id, job.spec, mode=mode)
    waits = job.next_for is None and run_queries.scheduled_chain_unfinished(db, job_id)
    if job.schedules and job.paused_at is None and not waits:
        cursor = cursor_in_mode(job, mode, now=now)
        jobs.move_cursor(
            db,
            job,
            next_for=cursor.next_for,
            next_at=cursor.next_at,
            anchored_at=job.anchored_at,
            fire_number=job.fire_number,
        )
    return job.name
