"""What the database must hold at the end of a day, from the book of what happened and naive enumeration alone."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.model.clock import MILLISECOND, from_ms, to_ms
from rota.model.spec import Anchor, FirstRun, Schedule
from rota.operations.verify.verify import verify
from tests.simulation.lulls import quiet_end, wrong_fate
from tests.simulation.play import Book, Played, Span
from tests.unit.rules import cron_oracle

WINDOW = timedelta(days=4)
COLUMNS = (
    "id, number, version, trigger, slot_key, scheduled_for, covers_to, count, status, reason, waiting_for, not_before,"
    " predecessor_id, created_at, epoch, attempt, retry_of, chain_id, started_at, finished_at, cancel_requested_at"
)
FINAL = ("COMPLETED", "FAILED", "SKIPPED", "CANCELLED")


class Row(Struct, frozen=True):
    """A run as the database holds it."""

    id: str
    number: int
    version: int
    trigger: str
    slot_key: str | None
    scheduled_for: int | None
    covers_to: int | None
    count: int | None
    status: str
    reason: str | None
    waiting_for: str | None
    not_before: int | None
    predecessor_id: str | None
    created_at: int
    epoch: int | None
    attempt: int
    retry_of: str | None
    chain_id: str | None
    started_at: int | None
    finished_at: int | None
    cancel_requested_at: int | None

    @property
    def first(self) -> int:
        """The first instant it covers."""
        return self.scheduled_for or 0

    @property
    def last(self) -> int:
        """The last instant it covers."""
        return self.covers_to or self.first


class Stretch(Struct, frozen=True):
    """Spans, from version `first` on, over which one schedule goes on; open at its beginning, closed at its end."""

    first: int
    spans: tuple[Span, ...]
    until: datetime | None

    @property
    def versions(self) -> range:
        return range(self.first, self.first + len(self.spans))

    @property
    def schedule(self) -> Schedule:
        return self.spans[0].schedule


@lru_cache(maxsize=1024)
def _cron(expression: str, zone: str, first: datetime, last: datetime) -> tuple[datetime, ...]:
    if zone == "UTC":
        return tuple(at for at in _plain_days(expression.upper(), first, last) if first <= at <= last)
    return tuple(cron_oracle.instants(expression.upper(), zone, first, last))


def _plain_days(expression: str, first: datetime, last: datetime) -> Iterator[datetime]:
    """Enumerate where every day has 24 hours."""
    minute, hour, *_ = expression.split()
    for day in range((last - first).days + 2):
        midnight = (first + timedelta(days=day)).replace(hour=0, minute=0, second=0, microsecond=0)
        if cron_oracle.day_matches(expression, midnight.date()):
            for at in sorted(cron_oracle.field_values(hour, 1)):
                yield from (
                    midnight.replace(hour=at, minute=one) for one in sorted(cron_oracle.field_values(minute, 0))
                )


def instants(schedule: Schedule, created_at: datetime, around: datetime) -> list[datetime]:
    """Return every instant of the calendar that a schedule has near a day."""
    first, last = around - WINDOW, around + WINDOW
    if schedule.cron:
        found = sorted({at for one in schedule.cron for at in _cron(one, schedule.timezone, first, last)})
    elif schedule.at is not None:
        found = [schedule.at]
    else:
        found = list(_grid(schedule, created_at, last))
    return [at for at in found if _within(schedule, at)]


def _grid(schedule: Schedule, created_at: datetime, last: datetime) -> Iterator[datetime]:
    assert schedule.interval is not None
    waits = schedule.first_run is FirstRun.AFTER_INTERVAL
    at = schedule.start_at or (created_at + schedule.interval if waits else created_at)
    while at <= last:
        yield at
        at += schedule.interval


def _within(schedule: Schedule, at: datetime) -> bool:
    return (schedule.start_at is None or at >= schedule.start_at) and (schedule.end_at is None or at < schedule.end_at)


def follows(schedule: Schedule) -> bool:
    """Return whether the instants depend on the runs."""
    return schedule.interval is not None and schedule.anchor is not Anchor.FIXED


def examine(played: Played) -> list[str]:
    """Return everything that is wrong, each with the job or run it is about."""
    wrongs: list[str] = []
    for name, book in played.books.items():
        wrongs += [f"{kind}: {name}: {text}" for kind, text in _Job(played, name, book).wrongs()]
    wrongs += _unfinished(played)
    handles = {handle for (handle,) in played.query("SELECT job || ':' || number FROM run_now")}
    wrongs += [
        f"lost: {handle} was acknowledged and is not there" for handle in played.triggered if handle not in handles
    ]
    return [*wrongs, *_left(played), *_audit(played)]


class _Job:
    """One job's account."""

    def __init__(self, played: Played, name: str, book: Book) -> None:
        self.played = played
        self.book = book
        self.job = played.job(name)
        rows = played.query(f"SELECT {COLUMNS} FROM run_now WHERE job_id = ? ORDER BY number", self.job.id)
        self.rows = [Row(*row) for row in rows]
        self.scheduled = [row for row in self.rows if row.trigger == "schedule"]
        self.last_of = {row.chain_id or row.id: row for row in sorted(self.rows, key=lambda row: row.attempt)}
        self.around = played.day.around

    def ran(self, row: Row) -> bool:
        """Return whether the chain of a scheduled run was not skipped in the end."""
        return self.last_of[row.id].status != "SKIPPED"

    def wrongs(self) -> Iterator[tuple[str, str]]:
        yield from self._chains()
        yield from self._spans()
        yield from self._times()
        for stretch in self._stretches():
            yield from self._stretch(stretch)
        yield from self._cursor()
        yield from self._numbers()
        yield from self._once()

    def _chains(self) -> Iterator[tuple[str, str]]:
        """Every failure has its retry, and no other run has one (DEC-001, DEC-007)."""
        retries: dict[str | None, list[Row]] = {}
        for row in self.rows:
            if row.trigger == "retry":
                retries.setdefault(row.retry_of, []).append(row)
        for row in self.rows:
            found, most = retries.pop(row.id, []), self.book.spec.retry.max_attempts
            wanted = row.status == "FAILED" and row.attempt < most and row.cancel_requested_at is None
            if len(found) != wanted:
                yield "lost" if wanted else "doubled", f"{row.number} is {row.status} and has {len(found)} retries"
            for retry in found:
                yield from self._retry(row, retry)
        yield from (("other", f"{row.number} retries nothing") for found in retries.values() for row in found)

    def _retry(self, failed: Row, retry: Row) -> Iterator[tuple[str, str]]:
        policy = self.book.spec.retry
        same = (failed.version, failed.scheduled_for, failed.chain_id or failed.id, failed.attempt + 1)
        if (retry.version, retry.scheduled_for, retry.chain_id, retry.attempt) != same:
            yield "other", f"{retry.number} is not {failed.number} once more"
        waits = min(to_ms_of(policy.backoff) * policy.factor ** (failed.attempt - 1), to_ms_of(policy.max))
        waited = None if retry.started_at is None else retry.started_at - (failed.finished_at or 0)
        if waited is not None and waited < int(waits) and not self.played.went_back:
            yield "other", f"{retry.number} began {waited} ms after {failed.number}, not {waits}"

    def _stretches(self) -> list["Stretch"]:
        """Join the spans over which the cursor goes on unmoved: neighbours with instants of one schedule."""
        found: list[Stretch] = []
        ends = [*(span.since for span in self.book.spans[1:]), None]
        for number, (span, until) in enumerate(zip(self.book.spans, ends, strict=True), start=1):
            last = found[-1] if found else None
            if last and last.spans[-1].schedule == span.schedule and "none" not in (span.mode, last.spans[-1].mode):
                found[-1] = Stretch(last.first, (*last.spans, span), until)
            else:
                found.append(Stretch(number, (span,), until))
        return found

    def _spans(self) -> Iterator[tuple[str, str]]:
        text = "SELECT version, since, until, schedules, paused FROM job_version WHERE job_id = ? ORDER BY version"
        stored = [(from_ms(since), bool(due), bool(paused)) for _, since, _, due, paused in self._versions(text)]
        used_up = self.job.used_up_at is not None or any(
            one.schedule.run_once or one.schedule.at for one in self.book.spans
        )
        known = [(span.since, span.mode == "due", span.mode == "paused") for span in self.book.spans]
        if len(stored) != len(known):
            yield "other", f"{len(stored)} spans are stored, {len(known)} were made"
        for number, (here, there) in enumerate(zip(stored, known, strict=False), start=1):
            if here[0] != there[0] or (here[1:] != there[1:] and not used_up):
                yield "other", f"span {number} is stored as {_say(here)}, but was {_say(there)}"

    def _versions(self, text: str) -> list[tuple[Any, ...]]:
        return self.played.query(text, self.job.id)

    def _times(self) -> Iterator[tuple[str, str]]:
        """Nothing is early, but the account of a definition that ends before it began, since the clock was set back."""
        for row in self.scheduled:
            closing = row.status == "SKIPPED" and row.last <= to_ms(self.book.spans[row.version - 1].since)
            if row.last > row.created_at and not closing:
                yield "other", f"{row.number} is early: {_at(row.last)} was written at {_at(row.created_at)}"

    def _stretch(self, stretch: "Stretch") -> Iterator[tuple[str, str]]:
        rows = [row for row in self.scheduled if row.version in stretch.versions]
        if stretch.schedule.manual or stretch.spans[0].mode == "none":
            if rows:
                yield "doubled", f"{len(rows)} rows in span {stretch.first}, which has no instants"
        elif not follows(stretch.schedule):
            yield from self._account(stretch, rows)

    def _account(self, stretch: "Stretch", rows: list[Row]) -> Iterator[tuple[str, str]]:
        owned = self.owned(stretch)
        covered = Counter[int]()
        for row in rows:
            here = [at for at in owned if row.first <= at <= row.last]
            covered.update(here)
            yield from self._row(row, here, self.book.spans[row.version - 1])
            yield from self._fates(row, here, self.book.spans[row.version - 1])
        for at, times in covered.items():
            if times > 1:
                yield "doubled", f"{_at(at)} has {times} rows"
        yield from self._deferred(stretch, rows)
        frontier = self._frontier(stretch, rows)
        for at in owned:
            if at < frontier and at not in covered:
                yield "lost", f"{_at(at)} of span {stretch.first} has no row"
            if at >= frontier and at in covered:
                yield "doubled", f"{_at(at)} of span {stretch.first} has a row, but is not yet due"

    def owned(self, stretch: "Stretch") -> list[int]:
        """Return the instants for which a stretch is responsible."""
        schedule, since, until = stretch.schedule, stretch.spans[0].since, stretch.until
        found = instants(schedule, self.book.created_at, self.around)
        if stretch.first == 1 and schedule.at is not None:
            since = min(since, schedule.at - MILLISECOND)
        if stretch.first == 1 and schedule.interval is not None:
            since -= MILLISECOND
        return [to_ms(at) for at in found if at > since and (until is None or at <= until)]

    def _crons(self, expression: str, zone: str) -> tuple[datetime, ...]:
        return _cron(expression, zone, self.around - WINDOW, self.around + WINDOW)

    def _room(self, schedule: Schedule, at: int) -> int:
        """Return how long jitter or quiet hours may hold an instant back."""
        end = quiet_end(schedule, from_ms(at), self._crons)
        if end is not None:
            return to_ms(end) - at
        jitter = schedule.jitter
        if jitter is None:
            return 0
        found = instants(replace(schedule, end_at=None), self.book.created_at, self.around)
        gap = next((to_ms(one) - at for one in found if to_ms(one) > at), 1 << 62)
        wanted = jitter.up_to // MILLISECOND if jitter.up_to is not None else gap * (jitter.percent or 0) / 100
        return int(min(wanted, gap))

    def _row(self, row: Row, here: list[int], span: Span) -> Iterator[tuple[str, str]]:
        if not here or here[0] != row.first or here[-1] != row.last:
            yield "doubled", f"row {row.number} ({_at(row.first)}…) covers what is no instant of its definition"
        elif row.count is not None and row.count != len(here):
            yield "other", f"row {row.number} counts {row.count}, but covers {len(here)}"
        if row.slot_key != str(row.scheduled_for):
            yield "other", f"row {row.number} has the key {row.slot_key}"
        if span.mode == "paused" and row.reason != "paused":
            yield "other", f"row {row.number} of a pause is {row.status}/{row.reason}"
        if span.mode == "due" and row.reason == "paused":
            yield "other", f"row {row.number} is {row.status}/{row.reason}, but there was no pause"
        if row.first + self._room(span.schedule, row.first) < to_ms(span.since) and not self._caught_up(row, span):
            yield "other", f"row {row.number} covers {_at(row.first)}, its definition began at {span.since}"

    def _fates(self, row: Row, here: list[int], span: Span) -> Iterator[tuple[str, str]]:
        """Quiet hours and excluded dates allow the row, for each of its instants (R-17)."""
        before = self.book.spans[row.version - 2].mode if row.version > 1 else ""
        if before == "paused" and row.created_at == to_ms(span.since):
            return  # a person had it run after the pause
        written = None if self.played.went_back else from_ms(row.created_at)
        for at in here:
            why = wrong_fate(span.schedule, from_ms(at), self._crons, reason=row.reason, written=written)
            if why is not None:
                yield "other", f"row {row.number} covers {_at(at)} as {row.reason or row.status}, which {why}"

    def _deferred(self, stretch: "Stretch", rows: list[Row]) -> Iterator[tuple[str, str]]:
        """Of all instants in quiet hours at most the last one is more than counted."""
        run = Counter[datetime]()
        for row in rows:
            end = quiet_end(stretch.schedule, from_ms(row.first), self._crons)
            if end is not None and row.reason not in ("quiet_hours", "paused", "excluded"):
                run[end] += 1
        yield from (("doubled", f"{times} runs for the night until {end}") for end, times in run.items() if times > 1)

    def _caught_up(self, row: Row, span: Span) -> bool:
        """Return whether a row may be the latest instant of the pause before its span, or the very first one."""
        before = self.book.spans[row.version - 2].mode if row.version > 1 else ""
        return row.version == 1 or (before == "paused" and row.first == row.last)

    def _frontier(self, stretch: "Stretch", rows: list[Row]) -> int:
        """Return up to where, exclusively, a stretch's instants must have their rows."""
        never = 1 << 62
        cursor = self.job.held_for or self.job.next_for
        end = never
        if stretch.until is None:
            end = to_ms(cursor) if cursor else max(self.played.now_ms, self._last()) + 1
        if stretch.schedule.at is None and not stretch.schedule.run_once:
            return end
        if self._done_before(stretch):
            return 0
        ran = [row for row in rows if self.ran(row)] if stretch.schedule.run_once else []
        return min(end, ran[0].first + 1) if ran else end

    def _last(self) -> int:
        return max((row.last for row in self.scheduled), default=0)

    def _done_before(self, stretch: "Stretch") -> bool:
        """Return whether an earlier span with this very schedule has used the job up."""
        for version in range(stretch.first - 1, 0, -1):
            if self.book.spans[version - 1].schedule != stretch.schedule:
                return False
            rows = [row for row in self.scheduled if row.version == version]
            if any(self.ran(row) for row in rows) or (rows and stretch.schedule.at is not None):
                return True
        return False

    def _cursor(self) -> Iterator[tuple[str, str]]:
        job, span = self.job, self.book.spans[-1]
        if (job.next_for is None) != (job.next_at is None) or (
            job.next_at and job.next_for and job.next_at < job.next_for
        ):
            yield "other", f"the cursor is {job.next_for}, {job.next_at}"
        if job.next_at is not None and job.next_at <= self.played.now:
            yield "lost", f"it was due at {job.next_at} and did not fire"
        if span.mode != "due" and job.next_for is not None:
            yield "other", f"it has a cursor, but is {span.mode}"
        if span.mode == "due" and job.next_for is None and job.used_up_at is None:
            yield from self._stalled(span)

    def _stalled(self, span: Span) -> Iterator[tuple[str, str]]:
        if any(self.last_of[row.id].status not in FINAL for row in self.scheduled):
            return
        if span.schedule.manual or span.schedule.end_at is not None:
            return
        if not follows(span.schedule):
            owned = self.owned(self._stretches()[-1])
            if not [at for at in owned if at > max(self.played.now_ms, self._last())]:
                return
        yield "lost", "it has no cursor, no run and is not used up: it stalls"

    def _numbers(self) -> Iterator[tuple[str, str]]:
        keys = Counter(row.slot_key for row in self.scheduled)
        for key, times in keys.items():
            if times > 1:
                yield "doubled", f"{times} rows have the key {key}"
        for row in self.scheduled:
            if row.slot_key and row.slot_key.startswith("#") and int(row.slot_key[1:]) > self.job.fire_number:
                yield "other", f"{row.slot_key} is above the fire number {self.job.fire_number}"

    def _once(self) -> Iterator[tuple[str, str]]:
        """A job that runs once runs once for each schedule it gets (R-07)."""
        ran = 0
        for number, span in enumerate(self.book.spans, start=1):
            if number > 1 and span.schedule != self.book.spans[number - 2].schedule:
                ran = 0
            if span.schedule.run_once:
                ran += sum(self.ran(row) and row.version == number for row in self.scheduled)
            if ran > 1:
                yield "doubled", f"it runs once, and ran {ran} times"
                return


