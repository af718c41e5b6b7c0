"""Check that the statistics are what a recount of the runs and direct calls gives."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

import msgspec

from rota.operations.verify.ledger import say
from rota.operations.verify.report import AuditFindings, Check
from rota.rules.stats import DAY, HOUR, ROWS, Tally, add
from rota.store.driver import Database
from rota.store.rows import value_of
from rota.store.tables.stats import counted_from, pending, recount
from rota.store.tallies import ALL_JOBS, Cells, StatCell

MAX_SHOWN = 3
"""The keys of a wrong cell that a violation names."""
MAX_ROWS = 1_000
FAR = 1 << 60
_tally: msgspec.json.Decoder[Tally] = msgspec.json.Decoder(Tally)


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
