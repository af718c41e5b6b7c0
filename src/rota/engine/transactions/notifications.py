"""Deliveries, written in the transaction of the event that they report."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from rota import faults
from rota.model.notifications import Event, PingSignal, Target
from rota.model.records import Job, Run
from rota.model.spec import JobSpec
from rota.model.states import Status, Trigger
from rota.rules.chats import delivers
from rota.rules.notifications import decide_events, event_of, late_at, ping_signal
from rota.store.driver import Database
from rota.store.tables import jobs, notifications, run_queries, runs

LATE_A_ROUND = 200


class _NotifyTarget(Struct, frozen=True):
    """A target of a job, and whether it is written in the job itself."""

    target: Target
    own: bool


def run_born(db: Database, run: runs.NewRun, handle: str, *, now: datetime) -> None:
    """Insert deliveries for skipped instants and late starts; store the deadline of a run."""
    spec = run.job.spec
    if run.reason is not None:
        event = event_of(Status.SKIPPED, run.reason)
        if event is not None:
            _tell(db, run.job, event, run_id=run.id, handle=handle, now=now)
        return
    if "made_up" in (run.decisions or {}):
        _tell(db, run.job, Event.MISSED, run_id=run.id, handle=handle, now=now, runs=True)
    if spec.finish_by and run.trigger is Trigger.SCHEDULE and run.scheduled_for is not None:
        at = late_at(spec.finish_by, spec.schedule.timezone, after=run.scheduled_for)
        if at is not None:
            notifications.set_deadline(db, run.id, at)


def chain_ended(db: Database, ended: runs.FinishedRun, *, now: datetime) -> None:
    """Insert deliveries for a final run that is not retried."""
    job = jobs.job_by_id(db, ended.job_id)
    run = runs.run_by_id(db, ended.id)
    assert run is not None, "it ended in this transaction"
    deadline = notifications.deadline_over(db, ended.id)
    if deadline is not None and deadline < ended.finished_at:
        _tell(db, job, Event.LATE, run_id=run.id, handle=run.handle, now=now)
    delivered = _deliver(db, job, run, now=now)
    event = event_of(ended.status, ended.outcome.reason)
    if event is not None:
        _tell(db, job, event, run_id=run.id, handle=run.handle, now=now, without=delivered)
    ping = None if run.started_at is None else jobs.version_spec(db, run.job_id, run.version).ping
    if ping is not None:
        _ping_end(db, ping, run, now=now)
    faults.point("notify.written")


def _deliver(db: Database, job: Job, run: Run, *, now: datetime) -> Collection[str]:
    """Write the delivery of an answer for each target of `deliver`; return the targets that get it."""
    deliver = job.spec.deliver
    if deliver is None or not delivers(deliver, run.status, run_queries.result_of(db, run)):
        return ()
    declared = notifications.targets(db)
    targets = [declared[name] for name in deliver.to if name in declared]
    for target in targets:
        notifications.insert(db, target, Event.RESULT, run_id=run.id, handle=run.handle, own=False, now=now)
    return [target.name for target in targets]


def ping_start(db: Database, ping: Target, *, run_id: str, handle: str, now: datetime) -> None:
    """Insert the ping of a start."""
    _ping(db, ping, PingSignal.START, run_id=run_id, handle=handle, facts={}, now=now)


def _ping_end(db: Database, ping: Target, run: Run, *, now: datetime) -> None:
    signal = ping_signal(run.status)
    facts = {"exit_code": run.exit_code, "reason": run.reason and run.reason.value, "error": run.error}
    _ping(db, ping, signal, run_id=run.id, handle=run.handle, facts=facts, now=now)


def _ping(
    db: Database,
    ping: Target,
    signal: PingSignal,
    *,
    run_id: str,
    handle: str,
    facts: Mapping[str, Any],
    now: datetime,
) -> None:
    payload = {"event": Event.PING.value, "signal": signal.value, "id": run_id, "run": handle, **facts}
    notifications.insert_message(
        db,
        ping,
        Event.PING,
        subject=f"ping:{run_id}:{signal}",
        payload=payload,
        now=now,
        handle=handle,
        run_id=run_id,
        line=f"ping:{handle.rpartition(':')[0]}",
        own=True,
    )


def tried_again(db: Database, failed: str, run_id: str) -> None:
    """Copy the deadline to the next attempt of a run."""
    notifications.pass_deadline_on(db, failed, run_id)


def tell_late(db: Database, *, now: datetime) -> int:
    """Insert deliveries for runs past their deadline; return their number."""
    late = notifications.missed_deadlines(db, now=now, limit=LATE_A_ROUND)
    for run_id in late:
        run = runs.run_by_id(db, run_id)
        if run is not None and not run.status.final:
            _tell(db, jobs.job_by_id(db, run.job_id), Event.LATE, run_id=run.id, handle=run.handle, now=now)
    return len(late)


_IN_AN_ANSWER = (Event.FAILED, Event.COMPLETED)
"""Events that a delivered answer tells too."""


def _tell(
    db: Database,
    job: Job,
    event: Event,
    *,
    run_id: str,
    handle: str,
    now: datetime,
    runs: bool = False,
    without: Collection[str] = (),
) -> None:
    """Write a delivery for each target that is to be told. What is missed but `runs` is no skip.

    The targets in `without` get the answer of the run, which tells its end too.
    """
    failing = notifications.failing(db, job.id)
    for notify_target in _targets(db, job.spec):
        target = notify_target.target
        if runs and event not in target.on:
            continue
        decision = decide_events(target, event, failing=failing.get(target.name), now=now)
        if decision.failing != failing.get(target.name):
            notifications.set_failing(db, job.id, target=target.name, told_at=decision.failing)
        for one in decision.events:
            if one in _IN_AN_ANSWER and not notify_target.own and target.name in without:
                continue
            notifications.insert(db, target, one, run_id=run_id, handle=handle, own=notify_target.own, now=now)


def _targets(db: Database, spec: JobSpec) -> Iterator[_NotifyTarget]:
    if spec.notify:
        declared = notifications.targets(db)
        yield from (_NotifyTarget(declared[name], own=False) for name in spec.notify if name in declared)
    yield from (_NotifyTarget(target, own=True) for target in spec.notify_own)
