"""Verify: audit a database against rota's invariants. It shares no planning code with the engine."""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import partial
from pathlib import Path

import msgspec

from rota.engine.clock import tzdata_version
from rota.model.clock import MILLISECOND, to_ms
from rota.model.errors import UnknownJob
from rota.operations.verify import rows
from rota.operations.verify.ledger import (
    AuditedJob,
    Ledger,
    SpanKind,
    check_spans,
    read_rows,
    read_spans,
    say,
    stretches_of,
)
from rota.operations.verify.report import AuditFindings, AuditReport, Check
from rota.rules.stats import DAY, HOUR, ROWS, Tally, add
from rota.runners.processes import alive as process_alive
from rota.store.driver import Database, Store
from rota.store.rows import value_of
from rota.store.tables import notifications
from rota.store.tables.jobs import job_names
from rota.store.tables.stats import counted_from, pending, recount
from rota.store.tallies import ALL_JOBS, Cells, StatCell

JOB_PAGE = 500
QUICK_SPAN = timedelta(days=30)
MAX_SHOWN = 3
"""The keys of a wrong cell that a violation names."""
MAX_ROWS = 1_000
FAR = 1 << 60
_tally: msgspec.json.Decoder[Tally] = msgspec.json.Decoder(Tally)


def verify(
    store: Store,
    state: Path,
    *,
    now: datetime,
    jobs: Sequence[str] = (),
    quick: bool = False,
    tzdata: str | None = None,
    alive: rows.Alive = process_alive,
) -> AuditReport:
    """Audit a database, also of a running scheduler: the rows of one snapshot, then the rows against the processes.

    Without `jobs`, all jobs and the database file itself. `quick` skips SQLite's own check of every page, and instants
    older than 30 days.
    """
    findings = AuditFindings()
    since = to_ms(now - QUICK_SPAN) if quick else None
    data = tzdata or tzdata_version()
    store.read(partial(_audit, findings=findings, names=jobs, now=to_ms(now), since=since, tzdata=data))
    if not jobs:
        if not quick:
            store.read(partial(rows.check_integrity, findings=findings))
        rows.check_processes(store, state, findings, alive=alive)
    return findings.report()


