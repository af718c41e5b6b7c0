"""Verify: audit a database against rota's invariants. It shares no planning code with the engine."""

import json
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from rota.engine.clock import tzdata_version
from rota.model.clock import MILLISECOND, to_ms
from rota.model.errors import UnknownJob
from rota.operations.verify import rows
from rota.operations.verify.ledger import AuditedJob, Ledger, SpanKind, check_spans, read_rows, read_spans, stretches_of
from rota.operations.verify.report import AuditFindings, AuditReport
from rota.operations.verify.stats import check_stats
from rota.runners.processes import alive as process_alive
from rota.store.driver import Database, Store
from rota.store.tables import notifications
from rota.store.tables.jobs import job_names

JOB_PAGE = 500
QUICK_SPAN = timedelta(days=30)


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
