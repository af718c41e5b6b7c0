"""A restored database before anybody serves it: everything paused from the copy's time on, nothing taken for alive."""

import json
from datetime import datetime, timedelta

from rota.engine import budget
from rota.engine.clock import tzdata_version
from rota.engine.pauses import ALL_KEY
from rota.engine.pools import forget_kept
from rota.engine.record import finish
from rota.model.clock import MILLISECOND, to_ms
from rota.model.records import Job, Outcome
from rota.model.states import Reason, Status
from rota.rules.lanes import GROUP_LANE
from rota.store import deliveries, direct, events, finding, jobs, processes, queue, runs, work
from rota.store.driver import Database


def settle_restored(db: Database, *, made_at: datetime, host: str, reason: str, now: datetime) -> None:
    """Pause everything from the moment of the copy on, and close what ran then.

    Nothing is fired for the time between: those instants were the other scheduler's, or nobody's. What ran is not
    looked for: on the same machine it may still run, under the scheduler that the copy was taken from.
    """
    value = {"since": to_ms(made_at), "until": None, "reason": reason}
    db.execute("meta_set", key=ALL_KEY, value=json.dumps(value))
    for job in jobs.all_jobs(db):
        if job.retired_at is None:
            _hold(db, job, made_at=made_at, reason=reason)
    work.leave_all(db, f"restored from a backup of {host}: its items are left as they are", now=now)
    _close_runs(db, host=host, now=now)
    _close_calls(db, host=host, now=now)
    deliveries.leave_all(db, f"restored from a backup of {host}, which told or tells of it itself", now=now)
    for process in processes.open_processes(db):
        forget_kept(db, [process.epoch])
        processes.end_process(db, process.epoch, ending="detached", now=now)
    events.note(db, "restored", now=now, host=host, made_at=made_at.isoformat())


def _hold(db: Database, job: Job, *, made_at: datetime, reason: str) -> None:
    if job.paused_at is not None:
        db.execute("job_pause_change", id=job.id, until=None, reason=reason)
        return
    since = made_at if job.next_for is None else min(made_at, job.next_for - MILLISECOND)
    since = max(since, job.updated_at, job.created_at)
    jobs.store_pause(db, job, until=None, reason=reason, tzdata=tzdata_version(), now=since)


def _close_runs(db: Database, *, host: str, now: datetime) -> None:
    for run in finding.running_runs(db):
        if run.status is Status.DISPATCHED and run.epoch is not None:
            runs.release_run(db, run.id, epoch=run.epoch)
        elif run.status is Status.RUNNING and run.lane_id != GROUP_LANE:
            finish(db, run.id, _unknown_end(host), expected=Status.RUNNING, epoch=run.epoch, now=now)


def _close_calls(db: Database, *, host: str, now: datetime) -> None:
    """End the direct calls, and send away who waited: their callers were there, not here."""
    for call in direct.unfinished(db):
        if direct.finish(db, call.id, _unknown_end(host), epoch=None, at=now):
            queue.give_back(db, [call.lane_id])
            budget.settle(db, [budget.Gone(call.id)], now=now)
    for waiting in direct.calls(db):
        if direct.leave(db, waiting.id, epoch=waiting.epoch) and waiting.slot is not None:
            queue.give_back(db, [waiting.lane_id])
            budget.settle(db, [budget.Gone(waiting.id, started=False)], now=now)


def _unknown_end(host: str) -> Outcome:
    error = f"it ran on {host} when the backup was made; how it ended is not known here"
    return Outcome(Status.FAILED, Reason.PROCESS_RESTARTED, error=error)


def age(made_at: datetime, now: datetime) -> timedelta:
    """Return how old a copy is; one from the future of a wrong clock is new."""
    return max(now - made_at, timedelta())