def _audit(
    db: Database, *, findings: AuditFindings, names: Sequence[str], now: int, since: int | None, tzdata: str
) -> None:
    rows.check_schema(db, findings)
    chosen = _chosen(db, names) if names else None
    stepped = rows.clock_was_set_back(db)
    if stepped:
        findings.notes.append("the clock was set back once: the order of times is not checked")
    rows.check_rows(db, findings, chosen=chosen, stepped=stepped)
    if not stepped:
        delivered_since = max(now - notifications.DELIVERY_RETENTION // MILLISECOND, since or 0)
        rows.check_deliveries(db, findings, jobs=_filter(chosen), since=delivered_since)
        rows.check_notifications(db, findings, chosen=chosen, since=delivered_since)
    for job in _jobs(db, chosen):
        _audit_job(db, job, findings, now=now, since=since, tzdata=tzdata, stepped=stepped)
    if chosen is None:
        rows.check_counters(db, findings)
    check_stats(db, findings, chosen=chosen, since=since)
    counted = db.row("audit_count", jobs=_filter(chosen))
    findings.count(rows=counted[0] if counted else 0)
    if findings.counts["spans_left_out"]:
        findings.notes.append(
            f"{findings.counts['spans_left_out']} spans were recorded under other time zone data than the present "
            f"({tzdata}) and cannot be enumerated"
        )


def _chosen(db: Database, names: Sequence[str]) -> set[str]:
    ids = {name: job_id for name in names for (job_id,) in db.rows("audit_job_id", name=name)}
    unknown = next((name for name in names if name not in ids), None)
    if unknown is not None:
        raise UnknownJob(unknown, get_close_matches(unknown, job_names(db), n=1))
    return set(ids.values())


def _filter(chosen: Collection[str] | None) -> str | None:
    return None if chosen is None else json.dumps(sorted(chosen))


def _jobs(db: Database, chosen: Collection[str] | None) -> Iterator[AuditedJob]:
    after = ""
    while page := db.rows("audit_jobs", after=after, jobs=_filter(chosen), limit=JOB_PAGE):
        for row in page:
            yield AuditedJob(*row)
        after = page[-1][1]


def _audit_job(
    db: Database, job: AuditedJob, findings: AuditFindings, *, now: int, since: int | None, tzdata: str, stepped: bool
) -> None:
    spans = read_spans(db, job, findings)
    check_spans(job, spans, findings)
    stretches = stretches_of(job, spans, tzdata=tzdata)
    left_out = sum(len(stretch.spans) for stretch in stretches if stretch.kind is SpanKind.LEFT_OUT)
    findings.count(jobs=1, spans=len(spans), spans_left_out=left_out)
    if not stretches:
        return
    begins = max(job.ledger_from, since) if since is not None else job.ledger_from
    if begins == job.created_at:  # the instant of an `at` may lie before the job itself
        begins = min(stretches[0].begins, begins)
    Ledger(job, stretches, findings, since=begins, stepped=stepped).walk(read_rows(db, job, since=begins))
    rows.check_stall(db, job, stretches[-1], findings, now=now)


def check_stats(db: Database, findings: AuditFindings, *, chosen: Collection[str] | None, since: int | None) -> None:
    """Compare the cells of each day with the rows of that day; a cell with pruned rows by its number of rows alone."""
    for job, number, cost, usd in db.rows("audit_costs", limit=MAX_ROWS):
        text = f"reports a cost of {usd} millionths of a dollar, but {cost} are stored"
        findings.violation(Check.STATS, text, job=job, run=f"{job}:{number}")
    counted = counted_from(db)
    if counted is not None:
        findings.notes.append(f"the statistics of what ended before {say(counted)} are still being counted")
    begins = max(since or 0, -(-(counted or 0) // DAY) * DAY)
    names = {job_id: name for job_id, name in db.rows("audit_job_names")}  # noqa: C416 - rows have no fixed length
    added = pending(db)
    days = {cell.since // DAY * DAY for cell in added if cell.since >= begins}
    for day in sorted(days.union(_days(db, since=begins))):
        kept, pruned = _kept(db, day)
        for cell in [cell for cell in added if cell.since // DAY * DAY == day]:
            add(kept.setdefault(cell, {}), added[cell])
        rows = recount(db, since=day, until=day + DAY)
        hours = any(cell.span == HOUR for cell in kept)
        for cell in sorted(kept.keys() | rows.keys()):
            if cell.span == HOUR and not hours:
                continue  # retention has removed the hours of this day
            if chosen is not None and cell.job_id not in chosen:
                continue
            difference = _difference(kept.get(cell, {}), rows.get(cell, {}), pruned[cell])
            if difference:
                job = None if cell.job_id == ALL_JOBS else names.get(cell.job_id)
                text = f"the {'hour' if cell.span == HOUR else 'day'} from {say(cell.since)} has {difference}"
                findings.violation(Check.STATS, text, job=job)


def _days(db: Database, *, since: int) -> Iterator[int]:
    """Yield the days that have cells or rows."""
    kept = {start for (start,) in db.rows("stat_days", since=since)}
    before = FAR
    while (newest := value_of(db, "stat_newest_end", before=before)) is not None and newest >= since:
        before = newest // DAY * DAY
        if before >= since:
            kept.add(before)
    yield from kept


def _kept(db: Database, day: int) -> tuple[Cells, Counter[StatCell]]:
    cells: Cells = {}
    pruned: Counter[StatCell] = Counter()
    for span in (HOUR, DAY):
        for job_id, start, tally, gone in db.rows("stat_cells", span=span, since=day, until=day + DAY):
            cells[StatCell(span, job_id, start)] = _tally.decode(tally)
            pruned[StatCell(span, job_id, start)] = gone
    return cells, pruned


def _difference(kept: Mapping[str, int], rows: Mapping[str, int], pruned: int) -> str:
    if pruned:
        number = rows.get(ROWS, 0) + pruned
        return "" if kept.get(ROWS, 0) == number else f"{kept.get(ROWS, 0)} ends, but there were {number}"
    wrong = [key for key in sorted(kept.keys() | rows.keys()) if kept.get(key, 0) != rows.get(key, 0)]
    told = (f"{key} = {kept.get(key, 0)}, a recount gives {rows.get(key, 0)}" for key in wrong[:MAX_SHOWN])
    return "; ".join(told)
