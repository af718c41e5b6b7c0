"""The order of the queue (INV-004): walks over all lanes at once in small batches, places, and moves."""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from rota.model.clock import to_ms
from rota.model.records import Run
from rota.store.driver import Database, Row
from rota.store.rows import run_of, write_json

PAGE = 64
FIRST_BATCH = 4
CROWD = 32
"""From so many lanes on, one look at all of their second runs is cheaper than one at each lane that is passed."""
LARGEST_BATCH = 512
_MOST = (1 << 63) - 1


class Spot(NamedTuple):
    """Where a queued run stands within its rank; a tuple, as a walk over many lanes compares thousands of them."""

    position: int
    created_at: int
    id: str


START, END = Spot(-_MOST, -_MOST, ""), Spot(_MOST, _MOST, "g")
HIGHEST = _MOST


def spot_of(run: Run) -> Spot:
    """Return where a run stands within its rank."""
    return Spot(run.position, to_ms(run.created_at), run.id)


def ready(db: Database, *, limit: int) -> list[str]:
    """Return the identifiers of the first runs that may be claimed, over all lanes, in the order of INV-004."""
    return [spot.id for _, spot in islice(queue(db, fetch=min(limit, PAGE)), limit)]


def queue(db: Database, *, fetch: int = PAGE) -> Iterator[tuple[int, Spot]]:
    """Yield rank and spot of every run that may be claimed, over all lanes, in the order of INV-004."""
    rank = next_rank(db, HIGHEST)
    while rank is not None:
        for spot in walk(db, rank, fetch=fetch):
            yield rank, spot
        rank = next_rank(db, rank)


def next_rank(db: Database, rank: int) -> int | None:
    """Return the highest rank below this one that a ready run has, None for none."""
    row = db.row("order_next_rank", rank=rank)
    found: int | None = row[0] if row else None
    return found


def walk(
    db: Database, rank: int, start: Spot | None = None, *, back: bool = False, waiting: bool = False, fetch: int = 1
) -> Iterator[Spot]:
    """Yield the ready runs of a rank, over all lanes, from a spot on; with `waiting` those that wait too.

    `fetch` are looked for at first, four times as many each time that they are used up: the first `fetch` runs stand
    in the `fetch` lanes whose heads come first, so no other lane is opened for them.
    """
    at = start or (END if back else START)
    while True:
        streams = _streams(db, rank, _heads(db, rank, at, back=back, lanes=fetch), back=back)
        if waiting:
            further = partial(_waiting, db, rank, back=back)
            streams.append(_stream(further, further(at, each=FIRST_BATCH), each=FIRST_BATCH))
        found = list(islice(heapq.merge(*streams, reverse=back), fetch))
        yield from found
        if len(found) < fetch:
            return
        at, fetch = found[-1], min(fetch * 4, LARGEST_BATCH)


def _streams(db: Database, rank: int, heads: Sequence[Row], *, back: bool) -> list[Iterator[Spot]]:
    """Return a stream for each lane; where they are many, one look at all of their second runs spares one at each."""
    looked = len(heads) >= CROWD and not back
    seconds = db.rows("order_seconds", heads=write_json(heads), rank=rank) if looked else []
    behind = {lane_id: Spot(*spot) for lane_id, *spot in seconds}
    streams: list[Iterator[Spot]] = []
    for lane_id, *head in heads:
        found = [Spot(*head), behind[lane_id]] if lane_id in behind else [Spot(*head)]
        each = 2 if looked else 1
        streams.append(_stream(partial(_lane, db, rank, lane_id=lane_id, back=back), found, each=each))
    return streams


def _stream(further: Callable[..., list[Spot]], found: list[Spot], *, each: int) -> Iterator[Spot]:
    """Yield what was found, and what follows as it is needed; fewer than `each` mean that it ends there."""
    while found:
        yield from found
        if len(found) < each:
            return
        each = min(max(each * 2, FIRST_BATCH), LARGEST_BATCH)
        found = further(found[-1], each=each)


def _heads(db: Database, rank: int, start: Spot, *, back: bool, lanes: int) -> list[Row]:
    spot = start._asdict()
    if back:
        return db.rows("order_behind", rank=rank, lanes=lanes, **spot)
    return db.rows("order_ahead", rank=rank, lanes=lanes, **spot)


def _lane(db: Database, rank: int, start: Spot, *, lane_id: int, back: bool, each: int) -> list[Spot]:
    spot = start._asdict()
    if back:
        return _spots(db.rows("order_lane_behind", lane_id=lane_id, rank=rank, each=each, **spot))
    return _spots(db.rows("order_lane_ahead", lane_id=lane_id, rank=rank, each=each, **spot))


def _waiting(db: Database, rank: int, start: Spot, *, back: bool, each: int) -> list[Spot]:
    spot = start._asdict()
    if back:
        return _spots(db.rows("order_waiting_behind", rank=rank, each=each, **spot))
    return _spots(db.rows("order_waiting_ahead", rank=rank, each=each, **spot))


def _spots(rows: Sequence[Row]) -> list[Spot]:
    return [Spot(*row) for row in rows]


def place_of(db: Database, run: Run, *, limit: int) -> int | None:
    """Return a run's place among those that may be claimed, the first being 1; None beyond `limit`."""
    above = count_above(db, run.rank, limit=limit)
    spot = spot_of(run)._asdict()
    before = above if above >= limit else above + _count(db.row("order_place", rank=run.rank, limit=limit, **spot))
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
