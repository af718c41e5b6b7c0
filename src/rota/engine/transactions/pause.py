"""Pause, resume, retire and release jobs."""

import json
from datetime import datetime

from msgspec import Struct

from rota import faults
from rota.engine.activity import ALL_KEY, PauseState, everything_paused, is_over
from rota.engine.clock import tzdata_version
from rota.engine.transactions import questions
from rota.engine.transactions.enqueue import active_for, enqueue, skip, skip_planned
from rota.engine.transactions.finish import end_runs, expire
from rota.engine.transactions.fire import ends_at, settle
from rota.engine.transactions.insert import RunRef
from rota.engine.transactions.poll import give_up
from rota.model.clock import MILLISECOND, to_ms, to_ms_or_none
from rota.model.records import Job
from rota.model.states import Trigger
from rota.rules.admission import Refuse, Verdict, judge
from rota.rules.liveness import REASON as CRASH_LOOP
from rota.rules.liveness import WINDOW, crash_loop
from rota.rules.pause import PausePlan, plan_pause_end
from rota.rules.schedule.plan import slot_key
from rota.store.driver import Database
from rota.store.tables import activity, audit, jobs, processes, queue, run_queries
from rota.store.tables.processes import CriticalSection, lock_section


class PauseEnded(Struct, frozen=True):
    """The result of the end of a job's pause."""

    job: str
    skipped: RunRef | None
    count: int | None
    caught_up: RunRef | None


def pause_job(db: Database, job_id: str, *, until: datetime | None, reason: str, now: datetime) -> bool:
    """Stop a job's fires; return whether it was not paused before. A paused one gets the new end and reason."""
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
    """End a timed pause at its stored end, if that has come, before another change of the job."""
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


def _write_skip(db: Database, job: Job, plan: PausePlan, *, now: datetime) -> RunRef | None:
    if plan.skip is None:
        return None
    why = f"paused: {job.pause_reason}" if job.pause_reason else None
    return skip_planned(db, job, plan.skip, now=now, error=why)


def _catch_up(db: Database, job: Job, plan: PausePlan, verdict: Verdict, *, now: datetime) -> RunRef:
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
    lock_section(db, CriticalSection.DECLARE)
    before = everything_paused(db)
    value = {"since": to_ms(now), "until": to_ms_or_none(until), "reason": reason}
    db.execute("meta_set", key=ALL_KEY, value=json.dumps(value))
    open_jobs = [job for job in jobs.all_jobs(db) if job.retired_at is None and not _outlasts(job, before, until)]
    return [job.name for job in open_jobs if pause_job(db, job.id, until=until, reason=reason, now=now)]


def _outlasts(job: Job, before: PauseState | None, until: datetime | None) -> bool:
    """Return whether a job has its own pause, not that of everything, which ends after `until`."""
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
        return int(lost) if processes.drain(db, worker_id, draining=True, crashes=lost) else 0
    if not crash_loop(lost) or everything_paused(db) is not None:
        return 0
    pause_everything(db, until=None, reason=CRASH_LOOP, now=now)
    return int(lost)


def end_pause_of_everything(db: Database) -> None:
    """Resume claiming."""
    db.execute("meta_delete", key=ALL_KEY)


def end_timed_pauses(db: Database, *, now: datetime, limit: int) -> list[PauseEnded]:
    """End the pauses whose stored end has come; instants after that end fall under misfire."""
    everything = everything_paused(db)
    if is_over(everything, now):
        lock_section(db, CriticalSection.DECLARE)
        if is_over(everything_paused(db), now):
            end_pause_of_everything(db)
    ended = []
    for (job_id,) in db.rows("jobs_pause_over", now=to_ms(now), limit=limit):
        end = end_pause_if_over(db, job_id, now=now)
        if end is not None:
            ended.append(end)
    return ended


def account_for(db: Database, job_id: str, *, now: datetime, closing: bool) -> Job:
    """Account for what was due under the old definition, under it; return the job as it is then.

    `closing`: its schedule ends with it, so that no run waits for the end of quiet hours.
    """
    end_pause_if_over(db, job_id, now=now)
    settle(db, job_id, now=now, closing=closing)
    job = jobs.job_by_id(db, job_id)
    return job if job.paused_at is None else settle_pause(db, job, now=now, closing=closing)


def retire(db: Database, job_id: str, *, now: datetime) -> Job:
    """Retire a job: it fires no more, its runs continue, and a pending approval ends."""
    job = account_for(db, job_id, now=now, closing=True)
    if job.provisional_at is not None:
        jobs.set_provisional(db, job_id, None)
    questions.withdraw_of_job(db, job_id, why="the job was removed", now=now)
    jobs.change_job(
        db,
        job,
        job.spec,
        source=job.source,
        retired_at=now,
        used_up_at=job.used_up_at,
        next_for=None,
        next_at=None,
        tzdata=tzdata_version(),
        now=now,
    )
    if job.name == activity.POLL:
        end_runs(db, give_up(db, "the file no longer has a `poll:`", now=now), epoch=None, now=now)
    return job


def retire_expired(db: Database, *, now: datetime) -> list[str]:
    """Retire what agents made and whose time is over; return the names."""
    retired = []
    for job_id in jobs.expired_jobs(db, now):
        if jobs.job_by_id(db, job_id).retired_at is not None:
            continue  # another scheduler was faster
        job = retire(db, job_id, now=now)
        audit.insert_event(db, "expired", now=now, job_id=job_id, made_by=job.made.by if job.made else "")
        retired.append(job.name)
    return retired


EXPIRIES_A_ROUND = 200


class Released(Struct, frozen=True):
    """The ended waits: expired runs, timed pauses, and provider holds."""

    expired: list[str]
    pauses: list[PauseEnded]
    holds: list[str]


def release_due(db: Database, *, now: datetime) -> Released:
    """Release runs whose wait is over, expire overdue ones, end timed pauses and holds."""
    expired = expire(db, now=now, limit=EXPIRIES_A_ROUND)
    end_runs(db, questions.expire(db, now=now, limit=EXPIRIES_A_ROUND), epoch=None, now=now)
    run_queries.release_due(db, now)
    return Released(expired, end_timed_pauses(db, now=now, limit=EXPIRIES_A_ROUND), queue.end_due(db, now))
