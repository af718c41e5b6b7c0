"""Deliveries beyond the ends of runs: what began late, was not finished in time, or works again (DEC-009)."""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from rota.model.clock import from_ms, to_ms
from rota.model.notify import Event, Target
from rota.model.spec import JobSpec
from rota.operations.auditing.report import Check, Findings
from rota.store.deliveries import TARGETS_AT_KEY, targets
from rota.store.driver import Database
from rota.store.rows import read_spec

PAGE = 1_000
SLACK = 60_000
DAY = timedelta(days=1)
FINAL = ("COMPLETED", "FAILED")
BEYOND = frozenset({Event.LATE, Event.MISSED, Event.RECOVERED})


@dataclass(frozen=True, slots=True)
class _Row:
    """A run as an audit needs it, times in milliseconds."""

    number: int
    status: str
    chain: str
    trigger: str
    scheduled_for: int | None
    created_at: int
    finished_at: int | None
    decisions: str | None
    tried_again: int

    @property
    def ended(self) -> bool:
        return self.status in FINAL and not self.tried_again

    @property
    def made_up(self) -> bool:
        return self.status != "SKIPPED" and self.trigger != "retry" and "made_up" in json.loads(self.decisions or "{}")


@dataclass(frozen=True, slots=True)
class _Listener:
    """A target of a job, since when it is what it is, and what it was told: which chain, of what, when."""

    target: Target
    since: int
    told: frozenset[tuple[str, str]]
    recovered_at: tuple[int, ...]


def check_telling(db: Database, findings: Findings, *, chosen: Collection[str] | None, since: int) -> None:
    """Tell of late, missed and recovered runs that a target was to be told of and that have no delivery."""
    row = db.row("audit_restored")
    since = max(since, row[0] if row and row[0] else 0)
    for job_id, name, updated_at, text in db.rows("audit_notifying"):
        spec = read_spec(text)
        if chosen is not None and job_id not in chosen:
            continue
        for listener in _listeners(db, job_id, spec, since=max(since, updated_at)):
            violation = partial(_violation, findings, name, listener.target.name)
            _check(listener, spec, _rows(db, job_id, since=listener.since), violation=violation)


def _violation(findings: Findings, job: str, target: str, event: Event, number: int) -> None:
    text = f"{target} was not told of {event.value} (DEC-009)"
    findings.violation(Check.DELIVERY, text, job=job, run=f"{job}:{number}")


def _listeners(db: Database, job_id: str, spec: JobSpec, *, since: int) -> Iterator[_Listener]:
    """Yield the targets that are told of more than ends."""
    row = db.row("meta_get", key=TARGETS_AT_KEY)
    known = targets(db) if row else {}
    named = [(known[name], max(since, int(row[0]))) for name in spec.notify if name in known and row]
    for target, begins in [*named, *((own, since) for own in spec.notify_own)]:
        if BEYOND.isdisjoint(target.on):
            continue
        told = [row for row in db.rows("audit_told", job_id=job_id) if row[2] == target.name]
        recovered = tuple(row[3] for row in told if row[1] == Event.RECOVERED.value)
        yield _Listener(target, begins, frozenset((row[0], row[1]) for row in told), recovered)


def _rows(db: Database, job_id: str, *, since: int) -> Iterator[_Row]:
    after = 0
    while page := db.rows("audit_tellable", job_id=job_id, after=after, limit=PAGE):
        yield from (one for one in (_Row(*row) for row in page) if one.created_at > since)
        after = page[-1][0]


def _check(listener: _Listener, spec: JobSpec, rows: Iterator[_Row], *, violation: "partial[None]") -> None:
    on, failed_at = listener.target.on, None
    for row in rows:
        if Event.MISSED in on and row.made_up and (row.chain, Event.MISSED.value) not in listener.told:
            violation(Event.MISSED, row.number)
        if not row.ended or row.finished_at is None:
            continue
        if Event.LATE in on and _was_late(row, spec) and (row.chain, Event.LATE.value) not in listener.told:
            violation(Event.LATE, row.number)
        if row.status == "FAILED":
            failed_at = row.finished_at
            continue
        if Event.RECOVERED in on and failed_at is not None and not _recovered(row, listener, failed_at):
            violation(Event.RECOVERED, row.number)
        failed_at = None


def _recovered(row: _Row, listener: _Listener, failed_at: int) -> bool:
    """Tell whether a target was told that a job works again; runs that overlap may have ended in another order."""
    assert row.finished_at is not None
    if row.created_at <= failed_at + SLACK:
        return True
    return any(failed_at - SLACK <= at <= row.finished_at + SLACK for at in listener.recovered_at)


def _was_late(row: _Row, spec: JobSpec) -> bool:
    """Tell whether a run surely ended after its time; one that clocks skip or show twice is nobody's promise."""
    if not spec.finish_by or row.trigger != "schedule" or row.scheduled_for is None or row.finished_at is None:
        return False
    hour, minute = (int(part) for part in spec.finish_by.split(":"))
    place = ZoneInfo(spec.schedule.timezone)
    begins = from_ms(row.scheduled_for).astimezone(place).replace(tzinfo=None)
    wall = begins.replace(hour=hour, minute=minute, second=0, microsecond=0)
    times = [_instant(wall + DAY * days, place) for days in (0, 1, 2)]
    coming = [None if at is None else to_ms(at) for at in times]
    first = next((at for at in coming if at is None or at > row.scheduled_for), None)
    return first is not None and first < row.finished_at


def _instant(wall: datetime, place: ZoneInfo) -> datetime | None:
    both = {wall.replace(tzinfo=place, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return both.pop() if len(both) == 1 else None
