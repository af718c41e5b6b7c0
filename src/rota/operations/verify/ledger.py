"""The ledger check: every expected instant has exactly one row."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct, field

from rota.model.clock import MILLISECOND, from_ms, iso, to_ms
from rota.model.spec import Anchor, JobSpec, Schedule
from rota.model.states import Reason, Status
from rota.operations.verify.instants import (
    AuditedBlackouts,
    Bounded,
    Fate,
    blackouts_of,
    follows_zones,
    instant_after,
    instants_of,
)
from rota.operations.verify.report import AuditFindings, Check
from rota.store.driver import Database
from rota.store.rows import read_spec

LONG_AGO = -(1 << 62)


class AuditedJob(Struct, frozen=True):
    """The row of a job, times in milliseconds."""

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
        """The next nominal instant, also of a paused job."""
        return self.next_for if self.paused_at is None else self.held_for


class AuditedSpan(Struct, frozen=True):
    """One version of a job, from `since` to `until`."""

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
        """Whether the instants of this span need rows."""
        return bool(self.schedules or self.paused) and not self.spec.schedule.manual


class SpanKind(StrEnum):
    """How the instants of a stretch are checked."""

    NONE = "none"
    FOLLOWING = "following"
    AT_BOOT = "at_boot"
    ENUMERATED = "enumerated"
    LEFT_OUT = "left_out"


class Stretch(Struct, frozen=True):
    """Consecutive spans with the same schedule."""

    kind: SpanKind
    spans: tuple[AuditedSpan, ...]
    instants: Bounded | None
    begins: int
    blackouts: AuditedBlackouts | None = None

    @property
    def schedule(self) -> Schedule:
        """The schedule of all its spans."""
        return self.spans[0].spec.schedule

    @property
    def until(self) -> int | None:
        """The end of its last span, None while it is open."""
        return self.spans[-1].until


def read_spans(db: Database, job: AuditedJob, findings: AuditFindings) -> list[AuditedSpan]:
    """Return a job's spans, oldest first; report those that cannot be read."""
    spans = []
    for row in db.rows("audit_spans", job_id=job.id):
        try:
            spans.append(AuditedSpan(read_spec(row[1]), *row))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            text = f"the definition of version {row[0]} cannot be read: {error}"
            findings.violation(Check.VERSION, text, job=job.name)
    return spans


def check_spans(job: AuditedJob, spans: Sequence[AuditedSpan], findings: AuditFindings) -> None:
    """Check that definitions match their digests, spans have no gap or overlap, and the last one is the job's own."""
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


def _check_last(job: AuditedJob, last: AuditedSpan | None, findings: AuditFindings) -> None:
    if last is None or last.version != job.version or last.until is not None:
        findings.violation(Check.VERSION, f"version {job.version} has no open span", job=job.name)
        return
    wanted = job.enabled and job.retired_at is None and job.paused_at is None and job.provisional_at is None
    if (last.schedules and not wanted) or (last.paused and job.paused_at is None):
        findings.violation(Check.VERSION, "its open span and its row disagree on enabled or paused", job=job.name)
    if job.schedules and not (last.schedules or last.paused):
        findings.violation(Check.VERSION, "it schedules, but its open span has no instants", job=job.name)
    if last.spec.name != job.name.partition("~")[0]:  # a deleted job whose name another job has now
        findings.violation(Check.VERSION, f"its definition is that of {last.spec.name!r}", job=job.name)


@lru_cache(maxsize=256)
def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def stretches_of(job: AuditedJob, spans: Sequence[AuditedSpan], *, tzdata: str) -> list[Stretch]:
    """Join consecutive spans whose instants come from the same schedule."""
    groups: list[list[AuditedSpan]] = []
    for span in spans:
        before, schedule = groups[-1][-1] if groups else None, span.spec.schedule
        if (
            before is not None
            and (before.has_instants and span.has_instants and before.spec.schedule == schedule)
            and (before.tzdata == span.tzdata or not _follows_zone(schedule))
        ):
            groups[-1].append(span)
        else:
            groups.append([span])
    return [_stretch(job, tuple(group), tzdata) for group in groups]


