"""The loops that fetch work items and report their outcomes."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from rota import faults
from rota.engine.loops.loop import Loop, call_in_thread
from rota.engine.ports import Sources
from rota.engine.transactions import agents
from rota.engine.transactions.claim import Claimed
from rota.log import log
from rota.model.agents import Source, WorkAhead, WorkItem, WorkReport, WorkRequest
from rota.model.clock import Clock
from rota.model.errors import RotaError, SecretMissing, SourceError
from rota.model.records import ERROR_LIMIT, Claim, ClaimState, cut
from rota.model.spec import EnvValue, SecretOrigin, SourceKind, WorkSource
from rota.model.states import Reason
from rota.rules.admission import Skip
from rota.rules.notifications import pause_before_report
from rota.runners.environment import Secrets
from rota.settings import Settings
from rota.sources.registry import source
from rota.store.driver import Database, Store
from rota.store.tables import work_items

MAX_REPORTING = 8
"""How many sources are told at the same time: a slow one does not hold up the others."""
LEASE = timedelta(seconds=30)
"""Lease of a report, in addition to the timeout of its source."""
FINISH_TIMEOUT = timedelta(seconds=10)
"""How long a process that ends goes on telling; the next one tells the rest."""


class WorkReporter:
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
        due = self._store.read(work_items.next_due)
        if due is not None and due <= self._clock.now() and len(self._telling) < MAX_REPORTING:
            await self._take(limit=MAX_REPORTING - len(self._telling))
            due = self._store.read(work_items.next_due)
        return None if len(self._telling) >= MAX_REPORTING else due

    async def _take(self, *, limit: int) -> None:
        """Take the due reports. A cancellation meanwhile leaves no report that was taken and not sent."""
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
        """Send a source its due reports before the next claim: a released item may be the next one.

        Reports that were taken but whose commit has not been announced yet are waited for too: they are no longer due.
        """
        await self.round()
        if self._taking:
            await asyncio.wait(self._taking)
        theirs = [task for known, task in self._telling.values() if known == key]
        if theirs:
            await asyncio.wait(theirs)

    async def finish(self, within: timedelta = FINISH_TIMEOUT) -> None:
        """Send due reports before the process ends; the next process sends the rest."""
        try:
            if self._taking:
                await asyncio.wait(self._taking, timeout=within.total_seconds())
            await self.round()
        except RotaError as error:
            log.warning("work source reports deferred to the next start", error=str(error))
        tasks = [task for _, task in self._telling.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=within.total_seconds())
        for task in tasks:
            task.cancel()

    def late(self, claim: str) -> None:
        """Plan the release of an item that a source gave after its run stopped waiting."""
        planned = self._store.submit(partial(work_items.answered_late, claim=claim, now=self._clock.now()))
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
            await self._store.submit(partial(work_items.told, claim=claim.claim, now=self._clock.now()))
        except RotaError as error:  # the storage: told again when the lease is over, which changes nothing outside
            log.warning("could not store a work source report", run=claim.handle, error=str(error))
        except Exception:
            log.exception("work source report failed", run=claim.handle, source=claim.source.title)

    async def _refused(self, claim: Claim, error: RotaError) -> None:
        now = self._clock.now()
        tries = claim.attempts + 1
        pause = pause_before_report(tries, wish=error.again_after if isinstance(error, SourceError) else None)
        what = "report" if claim.state is ClaimState.REPORTING else "release"
        if tries == 1 or pause is None:
            said = "work source report failed" if pause else "work source report failed permanently"
            log.warning(said, run=claim.handle, source=claim.source.title, what=what, error=str(error))
        text = cut(str(error), ERROR_LIMIT) or ""
        again = None if pause is None else now + pause
        await self._store.submit(partial(work_items.refused, claim=claim.claim, error=text, not_before=again, now=now))


def _take_due(db: Database, *, now: datetime, limit: int) -> list[Claim]:
    claims = work_items.due(db, now=now, limit=limit)
    return [
        claim for claim in claims if work_items.take(db, claim.claim, now=now, until=now + claim.source.timeout + LEASE)
    ]


def _deliver(source: Source, claim: Claim) -> None:
    if claim.item is None:
        source.release_claim(claim.request)
    elif claim.state is ClaimState.REPORTING and claim.report is not None:
        source.report(claim.item, claim.report)
    else:
        source.release(claim.item)


class Items:
    """Claims an item for each run whose job has a work source; a run without one never comes here."""

    def __init__(self, store: Store, clock: Clock, *, sources: Sources, outbox: WorkReporter) -> None:
        self._store = store
        self._clock = clock
        self._sources = sources
        self._outbox = outbox
        self._asked: set[str] = set()

    async def give(self, claimed: Claimed) -> Claimed | Skip:
        """Return the run with its item, or that there is none, or that its source did not answer."""
        agent = claimed.spec.work.agent
        if agent is None or agent.source is None:
            return claimed
        try:
            source = self._sources.find(agent.source)
            await self._outbox.settle(agent.source.key)
            item = await self._claim(claimed, agent.source, source)
        except SourceError as error:
            return Skip(Reason.SOURCE_ERROR, f"{agent.source.title}: {error}")
        if item is None:
            return Skip(Reason.NO_WORK, f"{agent.source.title} has no items")
        return claimed._replace(brief=replace(claimed.brief, item=item))

    def left(self, run_id: str) -> None:
        """Wake the reports of a run that ended or was requeued."""
        if run_id in self._asked:
            self._asked.discard(run_id)
            self._outbox.loop.wake()

    async def _claim(self, claimed: Claimed, wanted: WorkSource, source: Source) -> WorkItem | None:
        run = claimed.run
        self._asked.add(run.id)
        ask = partial(agents.ask, run=run, source=wanted, now=self._clock.now())
        request: WorkRequest = await self._store.submit(ask)
        faults.point("items.asked")
        try:
            item = await self._sources.ask(
                partial(source.next_item, request),
                within=wanted.timeout.total_seconds(),
                late=partial(self._outbox.late, request.claim),
            )
        except (SourceError, SecretMissing):
            await self._store.submit(partial(agents.give_back, claim=request.claim, now=self._clock.now()))
            raise
        faults.point("items.given")
        if item is None:
            await self._store.submit(partial(work_items.forget, claim=request.claim))
            return None
        hold = partial(agents.hold, request=request, source=wanted, item=item, now=self._clock.now())
        holder = await self._store.submit(hold)
        faults.point("items.held")
        if holder is not None:
            raise SourceError(
                f"it returned {item.id!r}, which {holder} holds", hint="a source must give an item to one run only"
            )
        return item


class _LateSource:
    """A source that is made at its first call, in the thread of that call: its secrets may take long to read."""

    def __init__(self, make: Callable[[], Source]) -> None:
        self._make = make

    def next_item(self, request: WorkRequest, /) -> WorkItem | None:
        return self._make().next_item(request)

    def report(self, item: WorkItem, outcome: WorkReport, /) -> None:
        self._make().report(item, outcome)

    def release(self, item: WorkItem, /) -> None:
        self._make().release(item)

    def release_claim(self, request: WorkRequest, /) -> None:
        self._make().release_claim(request)

    def peek(self, request: WorkRequest, /) -> WorkAhead:
        return self._make().peek(request)


T = TypeVar("T")
Classes = Callable[[], Mapping[str, Callable[..., Any]]]


class ThreadedSources:
    """Makes sources and calls them. A thread cannot be ended: one that takes too long is left, and heard when it ends.

    `classes` are those of the loaded file; an object of one is kept, and may be called from several threads.
    """

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        classes: Classes = dict,
        *,
        origins: Callable[[], Mapping[str, SecretOrigin]] | None = None,
    ) -> None:
        self._secrets = Secrets(settings.state, environ, origins or (lambda: settings.secrets))
        self._classes = classes
        self._kept: dict[tuple[str, tuple[tuple[str, str], ...], int], Source] = {}

    def find(self, wanted: WorkSource) -> Source:
        """Return a source; raise SecretMissing, or SourceError where it cannot be made.

        A source with secrets that a program or a file holds reads them when it is called, in the thread of the call.
        """
        if any(env.secret in self._secrets.origins() for env in wanted.values):
            return _LateSource(partial(self._made, wanted))
        return self._made(wanted)

    def _made(self, wanted: WorkSource) -> Source:
        values = {env.name: self._value(env) for env in wanted.values}
        classes = self._classes()
        key = (wanted.key, tuple(sorted(values.items())), id(classes.get(wanted.place)))
        if key in self._kept:
            return self._kept[key]
        try:
            made = source(wanted, values, classes=classes)
        except SourceError as error:
            raise self._secrets.hide_in(error) from None
        if wanted.kind is SourceKind.RUN:
            self._kept[key] = made
        return made

    def _value(self, one: EnvValue) -> str:
        return one.value or "" if one.secret is None else self._secrets.find(one.secret)

    async def ask(self, call: Callable[[], T], *, within: float, late: Callable[[], None] = lambda: None) -> T:
        """Call in a thread; return its answer, raise its error, or SourceError after `within` seconds."""
        return await call_in_thread(call, within=within, hide=self._secrets.hide_in, late=late)
