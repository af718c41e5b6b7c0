"""The order of the queue: lanes, ranks, positions and the pools that a worker accepts."""

import heapq
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from rota.model.clock import MILLISECOND
from rota.model.spec import Draw

NO_POOLS, GROUP_LANE = 1, 0
"""The lane of runs that draw on nothing, and that of groups, which take no slot and are never claimed."""

Order = tuple[int, int, int, str]
"""Rank turned round, position, creation and identifier: the least goes first (INV-004)."""


@dataclass(frozen=True, slots=True)
class Head:
    """The first run of a lane, and what every run of that lane draws."""

    order: Order
    lane_id: int
    draws: tuple[Draw, ...] = ()

    @property
    def run_id(self) -> str:
        """The run that stands there."""
        return self.order[3]


@dataclass(frozen=True, slots=True)
class Pool:
    """A named capacity, and how much of it is drawn. One that is not declared is still drawn on by older runs."""

    name: str
    capacity: int
    used: int
    declared: bool = True
    held_until: datetime | None = None
    """Until when it has no room since its provider takes no more work; None: it is not held (section 8)."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a run that may be claimed does not go: a pool lacks room, or is kept for the run `behind`, which is first."""

    pool: Pool
    cost: int
    behind: str | None = None


@dataclass(slots=True)
class Room:
    """What the pools have left in one round, and which of them are kept for somebody who comes first.

    `closed`: those of providers that take no more work for now (section 8).
    """

    capacity: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    closed: frozenset[str] = frozenset()

    def lacks(self, draws: Sequence[Draw]) -> str | None:
        """Return the first pool that has no room for a draw or is held, None if there is room in all."""
        for draw in draws:  # a plain loop: this is asked for every lane of every round
            if draw.pool in self.held or self.left.get(draw.pool, 0) < draw.cost:
                return draw.pool
        return None

    def closes(self, draws: Sequence[Draw]) -> str | None:
        """Return the pool of the provider that is held, of those that are drawn on; None if there is none."""
        return next((draw.pool for draw in draws if draw.pool in self.closed), None)

    def take(self, draws: Sequence[Draw]) -> None:
        """Count the draws of somebody who goes."""
        for draw in draws:
            self.left[draw.pool] -= draw.cost

    def give_back(self, draws: Sequence[Draw]) -> None:
        """Count the draws of somebody back who was to go and does not."""
        for draw in draws:
            self.left[draw.pool] += draw.cost

    def hold(self, draws: Sequence[Draw]) -> None:
        """Keep the pools that somebody who stays lacks room in: nobody behind draws on them in this round.

        A pool that could never hold the draw is not kept: nothing that others give back would help. Neither does it
        help somebody whose provider is held, so nothing is kept for such a one.
        """
        if self.closed and self.closes(draws) is not None:
            return
        for draw in draws:
            if self.left.get(draw.pool, 0) < draw.cost <= self.capacity.get(draw.pool, 0):
                self.held.add(draw.pool)


def walk(heads: Iterable[Head], room: Room, *, free: int, following: Callable[[Head], Head | None]) -> list[Head]:
    """Return up to `free` runs that go, and count what they draw; `heads` in order, `following` the next of a lane.

    A head that lacks room holds its pool and closes its lane for this round, as all runs of a lane draw alike: no
    later run overtakes it there, and those of other pools go on.
    """
    line = _LaneMerge(heads)
    going: list[Head] = []
    while len(going) < free and (head := line.next()) is not None:
        if room.lacks(head.draws) is not None:
            room.hold(head.draws)
            continue
        room.take(head.draws)
        going.append(head)
        line.add(following(head))
    return going


class _LaneMerge:
    """The heads in order, no more of them built than are asked for, and those who come up behind one that went."""

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
    """Return the pool that keeps a run from going in the next round, None if it has room in all of its pools."""
    known = {pool.name: pool for pool in pools}
    room = room_of(known.values())
    keepers: dict[str, str] = {}
    for head in sorted((head for head in heads if head.order < run.order), key=lambda head: head.order):
        if room.lacks(head.draws) is not None:
            before = set(room.held)
            room.hold(head.draws)
            keepers.update(dict.fromkeys(room.held - before, head.run_id))
    name = room.closes(run.draws) or room.lacks(run.draws)
    if name is None:
        return None
    cost = next(draw.cost for draw in run.draws if draw.pool == name)
    behind = keepers.get(name) if room.left.get(name, 0) >= cost else None
    return Shortage(known.get(name, Pool(name, 0, 0, declared=False)), cost, behind)


def room_of(pools: Iterable[Pool]) -> Room:
    """Return what pools have left."""
    found = list(pools)
    return Room(
        capacity={pool.name: pool.capacity for pool in found},
        left={pool.name: pool.capacity - pool.used if pool.held_until is None else 0 for pool in found},
        closed=frozenset(pool.name for pool in found if pool.held_until is not None),
    )


