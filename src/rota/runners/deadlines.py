"""Many deadlines, one timer."""

import asyncio
import heapq
from collections.abc import Callable, Container

_HEAP_ROOM = 1024


class Deadlines:
    """One timer for all calls: thousands of timeouts cost one entry of the loop.

    They are known by name alone, so that a call that has ended is gone at once, and not with its deadline.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, expired: Callable[[str], None], *, under_way: Container[str]
    ) -> None:
        self._loop = loop
        self._expired = expired
        self._under_way = under_way
        self._heap: list[tuple[float, str]] = []
        self._room = _HEAP_ROOM
        self._timer: asyncio.TimerHandle | None = None

    def add(self, seconds: float, token: str) -> None:
        """Tell `expired` about a call in so many seconds."""
        heapq.heappush(self._heap, (self._loop.time() + seconds, token))
        if len(self._heap) > self._room:
            self._forget_ended()
        if self._timer is None or self._heap[0][0] < self._timer.when():
            self._set()

    def close(self) -> None:
        """Forget all of them."""
        self._heap.clear()
        self._set()

    def _forget_ended(self) -> None:
        self._heap = [entry for entry in self._heap if entry[1] in self._under_way]
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
            self._expired(heapq.heappop(self._heap)[1])
        self._set()
