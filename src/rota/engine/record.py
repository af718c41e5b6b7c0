"""Record: the end of a run and everything that follows from it, in one transaction."""

from dataclasses import dataclass
from datetime import datetime

from rota.model.clock import to_ms
from rota.model.records import Job, Outcome
from rota.model.spec import Anchor
from rota.model.states import Reason, Status, Trigger
from rota.rules.cursor import NOWHERE, Cursor, cursor_after_chain
from rota.rules.outcome import settle
from rota.store import jobs, runs
from rota.store.driver import Database


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that ended, as its executor saw it."""

    run_id: str
    job_id: str
    outcome: Outcome


def record(db: Database, finished: Finished, *, epoch: int, now: datetime) -> bool:
    """Store the end of a RUNNING run of `epoch`; tell whether it was still ours."""
    run = db.row("run_ending", id=finished.run_id)
    if run is None:
        return False
    status, cancel_reason = run
    outcome = settle(finished.outcome, runs.reason_or_none(cancel_reason))
    if not finish(db, finished.run_id, outcome, expected=Status(status), epoch=epoch, now=now):
        return False
    if outcome.state is not None:
        jobs.save_job_state(db, finished.job_id, outcome.state)
    return True


def finish(db: Database, run_id: str, outcome: Outcome, *, expected: Status, epoch: int | None, now: datetime) -> bool:
    """End a run that is `expected`, whoever held it, and do what follows."""
    if not runs.finish_run(db, run_id, outcome, expected=expected, epoch=epoch, now=now):
        return False
    if expected is Status.RUNNING:
        runs.finish_execution(db, run_id, outcome, now=now)
    follow_up(db, run_id, outcome.status, now=now)
    return True


def follow_up(db: Database, run_id: str, status: Status, *, now: datetime) -> None:
    """Let go what waited for this run, and move the job's cursor where it depends on its runs."""
    ended = runs.ended_run(db, run_id)
    _let_go_waiting(db, ended)
    if ended.trigger is Trigger.SCHEDULE:
        _move_cursor(db, jobs.job_by_id(db, ended.job_id), ended, status, now)


def _let_go_waiting(db: Database, ended: runs.Ended) -> None:
    for waiting in runs.waiting_for_others(db, ended.job_id):
        if waiting.predecessor_id == ended.id:
            _pass_on(db, waiting.id, ended.predecessor_id)
        elif waiting.predecessor_id is None and not runs.unfinished_before(db, ended.job_id, waiting.id):
            runs.let_go(db, waiting.id)


def _pass_on(db: Database, run_id: str, predecessor_id: str | None) -> None:
    """Release a run whose predecessor ended, or let it wait for the one that its predecessor still waited for."""
    if predecessor_id is not None and runs.is_unfinished(db, predecessor_id):
        runs.relink(db, run_id, predecessor_id)
    else:
        runs.let_go(db, run_id)


def _move_cursor(db: Database, job: Job, ended: runs.Ended, status: Status, now: datetime) -> None:
    """Plan the job's next instant where it depends on this chain, or note that the job is used up (R-06, R-07)."""
    schedule = job.spec.schedule
    planned = job.next_for or job.held_for
    if not job.schedules or planned is not None or ended.scheduled_for is None:
        return
    cursor = cursor_after_chain(
        job, scheduled_for=ended.scheduled_for, first_started_at=ended.started_at, finished_at=now
    )
    skipped = status is Status.SKIPPED
    if schedule.at is not None or (schedule.run_once and not (skipped and cursor.next_for)):
        _set_cursor(db, job, NOWHERE, anchored_at=job.anchored_at, used_up_at=now)
    elif schedule.follows_runs:
        started = schedule.anchor is Anchor.START and ended.started_at is not None
        _set_cursor(db, job, cursor, anchored_at=ended.started_at if started else now)
    else:
        _set_cursor(db, job, cursor, anchored_at=job.anchored_at)


def _set_cursor(
    db: Database, job: Job, cursor: Cursor, *, anchored_at: datetime | None, used_up_at: datetime | None = None
) -> None:
    jobs.move_cursor(
        db,
        job,
        next_for=cursor.next_for,
        next_at=cursor.next_at,
        anchored_at=anchored_at,
        used_up_at=used_up_at,
        fire_number=job.fire_number,
    )


def expire(db: Database, *, now: datetime, limit: int) -> int:
    """End queued runs that waited longer than `expires_after`; return how many."""
    outcome = Outcome(Status.SKIPPED, Reason.EXPIRED, error="it waited longer than `expires_after`")
    expired = db.rows("runs_expired", now=to_ms(now), limit=limit)
    for (run_id,) in expired:
        finish(db, run_id, outcome, expected=Status.QUEUED, epoch=None, now=now)
    return len(expired)
