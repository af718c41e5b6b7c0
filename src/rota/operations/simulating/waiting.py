"""The queue in memory: the claimable runs by lane, and what slots and pools have left (R-03, R-04)."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rota.model.spec import Draw
from rota.operations.simulating.played import PlayedRun
from rota.rules.lanes import NO_POOLS, Head, Order, Room, walk

Draws = tuple[Draw, ...]


@dataclass(slots=True)
class Level:
    """How much of a capacity is in use, the most that ever was, and for how long nothing more had room."""

    capacity: int
    used: int = 0
    peak: int = 0
    full_for: timedelta = timedelta()
    full_since: datetime | None = None

    def take(self, amount: int, now: datetime) -> None:
        """Count an amount as used."""
        self.used += amount
        if self.used > self.peak:
            self.peak = self.used
        if self.used >= self.capacity and self.full_since is None:
            self.full_since = now

    def give_back(self, amount: int, now: datetime) -> None:
        """Count an amount as free again."""
        self.used -= amount
        if self.full_since is not None and self.used < self.capacity:
            self.full_for += now - self.full_since
            self.full_since = None

    def full_until(self, until: datetime) -> timedelta:
        """Return for how long nothing more had room, up to a moment."""
        return self.full_for if self.full_since is None else self.full_for + (until - self.full_since)


@dataclass(slots=True)
class Waiting:
    """Who may be claimed, and how much room slots and pools have."""

    slots: Level
    pools: dict[str, Level] = field(default_factory=dict)
    lanes: dict[Draws, list[tuple[Order, PlayedRun]]] = field(default_factory=dict)
    holds: Mapping[str, datetime] = field(default_factory=dict)
    """Until when the pools of providers that take no more work have no room."""

    def add(self, run: PlayedRun) -> None:
        """Let a run stand in its lane."""
        heapq.heappush(self.lanes.setdefault(run.draws, []), (run.order, run))

    def take(self, now: datetime) -> list[PlayedRun]:
        """Return the runs that go into the free slots, in order, and take slots and pools for them."""
        free = self.slots.capacity - self.slots.used
        if free <= 0 or not self.lanes:
            return []
        plain = len(self.lanes) == 1 and () in self.lanes
        chosen = self._first(free) if plain else self._walk(free, now)
        for run in chosen:
            self.occupy(run, now)
        return chosen

    def _first(self, free: int) -> list[PlayedRun]:
        """Return the first runs where nobody draws on any pool."""
        lane = self.lanes.pop(())
        chosen: list[PlayedRun] = []
        while lane and len(chosen) < free:
            _, run = heapq.heappop(lane)
            if run.claimable:
                chosen.append(run)
        if lane:
            self.lanes[()] = lane
        return chosen

    def _walk(self, free: int, now: datetime) -> list[PlayedRun]:
        """Return the first runs that have room in their pools (R-03)."""
        found = [head for draws in list(self.lanes) if (head := self._head(draws)) is not None]
        heads = sorted(found, key=lambda head: head.order)
        going: dict[str, PlayedRun] = {}

        def following(head: Head) -> Head | None:
            _, run = heapq.heappop(self.lanes[head.draws])
            going[run.id] = run
            return self._head(head.draws)

        return [going[head.run_id] for head in walk(heads, self._room(now), free=free, following=following)]

    def occupy(self, run: PlayedRun, now: datetime) -> None:
        """Count the slot and the pools of a run that has them."""
        self.slots.take(1, now)
        for draw in run.draws:
            self._pool(draw.pool).take(draw.cost, now)

    def give_back(self, run: PlayedRun, now: datetime) -> None:
        """Count the slot and the pools of a run as free again."""
        self.slots.give_back(1, now)
        for draw in run.draws:
            self._pool(draw.pool).give_back(draw.cost, now)

    def _pool(self, name: str) -> Level:
        """Return a pool; one that is no longer there has no room, but older runs draw on it."""
        return self.pools.setdefault(name, Level(0))

    def _head(self, draws: Draws) -> Head | None:
        """Return the first of a lane that still may be claimed; a lane that is empty is forgotten."""
        lane = self.lanes[draws]
        while lane and not lane[0][1].claimable:
            heapq.heappop(lane)
        if not lane:
            del self.lanes[draws]
            return None
        return Head(lane[0][0], NO_POOLS, draws)

    def _room(self, now: datetime) -> Room:
        capacity = {name: level.capacity for name, level in self.pools.items()}
        left = {name: level.capacity - level.used for name, level in self.pools.items()}
        closed = frozenset(name for name, until in self.holds.items() if until > now)
        return Room(capacity, {**left, **dict.fromkeys(closed, 0)}, closed=closed)
