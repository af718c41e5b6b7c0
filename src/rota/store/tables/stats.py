"""Rows of statistics: the cells of hours and days, and their recount from the runs."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from rota.model.budgets import Usage
from rota.rules.stats import DAY, HOUR, Tally, add, usage_tally
from rota.store.driver import Database
from rota.store.rows import value_of
from rota.store.tables.runs import STATUSES, agent_of
from rota.store.tallies import (
    ALL_JOBS,
    Addition,
    Cells,
    Ended,
    EndedRuns,
    StatCell,
    call_ended,
    cells_of,
    hours_of,
    merge_ends,
    read_hours,
    write_cells,
)

FROM_KEY = "stats_from"
"""The hours before this instant are not yet counted; without it all are."""
_tally: msgspec.json.Decoder[Tally] = msgspec.json.Decoder(Tally)

Series = dict[int, Tally]
"""The tallies of cells by their start in milliseconds."""


def series(db: Database, job_id: str | None, *, span: int, since: int, until: int) -> Series:
    """Return the cells of a job, None for all jobs, that begin in a time."""
    job = 0 if job_id is None else _seq(db, job_id)
    rows = db.rows("stat_of_job", span=span, job=job, since=since, until=until)
    found = {start: _tally.decode(tally) for start, tally in rows}
    for cell, tally in pending(db).items():
        if cell.span == span and cell.job_id == (job_id or ALL_JOBS) and since <= cell.since < until:
            add(found.setdefault(cell.since, {}), tally)
    return dict(sorted(found.items()))


def pending(db: Database) -> Cells:
    """Return what transactions have stored and what is not yet in the cells."""
    return cells_of(read_hours(ends for (ends,) in db.rows("stat_delta_all")))


def series_by_job(db: Database, job_ids: Sequence[str], *, span: int, since: int, until: int) -> dict[str, Series]:
    """Return the cells of some jobs by job."""
    found: dict[str, Series] = {}
    rows = db.rows("stat_of_jobs", jobs=json.dumps(list(job_ids)), span=span, since=since, until=until)
    for job_id, start, tally in rows:
        found.setdefault(job_id, {})[start] = _tally.decode(tally)
    wanted = set(job_ids)
    for cell, more in pending(db).items():
        if cell.span == span and cell.job_id in wanted and since <= cell.since < until:
            add(found.setdefault(cell.job_id, {}).setdefault(cell.since, {}), more)
    return found


def stored_days(db: Database, job_ids: Sequence[str], *, since: int, until: int) -> Iterator[tuple[str, Tally]]:
    """Yield the days of some jobs that begin in a time, without what is pending; `ALL_JOBS` is the sum of all."""
    if ALL_JOBS in job_ids:
        for _, tally in db.rows("stat_of_job", span=DAY, job=0, since=since, until=until):
            yield ALL_JOBS, _tally.decode(tally)
    names = [job_id for job_id in job_ids if job_id != ALL_JOBS]
    if names:
        for job_id, _, tally in db.rows("stat_of_jobs", jobs=json.dumps(names), span=DAY, since=since, until=until):
            yield job_id, _tally.decode(tally)


def oldest_jobs(db: Database, *, limit: int) -> list[tuple[str, str]]:
    """Return identifiers and names of jobs, retired ones too: the oldest first, those made by agents last."""
    return [(job_id, name) for job_id, name in db.rows("stat_jobs", limit=limit)]


def expensive_runs(db: Database, job_id: str | None, *, since: int, until: int, limit: int) -> list[tuple[str, int]]:
    """Return the identifiers of the runs with the highest cost, and the cost in millionths of a dollar."""
    during = {"since": since, "until": until, "limit": limit}
    if job_id is None:
        rows = db.rows("run_cost_top", **during)
    else:
        rows = db.rows("run_cost_top_of_job", job=_seq(db, job_id), **during)
    return [(run_id, usd) for run_id, usd in rows]


def _seq(db: Database, job_id: str) -> int:
    return next((seq for known, seq in db.rows("stat_seqs") if known == job_id), -1)


def counted_from(db: Database) -> int | None:
    """Return the instant from which all ends are counted, None if all are."""
    value = value_of(db, "meta_get", key=FROM_KEY)
    return None if value is None else int(value)


def recount(db: Database, *, since: int, until: int) -> Cells:
    """Return the cells of the hours of a time, counted from the runs and direct calls."""
    return cells_of(hours_of(_ends(db, since=since, until=until)))


def _ends(db: Database, *, since: int, until: int) -> Iterator[Ended]:
    agents: dict[tuple[str | None, int | None], str | None] = {}

    def used(job_id: str | None, version: int | None, artifacts: str | None) -> Tally:
        usage = _usage(artifacts)
        if usage is None:
            return {}
        if (job_id, version) not in agents:
            agents[job_id, version] = agent_of(db, job_id, version)
        return usage_tally(usage, agents[job_id, version])

    alike: dict[tuple[Any, ...], Counter[tuple[Any, ...]]] = {}
    for *times, version, status, reason, at, artifacts in db.rows("stat_ends", since=since, until=until):
        alike.setdefault((status, reason, at), Counter())[tuple(times)] += 1
        if artifacts is not None:
            yield Addition(times[0], at, used(times[0], version, artifacts))
    for (status, reason, at), numbers in alike.items():
        yield EndedRuns(STATUSES[status], reason, at, numbers)
    for job_id, version, at, artifacts in db.rows("stat_calls", since=since, until=until):
        yield call_ended(job_id, used(job_id, version, artifacts), at=at)


def _usage(artifacts: str | None) -> Usage | None:
    stored = json.loads(artifacts or "{}").get("usage")
    if not stored:
        return None
    usd = stored.pop("usd_millionths", None)
    return Usage(usd=usd, **stored)


def count_past(db: Database) -> bool:
    """Count the newest hour that is not yet counted, and its day with the last hour of it; return whether one was left.

    All of it is one transaction, so that a kill leaves every hour counted or not. Ends that others store meanwhile are
    added on top: the lock waits for the transactions that have added, and the recount sees what they stored.
    """
    before = counted_from(db)
    if before is None:
        return False
    db.execute("stat_lock")
    while merge_ends(db):
        pass
    newest = value_of(db, "stat_newest_end", before=before)
    if newest is None:
        db.execute("meta_delete", key=FROM_KEY)
        return False
    hour = newest // HOUR * HOUR
    cells = {cell: tally for cell, tally in recount(db, since=hour, until=hour + HOUR).items() if cell.span == HOUR}
    _replace(db, HOUR, hour, cells, {})
    earlier = value_of(db, "stat_newest_end", before=hour)
    if earlier is None or earlier // DAY != hour // DAY:
        _sum_day(db, hour // DAY * DAY)
    db.execute("meta_set", key=FROM_KEY, value=str(hour))
    return True


def _sum_day(db: Database, day: int) -> None:
    cells: Cells = {}
    pruned: Counter[StatCell] = Counter()
    for job_id, _, tally, gone in db.rows("stat_cells", span=HOUR, since=day, until=day + DAY):
        cell = StatCell(DAY, job_id, day)
        add(cells.setdefault(cell, {}), _tally.decode(tally))
        pruned[cell] += gone
    _replace(db, DAY, day, cells, pruned)


def _replace(db: Database, span: int, since: int, cells: Cells, pruned: "dict[StatCell, int]") -> None:
    db.execute("stat_clear", span=span, since=since)
    db.execute("stat_put", cells=write_cells(cells, pruned))


def note_pruned(db: Database, rows: Sequence[tuple[str | None, int]]) -> None:
    """Note that ends of jobs at instants in milliseconds are no longer there to be recounted."""
    while rows and merge_ends(db):
        pass  # a cell that does not exist notes nothing
    numbers: Counter[StatCell] = Counter()
    for job_id, at in rows:
        for name in {job_id or ALL_JOBS, ALL_JOBS}:
            numbers[StatCell(HOUR, name, at // HOUR * HOUR)] += 1
            numbers[StatCell(DAY, name, at // DAY * DAY)] += 1
    if numbers:
        db.execute("stat_note_pruned", cells=write_cells(numbers))


def old(db: Database, *, span: int, before: int) -> bool:
    """Return whether there are cells from before an instant."""
    return db.row("stat_has_before", span=span, before=before) is not None


def prune(db: Database, *, span: int, before: int) -> int:
    """Delete the cells from before an instant, those of each job apart; return the number."""
    seqs = [0, *(seq for _, seq in db.rows("stat_seqs"))]
    return sum(db.execute("stat_prune", span=span, job=seq, before=before) for seq in reversed(seqs))
