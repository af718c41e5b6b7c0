"""Pause: hold a job's fires back, and account for them when it ends, each in one transaction (R-20)."""

import json
from dataclasses import dataclass
from datetime import datetime

from rota import faults
from rota.engine.birth import Born
from rota.engine.clock import tzdata_version
from rota.engine.enqueue import active_for, enqueue, skip, skip_planned
from rota.engine.fire import ends_at, settle
from rota.engine.pauses import ALL_KEY, Pause, everything_paused, is_over
from rota.model.clock import MILLISECOND, to_ms, to_ms_or_none
from rota.model.records import Job
from rota.model.states import Trigger
from rota.rules.guard import REASON as CRASH_LOOP
from rota.rules.guard import WINDOW, crash_loop
from rota.rules.overlap import Refuse, Verdict, judge
from rota.rules.pause import PausePlan, plan_pause_end, slot_key
from rota.store import jobs, processes, workers
from rota.store.driver import Database
from rota.store.locking import Turn, hold_turn


@dataclass(frozen=True, slots=True)
class PauseEnded:
    """What the end of a job's pause left."""

    job: str
    skipped: Born | None
    count: int | None
    caught_up: Born | None


def pause_job(db: Database, job_id: str, *, until: datetime | None, reason: str, now: datetime) -> bool:
    """Stop a job's fires; tell whether it was not paused before. A paused one gets the new end and reason."""
    end_pause_if_over(db, job_id, now=now)
    settle(db, job_id, now=now, closing=False)
    job = jobs.job_by_id(db, job_id)
    if job.paused_at is not None:
        db.execute("job_pause_change", id=job.id, until=to_ms_or_none(until), reason=reason)
        return False
    return jobs.store_pause(db, job, until=until, reason=reason, tzdata=tzdata_version(), now=now)


def pause_newborn(db: Database, job_id: str, *, now: datetime) -> None:
    """Hold back a job that was just made, if everything is paused: its first instant too."""
    everything = everything_paused(db)
    if everything is not None:
        job = jobs.job_by_id(db, job_id)
        until, reason = everything.until, everything.reason
        jobs.store_pause(db, job, until=until, reason=reason, tzdata=tzdata_version(), now=now)


def resume_job(db: Database, job_id: str, *, end: datetime, catch_up: bool, now: datetime) -> PauseEnded | None:
    """End a job's pause at `end`: its counted row, the run that is made up, its cursor. None: it is not paused."""
    job = jobs.job_by_id(db, job_id)
    if job.paused_at is None:
        return None
    verdict = judge(job.spec.overlap, active_for(db, job))
    refused = isinstance(verdict, Refuse)
    plan = plan_pause_end(job, end=end, catch_up=catch_up and job.schedules, now=now, refused=refused)
    skipped = _write_skip(db, job, plan, now=now)
    faults.point("resume.skip_written")
    running = plan.catch_up is not None
    jobs.store_resume(
        db,
        job,
        next_for=plan.cursor.next_for if job.schedules else None,
        next_at=plan.cursor.next_at if job.schedules else None,
        anchored_at=end if (skipped or (running and refused)) and job.spec.schedule.follows_runs else job.anchored_at,
        fire_number=job.fire_number + bool(skipped) + running,
        tzdata=tzdata_version(),
        end=end,
        now=now,
    )
    caught_up = _catch_up(db, jobs.job_by_id(db, job_id), plan, verdict, now=now) if running else None
    return PauseEnded(job.name, skipped, plan.skip.count if plan.skip else None, caught_up)


def end_pause_if_over(db: Database, job_id: str, *, now: datetime) -> PauseEnded | None:
    """End a timed pause at its stored end, if that has come: whoever acts on the job finds it as it would be seen."""
    job = jobs.job_by_id(db, job_id)
    if job.paused_until is None or job.paused_until > now:
        return None
    return resume_job(db, job_id, end=job.paused_until, catch_up=False, now=now)


