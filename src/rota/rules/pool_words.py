"""What is said of pools and slots: what a run draws, why one keeps it waiting, what keeps a slot after its end."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from rota.model.durations import say_duration
from rota.model.holds import provider_of
from rota.model.records import Abandoned
from rota.model.spec import Draw
from rota.rules.hold_words import say_hold
from rota.rules.lanes import Pool, Shortage, room_of


def say_draws(draws: Sequence[Draw]) -> str:
    """Return what a run draws.

    >>> say_draws([Draw("gpu", 2), Draw("ollama")])
    'gpu × 2, ollama'
    """
    return ", ".join(draw.pool if draw.cost == 1 else f"{draw.pool} × {draw.cost}" for draw in draws)


def say_room(draws: Sequence[Draw], pools: Sequence[Pool], *, zone: str, now: datetime) -> str:
    """Return how full the pools of a run are, and whether it finds room; that of a provider bounds nothing."""
    known = {pool.name: pool for pool in pools}
    shown = [known[draw.pool] for draw in draws if draw.pool in known and provider_of(draw.pool) is None]
    room = room_of(pools)
    closed, lacking = room.closes(draws), room.lacks(draws)
    end = "room" if lacking is None else f"waits for {lacking}"
    end = end if closed is None else say_hold(closed, known[closed].held_until, zone=zone, now=now)
    return f"{', '.join(f'{pool.name} {pool.used:,} of {pool.capacity:,}' for pool in shown)} → {end}"


def say_shortage(found: Shortage, *, holders: Sequence[str] = (), behind: str | None = None) -> str:
    """Return which pool a run waits for, and why it has no room."""
    pool, needs = found.pool, f", and it needs {found.cost:,}" if found.cost > 1 else ""
    if pool.capacity < found.cost:
        gone = "" if pool.declared else " and is no longer declared"
        return f'the pool "{pool.name}" has {pool.capacity:,}{gone}{needs or ", and it needs 1"}: raise its capacity'
    if behind is not None:
        return f'the pool "{pool.name}", which is kept for {behind}: that comes first'
    by = f" by {', '.join(holders)}" if holders else ""
    return f'the pool "{pool.name}": {pool.used:,} of {pool.capacity:,} used{by}{needs}'


def say_drained(names: Sequence[str]) -> str:
    """Return for whom a run waits when all workers are drained.

    >>> say_drained(["a", "b"])
    'for a worker: all that are there are drained (a, b); `rota workers resume NAME` lets one take runs again'
    """
    told = f"all that are there are drained ({', '.join(names)})"
    return f"for a worker: {told}; `rota workers resume NAME` lets one take runs again"


def say_nobody(draws: Sequence[Draw]) -> str:
    """Return for whom a run waits that no worker takes who is there.

    >>> say_nobody([Draw("gpu"), Draw("agents")])
    'for a worker: none that is there takes runs that draw on gpu, agents; `rota workers` lists what they take'
    """
    which = f"draw on {', '.join(draw.pool for draw in draws)}" if draws else "draw on no pool"
    return f"for a worker: none that is there takes runs that {which}; `rota workers` lists what they take"


def say_abandoned(one: Abandoned, *, now: datetime) -> str:
    """Return that a function outlives its run: `still runs 12 min after its end and holds slot 0`."""
    since = "" if one.since is None else f" {say_duration(max(now - one.since, timedelta()))}"
    return f"its function still runs{since} after its end and holds slot {one.slot}"