def _follows_zone(schedule: Schedule) -> bool:
    return bool(schedule.cron) and schedule.timezone != "UTC"


def _stretch(job: AuditedJob, spans: tuple[AuditedSpan, ...], tzdata: str) -> Stretch:
    first, schedule = spans[0], spans[0].spec.schedule
    if not first.has_instants:
        return Stretch(SpanKind.NONE, spans, None, first.since)
    if schedule.reboot:
        return Stretch(SpanKind.AT_BOOT, spans, None, first.since)
    blackouts = None if follows_zones(schedule) and first.tzdata != tzdata else blackouts_of(schedule)
    if schedule.follows_runs:
        return Stretch(SpanKind.FOLLOWING, spans, None, first.since, blackouts)
    if _follows_zone(schedule) and first.tzdata != tzdata:
        return Stretch(SpanKind.LEFT_OUT, spans, None, first.since)
    instants = instants_of(schedule, created_at=job.created_at)
    return Stretch(SpanKind.ENUMERATED, spans, instants, _begins(first), blackouts)


def _begins(first: AuditedSpan) -> int:
    """Return the first moment of the stretch: after the start of its span, except for a job's very first instant."""
    schedule = first.spec.schedule
    if first.version == 1 and schedule.at is not None:
        return min(to_ms(schedule.at), first.since)
    if first.version == 1 and schedule.interval is not None and schedule.anchor is Anchor.FIXED:
        return first.since
    return first.since + 1


def wrong_fate(reason: str | None, at: int, blackouts: AuditedBlackouts, *, created_at: int | None) -> str | None:
    """Return how quiet hours or excluded dates contradict the row of an instant; `created_at` None: not known."""
    if reason == Reason.PAUSED:
        return None
    fate = blackouts.fate(at)
    if fate is Fate.RUNS:
        return "lets it run" if reason in (Reason.QUIET_HOURS, Reason.EXCLUDED) else None
    if fate is Fate.EXCLUDED:
        return None if reason == Reason.EXCLUDED else "excludes it"
    if reason == Reason.QUIET_HOURS:
        return None
    end = blackouts.quiet_end(at)
    if fate is Fate.SKIPPED or reason in (Reason.MISSED, Reason.EXCLUDED):
        return f"has quiet hours until {say(end)}"
    early = end is not None and created_at is not None and created_at < end
    return f"defers it to {say(end)}" if early else None


def waits(job: AuditedJob, stretch: Stretch) -> bool:
    """Return whether the next instant waits for the end of quiet hours, or may do so under other time zone data."""
    if stretch.blackouts is None:
        return stretch.schedule.quiet is not None and follows_zones(stretch.schedule)
    return job.next_for is not None and stretch.blackouts.quiet_end(job.next_for) is not None


def wrong_wait(job: AuditedJob, stretch: Stretch) -> str | None:
    """Return the error if an instant inside quiet hours does not wait for their end."""
    if stretch.blackouts is None or job.next_for is None:
        return None
    end = stretch.blackouts.quiet_end(job.next_for)
    if end is None or end == job.next_at:
        return None
    return f"{say(job.next_for)} fires at {say(job.next_at)}, but it lies in quiet hours until {say(end)}"


COUNTED = 10_000
ROW_PAGE = 2_000


class LedgerRow(Struct, frozen=True):
    """A run or counted row of scheduled instants, times in milliseconds; `caught_up`: a person ran it after a pause."""

    number: int
    version: int
    slot_key: str | None
    first: int
    covers_to: int | None
    count: int | None
    status: str
    reason: str | None
    created_at: int
    caught_up: int | None

    @property
    def last(self) -> int:
        """The last instant it covers."""
        return self.first if self.covers_to is None else self.covers_to


