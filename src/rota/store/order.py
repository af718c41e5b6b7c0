"""The order of the queue (INV-004): walks along it in small batches, places, and moves."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rota.model.clock import to_ms
from rota.model.records import Run
from rota.store.driver import Database, Row
from rota.store.rows import run_of, write_json

LARGEST_BATCH = 512
_MOST = (1 << 63) - 1


class Spot(NamedTuple):
    """Where a queued run stands within its rank."""

    position: int
    created_at: int
    id: str


START, END = Spot(-_MOST, -_MOST, ""), Spot(_MOST, _MOST, "g")


def spot_of(run: Run) -> Spot:
    """Return where a run stands within its rank."""
    return Spot(run.position, to_ms(run.created_at), run.id)


def ready(db: Database, *, limit: int) -> list[str]:
    """Return the identifiers of the first runs that may be claimed, over all lanes, in the order of INV-004."""
    return [run_id for (run_id,) in db.rows("order_ready", limit=limit)]


def at_place(db: Database, place: int, *, without: Collection[str]) -> tuple[int, Spot] | None:
    """Return rank and spot of the run at a place among those that may be claimed, some not counted; None: none is."""
    row = db.row("order_at", before=place - 1, without=write_json(list(without)))
    return None if row is None else (row[0], Spot(*row[1:]))


def next_rank(db: Database, rank: int) -> int | None:
    """Return the highest rank below this one that a ready run has, None for none."""
    row = db.row("order_next_rank", rank=rank)
    return None if row is None else int(row[0])


def walk(db: Database, rank: int, start: Spot, *, back: bool = False, fetch: int = 8) -> Iterator[Spot]:
    """Yield the queued runs of a rank beyond a spot, those that wait too; read as they are needed."""
    while True:
        found = _beyond(db, rank, start, back=back, limit=fetch)
        yield from found
        if len(found) < fetch:
            return
        start, fetch = found[-1], min(fetch * 4, LARGEST_BATCH)


def _beyond(db: Database, rank: int, start: Spot, *, back: bool, limit: int) -> list[Spot]:
    if back:
        rows = db.rows("order_behind", rank=rank, limit=limit, **start._asdict())
    else:
        rows = db.rows("order_ahead", rank=rank, limit=limit, **start._asdict())
    return [Spot(*row) for row in rows]


def place_of(db: Database, run: Run, *, limit: int) -> int | None:
    """Return a run's place among those that may be claimed, the first being 1; None beyond `limit`."""
    before = _count(db.row("order_place", rank=run.rank, limit=limit, **spot_of(run)._asdict()))
    return before + 1 if before < limit else None


def count_above(db: Database, rank: int, *, limit: int) -> int:
    """Return how many runs that may be claimed are of a higher rank, counted no further than `limit`."""
    return _count(db.row("order_count_above", rank=rank, limit=limit))


def _count(row: Row | None) -> int:
    assert row is not None
    return int(row[0])


def count_ready(db: Database, *, limit: int) -> int:
    """Return how many runs may be claimed, counted no further than `limit`."""
    return _count(db.row("order_count_ready", limit=limit))


def count_waiting(db: Database, *, limit: int) -> int:
    """Return how many queued runs wait for something, counted no further than `limit`."""
    return _count(db.row("order_count_waiting", limit=limit))


def waiting(db: Database, *, limit: int) -> list[str]:
    """Return the identifiers of the first queued runs that wait for something, in the order of the queue."""
    return [run_id for (run_id,) in db.rows("order_waiting", limit=limit)]


def runs_of(db: Database, run_ids: Sequence[str]) -> list[Run]:
    """Return runs by identifier, in the order in which they are named."""
    return [run_of(row) for row in db.records("runs_by_ids", ids=write_json(run_ids))]


def place(db: Database, positions: Mapping[str, int]) -> int:
    """Give queued runs new positions; return how many were still queued."""
    return db.execute("runs_place", runs=write_json(list(positions.items())))


def set_params(db: Database, run_id: str, params: Mapping[str, Any]) -> bool:
    """Change the params of a queued run; the schema refuses it from the first dispatch on (INV-001)."""
    return db.execute("run_set_params", id=run_id, params=write_json(params)) == 1


def set_priority(db: Database, run_id: str, *, priority: int, rank: int, position: int) -> bool:
    """Give a queued run another priority, and the place that follows from it."""
    return db.execute("run_set_priority", id=run_id, priority=priority, rank=rank, position=position) == 1