def settle_pause(db: Database, job: Job, *, now: datetime, closing: bool) -> Job:
    """Account for the instants of a paused job up to `now`, before its definition changes under it."""
    end = ends_at(db, job, now=now) if closing else now
    plan = plan_pause_end(job, end=end, catch_up=False, now=now, closing=closing)
    skipped = _write_skip(db, job, plan, now=now)
    db.execute(
        "job_hold",
        id=job.id,
        version=job.version,
        held_for=to_ms_or_none(plan.cursor.next_for),
        anchored_at=to_ms_or_none(job.anchored_at),
        used_up_at=to_ms_or_none(job.used_up_at),
        fire_number=job.fire_number + bool(skipped),
    )
    return jobs.job_by_id(db, job.id)


def _write_skip(db: Database, job: Job, plan: PausePlan, *, now: datetime) -> Born | None:
    if plan.skip is None:
        return None
    why = f"paused: {job.pause_reason}" if job.pause_reason else None
    return skip_planned(db, job, plan.skip, now=now, error=why)


def _catch_up(db: Database, job: Job, plan: PausePlan, verdict: Verdict, *, now: datetime) -> Born:
    assert plan.catch_up is not None
    key = slot_key_of(job, plan.catch_up)
    if isinstance(verdict, Refuse):
        error = f"{verdict.blocking.handle} was not finished"
        made_up = {"made_up": "resume"}
        return skip(
            db, job, verdict.reason, now=now, slot_key=key, scheduled_for=plan.catch_up, error=error, decisions=made_up
        )
    return enqueue(
        db,
        job,
        verdict,
        trigger=Trigger.SCHEDULE,
        now=now,
        slot_key=key,
        scheduled_for=plan.catch_up,
        decisions={"made_up": "resume", "late_ms": (now - plan.catch_up) // MILLISECOND},
    )


def slot_key_of(job: Job, instant: datetime) -> str:
    """Return the key of an instant whose fire number is already counted."""
    return f"#{job.fire_number}" if job.spec.schedule.follows_runs else slot_key(job, instant)


def pause_everything(db: Database, *, until: datetime | None, reason: str, now: datetime) -> list[str]:
    """Pause every job and stop claiming; return the names of the jobs that were not paused before.

    A job that is paused on its own for longer keeps that pause: the end of this one must not let it go.
    """
    hold_turn(db, Turn.DECLARE)
    before = everything_paused(db)
    value = {"since": to_ms(now), "until": to_ms_or_none(until), "reason": reason}
    db.execute("meta_set", key=ALL_KEY, value=json.dumps(value))
    open_jobs = [job for job in jobs.all_jobs(db) if job.retired_at is None and not _outlasts(job, before, until)]
    return [job.name for job in open_jobs if pause_job(db, job.id, until=until, reason=reason, now=now)]


def _outlasts(job: Job, before: Pause | None, until: datetime | None) -> bool:
    """Tell whether a job is paused on its own, not by the pause of everything before, and longer than until `until`."""
    with_all = before is not None and (job.paused_until, job.pause_reason) == (before.until, before.reason)
    if job.paused_at is None or with_all:
        return False
    return job.paused_until is None or (until is not None and job.paused_until >= until)


def pause_in_crash_loop(db: Database, *, worker_id: str, now: datetime) -> int:
    """Pause everything if this worker's scheduler was lost too often of late; return how often, 0 if not.

    Where other machines are at work, what happens here is no reason to stop them: this worker is drained instead.
    """
    lost = processes.crashes(db, worker_id, since=now - WINDOW)
    if crash_loop(lost) and processes.is_shared(db):
        return int(lost) if workers.drain(db, worker_id, draining=True, crashes=lost) else 0
    if not crash_loop(lost) or everything_paused(db) is not None:
        return 0
    pause_everything(db, until=None, reason=CRASH_LOOP, now=now)
    return int(lost)


def end_pause_of_everything(db: Database) -> None:
    """Let claiming go on."""
    db.execute("meta_delete", key=ALL_KEY)


def end_timed_pauses(db: Database, *, now: datetime, limit: int) -> list[PauseEnded]:
    """End the pauses whose stored end has come; instants after that end fall under misfire (R-10)."""
    everything = everything_paused(db)
    if is_over(everything, now):
        hold_turn(db, Turn.DECLARE)
        if is_over(everything_paused(db), now):
            end_pause_of_everything(db)
    ended = []
    for (job_id,) in db.rows("jobs_pause_over", now=to_ms(now), limit=limit):
        end = end_pause_if_over(db, job_id, now=now)
        if end is not None:
            ended.append(end)
    return ended