def _unfinished(played: Played) -> Iterator[str]:
    """Every run that is not final has a living owner, or a cause to wait."""
    unfinished = [
        Row(*row)
        for row in played.query(
            f"SELECT {COLUMNS} FROM run_now WHERE status NOT IN ('COMPLETED', 'FAILED', 'SKIPPED', 'CANCELLED')"
        )
    ]
    ids = {row.id for row in unfinished}
    engine = played.world.engine
    paused = bool(played.query("SELECT 1 FROM meta WHERE key = 'paused_all'"))
    full = sum(row.status != "QUEUED" for row in unfinished) >= played.day.slots
    jobs_of = dict(played.query("SELECT id, job_id FROM run_now"))
    for row in unfinished:
        if row.status != "QUEUED":
            tree = played.world.machine.trees.get(row.id)
            if row.id not in engine.executor.carried:
                yield f"left: {row.id} is {row.status} and nobody carries it"
            elif row.status == "RUNNING" and (tree is None or not tree.keeper):
                yield f"left: {row.id} is RUNNING without a process"
        elif row.waiting_for is None:
            if not paused and not full:
                yield f"left: {row.id} is ready and not claimed"
        elif row.waiting_for == "predecessor":
            if row.predecessor_id not in ids:
                yield f"left: {row.id} waits for a run that is final"
        elif row.waiting_for == "replaced_run":
            if not any(one.id < row.id and jobs_of[one.id] == jobs_of[row.id] for one in unfinished):
                yield f"left: {row.id} waits for the end of nothing"
        elif row.not_before is None or row.not_before <= played.now_ms:
            yield f"left: {row.id} waits for {row.waiting_for} until {row.not_before}"


