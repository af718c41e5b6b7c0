"""Many deadlines, one timer."""

import asyncio
import heapq
from collections.abc import Callable

from rota.runners.calling import Call

_HEAP_ROOM = 1024


class Deadlines:
    """One timer for all calls: thousands of timeouts cost one entry of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[Call], None]) -> None:
        self._loop = loop
        self._expired = expired
        self._heap: list[tuple[float, int, Call]] = []
        self._count = 0
        self._room = _HEAP_ROOM
        self._timer: asyncio.TimerHandle | None = None

    def add(self, seconds: float, call: Call) -> None:
        """Tell `expired` about a call in so many seconds."""
        self._count += 1
        heapq.heappush(self._heap, (self._loop.time() + seconds, self._count, call))
        if len(self._heap) > self._room:
            self._forget_ended()
        if self._timer is None or self._heap[0][0] < self._timer.when():
            self._set()

    def close(self) -> None:
        """Forget all of them."""
        self._heap.clear()
        self._set()

    def _forget_ended(self) -> None:
        self._heap = [entry for entry in self._heap if not entry[2].ended]
        heapq.heapify(self._heap)
        self._room = max(_HEAP_ROOM, 2 * len(self._heap))

    def _set(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._heap[0][0], self._fire) if self._heap else None

    def _fire(self) -> None:
        now = self._loop.time()
        self._timer = None
        while self._heap and self._heap[0][0] <= now:
            self._expired(heapq.heappop(self._heap)[2])
        self._set()
