"""Patience at a start: its steps are done again while the database is away, or while others hold what they need."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import TypeVar

from rota.engine.execute import pause_for
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import DatabaseBusy, DatabaseGone
from rota.store.driver import PLAIN, Database, Manner, OpenStore, Operation, Store
from rota.store.locking import wait_briefly

T = TypeVar("T")

PASSING = (DatabaseBusy, DatabaseGone)
"""What ends by itself: nobody need look."""
FIRST_PAUSE, LONGEST_PAUSE = timedelta(milliseconds=100), timedelta(seconds=2)
AT_FIRST = timedelta(minutes=2)
"""How long a process tries that has not served yet: its service manager, or a person, waits for it."""
LOOK_EVERY = timedelta(seconds=1)


class Brief:
    """A store for the steps of a start: they wait a second at most for rows that others hold, and are done again.

    So whoever is told to stop meanwhile hears it in time.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self, operation: Operation[T]) -> T:
        """Run `operation` on one consistent snapshot; nobody waits for that."""
        return self._store.read(operation)

    def write(self, operation: Operation[T]) -> T:
        """Run `operation` in a transaction."""
        return self._store.write(partial(_briefly, operation))

    def submit(self, operation: Operation[T], manner: Manner = PLAIN) -> "asyncio.Future[T]":
        """Hand `operation` to the writer thread."""
        return self._store.submit(partial(_briefly, operation), manner)

    def close(self) -> None:
        """Let go of the database."""
        self._store.close()


def _briefly(operation: Operation[T], db: Database) -> T:
    wait_briefly(db)
    return operation(db)


class Patience:
    """Does the steps of one start; each may be done twice.

    `over`: nobody wants the start any more. `within`: for how long it tries again, None: without end.
    """

    def __init__(
        self, store: OpenStore, clock: Clock, *, over: Callable[[], bool], within: timedelta | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._over = over
        self._until = None if within is None else clock.monotonic() + within.total_seconds()
        self._told: str | None = None

    async def do(self, step: Callable[[], Awaitable[T]]) -> T:
        """Do a step, again after a growing pause where the database was away or others held its rows."""
        pause = FIRST_PAUSE
        while True:
            try:
                done = await self._attempt(step)
            except PASSING as error:
                if self._over() or self._too_late():
                    raise
                self._tell(error)
            else:
                self._tell_through()
                return done
            await self._rest(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _attempt(self, step: Callable[[], Awaitable[T]]) -> T:
        """Do a step; one that waits for a database that is away is given up where nobody wants it any more."""
        task = asyncio.ensure_future(step())
        try:
            while not task.done():
                await asyncio.wait([task], timeout=LOOK_EVERY.total_seconds())
                if self._over() and self._store.problem is not None and not task.done():
                    raise DatabaseGone(self._store.problem, hint="nothing waits for it any more")
            return task.result()
        finally:
            task.cancel()

    async def _rest(self, pause: timedelta) -> None:
        deadline = self._clock.monotonic() + pause.total_seconds()
        while not self._over() and self._clock.monotonic() < deadline:
            await pause_for(FIRST_PAUSE)

    def _too_late(self) -> bool:
        return self._until is not None and self._clock.monotonic() >= self._until

    def _tell(self, error: Exception) -> None:
        if self._told is None:
            log.warning("the start waits for the database, trying again", error=str(error))
        self._told = str(error)

    def _tell_through(self) -> None:
        if self._told is not None:
            log.info("the start goes on")
        self._told = None
