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
VERSION = Statement(b"SELECT CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint)")
"""A number that grows with every transaction that has written something."""
LOOK_EVERY = 5.0


class Listener:
    """Calls `heard` on the event loop whenever another process may have changed something.

    An announcement costs one wake-up, and silence none but the look every few seconds: psycopg's own generator wakes
    up ten times a second.
    """

    def __init__(self, reach: Reach, *, heard: Callable[[], None]) -> None:
        self._reach = reach
        self._heard = heard
        self._version: int | None = None
        self.wakeups = 0
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
                    self._reach.forget_idle()
                finally:
                    link.close()

    async def _hear(self, link: Link) -> None:
        link.run(LISTEN, {})
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(link.socket, self._read, link, ended)
        try:
            self._heard()  # of what was announced while nobody listened
            while not ended.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), LOOK_EVERY)
                self._look(link)
        finally:
            loop.remove_reader(link.socket)

    def _read(self, link: Link, ended: asyncio.Event) -> None:
        self.wakeups += 1
        try:
            if link.announced():
                self._heard()
        except Lost:
            ended.set()

    def _look(self, link: Link) -> None:
        version = int(rows_of(link.run(VERSION, {}))[0][0])
        announced = link.announced()  # an announcement may have come along with the answer
        if announced or version != self._version:
            self._heard()
        self._version = version
