"""The loop that writes digests at their times of day."""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from rota.engine.loops.loop import Loop
from rota.engine.transactions.digests import BuildDigest, plan, write_due
from rota.log import log
from rota.model.clock import Clock
from rota.store.driver import Store


class DigestWriter:
    """Writes the due digests; sleeps until the next one, or until the targets change."""

    def __init__(self, store: Store, clock: Clock, build: BuildDigest | None, *, written: Callable[[], None]) -> None:
        self._store = store
        self._clock = clock
        self._build = build
        self._written = written
        self.loop = Loop("digests", self.round, clock=clock)

    async def round(self) -> datetime | None:
        """Write what is due; return the time of the next digest."""
        now = self._clock.now()
        digest_plan = self._store.read(partial(plan, now=now))
        if self._build is not None and (digest_plan.due or digest_plan.new):
            written = await self._store.submit(partial(write_due, build=self._build, now=now))
            if written:
                log.info("digests written", count=written)
                self._written()
        return digest_plan.next_at
