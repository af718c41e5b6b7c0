"""The loop that checks the logins of held providers."""

import asyncio
import shutil
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path

from rota.agents.registry import PROBE_SECONDS, adapter, probe, version_of
from rota.engine.agents import account_environment
from rota.engine.loops.loop import Loop, call_in_thread
from rota.engine.ports import Logins
from rota.engine.transactions.agents import note_check
from rota.log import log
from rota.model.agents import ProviderHold
from rota.model.clock import Clock
from rota.model.errors import RotaError, SourceError
from rota.model.spec import AgentWork, SecretOrigin, Work
from rota.runners.environment import inherited, login_environment
from rota.settings import Settings, Stamp, stamp_of
from rota.store.driver import Database, Store
from rota.store.tables import direct_calls, jobs, queue, runs

PATIENCE = 4 * PROBE_SECONDS
"""A probe starts up to four commands."""


class LoginChecks:
    """Checks the login of each provider that is held for a missing one, after growing pauses."""

    def __init__(self, store: Store, clock: Clock, logins: Logins, *, released: Callable[[], None]) -> None:
        self._store = store
        self._clock = clock
        self._logins = logins
        self._released = released
        self.loop = Loop("logins", self.round, clock=clock)

    async def round(self) -> datetime | None:
        """Check the logins that are due; return when the next one is due."""
        due = self._store.read(queue.next_check)
        if due is not None and due <= self._clock.now():
            found = self._store.read(partial(_due, now=self._clock.now()))
            await asyncio.gather(*(self._check(hold, work) for hold, work in found))
            due = self._store.read(queue.next_check)
        return due

    async def _check(self, hold: ProviderHold, work: Work | None) -> None:
        works = work is None or await self._logins.works(work)
        now = self._clock.now()
        released = await self._store.submit(partial(note_check, hold=hold, works=works, now=now))
        if released:
            log.info("provider hold ended", provider=hold.provider)
            self._released()
        else:
            log.info("agent is not logged in", provider=hold.provider)


def _due(db: Database, *, now: datetime) -> list[tuple[ProviderHold, Work | None]]:
    due = [hold for hold in queue.holds(db) if hold.login and hold.until is not None and hold.until <= now]
    return [(hold, _refused_work(db, hold)) for hold in due]


def _refused_work(db: Database, hold: ProviderHold) -> Work | None:
    """Return the work that the provider refused; None if its run or call is no longer stored."""
    run = runs.run_by_id(db, hold.run_id or "")
    if run is not None:
        return queue.with_agent(db, jobs.version_spec(db, run.job_id, run.version), run.lane_id).work
    call = direct_calls.direct_by_id(db, hold.run_id or "")
    if call is None or call.execution.job_id is None or call.execution.version is None:
        return None
    return jobs.version_spec(db, call.execution.job_id, call.execution.version).work


class ThreadedLogins:
    """Probes the programs of agents in threads. No model is called."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        *,
        origins: Callable[[], Mapping[str, SecretOrigin]] = dict,
    ) -> None:
        self._origins = origins
        self._settings = settings
        self._environ = environ
        self._versions: dict[tuple[str, Stamp | None], str] = {}

    async def works(self, work: Work) -> bool:
        """Return whether the probe of an agent finds no problem; an unknown login counts as one that works."""
        try:
            return await call_in_thread(partial(self._probe, work), within=PATIENCE, hide=lambda error: error)
        except SourceError:
            return False

    async def version(self, work: Work) -> str:
        """Return the version of an agent's program, which is asked again when its file changes."""
        try:
            return await call_in_thread(partial(self._version, work), within=PATIENCE, hide=lambda error: error)
        except SourceError:
            return ""

    def _version(self, work: Work) -> str:
        if work.agent is None:
            return ""
        kind, variables = adapter(work.agent.adapter, work.agent.options), self._variables(work, work.agent)
        path = shutil.which(kind.executable, path=variables.get("PATH"))
        stamp = None if path is None else (path, stamp_of(Path(path)))
        if stamp is None or stamp not in self._versions:
            found = version_of(kind, variables, patience=PROBE_SECONDS)
            if stamp is None or not found:
                return found
            self._versions = {stamp: found, **{old: told for old, told in self._versions.items() if old[0] != path}}
        return self._versions[stamp]

    def _variables(self, work: Work, agent: AgentWork) -> dict[str, str]:
        settings, origins = self._settings, self._origins()
        own = login_environment(work, self._environ, project=settings.folder, state=settings.state, origins=origins)
        return {**inherited(self._environ), **own, **account_environment(agent, self._environ)}

    def _probe(self, work: Work) -> bool:
        agent = work.agent
        if agent is None:
            return True
        try:
            kind = adapter(agent.adapter, agent.options)
        except RotaError:
            return True
        if kind.invoke is None and kind.reach is None:
            return True
        return probe(kind, self._variables(work, agent), agent.options).problem is None
