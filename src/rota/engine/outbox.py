"""Telling work sources how it ended: a loop of its own, whose failures never touch a run (003)."""

import asyncio
from datetime import datetime, timedelta
from functools import partial

from rota import faults
from rota.engine.loop import Loop
from rota.engine.ports import Sources
from rota.log import log
from rota.model.claims import Claim, ClaimState
from rota.model.clock import Clock
from rota.model.errors import RotaError, SourceError
from rota.model.records import ERROR_LIMIT, cut
from rota.model.work import Source
from rota.rules.work import pause_before
from rota.store import work
from rota.store.driver import Database, Store

AT_ONCE = 8
"""How many sources are told at the same time: a slow one does not hold up the others."""
LEASE = timedelta(seconds=30)
"""For how much longer than its timeout a source is left to whoever began to tell it."""
PARTING = timedelta(seconds=10)
"""How long a process that ends goes on telling; the next one tells the rest."""


class Outbox:
    """Reports and releases what runs left behind. Woken when a claim ends; nothing is done while there is none."""

    def __init__(self, store: Store, clock: Clock, sources: Sources) -> None:
        self._store = store
        self._clock = clock
        self._sources = sources
        self._telling: dict[str, tuple[str, asyncio.Task[None]]] = {}
        self._taking: set[asyncio.Future[list[Claim]]] = set()
        self.loop = Loop("sources", self.round, clock=clock)

    async def round(self) -> datetime | None:
        """Begin to tell what is due; return when to look again."""
        due = self._store.read(work.next_due)
        if due is not None and due <= self._clock.now() and len(self._telling) < AT_ONCE:
            await self._take(limit=AT_ONCE - len(self._telling))
            due = self._store.read(work.next_due)
        return None if len(self._telling) >= AT_ONCE else due

    async def _take(self, *, limit: int) -> None:
        """Take on what is due. Whoever is cancelled meanwhile leaves nothing behind that was taken and is not told."""
        taking = self._store.submit(partial(_take_due, now=self._clock.now(), limit=limit))
        self._taking.add(taking)
        taking.add_done_callback(self._taken)
        await asyncio.shield(taking)

    def _taken(self, taking: "asyncio.Future[list[Claim]]") -> None:
        self._taking.discard(taking)
        if not taking.cancelled() and taking.exception() is None:
            for claim in taking.result():
                self._begin(claim)

    async def settle(self, key: str) -> None:
        """Tell a source all that is due before it is asked again: what came back may be what it gives next."""
        await self.round()
        theirs = [task for known, task in self._telling.values() if known == key]
        if theirs:
            await asyncio.wait(theirs)

    async def finish(self, within: timedelta = PARTING) -> None:
        """Tell what is due before the process ends; what takes longer is left to the next one."""
        try:
            if self._taking:
                await asyncio.wait(self._taking, timeout=within.total_seconds())
            await self.round()
        except RotaError as error:
            log.warning("work sources are told later", error=str(error))
        tasks = [task for _, task in self._telling.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=within.total_seconds())
        for task in tasks:
            task.cancel()

    def late(self, claim: str) -> None:
        """Take note that a source has answered whom nobody waited for any more."""
        planned = self._store.submit(partial(work.answered_late, claim=claim, now=self._clock.now()))
        planned.add_done_callback(self._heard)

    def _heard(self, planned: "asyncio.Future[None]") -> None:
        if not planned.cancelled() and planned.exception() is None:
            self.loop.wake()

    def _begin(self, claim: Claim) -> None:
        task = asyncio.get_running_loop().create_task(self._tell(claim), name=f"rota-source-{claim.claim}")
        self._telling[claim.claim] = (claim.source.key, task)
        task.add_done_callback(lambda _task: self._ended(claim.claim))

    def _ended(self, claim: str) -> None:
        self._telling.pop(claim, None)
        self.loop.wake()

    async def _tell(self, claim: Claim) -> None:
        try:
            try:
                source = self._sources.find(claim.source)
                await self._sources.ask(partial(_deliver, source, claim), within=claim.source.timeout.total_seconds())
            except RotaError as error:
                await self._refused(claim, error)
                return
            faults.point("items.told")
            await self._store.submit(partial(work.told, claim=claim.claim, now=self._clock.now()))
        except RotaError as error:  # the storage: told again when the lease is over, which changes nothing outside
            log.warning("what a work source was told could not be stored", run=claim.handle, error=str(error))
        except Exception:
            log.exception("a work source could not be told", run=claim.handle, source=claim.source.title)

    async def _refused(self, claim: Claim, error: RotaError) -> None:
        now = self._clock.now()
        tries = claim.attempts + 1
        pause = pause_before(tries, wish=error.again_after if isinstance(error, SourceError) else None)
        what = "report" if claim.state is ClaimState.REPORTING else "release"
        if tries == 1 or pause is None:
            said = "a work source could not be told" if pause else "a work source could not be told; this is given up"
            log.warning(said, run=claim.handle, source=claim.source.title, what=what, error=str(error))
        text = cut(str(error), ERROR_LIMIT) or ""
        again = None if pause is None else now + pause
        await self._store.submit(partial(work.refused, claim=claim.claim, error=text, not_before=again, now=now))


def _take_due(db: Database, *, now: datetime, limit: int) -> list[Claim]:
    """Take on what is due, so that no other process tells it too."""
    found = work.due(db, now=now, limit=limit)
    return [one for one in found if work.take(db, one.claim, now=now, until=now + one.source.timeout + LEASE)]


def _deliver(source: Source, claim: Claim) -> None:
    if claim.item is None:
        source.release_claim(claim.request)
    elif claim.state is ClaimState.REPORTING and claim.report is not None:
        source.report(claim.item, claim.report)
    else:
        source.release(claim.item)
