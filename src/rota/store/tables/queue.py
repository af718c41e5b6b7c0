"""The queue: candidates, positions, pools and provider limits."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from rota.model.agents import AgentProblem, ProviderHold, provider_of, provider_pool
from rota.model.clock import MILLISECOND, from_ms, from_ms_or_none, to_ms, to_ms_or_none
from rota.model.ids import created_ms
from rota.model.records import Abandoned, Run
from rota.model.spec import Draw, JobSpec
from rota.rules.agents import with_pools
from rota.rules.queue_order import NO_POOLS, Head, Pool, Room, place_of
from rota.store.driver import Database, Row
from rota.store.rows import instant_of, records_of, run_of, value_of, write_json
from rota.store.tables.processes import hold_births

AGING_KEY = "aging"
RANK_BATCH = 10_000

Draws = tuple[Draw, ...]


def pools(db: Database) -> list[Pool]:
    """Return all pools by name."""
    return records_of(Pool, db.rows("pools_all"))


def declare_pools(db: Database, capacities: Mapping[str, int]) -> None:
    """Set the capacities of the declared pools; an undeclared pool stays while a lane uses it."""
    db.execute("pools_declare", pools=json.dumps(dict(capacities)))
    db.execute("pools_withdraw", pools=json.dumps(dict(capacities)))
    db.execute("pools_drop")


def prefetch_room(db: Database) -> None:
    """Prefetch `room`."""
    db.prefetch("pools_room")


def room(db: Database) -> Room:
    """Return the free room of the pools; empty if no lane uses one."""
    rows = db.rows("pools_room")
    left = {name: left for name, _, left in rows}
    closed = frozenset(name for name in left if left[name] < 0)
    return Room({name: capacity for name, capacity, _ in rows}, left, closed=closed)


def front(db: Database, *, limit: int) -> list[Head]:
    """Return the first claimable runs in queue order, regardless of pools."""
    return list(_heads(db.rows("queue_front", limit=limit)))


def heads(db: Database) -> Iterator[Head]:
    """Return the first claimable run of each lane with room in some pool, in order."""
    return _heads(db.rows("lane_heads"))


def _heads(rows: Iterable[Row]) -> Iterator[Head]:
    for lane_id, key, rank, position, created_at, seq in rows:
        yield Head((-rank, position, created_at, seq), lane_id, draws_of(key))


def behind(db: Database, head: Head, *, limit: int) -> list[Head]:
    """Return up to `limit` runs behind the head of their lane, in order.

    Other machines may have changed the lane since its head was read: runs now before the head wait for the next round,
    and the head itself is never returned.
    """
    rows = db.rows("lane_front", lane_id=head.lane_id, limit=limit + 1)
    front = (
        Head((-rank, position, created_at, seq), head.lane_id, head.draws) for rank, position, created_at, seq in rows
    )
    return [other for other in front if other.order > head.order and other.seq != head.seq][:limit]


def holders(db: Database, pool: str, *, limit: int) -> list[str]:
    """Return the current users of a pool: runs, direct calls, and threads that outlived their run."""
    return [name for (name,) in db.rows("pool_holders", pool=pool)[:limit]]


def abandoned(db: Database) -> list[Abandoned]:
    """Return the functions that still run after the end of their runs, oldest first."""
    return records_of(Abandoned, db.rows("abandoned_all"))


def drawn_on(db: Database) -> set[str]:
    """Return the pools that a lane uses."""
    return {name for (name,) in db.rows("pools_drawn")}


def take(db: Database, draws: Sequence[Draw]) -> bool:
    """Take room in pools in the order of their names; return False and take none if one has no room."""
    for index, draw in enumerate(draws):
        if db.execute("pool_take", name=draw.pool, cost=draw.cost) != 1:
            for taken in draws[:index]:
                db.execute("pool_take", name=taken.pool, cost=-taken.cost)
            return False
    return True


def give_back(db: Database, lane_ids: Iterable[int]) -> None:
    """Return the pool room of runs of these lanes, once for each mention of a lane."""
    drawing = [lane_id for lane_id in lane_ids if lane_id > NO_POOLS]
    if drawing:
        db.execute("pools_give_back", lanes=json.dumps(drawing))


def lane_of(db: Database, draws: Sequence[Draw]) -> int:
    """Return the lane of runs with these draws; insert a new one."""
    if not draws:
        return NO_POOLS
    key = key_of(draws)
    lane_id = value_of(db, "lane_by_key", key=key)
    return _new_lane(db, key) if lane_id is None else int(lane_id)


def _new_lane(db: Database, key: str) -> int:
    drawn = json.dumps([(draw.pool, draw.cost) for draw in draws_of(key)])
    db.execute("pools_ensure", draws=drawn)
    db.execute("lane_insert", key=key)
    lane_id = int(value_of(db, "lane_by_key", key=key))
    db.execute("lane_pools_insert", lane_id=lane_id, draws=drawn)
    return lane_id


def with_agent(db: Database, spec: JobSpec, lane_id: int) -> JobSpec:
    """Return the definition of a run in a lane, with the agent of a list that does its work."""
    if spec.work.agent is None or not spec.work.agent.choices:
        return spec
    return with_pools(spec, draws_of(str(value_of(db, "lane_key", id=lane_id) or "")))


def lane_draws(db: Database) -> dict[int, Draws]:
    """Return the draws of each lane."""
    return {lane_id: draws_of(key) for lane_id, key in db.rows("lanes_all")}


def key_of(draws: Iterable[Draw]) -> str:
    """Return the key of a lane.

    >>> key_of([Draw("ollama"), Draw("gpu", 2)])
    'gpu=2,ollama=1'
    """
    return ",".join(f"{draw.pool}={draw.cost}" for draw in sorted(draws, key=lambda draw: draw.pool))


@lru_cache(maxsize=4096)
def draws_of(key: str) -> Draws:
    """Return the draws of a lane's key, in the order of the pools' names."""
    parts = (part.partition("=") for part in key.split(",") if "=" in part)
    return tuple(Draw(pool, int(cost)) for pool, _, cost in parts)


def aging(db: Database) -> timedelta | None:
    """Return the waiting time that equals a step of priority, None if only priority counts."""
    stored = value_of(db, "meta_get", key=AGING_KEY)
    return None if stored is None else int(stored) * MILLISECOND


def set_aging(db: Database, value: timedelta | None) -> None:
    """Set the waiting time that equals a step of priority, and reorder the queue."""
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
    for begin in range(0, len(places), RANK_BATCH):
        part = places[begin : begin + RANK_BATCH]
        db.execute("runs_rank", places=json.dumps([(run_id, place.rank, place.position) for run_id, place in part]))


LARGEST_BATCH = 512
_MAX_INTEGER = (1 << 63) - 1


class QueueSpot(NamedTuple):
    """The place of a queued run within its rank."""

    position: int
    created_at: int
    run: int


START, END = QueueSpot(-_MAX_INTEGER, -_MAX_INTEGER, 0), QueueSpot(_MAX_INTEGER, _MAX_INTEGER, _MAX_INTEGER)


def spot_of(run: Run) -> QueueSpot:
    """Return the place of a run within its rank."""
    return QueueSpot(run.position, to_ms(run.created_at), run.seq)


def ready(db: Database, *, limit: int) -> list[str]:
    """Return the identifiers of the first claimable runs of all lanes, in queue order."""
    return [run_id for (run_id,) in db.rows("order_ready", limit=limit)]


def at_place(db: Database, place: int, *, without: Collection[int]) -> tuple[int, QueueSpot] | None:
    """Return rank and spot of the run at a place among the claimable runs `without` some, None for none."""
    row = db.row("order_at", before=place - 1, without=write_json(list(without)))
    return None if row is None else (row[0], QueueSpot(*row[1:]))


def next_rank(db: Database, rank: int) -> int | None:
    """Return the highest rank below this one with a claimable run, None for none."""
    below: int | None = value_of(db, "order_next_rank", rank=rank)
    return below


def walk(db: Database, rank: int, start: QueueSpot, *, back: bool = False, fetch: int = 8) -> Iterator[QueueSpot]:
    """Yield the queued runs of a rank beyond a spot, waiting ones included; read in growing batches."""
    while True:
        spots = _beyond(db, rank, start, back=back, limit=fetch)
        yield from spots
        if len(spots) < fetch:
            return
        start, fetch = spots[-1], min(fetch * 4, LARGEST_BATCH)


def _beyond(db: Database, rank: int, start: QueueSpot, *, back: bool, limit: int) -> list[QueueSpot]:
    if back:
        rows = db.rows("order_behind", rank=rank, limit=limit, **start._asdict())
    else:
        rows = db.rows("order_ahead", rank=rank, limit=limit, **start._asdict())
    return [QueueSpot(*row) for row in rows]


def place_in_queue(db: Database, run: Run, *, limit: int) -> int | None:
    """Return a run's place among the claimable runs, 1 for the first; None beyond `limit`."""
    before = int(value_of(db, "order_place", rank=run.rank, limit=limit, **spot_of(run)._asdict()))
    return before + 1 if before < limit else None


