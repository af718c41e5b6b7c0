"""Promises about rows, asked of the whole database by SQL: each query returns only what breaks one."""

import json
from collections.abc import Collection
from datetime import timedelta

from rota.model.spec import Schedule
from rota.model.states import REASONS, Reason
from rota.operations.auditing.budgets import check_budgets
from rota.operations.auditing.fates import waits, wrong_wait
from rota.operations.auditing.groups import check_groups
from rota.operations.auditing.ledger import say
from rota.operations.auditing.pools import check_pools
from rota.operations.auditing.report import Check, Findings
from rota.operations.auditing.spans import AuditedJob, Kind, Stretch
from rota.operations.auditing.work import check_work
from rota.rules.retry import OUTAGES
from rota.store.driver import Database
from rota.store.processes import is_shared

SLACK = 1_000
"""A clock that is set back by less than this is not noted anywhere (R-26)."""
BETWEEN_MACHINES = 60_000
"""By how much clocks may differ where one machine makes a run, and another carries it out."""
ANY_TIME = 1 << 60
MOST = 1_000


def clock_was_set_back(db: Database) -> bool:
    """Tell whether the times of rows need not be in order."""
    row = db.row("audit_clock")
    return row is not None and bool(row[0])


def check_rows(db: Database, findings: Findings, *, chosen: Collection[str] | None, stepped: bool) -> None:
    """INV-001 to INV-004 by re-reading: states, executions, slots, numbers, keys, times, waits."""
    jobs = None if chosen is None else json.dumps(sorted(chosen))
    _check_states(db, findings, jobs)
    _check_executions(db, findings, jobs)
    _check_doubles(db, findings, jobs)
    _check_waiting(db, findings, jobs)
    _check_chains(db, findings, jobs)
    check_groups(db, findings, jobs=jobs)
    check_pools(db, findings, jobs=jobs)
    check_budgets(db, findings)
    check_work(db, findings)
    slack = BETWEEN_MACHINES if is_shared(db) else SLACK
    _check_direct(db, findings, jobs, slack=ANY_TIME if stepped else slack)
    if not stepped:
        _check_times(db, findings, jobs, slack=slack)


def _check_states(db: Database, findings: Findings, jobs: str | None) -> None:
    reasons = json.dumps([f"{status}/{reason}" for status, known in REASONS.items() for reason in known])
    for job, number, status, reason, what in db.rows("audit_states", jobs=jobs, reasons=reasons, limit=MOST):
        text = f"is {status}{f'/{reason}' if reason else ''}, {what}"
        findings.violation(Check.STATE, text, job=job, run=f"{job}:{number}")


def _check_executions(db: Database, findings: Findings, jobs: str | None) -> None:
    for job, number, status, what in db.rows("audit_executions", jobs=jobs, limit=MOST):
        findings.violation(Check.EXECUTION, f"is {status}, {what} (INV-002)", job=job, run=f"{job}:{number}")


def _check_direct(db: Database, findings: Findings, jobs: str | None, *, slack: int) -> None:
    for call_id, job, what in db.rows("audit_direct", jobs=jobs, slack=slack, limit=MOST):
        findings.violation(Check.EXECUTION, f"the direct call {call_id} {what} (R-13)", job=job)


def _check_doubles(db: Database, findings: Findings, jobs: str | None) -> None:
    for job, number, count in db.rows("audit_doubled_numbers", jobs=jobs, limit=MOST):
        findings.violation(Check.NUMBER, f"the number {number} is given to {count} runs", job=job)
    for job, key, count in db.rows("audit_doubled_keys", jobs=jobs, limit=MOST):
        findings.violation(Check.LEDGER, f"the fire {key} has {count} rows (R-05)", job=job)
    for slot, count in db.rows("audit_doubled_slots", limit=MOST):
        findings.violation(Check.STATE, f"slot {slot} holds {count} runs or direct calls (INV-003)")
    for job, counted, highest in db.rows("audit_numbers", jobs=jobs, limit=MOST):
        findings.violation(Check.NUMBER, f"it has counted {counted} runs, but there is run {highest}", job=job)