POSITION_GAP = 1 << 20
"""Places within one millisecond: room for moves between runs, and for many runs made at once."""


class QueuePosition(NamedTuple):
    """Where a run stands: higher ranks first, then lower positions."""

    rank: int
    position: int


def place_of(priority: int, *, created_ms: int, aging: timedelta | None) -> QueuePosition:
    """Return the place of a run made in this millisecond: at the end of its priority, or where its age puts it.

    Under `aging` each step of priority is worth that much time: all runs share one rank, and a run stands as if it
    had been made `priority × aging` earlier. So a run is overtaken by a newer one of a priority that is `n` higher
    only if that one was made less than `n × aging` after it, and never by one of its own priority or below.
    """
    if aging is None:
        return QueuePosition(priority, created_ms * POSITION_GAP)
    return QueuePosition(rank=0, position=(created_ms - priority * (aging // MILLISECOND)) * POSITION_GAP)


STEP = 1 << 10
"""The gap behind the last run and before the first. New runs come a whole millisecond, 2^20, further behind."""
ROOM = 16
"""The gap left between runs that were spread anew: less than that of runs made in bulk, so a window is soon found."""


@dataclass(frozen=True, slots=True)
class Spread:
    """New positions: of the runs just before the gap, in order, of those that are moved, and of those just after."""

    before: tuple[int, ...]
    moved: tuple[int, ...]
    after: tuple[int, ...]


def between(low: int | None, high: int | None, count: int, *, least: int = 1, origin: int = 0) -> list[int] | None:
    """Return `count` rising positions strictly between `low` and `high`; None where they would lie closer than `least`.

    A bound that is None is open; where both are, positions begin at `origin`.

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
    """Place `moved` runs into a gap, spreading up to `window` runs on each side of it anew; None: there is no room.

    `before` and `after` are the positions around the gap, nearest first; where one holds no more than `window`, the
    queue ends there and everything beyond is free.
    """
    low = before[window] if len(before) > window else None
    high = after[window] if len(after) > window else None
    left, right = min(len(before), window), min(len(after), window)
    found = between(low, high, left + moved + right, least=ROOM if window else 1, origin=origin)
    if found is None:
        return None
    return Spread(tuple(found[:left]), tuple(found[left : left + moved]), tuple(found[left + moved :]))


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


@dataclass(frozen=True, slots=True)
class PoolFilter:
    """Which runs are taken: `only` those that draw on one of these pools (None: all), none that draws on `but`."""

    only: tuple[str, ...] | None = None
    but: tuple[str, ...] = ()

    @property
    def everything(self) -> bool:
        """Whether nothing is left to others."""
        return self.only is None and not self.but

    def fits(self, draws: Sequence[Draw]) -> bool:
        """Tell whether a run that draws so is taken.

        >>> PoolFilter(only=("gpu",)).fits([Draw("gpu"), Draw("agents")]), PoolFilter(only=("gpu",)).fits([])
        (True, False)
        >>> PoolFilter(but=("gpu",)).fits([Draw("gpu")]), PoolFilter(but=("gpu",)).fits([])
        (False, True)
        """
        pools = {draw.pool for draw in draws}
        return (self.only is None or not pools.isdisjoint(self.only)) and pools.isdisjoint(self.but)


EVERYTHING = PoolFilter()


def takes_json(takes: PoolFilter) -> dict[str, Any]:
    """Return what a worker takes as a document.

    >>> takes_json(PoolFilter(only=("gpu",)))
    {'only_pools': ['gpu'], 'except_pools': []}
    """
    only = None if takes.only is None else list(takes.only)
    return {"only_pools": only, "except_pools": list(takes.but)}


def read_takes(document: Mapping[str, Any] | None) -> PoolFilter:
    """Return what a worker takes from its document; without one everything."""
    if document is None:
        return EVERYTHING
    only = document["only_pools"]
    return PoolFilter(None if only is None else tuple(only), tuple(document["except_pools"]))


def say_takes(takes: PoolFilter) -> str:
    """Return which runs a worker takes.

    >>> say_takes(EVERYTHING), say_takes(PoolFilter(only=("gpu", "big"), but=("web",)))
    ('all', 'only gpu, big; not web')
    """
    told = [f"only {', '.join(takes.only)}"] if takes.only is not None else []
    told += [f"not {', '.join(takes.but)}"] if takes.but else []
    return "; ".join(told) or "all"


def default_name(host: str) -> str:
    """Return the name of a worker nobody named: that of its machine, of letters that a name may have.

    >>> default_name("build-7.example.org"), default_name("böse maschine"), default_name("")
    ('build-7.example.org', 'b-se-maschine', 'worker')
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", host).strip("-._")[:100]
    return name or "worker"
