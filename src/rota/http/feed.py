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
"""How soon what happens after a silence is told."""
PUSHES_APART = timedelta(milliseconds=500)
"""How far apart a client is told something: what comes between is told together."""
BEHIND = 200
"""How many pushes a client may be behind before it is disconnected."""
BEHIND_BYTES = 1_000_000
STREAMS = 500
KEEP_ALIVE = 15.0
RETRY = 3000
END = b""


class Subscriber:
    """One client: what it has not read yet, with a bound; who is too slow is cut off and may come again."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self.bytes = 0
        self.cut = False
        self.ended = False
        self.task: asyncio.Task[None] | None = asyncio.current_task()

    def push(self, data: bytes) -> None:
        """Give the client something more to read, or cut it off."""
        if self.waiting.qsize() >= BEHIND or self.bytes + len(data) > BEHIND_BYTES:
            self.cut = True
            if self.task is not None:
                self.task.cancel()  # it may hang in a socket that nobody reads
            return
        self.bytes += len(data)
        self.waiting.put_nowait(data)

    async def next(self) -> bytes:
        """Return what to send next: an event, or a sign of life."""
        try:
            async with asyncio.timeout(KEEP_ALIVE):
                data = await self.waiting.get()
        except TimeoutError:
            return b": still here\n\n"
        self.bytes -= len(data)
        return data

    def rest(self) -> bytes:
        """Return what has come since, as one part."""
        found = []
        while not self.waiting.empty() and not self.ended:
            found.append(self.waiting.get_nowait())
        data = b"".join(found)
        self.bytes -= len(data)
        return data

    def end(self) -> None:
        """Let the client's stream end after what it has not read yet."""
        self.ended = True
        self.waiting.put_nowait(END)


class Feed:
    """Reads changes while somebody follows, a few times a second, and tells everybody the same bytes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._subscribers: set[Subscriber] = set()
        self._reading: asyncio.Task[None] | None = None
        self._seq = 0
        self._entering = asyncio.Lock()

    def check_room(self) -> None:
        """Refuse a client more than there is room for, before anything is answered."""
        if len(self._subscribers) >= STREAMS:
            raise Busy("live streams")

    def close(self) -> None:
        """End all streams; call on the loop of the server."""
        if self._reading is not None:
            self._reading.cancel()
        for subscriber in self._subscribers:
            subscriber.end()

    async def stream(self, last: int | None) -> AsyncGenerator[bytes]:
        """Yield events from `last` on, or from now on; what lies too far back begins with a `reset`."""
        async with self._entered() as (subscriber, seq):
            # The number of the beginning: a client that is cut off before its first event goes on from here.
            yield f"retry: {RETRY}\nid: {seq if last is None else last}\n\n".encode()
            if last is not None:
                yield written(await run_sync(self._missed, last, seq))
            sent_at = -1.0
            while data := await subscriber.next():
                # Who was slow a moment ago gets what came meanwhile as one part, and never three within a second.
                early = sent_at + PUSHES_APART.total_seconds() - asyncio.get_running_loop().time()
                if sent_at >= 0 and early > 0:
                    await wait_a_little(timedelta(seconds=early))
                    data += subscriber.rest()
                yield data
                sent_at = asyncio.get_running_loop().time()

    def _missed(self, last: int, until: int) -> Followed:
        """Return what a client missed; what comes after `until` is told to it live."""
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
        """Look for changes as long as somebody follows."""
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
    """Return events in the form of a stream (text/event-stream)."""
    if found.reset:
        about = {"seq": found.seq, "why": "changes before this are not told one by one: read what you need again"}
        return _event(FeedEvent(found.seq, "reset", about))
    following = [event.seq for event in found.events[1:]]
    return b"".join(_event(event, numbered=event.seq != after) for event, after in zip_longest(found.events, following))


def _event(event: FeedEvent, *, numbered: bool = True) -> bytes:
    """Return one event. Of several with one number only the last has it: who is cut off before hears all again."""
    data = json.dumps(event.data, ensure_ascii=False, separators=(",", ":"))
    number = f"id: {event.seq}\n" if numbered else ""
    return f"{number}event: {event.name}\ndata: {data}\n\n".encode("utf-8", "replace")
