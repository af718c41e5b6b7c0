"""The order of the queue: lanes, ranks, positions and the pools that a worker accepts."""

import heapq
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from msgspec import Struct, field

from rota.model.clock import MILLISECOND
from rota.model.spec import Draw

NO_POOLS, GROUP_LANE = 1, 0
"""The lane of runs without pools, and the lane of groups, which take no slot and are never claimed."""

Order = tuple[int, int, int, int]
"""Negated rank, position, creation and key: the least goes first."""


class Head(Struct, frozen=True):
    """The first run of a lane, and the pools of that lane."""

    order: Order
    lane_id: int
    draws: tuple[Draw, ...] = ()

    @property
    def seq(self) -> int:
        """The key of the run."""
        return self.order[3]


class Pool(Struct, frozen=True):
    """A named capacity and its usage. Older runs still use an undeclared pool.

    `held_until`: until when it is closed because its provider refuses work, None if it is open.
    """

    name: str
    capacity: int
    used: int
    declared: bool = True
    held_until: datetime | None = None
    held_for: str = ""
    """Why the provider is held: `quota`, `outage` or `auth`."""


class Shortage(Struct, frozen=True):
    """The reason why a claimable run waits: a pool lacks room, or is kept for the earlier run `behind`."""

    pool: Pool
    cost: int
    behind: int | None = None


class Room(Struct):
    """The free amounts of the pools in one claim; `held`: pools kept for an earlier run; `closed` by a provider."""

    capacity: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    closed: frozenset[str] = frozenset()

    def lacks(self, draws: Sequence[Draw]) -> str | None:
        """Return the first pool that has no room for a draw or is held, None if there is room in all."""
        for draw in draws:  # a plain loop: it runs for every lane of every claim
            if draw.pool in self.held or self.left.get(draw.pool, 0) < draw.cost:
                return draw.pool
        return None

    def closes(self, draws: Sequence[Draw]) -> str | None:
        """Return the first closed pool of a run, or None."""
        return next((draw.pool for draw in draws if draw.pool in self.closed), None)

    def take(self, draws: Sequence[Draw]) -> None:
        """Take the pools of a run that starts."""
        for draw in draws:
            self.left[draw.pool] -= draw.cost

    def give_back(self, draws: Sequence[Draw]) -> None:
        """Return the pools of a run that does not start after all."""
        for draw in draws:
            self.left[draw.pool] += draw.cost

    def hold(self, draws: Sequence[Draw]) -> None:
        """Keep the full pools of a waiting run from all later runs of this claim.

        Except a pool that is too small for the run, and the pools of a run whose provider is closed: free room would
        not help it.
        """
        if self.closed and self.closes(draws) is not None:
            return
        for draw in draws:
            if self.left.get(draw.pool, 0) < draw.cost <= self.capacity.get(draw.pool, 0):
                self.held.add(draw.pool)


def walk(heads: Iterable[Head], room: Room, *, free: int, following: Callable[[Head], Head | None]) -> list[Head]:
    """Return up to `free` runs to start, and take their pools; `heads` in order, `following` the next of a lane.

    A head without room holds its pool and closes its lane for this claim, as all runs of a lane use the same pools: no
    later run overtakes it there, and runs of other pools start.
    """
    line = _LaneMerge(heads)
    chosen: list[Head] = []
    while len(chosen) < free and (head := line.next()) is not None:
        if room.lacks(head.draws) is not None:
            room.hold(head.draws)
            continue
        room.take(head.draws)
        chosen.append(head)
        line.add(following(head))
    return chosen


class _LaneMerge:
    """The heads in order, read lazily, merged with the followers of chosen heads."""

    def __init__(self, heads: Iterable[Head]) -> None:
        self._heads = iter(heads)
        self._first = next(self._heads, None)
        self._added: list[tuple[Order, Head]] = []

    def add(self, head: Head | None) -> None:
        if head is not None:
            heapq.heappush(self._added, (head.order, head))

    def next(self) -> Head | None:
        if self._added and (self._first is None or self._added[0][0] < self._first.order):
            return heapq.heappop(self._added)[1]
        head, self._first = self._first, next(self._heads, None)
        return head


def shortage(run: Head, pools: Iterable[Pool], heads: Iterable[Head]) -> Shortage | None:
    """Return the pool that keeps a run waiting in the next claim, None if there is room."""
    named = {pool.name: pool for pool in pools}
    room = room_of(named.values())
    keepers: dict[str, int] = {}
    for head in sorted((head for head in heads if head.order < run.order), key=lambda head: head.order):
        if room.lacks(head.draws) is not None:
            before = set(room.held)
            room.hold(head.draws)
            keepers.update(dict.fromkeys(room.held - before, head.seq))
    name = room.closes(run.draws) or room.lacks(run.draws)
    if name is None:
        return None
    cost = next(draw.cost for draw in run.draws if draw.pool == name)
    behind = keepers.get(name) if room.left.get(name, 0) >= cost else None
    return Shortage(named.get(name, Pool(name, 0, 0, declared=False)), cost, behind)


def room_of(pools: Iterable[Pool]) -> Room:
    """Return the free amounts of pools."""
    all_pools = list(pools)
    return Room(
        capacity={pool.name: pool.capacity for pool in all_pools},
        left={pool.name: pool.capacity - pool.used if pool.held_until is None else 0 for pool in all_pools},
        closed=frozenset(pool.name for pool in all_pools if pool.held_until is not None),
    )