def count_above(db: Database, rank: int, *, limit: int) -> int:
    """Return the number of claimable runs of a higher rank, at most `limit`."""
    return int(value_of(db, "order_count_above", rank=rank, limit=limit))


def count_ready(db: Database, *, limit: int) -> int:
    """Return the number of claimable runs, at most `limit`."""
    return int(value_of(db, "order_count_ready", limit=limit))


def count_waiting(db: Database, *, limit: int) -> int:
    """Return the number of queued runs that are not claimable, at most `limit`."""
    return int(value_of(db, "order_count_waiting", limit=limit))


def waiting(db: Database, *, limit: int) -> list[str]:
    """Return the identifiers of the first queued runs that are not claimable, in queue order."""
    return [run_id for (run_id,) in db.rows("order_waiting", limit=limit)]


def runs_of(db: Database, run_ids: Sequence[str]) -> list[Run]:
    """Return runs by identifier, in the given order."""
    return [run_of(row) for row in db.records("runs_by_ids", ids=write_json(run_ids))]


def place(db: Database, positions: Mapping[int, int]) -> int:
    """Give queued runs new positions by key; return the number that were still queued."""
    return db.execute("runs_place", runs=write_json(list(positions.items())))


def set_params(db: Database, run_id: str, params: Mapping[str, Any]) -> bool:
    """Change the params of a queued run; the schema refuses it from the first dispatch on."""
    return db.execute("run_set_params", id=run_id, params=write_json(params)) == 1


