"""Pools, lanes and the order of the queue. Counters move in the transaction that draws or gives back."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache

from rota import faults
from rota.model.clock import MILLISECOND, from_ms_or_none
from rota.model.ids import created_ms
from rota.model.records import Abandoned
from rota.model.spec import Draw
from rota.rules.lanes import NO_POOLS, Head, Pool, Room
from rota.rules.order import place_of
from rota.store.driver import Database, Row
from rota.store.locking import hold_births

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


def ask_room(db: Database) -> None:
    """Ask `room` ahead."""
    db.ahead("pools_room")


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
    if drawing and not faults.planted("pool_not_given_back"):
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
