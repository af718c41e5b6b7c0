"""Tallies of a transaction: the ends of its runs, summed once before its commit."""

import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rota.model.states import Status
from rota.rules.stats import CALLS, DAY, HOUR, ROWS, RunTimes, Tally, add, run_tally

if TYPE_CHECKING:
    from rota.store.driver import Database

TURNS_A_MERGE = 64
"""A process adds to the cells in each so many of its transactions that end runs."""
MAX_MERGED = 10_000
ALL_JOBS = ""
"""The job of the cells that sum all jobs and the calls without a job."""


class EndedRuns(NamedTuple):
    """Runs that ended at once and alike: their numbers by job and `RunTimes`."""

    status: Status
    reason: str | None
    at: int
    numbers: Mapping[tuple[Any, ...], int]


class Addition(NamedTuple):
    """The tally of a usage or of an ended direct call, for the cell of an instant in milliseconds."""

    job_id: str | None
    at: int
    tally: Tally


class StatCell(NamedTuple):
    """The length, job and start of a cell."""

    span: int
    job_id: str
    since: int


Ended = EndedRuns | Addition
Hours = dict[tuple[str, int], Tally]
"""Tallies by job and start of the hour; the job `ALL_JOBS` for calls without one."""
Cells = dict[StatCell, Tally]
_hours: msgspec.json.Decoder[list[tuple[str, int, Tally]]] = msgspec.json.Decoder(list[tuple[str, int, Tally]])
_turns = itertools.count(1)


def store_ends(db: "Database") -> None:
    """Store what the transaction adds to the statistics by one insert; now and then, add what is stored to the cells.

    The cells of an hour and a day, of a job and of all, cost fifteen times as much as the insert.
    """
    db.defer("stat_delta_add", ends=write_hours(hours_of(db.ended)))
    if next(_turns) % TURNS_A_MERGE == 0:
        merge_ends(db)


def merge_ends(db: "Database") -> int:
    """Add what transactions have stored to the cells; return the number of transactions."""
    rows = db.rows("stat_delta_take", limit=MAX_MERGED)
    if rows:
        db.execute("stat_add", cells=write_cells(cells_of(read_hours(ends for (ends,) in rows))))
    return len(rows)


def call_ended(job_id: str | None, usage: Tally, *, at: int) -> Addition:
    """Return what the end of a direct call adds."""
    return Addition(job_id, at, {ROWS: 1, CALLS: 1, **usage})


def hours_of(ended: Iterable[Ended]) -> Hours:
    """Return the tallies of ends by job and hour."""
    hours: Hours = {}
    for one in ended:
        since = one.at // HOUR * HOUR
        if isinstance(one, Addition):
            add(hours.setdefault((one.job_id or ALL_JOBS, since), {}), one.tally)
            continue
        for (job_id, *times), number in one.numbers.items():
            tally = run_tally(RunTimes(*times), one.status, one.reason, at=one.at)
            add(hours.setdefault((job_id, since), {}), tally, number)
    return hours


def write_hours(hours: Hours) -> str:
    """Return tallies as they are stored until they are added to the cells."""
    return msgspec.json.encode([(*key, tally) for key, tally in hours.items()]).decode()


def read_hours(stored: Iterable[str]) -> Hours:
    """Return the sum of stored tallies."""
    hours: Hours = {}
    for text in stored:
        for job_id, since, tally in _hours.decode(text):
            add(hours.setdefault((job_id, since), {}), tally)
    return hours


def cells_of(hours: Hours) -> Cells:
    """Return the cells of hours and days, of each job and of all."""
    cells: Cells = {}
    for (job_id, since), tally in hours.items():
        day = since // DAY * DAY
        names = (job_id, ALL_JOBS) if job_id else (ALL_JOBS,)
        for cell in (StatCell(span, name, start) for name in names for span, start in ((HOUR, since), (DAY, day))):
            add(cells.setdefault(cell, {}), tally)
    return cells


def write_cells(cells: Mapping[StatCell, Any], *others: Mapping[StatCell, Any]) -> str:
    """Return cells as JSON, each with its values, in the order in which all transactions lock them."""
    rows = [(*cell, cells[cell], *(other.get(cell, 0) for other in others)) for cell in sorted(cells)]
    return msgspec.json.encode(rows).decode()