def _check_waiting(db: Database, findings: Findings, jobs: str | None) -> None:
    for job, number, waiting_for in db.rows("audit_waiting", jobs=jobs, limit=MOST):
        text = f"waits for {waiting_for}, which nothing will end: it would wait for ever"
        findings.violation(Check.WAITING, text, job=job, run=f"{job}:{number}")


def _check_chains(db: Database, findings: Findings, jobs: str | None) -> None:
    for job, number, what in db.rows("audit_chains", jobs=jobs, limit=MOST):
        findings.violation(Check.CHAIN, f"{what} (DEC-001)", job=job, run=f"{job}:{number}")
    for job, number, attempt, most in db.rows("audit_not_retried", jobs=jobs, outages=OUTAGES, limit=MOST):
        text = f"failed as attempt {attempt} of {most}, but was not retried (DEC-007)"
        findings.violation(Check.CHAIN, text, job=job, run=f"{job}:{number}")


def _check_times(db: Database, findings: Findings, jobs: str | None, *, slack: int) -> None:
    for job, number, *times in db.rows("audit_times", jobs=jobs, slack=slack, limit=MOST):
        created, dispatched, started, finished = map(say, times)
        text = f"has its times out of order: created {created}, dispatched {dispatched}, started {started}, "
        findings.violation(Check.TIME, f"{text}finished {finished}", job=job, run=f"{job}:{number}")


def check_stall(db: Database, job: AuditedJob, current: Stretch, findings: Findings, *, now: int) -> None:
    """A job that follows its runs has a cursor, or a run that will set one: else it has stalled silently."""
    if current.kind is not Kind.FOLLOWING or not job.schedules:
        return
    if job.cursor is not None:
        if (wrong := _wrong_moment(job, current)) is not None:
            findings.violation(Check.CURSOR, wrong, job=job.name)
        return
    if db.row("audit_unfinished", job_id=job.id) is not None:
        return
    if _ends(job, current, _goes_on_from(db, job, current, now=now)):
        return
    text = "it has no next instant and no unfinished scheduled run: it would never fire again"
    findings.violation(Check.CURSOR, text, job=job.name)


def _wrong_moment(job: AuditedJob, current: Stretch) -> str | None:
    """Return what is wrong with when the next instant fires: at once, by jitter, or at the end of quiet hours."""
    if job.next_at is None or (job.next_at == job.next_for and not waits(job, current)):
        return None
    if waits(job, current) or current.schedule.jitter is not None:
        return wrong_wait(job, current)
    return f"{say(job.next_for)} fires at {say(job.next_at)}, but the schedule has no jitter"


def _goes_on_from(db: Database, job: AuditedJob, current: Stretch, *, now: int) -> int:
    """Return what one interval is counted from: when the job became what it is or last ran, which may be later than a
    clock that was set back, or the end of the quiet hours, excluded days or back-off that its newest row tells of.
    """
    row = db.row("audit_last_end", job_id=job.id)
    ended, backing_off_until, instant, reason = row or (None, None, None, None)
    latest = max(now, current.spans[-1].since, ended or now, backing_off_until or now)
    if current.lulls is None or instant is None:
        return latest
    if reason == Reason.EXCLUDED:
        return max(latest, current.lulls.excluded_end(instant))
    return max(latest, current.lulls.quiet_end(instant) or latest) if reason == Reason.QUIET_HOURS else latest


def _ends(job: AuditedJob, current: Stretch, since: int) -> bool:
    """Tell whether the schedule is over, nearly so that one interval leads beyond its end, or asleep in this mode."""
    schedule = current.schedule
    interval = _interval(schedule, job.mode)
    if interval is None:
        return schedule.by_mode is not None  # never in this mode: the next one gives it its cursor back
    return schedule.end_at is not None and schedule.end_at.timestamp() * 1000 <= since + interval.total_seconds() * 1000


def _interval(schedule: Schedule, mode: str | None) -> timedelta | None:
    if schedule.by_mode is None:
        return schedule.interval
    modes = {"active": schedule.by_mode.active, "idle": schedule.by_mode.idle, "dormant": schedule.by_mode.dormant}
    return modes.get(mode or "")