def set_priority(db: Database, run_id: str, *, priority: int, rank: int, position: int) -> bool:
    """Change the priority of a queued run, and its place."""
    changed = db.execute("run_set_priority", id=run_id, priority=priority)
    return changed == 1 and db.execute("run_set_place", id=run_id, rank=rank, position=position) == 1


def holds(db: Database) -> list[ProviderHold]:
    """Return the holds of rate-limited providers, by name."""
    return [hold for row in db.rows("holds_all") if (hold := _hold(row)).until is not None]


def hold_of(db: Database, provider: str) -> ProviderHold | None:
    """Return the hold of a provider, or the count of its last refusals; None for none."""
    row = db.row("hold_of", pool=provider_pool(provider))
    return _hold(row) if row else None


def put_hold(db: Database, hold: ProviderHold) -> None:
    """Replace the hold of a provider."""
    db.execute(
        "hold_put",
        pool=provider_pool(hold.provider),
        until=to_ms_or_none(hold.until),
        stated=int(hold.stated),
        refusals=hold.refusals,
        why=hold.why,
        run_id=hold.run_id,
        set_at=to_ms(hold.set_at),
        problem=hold.problem.value,
        since=to_ms(hold.since),
    )


def forget_hold(db: Database, provider: str) -> bool:
    """Delete the hold and refusals of a provider; return whether it was held."""
    return any(until is not None for (until,) in db.rows("hold_forget", pool=provider_pool(provider)))


def end_due(db: Database, now: datetime) -> list[str]:
    """End the expired holds; return their providers."""
    return [provider_of(pool) or pool for (pool,) in db.rows("holds_end", now=to_ms(now))]


def next_end(db: Database) -> datetime | None:
    """Return the end of the next hold that ends by time."""
    return instant_of(db, "hold_next_end")


def next_check(db: Database) -> datetime | None:
    """Return when the next login is to be checked."""
    return instant_of(db, "hold_next_check")


def count_waiting_for_provider(db: Database, provider: str, *, limit: int) -> int:
    """Return the number of claimable runs of a provider, at most `limit`."""
    return int(value_of(db, "hold_waiting", pool=provider_pool(provider), limit=limit) or 0)


def shift(db: Database, back: timedelta) -> None:
    """Move the ends of holds without a stated end back with the clock: they are elapsed time."""
    db.execute("holds_shift", back=back // MILLISECOND)


def _hold(row: Row) -> ProviderHold:
    pool, until, stated, refusals, why, run_id, set_at, problem, since = row
    return ProviderHold(
        provider_of(pool) or pool,
        from_ms_or_none(until),
        bool(stated),
        refusals,
        why,
        run_id,
        from_ms(set_at),
        AgentProblem(problem),
        from_ms(since),
    )
