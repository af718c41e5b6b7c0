"""Record: the end of a run and everything that follows from it, in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rota import faults
from rota.model.clock import to_ms
from rota.model.records import Job, Outcome
from rota.model.spec import Anchor
from rota.model.states import Reason, Status, Trigger
from rota.rules.cursor import NOWHERE, Cursor, cursor_after_chain
from rota.rules.outcome import ended_at, settle
from rota.store import jobs, runs
from rota.store.driver import Database


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that ended, as its executor saw it."""

    run_id: str
    job_id: str
    outcome: Outcome


def record(db: Database, finished: Sequence[Finished], *, epoch: int, now: datetime) -> dict[str, Outcome]:
    """Store the ends of runs of `epoch`; return the outcomes as stored, of those that were still ours."""
    standing = runs.ending_runs(db, [one.run_id for one in finished])
    ends = [_settled(one, standing[one.run_id], now) for one in finished if one.run_id in standing]
    ended = finish_all(db, ends, epoch=epoch)
    outcomes = {end.run_id: end.outcome for end in ends}
    for run in ended:
        state = outcomes[run.id].state
        if state is not None:
            jobs.save_job_state(db, run.job_id, state)
    return {run.id: outcomes[run.id] for run in ended}


def _settled(finished: Finished, standing: runs.Standing, now: datetime) -> runs.End:
    outcome = settle(finished.outcome, standing.cancel_reason)
    return runs.End(finished.run_id, outcome, expected=standing.status, at=ended_at(outcome, now))


def finish(db: Database, run_id: str, outcome: Outcome, *, expected: Status, epoch: int | None, now: datetime) -> bool:
    """End a run that is `expected`, whoever held it, and do what follows."""
    return bool(finish_all(db, [runs.End(run_id, outcome, expected=expected, at=now)], epoch=epoch))


def finish_all(db: Database, ends: Sequence[runs.End], *, epoch: int | None) -> list[runs.Ended]:
    """End runs that are as expected and do what follows; return them. Each statement ends all of them at once."""
    ended = runs.finish_runs(db, ends, epoch=epoch) if ends else []
    if not ended:
        return []
    faults.point("record.run_updated")
    final = {run.id for run in ended}
    started = [end for end in ends if end.expected is Status.RUNNING and end.run_id in final]
    if started:
        runs.finish_executions(db, started)
    follow_up(db, ended)
    faults.point("record.followed_up")
    return ended


def follow_up(db: Database, ended: Sequence[runs.Ended]) -> None:
    """Let go what waited for these runs, and move the jobs' cursors where they depend on their runs."""
    waited_for = {job_id for job_id in {run.job_id for run in ended} if runs.waiting_for_others(db, job_id)}
    for run in ended:
        if run.job_id in waited_for:
            _let_go_waiting(db, run)
        if run.trigger is Trigger.SCHEDULE:
            _move_cursor(db, jobs.job_by_id(db, run.job_id), run)


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


def _move_cursor(db: Database, job: Job, ended: runs.Ended) -> None:
    """Plan the job's next instant where it depends on this chain, or note that the job is used up (R-06, R-07)."""
    schedule = job.spec.schedule
    planned = job.next_for or job.held_for
    if planned is not None or ended.scheduled_for is None:
        return
    if not job.schedules:
        _use_up_while_off(db, job, ended)
        return
    cursor = cursor_after_chain(
        job, scheduled_for=ended.scheduled_for, first_started_at=ended.started_at, finished_at=ended.finished_at
    )
    skipped = ended.status is Status.SKIPPED
    if schedule.at is not None or (schedule.run_once and not (skipped and cursor.next_for)):
        _set_cursor(db, job, NOWHERE, anchored_at=job.anchored_at, used_up_at=ended.finished_at)
    elif schedule.follows_runs:
        started = schedule.anchor is Anchor.START and ended.started_at is not None
        _set_cursor(db, job, cursor, anchored_at=ended.started_at if started else ended.finished_at)
    else:
        _set_cursor(db, job, cursor, anchored_at=job.anchored_at)


def _use_up_while_off(db: Database, job: Job, ended: runs.Ended) -> None:
    """Note that a job that was switched off meanwhile has run its once, so that it does not when it is on again."""
    once = job.spec.schedule.run_once or job.spec.schedule.at is not None
    if job.used_up_at is not None or not once or ended.status is Status.SKIPPED:
        return
    run = runs.run_by_id(db, ended.id)
    if run is not None and jobs.version_spec(db, job.id, run.version).schedule == job.spec.schedule:
        _set_cursor(db, job, NOWHERE, anchored_at=job.anchored_at, used_up_at=ended.finished_at)


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
