"""The history of a job's definition: its spans, and the stretches of spans over which its instants run on."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise

from rota.model.clock import to_ms
from rota.model.spec import Anchor, JobSpec, Schedule
from rota.operations.auditing.instants import Instants, instants_of
from rota.operations.auditing.lulls import Lulls, follows_zones, lulls_of
from rota.operations.auditing.report import Check, Findings
from rota.store.driver import Database
from rota.store.rows import read_spec

LONG_AGO = -(1 << 62)


@dataclass(frozen=True, slots=True)
class AuditedJob:
    """A job as its row shows it, times in milliseconds."""

    id: str
    name: str
    version: int
    enabled: int
    created_at: int
    retired_at: int | None
    used_up_at: int | None
    next_for: int | None
    next_at: int | None
    fire_number: int
    ledger_from: int
    paused_at: int | None
    held_for: int | None
    mode: str | None
    booted: str | None
    provisional_at: int | None

    @property
    def schedules(self) -> bool:
        """Whether the job has due instants."""
        gone = self.retired_at is not None or self.used_up_at is not None
        return bool(self.enabled) and not gone and self.provisional_at is None

    @property
    def cursor(self) -> int | None:
        """The next nominal instant, held back or not."""
        return self.next_for if self.paused_at is None else self.held_for


@dataclass(frozen=True, slots=True)
class AuditedSpan:
    """One version of a job: what it was, from `since` to `until`."""

    spec: JobSpec
    version: int
    text: str
    digest: str
    schedules: int
    paused: int
    tzdata: str
    since: int
    until: int | None

    @property
    def has_instants(self) -> bool:
        """Whether instants of this span are accounted for, fired or skipped."""
        return bool(self.schedules or self.paused) and not self.spec.schedule.manual


class Kind(StrEnum):
    """What can be said of the instants of a stretch."""

    NONE = "none"
    FOLLOWING = "following"
    AT_BOOT = "at_boot"
    ENUMERATED = "enumerated"
    LEFT_OUT = "left_out"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring spans with one schedule: its instants run through all of them."""

    kind: Kind
    spans: tuple[AuditedSpan, ...]
    instants: Instants | None
    begins: int
    lulls: Lulls | None = None

    @property
    def schedule(self) -> Schedule:
        """The schedule of all its spans."""
        return self.spans[0].spec.schedule

    @property
    def until(self) -> int | None:
        """When its last span was closed, None while it is open."""
        return self.spans[-1].until


def read_spans(db: Database, job: AuditedJob, findings: Findings) -> list[AuditedSpan]:
    """Return a job's spans, oldest first; those that cannot be read are violations and left out."""
    found = []
    for row in db.rows("audit_spans", job_id=job.id):
        try:
            found.append(AuditedSpan(read_spec(row[1]), *row))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            text = f"the definition of version {row[0]} cannot be read: {error}"
            findings.violation(Check.VERSION, text, job=job.name)
    return found


def check_spans(job: AuditedJob, spans: Sequence[AuditedSpan], findings: Findings) -> None:
    """INV-005: every definition as it was stored, spans without gap or overlap, the last one the job's own."""
    for place, span in enumerate(spans):
        if _digest(span.text) != span.digest:
            findings.violation(Check.VERSION, f"version {span.version} is not what its digest says", job=job.name)
        if span.version != place + 1:
            text = f"version {span.version} stands where version {place + 1} should"
            findings.violation(Check.VERSION, text, job=job.name)
    for earlier, later in pairwise(spans):
        if earlier.until != later.since:
            text = f"the span of version {earlier.version} ends at {earlier.until}, the next begins at {later.since}"
            findings.violation(Check.VERSION, text, job=job.name)
    _check_last(job, spans[-1] if spans else None, findings)


def _check_last(job: AuditedJob, last: AuditedSpan | None, findings: Findings) -> None:
    if last is None or last.version != job.version or last.until is not None:
        findings.violation(Check.VERSION, f"version {job.version} has no open span", job=job.name)
        return
    wanted = job.enabled and job.retired_at is None and job.paused_at is None and job.provisional_at is None
    if (last.schedules and not wanted) or (last.paused and job.paused_at is None):
        findings.violation(Check.VERSION, "its open span and its row disagree on enabled or paused", job=job.name)
    if job.schedules and not (last.schedules or last.paused):
        findings.violation(Check.VERSION, "it schedules, but its open span has no instants", job=job.name)
    if last.spec.name != job.name.partition("~")[0]:  # a deleted job whose name went to another
        findings.violation(Check.VERSION, f"its definition is that of {last.spec.name!r}", job=job.name)


@lru_cache(maxsize=256)
def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def stretches_of(job: AuditedJob, spans: Sequence[AuditedSpan], *, tzdata: str) -> list[Stretch]:
    """Return the spans joined where the cursor goes on unmoved: neighbours with instants of one schedule."""
    groups: list[list[AuditedSpan]] = []
    for span in spans:
        if groups and _goes_on(groups[-1][-1], span):
            groups[-1].append(span)
        else:
            groups.append([span])
    return [_stretch(job, tuple(group), tzdata) for group in groups]


def _goes_on(earlier: AuditedSpan, later: AuditedSpan) -> bool:
    if not (earlier.has_instants and later.has_instants and earlier.spec.schedule == later.spec.schedule):
        return False
    return earlier.tzdata == later.tzdata or not _follows_zone(later.spec.schedule)


def _follows_zone(schedule: Schedule) -> bool:
    return bool(schedule.cron) and schedule.timezone != "UTC"


def _stretch(job: AuditedJob, spans: tuple[AuditedSpan, ...], tzdata: str) -> Stretch:
    first, schedule = spans[0], spans[0].spec.schedule
    if not first.has_instants:
        return Stretch(Kind.NONE, spans, None, first.since)
    if schedule.reboot:
        return Stretch(Kind.AT_BOOT, spans, None, first.since)
    lulls = None if follows_zones(schedule) and first.tzdata != tzdata else lulls_of(schedule)
    if schedule.follows_runs:
        return Stretch(Kind.FOLLOWING, spans, None, first.since, lulls)
    if _follows_zone(schedule) and first.tzdata != tzdata:
        return Stretch(Kind.LEFT_OUT, spans, None, first.since)
    instants = instants_of(schedule, created_at=job.created_at)
    return Stretch(Kind.ENUMERATED, spans, instants, _begins(first), lulls)


def _begins(first: AuditedSpan) -> int:
    """Return the first moment whose instant the stretch owns: after the span began, but for a job's very first one."""
    schedule = first.spec.schedule
    if first.version == 1 and schedule.at is not None:
        return min(to_ms(schedule.at), first.since)
    if first.version == 1 and schedule.interval is not None and schedule.anchor is Anchor.FIXED:
        return first.since
    return first.since + 1