POSITION_GAP = 1 << 20
"""Positions within one millisecond: room for moves, and for many runs inserted at once."""


class QueuePosition(NamedTuple):
    """The position of a run in the queue: higher ranks first, then lower positions."""

    rank: int
    position: int


def place_of(priority: int, *, created_ms: int, aging: timedelta | None) -> QueuePosition:
    """Return the position of a run created in this millisecond: at the end of its priority, or by its age.

    Under `aging` all runs share one rank, and a run counts as created `priority × aging` earlier. A newer run whose
    priority is `n` higher overtakes it only if it was created less than `n × aging` later, and a newer run of the same
    or a lower priority never does.
    """
    if aging is None:
        return QueuePosition(priority, created_ms * POSITION_GAP)
    return QueuePosition(rank=0, position=(created_ms - priority * (aging // MILLISECOND)) * POSITION_GAP)


STEP = 1 << 10
"""The gap after the last run and before the first. New runs follow at a whole millisecond, 2^20."""
ROOM = 16
"""The minimum gap between respread runs: less than that of runs inserted in bulk."""


class Spread(Struct, frozen=True):
    """New positions of the runs before the gap, of the moved runs, and of the runs after it, in order."""

    before: tuple[int, ...]
    moved: tuple[int, ...]
    after: tuple[int, ...]


def between(low: int | None, high: int | None, count: int, *, least: int = 1, origin: int = 0) -> list[int] | None:
    """Return `count` rising positions strictly between `low` and `high`; None if their gap were below `least`.

    A bound of None is open; if both are, positions begin at `origin`.

    >>> between(0, 100, 3)
    [25, 50, 75]
    >>> between(7, 8, 1) is None
    True
    """
    if low is None and high is None:
        return [origin + STEP * index for index in range(count)]
    if low is None:
        assert high is not None
        return [high - STEP * (count - index) for index in range(count)]
    if high is None:
        return [low + STEP * (index + 1) for index in range(count)]
    step = (high - low) // (count + 1)
    return None if step < least else [low + step * (index + 1) for index in range(count)]


def spread(before: Sequence[int], after: Sequence[int], *, moved: int, window: int, origin: int = 0) -> Spread | None:
    """Return positions for `moved` runs in a gap, respreading up to `window` runs on each side; None without room.

    `before` and `after` are the positions around the gap, nearest first; a side with at most `window` of them is the
    end of the queue.
    """
    low = before[window] if len(before) > window else None
    high = after[window] if len(after) > window else None
    left, right = min(len(before), window), min(len(after), window)
    places = between(low, high, left + moved + right, least=ROOM if window else 1, origin=origin)
    if places is None:
        return None
    return Spread(tuple(places[:left]), tuple(places[left : left + moved]), tuple(places[left + moved :]))


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


class PoolFilter(Struct, frozen=True):
    """The runs that a worker accepts: `only` runs of these pools (None: all), no runs of the pools in `but`."""

    only: tuple[str, ...] | None = None
    but: tuple[str, ...] = ()

    @property
    def everything(self) -> bool:
        """Whether all runs are accepted."""
        return self.only is None and not self.but

    def fits(self, draws: Sequence[Draw]) -> bool:
        """Return whether a run with these pools is accepted.

        >>> PoolFilter(only=("gpu",)).fits([Draw("gpu"), Draw("agents")]), PoolFilter(only=("gpu",)).fits([])
        (True, False)
        >>> PoolFilter(but=("gpu",)).fits([Draw("gpu")]), PoolFilter(but=("gpu",)).fits([])
        (False, True)
        """
        pools = {draw.pool for draw in draws}
        return (self.only is None or not pools.isdisjoint(self.only)) and pools.isdisjoint(self.but)


EVERYTHING = PoolFilter()


def takes_json(takes: PoolFilter) -> dict[str, Any]:
    """Return a filter as JSON.

    >>> takes_json(PoolFilter(only=("gpu",)))
    {'only_pools': ['gpu'], 'except_pools': []}
    """
    only = None if takes.only is None else list(takes.only)
    return {"only_pools": only, "except_pools": list(takes.but)}


def read_takes(document: Mapping[str, Any] | None) -> PoolFilter:
    """Return the filter of a JSON document; without one it accepts everything."""
    if document is None:
        return EVERYTHING
    only = document["only_pools"]
    return PoolFilter(None if only is None else tuple(only), tuple(document["except_pools"]))


def say_takes(takes: PoolFilter) -> str:
    """Return a filter in words.

    >>> say_takes(EVERYTHING), say_takes(PoolFilter(only=("gpu", "big"), but=("web",)))
    ('all', 'only gpu, big; not web')
    """
    parts = [f"only {', '.join(takes.only)}"] if takes.only is not None else []
    parts += [f"not {', '.join(takes.but)}"] if takes.but else []
    return "; ".join(parts) or "all"


def default_name(host: str) -> str:
    """Return the default name of a worker: that of its machine, in allowed letters.

    >>> default_name("build-7.example.org"), default_name("böse maschine"), default_name("")
    ('build-7.example.org', 'b-se-maschine', 'worker')
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", host).strip("-._")[:100]
    return name or "worker"