def _left(played: Played) -> Iterator[str]:
    """No process lives without its run."""
    running = {run_id for (run_id,) in played.query("SELECT id FROM run_now WHERE status IN ('RUNNING', 'DISPATCHED')")}
    machine = played.world.machine
    for tree in [*machine.trees.values(), *machine.older]:
        if tree.living and (tree.run_id not in running or tree in machine.older):
            yield f"left: processes of {tree.handle} live on"
    for run_id, status, handle in played.query(
        "SELECT id, status, job || ':' || number FROM run_now WHERE started_at IS NOT NULL"
    ):
        if handle not in machine.begun and status == "COMPLETED":
            yield f"lost: {handle} ({run_id}) is COMPLETED and never began"


def _audit(played: Played) -> Iterator[str]:
    """Ask `rota verify` too; by name of the jobs it leaves the processes of this machine alone."""
    report = verify(played.world.disk, played.world.folder, now=played.now, jobs=tuple(played.books))
    return (f"other: verify: {one.job or one.run}: {one.text}" for one in report.violations)


def to_ms_of(duration: timedelta) -> int:
    """Return a duration in milliseconds."""
    return duration // MILLISECOND


def _at(ms: int | None) -> str:
    return "-" if ms is None else from_ms(ms).isoformat(timespec="seconds")


def _say(span: tuple[datetime, bool, bool]) -> str:
    return f"{span[0].isoformat()} {'due' if span[1] else 'paused' if span[2] else 'none'}"
