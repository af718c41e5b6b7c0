"""The queue: candidates, positions, pools and provider limits."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from rota.model.agents import ProviderHold, provider_of, provider_pool
from rota.model.clock import MILLISECOND, from_ms, from_ms_or_none, to_ms
from rota.model.ids import created_ms
from rota.model.records import Abandoned, Run
from rota.model.spec import Draw
from rota.rules.queue_order import NO_POOLS, Head, Pool, Room, place_of
from rota.store.driver import Database, Row
from rota.store.rows import run_of, write_json
from rota.store.tables.processes import hold_births

AGING_KEY = "aging"
PLACED_AT_ONCE = 10_000

Draws = tuple[Draw, ...]


def pools(db: Database) -> list[Pool]:
    """Return all pools by name."""
    return [
        Pool(name, capacity, used, bool(declared), from_ms_or_none(held_until))
        for name, capacity, used, declared, held_until in db.rows("pools_all")
    ]


def declare_pools(db: Database, capacities: Mapping[str, int]) -> None:
    """Set the capacities of the declared pools; one that is gone stays as it was while a lane draws on it."""
    db.execute("pools_declare", pools=json.dumps(dict(capacities)))
    db.execute("pools_withdraw", pools=json.dumps(dict(capacities)))
    db.execute("pools_drop")


def prefetch_room(db: Database) -> None:
    """Ask `room` ahead."""
    db.prefetch("pools_room")


def room(db: Database) -> Room:
    """Return what the pools have left that have room; empty where no lane draws on any."""
    found = db.rows("pools_room")
    left = {name: left for name, _, left in found}
    closed = frozenset(name for name in left if left[name] < 0)
    return Room({name: capacity for name, capacity, _ in found}, left, closed=closed)


def front(db: Database, *, limit: int) -> list[Head]:
    """Return those who stand first among all who may be claimed, whatever they draw, in order."""
    return list(_heads(db.rows("queue_front", limit=limit)))


def heads(db: Database) -> Iterator[Head]:
    """Return the first run that may be claimed of each lane with room in some pool, in order."""
    return _heads(db.rows("lane_heads"))


def _heads(rows: Iterable[Row]) -> Iterator[Head]:
    for lane_id, key, rank, position, created_at, run_id in rows:
        yield Head((-rank, position, created_at, run_id), lane_id, draws_of(key))


def behind(db: Database, head: Head, *, limit: int) -> list[Head]:
    """Return up to `limit` runs that stand behind the head of their lane, in order.

    Other machines may have changed the lane since its head was read: who came in front of it is left for the next
    round, and the head itself, wherever it stands by now, is not told again.
    """
    found = db.rows("lane_front", lane_id=head.lane_id, limit=limit + 1)
    standing = (
        Head((-rank, position, created_at, run_id), head.lane_id, head.draws)
        for rank, position, created_at, run_id in found
    )
    return [one for one in standing if one.order > head.order and one.run_id != head.run_id][:limit]


def holders(db: Database, pool: str, *, limit: int) -> list[str]:
    """Return who draws on a pool now: runs, direct calls, and threads that outlived their run."""
    return [name for (name,) in db.rows("pool_holders", pool=pool)[:limit]]


def abandoned(db: Database) -> list[Abandoned]:
    """Return the functions that still run after the end of their runs, the oldest first."""
    return [
        Abandoned(run_id, job, number, from_ms_or_none(finished_at), slot)
        for run_id, job, number, finished_at, slot in db.rows("abandoned_all")
    ]


def drawn_on(db: Database) -> set[str]:
    """Return the pools that some lane draws on."""
    return {name for (name,) in db.rows("pools_drawn")}


def take(db: Database, draws: Sequence[Draw]) -> bool:
    """Draw on pools, in the order of their names; tell whether all had room, and draw on none if not."""
    for index, draw in enumerate(draws):
        if db.execute("pool_take", name=draw.pool, cost=draw.cost) != 1:
            for taken in draws[:index]:
                db.execute("pool_take", name=taken.pool, cost=-taken.cost)
            return False
    return True


def give_back(db: Database, lane_ids: Iterable[int]) -> None:
    """Give back what runs of these lanes drew, each as often as it is named."""
    drawing = [lane_id for lane_id in lane_ids if lane_id > NO_POOLS]
    if drawing:
        db.execute("pools_give_back", lanes=json.dumps(drawing))


def lane_of(db: Database, draws: Sequence[Draw]) -> int:
    """Return the lane of runs that draw so, made where it is new."""
    if not draws:
        return NO_POOLS
    key = key_of(draws)
    row = db.row("lane_by_key", key=key)
    return int(row[0]) if row else _new_lane(db, key)


def _new_lane(db: Database, key: str) -> int:
    drawn = json.dumps([(draw.pool, draw.cost) for draw in draws_of(key)])
    db.execute("pools_ensure", draws=drawn)
    db.execute("lane_insert", key=key)
    row = db.row("lane_by_key", key=key)
    assert row is not None
    db.execute("lane_pools_insert", lane_id=row[0], draws=drawn)
    return int(row[0])


def lane_draws(db: Database) -> dict[int, Draws]:
    """Return what the runs of each lane draw."""
    return {lane_id: draws_of(key) for lane_id, key in db.rows("lanes_all")}


def key_of(draws: Iterable[Draw]) -> str:
    """Return the text under which a lane is known.

    >>> key_of([Draw("ollama"), Draw("gpu", 2)])
    'gpu=2,ollama=1'
    """
    return ",".join(f"{draw.pool}={draw.cost}" for draw in sorted(draws, key=lambda draw: draw.pool))


@lru_cache(maxsize=4096)
def draws_of(key: str) -> Draws:
    """Return the draws of a lane's text, in the order of the pools' names."""
    parts = (part.partition("=") for part in key.split(",") if "=" in part)
    return tuple(Draw(pool, int(cost)) for pool, _, cost in parts)


def aging(db: Database) -> timedelta | None:
    """Return how much time a step of priority is worth, None where priority alone counts."""
    row = db.row("meta_get", key=AGING_KEY)
    return int(row[0]) * MILLISECOND if row else None


def set_aging(db: Database, value: timedelta | None) -> None:
    """Set what a step of priority is worth, and give every queued run the place that it then has (R-03)."""
    if aging(db) == value:
        return
    hold_births(db)
    if value is None:
        db.execute("meta_delete", key=AGING_KEY)
    else:
        db.execute("meta_set", key=AGING_KEY, value=str(value // MILLISECOND))
    places = [
        (run_id, place_of(priority, created_ms=created_ms(run_id), aging=value))
        for run_id, priority in db.rows("runs_queued")
    ]
    for begin in range(0, len(places), PLACED_AT_ONCE):
        part = places[begin : begin + PLACED_AT_ONCE]
        db.execute("runs_rank", places=json.dumps([(run_id, place.rank, place.position) for run_id, place in part]))


LARGEST_BATCH = 512
_MOST = (1 << 63) - 1


class QueueSpot(NamedTuple):
    """Where a queued run stands within its rank."""

    position: int
    created_at: int
    id: str


START, END = QueueSpot(-_MOST, -_MOST, ""), QueueSpot(_MOST, _MOST, "g")


def spot_of(run: Run) -> QueueSpot:
    """Return where a run stands within its rank."""
    return QueueSpot(run.position, to_ms(run.created_at), run.id)


def ready(db: Database, *, limit: int) -> list[str]:
    """Return the identifiers of the first runs that may be claimed, over all lanes, in the order of INV-004."""
    return [run_id for (run_id,) in db.rows("order_ready", limit=limit)]


def at_place(db: Database, place: int, *, without: Collection[str]) -> tuple[int, QueueSpot] | None:
    """Return rank and spot of the run at a place among those that may be claimed, some not counted; None: none is."""
    row = db.row("order_at", before=place - 1, without=write_json(list(without)))
    return None if row is None else (row[0], QueueSpot(*row[1:]))


def next_rank(db: Database, rank: int) -> int | None:
    """Return the highest rank below this one that a ready run has, None for none."""
    row = db.row("order_next_rank", rank=rank)
    return None if row is None else int(row[0])


def walk(db: Database, rank: int, start: QueueSpot, *, back: bool = False, fetch: int = 8) -> Iterator[QueueSpot]:
    """Yield the queued runs of a rank beyond a spot, those that wait too; read as they are needed."""
    while True:
        found = _beyond(db, rank, start, back=back, limit=fetch)
        yield from found
        if len(found) < fetch:
            return
        start, fetch = found[-1], min(fetch * 4, LARGEST_BATCH)


def _beyond(db: Database, rank: int, start: QueueSpot, *, back: bool, limit: int) -> list[QueueSpot]:
    if back:
        rows = db.rows("order_behind", rank=rank, limit=limit, **start._asdict())
    else:
        rows = db.rows("order_ahead", rank=rank, limit=limit, **start._asdict())
    return [QueueSpot(*row) for row in rows]


def place_in_queue(db: Database, run: Run, *, limit: int) -> int | None:
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


def holds(db: Database) -> list[ProviderHold]:
    """Return the providers that are held, by name."""
    return [hold for row in db.rows("holds_all") if (hold := _hold(row)).until is not None]


def hold_of(db: Database, provider: str) -> ProviderHold | None:
    """Return how a provider is held, or what is remembered of its last refusals."""
    row = db.row("hold_of", pool=provider_pool(provider))
    return _hold(row) if row else None


def put_hold(db: Database, hold: ProviderHold) -> None:
    """Store how a provider is held, in the place of what was."""
    db.execute(
        "hold_put",
        pool=provider_pool(hold.provider),
        until=None if hold.until is None else to_ms(hold.until),
        stated=int(hold.stated),
        refusals=hold.refusals,
        why=hold.why,
        run_id=hold.run_id,
        set_at=to_ms(hold.set_at),
    )


def forget_hold(db: Database, provider: str) -> bool:
    """Forget all about a provider's refusals; tell whether it was held."""
    return any(until is not None for (until,) in db.rows("hold_forget", pool=provider_pool(provider)))


def end_due(db: Database, now: datetime) -> list[str]:
    """End the holds whose time is over; return whose they were."""
    return [provider_of(pool) or pool for (pool,) in db.rows("holds_end", now=to_ms(now))]


def next_end(db: Database) -> datetime | None:
    """Return when the next hold ends."""
    row = db.row("hold_next_end")
    return from_ms_or_none(row[0]) if row else None


def count_waiting_for_provider(db: Database, provider: str, *, limit: int) -> int:
    """Return how many runs that may be claimed draw on the pool of a provider, counted up to `limit`."""
    row = db.row("hold_waiting", pool=provider_pool(provider), limit=limit)
    return int(row[0]) if row else 0


def shift(db: Database, back: timedelta) -> None:
    """Move the ends of holds that nobody stated back with the clock: they are elapsed time (R-26)."""
    db.execute("holds_shift", back=back // MILLISECOND)


def _hold(row: Row) -> ProviderHold:
    pool, until, stated, refusals, why, run_id, set_at = row
    provider = provider_of(pool) or pool
    return ProviderHold(provider, from_ms_or_none(until), bool(stated), refusals, why, run_id, from_ms(set_at))
