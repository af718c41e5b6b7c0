"""The step of a briefing that fetches what a run works on: the wish stored, the source asked, the item held (003)."""

from dataclasses import replace
from functools import partial

from rota import faults
from rota.engine import work
from rota.engine.claim import Claimed
from rota.engine.outbox import Outbox
from rota.engine.ports import Sources
from rota.model.clock import Clock
from rota.model.errors import SourceError
from rota.model.spec import WorkSource
from rota.model.states import Reason
from rota.model.work import Source, WorkItem, WorkRequest
from rota.rules.admission import Skip
from rota.store import work as claims
from rota.store.driver import Store


class Items:
    """Claims an item for each run whose job has a work source; a run without one never comes here."""

    def __init__(self, store: Store, clock: Clock, *, sources: Sources, outbox: Outbox) -> None:
        self._store = store
        self._clock = clock
        self._sources = sources
        self._outbox = outbox
        self._asked: set[str] = set()

    async def give(self, claimed: Claimed) -> Claimed | Skip:
        """Return the run with its item, or that there is none, or that its source could not be asked."""
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
            return Skip(Reason.NO_WORK, f"{agent.source.title} has nothing to do")
        return claimed._replace(brief=replace(claimed.brief, item=item))

    def left(self, run_id: str) -> None:
        """Let the sources be told about a run that ended or went back to the queue."""
        if run_id in self._asked:
            self._asked.discard(run_id)
            self._outbox.loop.wake()

    async def _claim(self, claimed: Claimed, wanted: WorkSource, source: Source) -> WorkItem | None:
        run = claimed.run
        self._asked.add(run.id)
        ask = partial(work.ask, run=run, source=wanted, now=self._clock.now())
        request: WorkRequest = await self._store.submit(ask)
        faults.point("items.asked")
        try:
            item = await self._sources.ask(
                partial(source.next_item, request),
                within=wanted.timeout.total_seconds(),
                late=partial(self._outbox.late, request.claim),
            )
        except SourceError:
            await self._store.submit(partial(work.give_back, claim=request.claim, now=self._clock.now()))
            raise
        faults.point("items.given")
        if item is None:
            await self._store.submit(partial(claims.forget, claim=request.claim))
            return None
        hold = partial(work.hold, request=request, source=wanted, item=item, now=self._clock.now())
        holder = await self._store.submit(hold)
        faults.point("items.held")
        if holder is not None:
            raise SourceError(f"it gave {item.id!r}, which {holder} holds", hint="a source gives an item to one run")
        return item
