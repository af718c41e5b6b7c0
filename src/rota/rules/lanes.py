"""Who goes next: a walk over the heads of the lanes in order, with the room that the pools have left (R-03)."""

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

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
    line = _Line(heads)
    going: list[Head] = []
    while len(going) < free and (head := line.next()) is not None:
        if room.lacks(head.draws) is not None:
            room.hold(head.draws)
            continue
        room.take(head.draws)
        going.append(head)
        line.add(following(head))
    return going


class _Line:
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