def read_rows(db: Database, job: AuditedJob, *, since: int) -> Iterator[LedgerRow]:
    """Yield the scheduled rows of a job that reach `since` or later, in the order of creation."""
    after = LONG_AGO
    while True:
        page = db.rows("audit_rows", job_id=job.id, after=after, since=since, limit=ROW_PAGE)
        for row in page:
            yield LedgerRow(*row)
        if len(page) < ROW_PAGE:
            return
        after = page[-1][0]


def count_instants(instants: Bounded, first: int, last: int) -> int:
    """Return the number of instants from `first` to `last`; counting ends above 10,000."""
    return sum(1 for _ in _instants_between(instants, instants.after(first - 1), last))


def _instants_between(instants: Bounded, first: int | None, last: int) -> Iterator[int]:
    at, count = first, 0
    while at is not None and at <= last and count <= COUNTED:
        yield at
        count, at = count + 1, instants.after(at)


def say(ms: int | None) -> str:
    """Return an instant for messages."""
    return "none" if ms is None else iso(from_ms(ms))


class Ledger(Struct):
    """A walk through a job's stretches and rows side by side. `stepped`: the clock was once set back."""

    job: AuditedJob
    stretches: Sequence[Stretch]
    findings: AuditFindings
    since: int
    stepped: bool
    place: int = -1
    covered: int = LONG_AGO
    consumed: bool = False
    fired: int | None = None
    boots: set[str] = field(default_factory=set)
    of_version: dict[int, int] = field(default_factory=dict)

    def walk(self, rows: Iterator[LedgerRow]) -> None:
        """Compare rows and instants."""
        self.of_version = {
            span.version: place for place, stretch in enumerate(self.stretches) for span in stretch.spans
        }
        self._enter(0)
        instants = 0
        for row in rows:
            self._take(row)
            instants += row.count or 1
        self.findings.count(instants=instants)
        self._enter(len(self.stretches) - 1)
        self._check_end()

    def _enter(self, place: int) -> None:
        """Close the stretches before `place`, and open it."""
        while self.place < place:
            if self.place >= 0:
                self._close(self.stretches[self.place])
            self.place += 1
            begins = max(self.stretches[self.place].begins, self.since) - 1
            self.covered = max(begins, self.covered) if self.stepped else begins
            # A job that ran once is used up until its schedule changes.
            same = self.place > 0 and self.stretches[self.place].schedule == self.stretches[self.place - 1].schedule
            self.consumed, self.fired = self.consumed and same, None

    def _take(self, row: LedgerRow) -> None:
        place = self.of_version.get(row.version)
        if place is None:
            return  # the unreadable definition is reported already
        if place < self.place:
            later = self.stretches[self.place].spans[-1].version
            self._wrong(row, f"of version {row.version} was made after rows of version {later}")
            return
        self._enter(place)
        stretch = self.stretches[place]
        self._check_held_back(row, stretch)
        if stretch.kind is SpanKind.NONE:
            self._wrong(row, f"covers {say(row.first)}, but version {row.version} has no instants")
        elif stretch.kind is SpanKind.FOLLOWING:
            self._take_following(row)
            self._check_fates(row, stretch, [row.first])
        elif stretch.kind is SpanKind.AT_BOOT:
            self._take_boot(row)
        elif stretch.instants is not None:
            self._take_instants(row, stretch, stretch.instants)

    def _check_held_back(self, row: LedgerRow, stretch: Stretch) -> None:
        """Check that the definition of instants held back after failures has `on_repeated_failure`."""
        if row.reason != Reason.BACKING_OFF:
            return
        span = next(span for span in stretch.spans if span.version == row.version)
        if span.spec.on_repeated_failure is None or span.spec.schedule.at is not None:
            self._wrong(row, f"was held back, but version {row.version} has no `on_repeated_failure`")

    def _take_following(self, row: LedgerRow) -> None:
        """Check a row of a completion or start anchor: numbered, as each depends on the previous run."""
        key = row.slot_key or ""
        number = int(key[1:]) if key.startswith("#") and key[1:].isdecimal() else None
        if number is None or row.covers_to is not None or row.count not in (None, 1):
            self._wrong(row, f"has the key {key!r}, which is not the fire number of a single instant")
            return
        if number > self.job.fire_number:
            self._wrong(row, f"is fire {key}, the job has counted only {self.job.fire_number}")
        if self.fired is not None and number <= self.fired:
            self._wrong(row, f"is fire {key}, which has its row already")
        elif self.fired is not None and number > self.fired + 1 and not self.stepped:
            self._missing(f"fire #{self.fired + 1} has no row")
        self.fired = number

    def _take_boot(self, row: LedgerRow) -> None:
        """Check a row of a job at boot: one for each boot of the machine."""
        if not row.slot_key or row.covers_to is not None or row.count not in (None, 1):
            self._wrong(row, f"has the key {row.slot_key!r}, which is not a boot of the machine")
        elif row.slot_key in self.boots:
            self._wrong(row, f"is of boot {row.slot_key}, which has its row already")
        self.boots.add(row.slot_key or "")

    def _check_fates(self, row: LedgerRow, stretch: Stretch, covered: Iterable[int]) -> None:
        """Check each instant of a row against quiet hours and excluded dates."""
        blackouts = stretch.blackouts
        if row.caught_up or (blackouts is None and row.reason not in (Reason.QUIET_HOURS, Reason.EXCLUDED)):
            return
        created_at = None if self.stepped else row.created_at
        for at in covered:
            trouble = "has none" if blackouts is None else wrong_fate(row.reason, at, blackouts, created_at=created_at)
            if trouble and not (blackouts is None and follows_zones(stretch.schedule)):
                self._wrong(row, f"covers {say(at)} as {row.reason or row.status}, but its calendar {trouble}")
                return

    def _take_instants(self, row: LedgerRow, stretch: Stretch, instants: Bounded) -> None:
        if row.slot_key != str(row.first):
            self._wrong(row, f"has the key {row.slot_key!r} for {say(row.first)}, not {row.first}")
        if row.first <= self.covered < row.last and row.first < self.since:
            self.covered = row.first - 1  # the stored part of the ledger begins inside this row
        if self.consumed:
            self._wrong(row, f"covers {say(row.first)}, but the job was to run once and had run")
        if row.first <= self.covered:
            self._wrong(row, f"covers {say(row.first)}, which was accounted for before")
        else:
            self._check_place(row, instants)
        self._check_count(row, instants)
        self._check_fates(row, stretch, _instants_between(instants, row.first, row.last))
        if stretch.until is not None and row.last > stretch.until and not self.stepped:
            self._wrong(row, f"covers {say(row.last)}, its definition ended at {say(stretch.until)}")
        self.covered = max(self.covered, row.last)
        self.consumed = stretch.schedule.run_once and row.status != Status.SKIPPED

    def _check_place(self, row: LedgerRow, instants: Bounded) -> None:
        expected = instants.after(self.covered)
        if expected == row.first:
            return
        if instants.after(row.first - 1) != row.first:
            self._wrong(row, f"covers {say(row.first)}, which is not an instant of its schedule")
        if expected is not None and expected < row.first and not self.consumed:
            self._lost(instants, expected, row.first - 1)

    def _check_count(self, row: LedgerRow, instants: Bounded) -> None:
        if row.covers_to is None:
            if row.count not in (None, 1):
                self._wrong(row, f"covers one instant, but counts {row.count}")
            return
        if instants.after(row.covers_to - 1) != row.covers_to:
            self._wrong(row, f"covers up to {say(row.covers_to)}, which is not an instant of its schedule")
        count = count_instants(instants, row.first, row.covers_to)
        if row.count != (count if count <= COUNTED else None):
            counted = "more than 10,000" if row.count is None else row.count
            real = count if count <= COUNTED else "more than 10,000"
            self._wrong(row, f"counts {counted} instants up to {say(row.covers_to)}, there are {real}")

    def _close(self, stretch: Stretch) -> None:
        """Report instants without a row up to the end of a closed stretch."""
        if stretch.instants is None or stretch.until is None or self.consumed:
            return
        expected = stretch.instants.after(self.covered)
        if expected is None or expected > stretch.until:
            return
        # After a clock step back a span may end at its last instant, as it cannot end before it began.
        if not (self.stepped and expected == stretch.until):
            self._lost(stretch.instants, expected, stretch.until)

    def _check_end(self) -> None:
        stretch = self.stretches[self.place]
        if stretch.kind is SpanKind.FOLLOWING:  # a clock step back leaves the newest row before the ledger's beginning
            if self.fired is not None and self.fired < self.job.fire_number and not self.stepped:
                self._missing(f"fire #{self.fired + 1} has no row, the job has counted {self.job.fire_number}")
        elif stretch.kind is SpanKind.ENUMERATED and stretch.instants is not None:
            self._check_cursor(stretch, stretch.instants)
        elif stretch.kind is SpanKind.AT_BOOT and self.job.schedules and self.job.booted is None:
            self._cursor("it fires at boot, but no boot is noted: it would never fire")
        elif stretch.kind in (SpanKind.NONE, SpanKind.AT_BOOT) and self.job.cursor is not None:
            self._cursor(f"it stands at {say(self.job.cursor)}, but the job has no instants")

    def _check_cursor(self, stretch: Stretch, instants: Bounded) -> None:
        job, cursor = self.job, self.job.cursor
        expected = None if self.consumed else instants.after(self.covered)
        if not job.schedules:
            if expected is not None:
                self._cursor(f"the job is used up, but {say(expected)} has no row and it never ran")
        elif cursor is None or expected is None:
            if cursor != expected:
                self._cursor(f"it stands at {say(cursor)}, the first instant without a row is {say(expected)}")
        elif cursor < expected:
            self._cursor(f"it stands at {say(cursor)}, but the first instant without a row is {say(expected)}")
        elif instants.after(cursor - 1) != cursor:
            self._cursor(f"it stands at {say(cursor)}, which is not an instant of the schedule")
        elif expected < cursor:
            self._lost(instants, expected, cursor - 1)
        self._check_jitter(stretch)

    def _check_jitter(self, stretch: Stretch) -> None:
        job = self.job
        if job.next_for is None or job.next_at is None:
            return
        if (text := wrong_wait(job, stretch)) is not None:
            self._cursor(text)
            return
        if waits(job, stretch):
            return
        following = instant_after(stretch.schedule, job.next_for, created_at=job.created_at)
        room = jitter_bound(stretch.schedule, job.next_for, following)
        if not 0 <= job.next_at - job.next_for < max(room, 1):
            self._cursor(f"{say(job.next_for)} fires at {say(job.next_at)}, outside its jitter of {room} ms")

    def _lost(self, instants: Bounded, first: int, last: int) -> None:
        count = count_instants(instants, first, last)
        many = f"more than {COUNTED:,}" if count > COUNTED else f"{count:,}"
        if count == 1:
            self._missing(f"the instant {say(first)} has no row")
        else:
            self._missing(f"{many} instants from {say(first)} to {say(last)} have no row")

    def _missing(self, text: str) -> None:
        self.findings.violation(Check.LEDGER, text, job=self.job.name)

    def _cursor(self, text: str) -> None:
        self.findings.violation(Check.CURSOR, text, job=self.job.name)

    def _wrong(self, row: LedgerRow, text: str) -> None:
        name = self.job.name
        self.findings.violation(Check.LEDGER, text, job=name, run=f"{name}:{row.number}")


def jitter_bound(schedule: Schedule, instant: int, following: int | None) -> int:
    """Return the upper bound of an instant's jitter in milliseconds, at most the gap to the next instant."""
    if schedule.jitter is None:
        return 0
    up_to = schedule.jitter.up_to
    if following is None and up_to is not None:
        return up_to // MILLISECOND
    gap = 0 if following is None else following - instant
    wanted = up_to // MILLISECOND if up_to is not None else int(gap * (schedule.jitter.percent or 0) / 100)
    return min(wanted, gap)
