"""Briefing: what a run of an agent is given between its gates and its start."""

from dataclasses import replace
from functools import partial

from rota.engine.claim import Claimed, Holder
from rota.engine.items import Items
from rota.engine.workspaces import Workspaces
from rota.model.agents import Brief
from rota.model.clock import Clock
from rota.model.spec import AgentWork, Carry, SessionMode
from rota.rules.admission import Skip
from rota.settings import Settings
from rota.store import runs, sessions
from rota.store.driver import Database, Store


class Briefing:
    """Takes the steps one after the other; each makes the brief fuller, or ends the run."""

    def __init__(self, store: Store, clock: Clock, *, settings: Settings, items: Items, holder: Holder) -> None:
        self._store = store
        self._clock = clock
        self.items = items
        self.workspaces = Workspaces(store, clock, settings, shared=holder.leased)
        self._worker_id = holder.worker_id

    async def give(self, claimed: Claimed) -> Claimed | Skip:
        """Return the run with its whole brief, or why there is nothing to do."""
        given = await self.items.give(await self._remember(claimed))
        return given if isinstance(given, Skip) else await self.workspaces.give(given)

    async def _remember(self, claimed: Claimed) -> Claimed:
        """Give a run the session to go on with and the last summary, where its job asks for them."""
        work = claimed.spec.work.agent
        if work is None or (work.session is SessionMode.FRESH and Carry.LAST_SUMMARY not in work.carry):
            return claimed
        brief = self._store.read(partial(remembered, claimed=claimed, work=work, worker_id=self._worker_id))
        if brief.session is not None:
            told = {"session": brief.session.id}
            await self._store.submit(partial(runs.note_decisions, run_id=claimed.run.id, decisions=told))
        return claimed._replace(brief=brief)


def remembered(db: Database, *, claimed: Claimed, work: AgentWork, worker_id: str) -> Brief:
    """Return a brief with the session to go on with and the last summary, where the job asks for them."""
    brief, job_id = claimed.brief, claimed.run.job_id
    if work.session is SessionMode.RESUME:
        session = sessions.session_of(db, job_id, adapter=work.adapter, worker_id=worker_id)
        brief = replace(brief, session=session)
    if Carry.LAST_SUMMARY in work.carry:
        last = sessions.last_completed(db, job_id)
        brief = replace(brief, last_summary=last.summary if last else None)
    return brief
