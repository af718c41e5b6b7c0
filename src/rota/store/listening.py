"""Hearing of what others announce through PostgreSQL, on a link of its own; looked for now and then all the same."""

import asyncio
import contextlib
from collections.abc import Callable

from rota.model.errors import DatabaseGone
from rota.store.link import Link, Lost, Statement, rows_of
from rota.store.reach import Reach

CHANNEL = b"rota"
LISTEN = Statement(b"LISTEN " + CHANNEL)
ANNOUNCE = Statement(b"SELECT pg_notify('" + CHANNEL + b"', '')")
CHANGED = Statement(
    b"SELECT coalesce(max(seq), 0) FROM change"
    b" WHERE seq < CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint) << 20"
)
"""A number that grows when a job or a run was changed: not with the leases that are all that idle machines write."""
LOOK_EVERY = 5.0


class Listener:
    """Calls `heard` on the event loop whenever another process may have changed something.

    An announcement costs one wake-up, and silence none but the look every few seconds: psycopg's own generator wakes
    up ten times a second.
    """

    def __init__(self, reach: Reach, *, heard: Callable[[], None], every: float = LOOK_EVERY) -> None:
        self._reach = reach
        self._heard = heard
        self._every = every
        self._version: int | None = None
        self.wakeups = 0
        self.looks = 0
        self._task = asyncio.get_running_loop().create_task(self._listen(), name="rota-listen")

    async def close(self) -> None:
        """Listen no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _listen(self) -> None:
        with contextlib.suppress(DatabaseGone):  # given up: the store is being closed
            while True:
                link = await asyncio.to_thread(self._reach.wait)
                try:
                    await self._hear(link)
                except Lost:
                    pass  # it ended before anything was heard
                finally:
                    link.close()
                self._reach.forget_idle()

    async def _hear(self, link: Link) -> None:
        link.run(LISTEN, {})
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(link.socket, self._read, link, ended)
        self._next = loop.call_later(self._every, self._look_again, link, ended)
        try:
            self._heard()  # of what was announced while nobody listened
            await ended.wait()
        finally:
            self._next.cancel()
            loop.remove_reader(link.socket)

    def _look_again(self, link: Link, ended: asyncio.Event) -> None:
        """Look, and plan the next look; a timer wakes the loop once, a task that waits for an event three times."""
        try:
            self._look(link)
        except Lost:
            ended.set()
        finally:
            if not ended.is_set():
                self._next = asyncio.get_running_loop().call_later(self._every, self._look_again, link, ended)

    def _read(self, link: Link, ended: asyncio.Event) -> None:
        self.wakeups += 1
        try:
            if link.announced():
                self._heard()
        except Lost:
            ended.set()

    def _look(self, link: Link) -> None:
        self.looks += 1
        version = int(rows_of(link.run(CHANGED, {}))[0][0])
        announced = link.announced()  # an announcement may have come along with the answer
        if announced or version != self._version:
            self._heard()
        self._version = version
