"""Telling other machines on the same database that there is work which this one has no slot for."""

import asyncio

from rota.engine.claim import Holder
from rota.engine.slots import Slots
from rota.model.clock import Clock
from rota.store.driver import Database, Store

LEAST_PAUSE = 1.0
"""How many seconds lie between two announcements: who was woken goes on claiming by itself while there is more."""


class Neighbours:
    """Announces work to the others, at most once a second: every announcement makes commits stand in line."""

    def __init__(self, store: Store, clock: Clock, *, holder: Holder, slots: Slots) -> None:
        self._store = store
        self._clock = clock
        self._shared = holder.leased
        self._slots = slots
        self._told_at: float | None = None

    def tell(self) -> None:
        """Let others look, if there are any and this machine is full. Call from the event loop."""
        now = self._clock.monotonic()
        if not self._shared or self._slots.free() or (self._told_at is not None and now < self._told_at + LEAST_PAUSE):
            return
        self._told_at = now
        self._store.submit(announce).add_done_callback(_forget)


def announce(db: Database) -> None:
    """Let schedulers on other machines look again."""
    db.announces = True


def _forget(future: "asyncio.Future[None]") -> None:
    """Ask for the error, so that nobody warns of it: others look by themselves every few seconds."""
    if not future.cancelled():
        future.exception()
