"""The loops that write for people: what needs attention, and digests at their times of day."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from rota.engine.loops.loop import Loop
from rota.engine.transactions.attention import FindItems, is_watched, look, note
from rota.engine.transactions.digests import BuildDigest, plan, write_due
from rota.log import log
from rota.model.clock import Clock
from rota.rules.attention import TOGETHER
from rota.store.driver import Store

LEAST_PAUSE = timedelta(seconds=5)
"""Between two looks: a look reads every job that may need attention."""


class AttentionWatch:
    """Looks at the items when the scheduler was woken and with every tick; without a target for items it does nothing.

    A process that does not stay reports at once, since the next one may come late.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        find: FindItems | None,
        *,
        stays: bool,
        tick: timedelta,
        written: Callable[[], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._find = find
        self._together = TOGETHER if stays else timedelta()
        self.pause = LEAST_PAUSE if stays else timedelta()
        """The least time between two looks."""
        self._tick = max(tick, LEAST_PAUSE)
        self._written = written
        self._looked_at: datetime | None = None
        self._next_at: datetime | None = None
        self._planned = False
        """Whether the end of a run changes nothing for the next look: it is planned already, or there is none."""
        self.loop = Loop("attention", self.round, clock=clock)

    def run_ended(self) -> None:
        """Look soon. Runs may end by the thousand a second: only the first one after a look wakes the loop."""
        if not self._planned:
            self.loop.wake()

    async def round(self) -> datetime | None:
        """Note what changed; return when to look again."""
        now = self._clock.now()
        self._planned = True
        if self._find is None or not self._store.read(is_watched):
            return now + self._tick
        if self._looked_at is not None and timedelta() <= now - self._looked_at < self.pause:
            return self._looked_at + self.pause
        self._planned = False
        self._looked_at = now
        changes = self._store.read(partial(look, find=self._find, together=self._together, now=now))
        if changes.any:
            changes = await self._store.submit(partial(note, find=self._find, together=self._together, now=now))
            if changes.new or changes.over:
                log.info("attention items reported", new=len(changes.new), resolved=len(changes.over))
                self._written()
        self._next_at = changes.next_at
        return now + self._tick if changes.next_at is None else min(changes.next_at, now + self._tick)

    @property
    def next_at(self) -> datetime | None:
        """When the next message may be due."""
        return self._next_at


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
