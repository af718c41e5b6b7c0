"""The live stream: one reader for all clients, one serialisation of each event, a bound for each client."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import zip_longest

from anyio.to_thread import run_sync

from rota.http.errors import Busy
from rota.log import log
from rota.model.errors import RotaError
from rota.operations.direct_actions import wait_a_little
from rota.operations.status.feed import FeedEvent, Followed, follow_from, newest
from rota.store.driver import Store

LOOKS_APART = timedelta(milliseconds=150)
"""The delay of the first event after a pause."""
PUSHES_APART = timedelta(milliseconds=500)
"""The least time between two pushes to a client; events between are sent together."""
BEHIND = 200
"""A client with more unread pushes is disconnected."""
BEHIND_BYTES = 1_000_000
STREAMS = 500
KEEP_ALIVE = 15.0
RETRY = 3000
END = b""


class Subscriber:
    """One client with its bounded unread events; a slow client is disconnected and may reconnect."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self.bytes = 0
        self.cut = False
        self.ended = False
        self.task: asyncio.Task[None] | None = asyncio.current_task()

    def push(self, data: bytes) -> None:
        """Queue data for the client, or disconnect it."""
        if self.waiting.qsize() >= BEHIND or self.bytes + len(data) > BEHIND_BYTES:
            self.cut = True
            if self.task is not None:
                self.task.cancel()  # it may hang in a socket write
            return
        self.bytes += len(data)
        self.waiting.put_nowait(data)

    async def next(self) -> bytes:
        """Return the next data: events, or a keep-alive."""
        try:
            async with asyncio.timeout(KEEP_ALIVE):
                data = await self.waiting.get()
        except TimeoutError:
            return b": still here\n\n"
        self.bytes -= len(data)
        return data

    def rest(self) -> bytes:
        """Return all queued data."""
        found = []
        while not self.waiting.empty() and not self.ended:
            found.append(self.waiting.get_nowait())
        data = b"".join(found)
        self.bytes -= len(data)
        return data

    def end(self) -> None:
        """End the client's stream after its unread events."""
        self.ended = True
        self.waiting.put_nowait(END)


class Feed:
    """Reads changes while there are subscribers, and sends the same bytes to all of them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._subscribers: set[Subscriber] = set()
        self._reading: asyncio.Task[None] | None = None
        self._seq = 0
        self._entering = asyncio.Lock()

    def check_room(self) -> None:
        """Refuse a client beyond the limit, before the answer begins."""
        if len(self._subscribers) >= STREAMS:
            raise Busy("live streams")

    def close(self) -> None:
        """End all streams; call on the loop of the server."""
        if self._reading is not None:
            self._reading.cancel()
        for subscriber in self._subscribers:
            subscriber.end()

    async def stream(self, last: int | None) -> AsyncGenerator[bytes]:
        """Yield events after `last`, or from now on; a `last` too far back begins with a `reset`."""
        async with self._entered() as (subscriber, seq):
            # The first number: a client that is disconnected before its first event continues from here.
            yield f"retry: {RETRY}\nid: {seq if last is None else last}\n\n".encode()
            if last is not None:
                yield written(await run_sync(self._missed, last, seq))
            sent_at = -1.0
            while data := await subscriber.next():
                # Send the events of a short time together: at most two pushes a second.
                early = sent_at + PUSHES_APART.total_seconds() - asyncio.get_running_loop().time()
                if sent_at >= 0 and early > 0:
                    await wait_a_little(timedelta(seconds=early))
                    data += subscriber.rest()
                yield data
                sent_at = asyncio.get_running_loop().time()

    def _missed(self, last: int, until: int) -> Followed:
        """Return the events that a client missed, up to `until`; later ones come live."""
        found = follow_from(self._store, last)
        if found.reset:
            return found
        return Followed(until, tuple(event for event in found.events if event.seq <= until))

    @asynccontextmanager
    async def _entered(self) -> AsyncIterator[tuple[Subscriber, int]]:
        subscriber = Subscriber()
        async with self._entering:
            if self._reading is None or self._reading.done():
                self._seq = await run_sync(newest, self._store)
                self._reading = asyncio.create_task(self._read(), name="rota-feed")
            self._subscribers.add(subscriber)
        try:
            yield subscriber, self._seq
        finally:
            self._subscribers.discard(subscriber)

    async def _read(self) -> None:
        """Read changes while there are subscribers."""
        while self._subscribers or self._entering.locked():
            await wait_a_little(LOOKS_APART)
            await self._push()

    async def _push(self) -> None:
        try:
            found = await run_sync(follow_from, self._store, self._seq)
        except RotaError as error:
            log.warning("could not read changes for event subscribers", error=str(error))
            return
        if found.events or found.reset:
            self._seq = found.seq
            data = written(found)
            for subscriber in list(self._subscribers):
                subscriber.push(data)


def written(found: Followed) -> bytes:
    """Return events as text/event-stream."""
    if found.reset:
        about = {"seq": found.seq, "why": "earlier changes were omitted: read the state again"}
        return _event(FeedEvent(found.seq, "reset", about))
    following = [event.seq for event in found.events[1:]]
    return b"".join(_event(event, numbered=event.seq != after) for event, after in zip_longest(found.events, following))


def _event(event: FeedEvent, *, numbered: bool = True) -> bytes:
    """Return one event. Of several with one number only the last has it: a client that reconnects gets all again."""
    data = json.dumps(event.data, ensure_ascii=False, separators=(",", ":"))
    number = f"id: {event.seq}\n" if numbered else ""
    return f"{number}event: {event.name}\ndata: {data}\n\n".encode("utf-8", "replace")
