"""What one scheduling process works with: its session, its engine, and what carries out commands and functions."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial

from rota.engine.boot import fire_at_boot
from rota.engine.budget import charge_request
from rota.engine.conditions import facts_of
from rota.engine.engine import Engine
from rota.engine.fire import Fired
from rota.engine.functions import FunctionTable, InProcessFunctions
from rota.engine.heir import Heir
from rota.engine.patience import Brief
from rota.engine.post import ThreadedPost
from rota.engine.processes import KeeperProcesses
from rota.engine.record import Finished
from rota.engine.recover import recover
from rota.engine.session import Session
from rota.engine.shared_state import scheduler_state
from rota.engine.sources import ThreadedSources
from rota.log import log
from rota.model.clock import Clock
from rota.runners.boot import machine_boot
from rota.runners.processes import runs_here
from rota.settings import Settings
from rota.store.driver import Store
from rota.store.runs import owned_runs


class Workshop:
    """A serving process has one as long as it lives, a tick for what it carries; `host` runs the async functions."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        settings: Settings,
        session: Session,
        table: FunctionTable,
        environ: Mapping[str, str],
        stays: bool = True,
        fires: bool = True,
        sdk: object = None,
        host: asyncio.AbstractEventLoop | None = None,
        on_fired: Callable[[Fired], None] = lambda _fired: None,
        on_finished: Callable[[str], None] = lambda _run_id: None,
    ) -> None:
        self.session = session
        self._store = store
        self._clock = clock
        self._settings = settings
        shared = partial(store.read, scheduler_state)
        self._processes = KeeperProcesses(clock, settings, environ, scheduler_state=shared)
        self._functions = InProcessFunctions(
            clock,
            settings,
            table,
            ended=self._take_outcomes,
            released=self._take_released,
            facts=facts_of(store, clock),
            charge=partial(charge_request, store, clock),
            scheduler_state=shared,
            sdk=sdk,
            host=host,
        )
        self.engine = Engine(
            store,
            clock,
            settings=settings,
            holder=session.holder,
            processes=self._processes,
            functions=self._functions,
            sources=ThreadedSources(settings, environ, lambda: table.sources),
            post=ThreadedPost(settings, environ),
            stays=stays,
            fires=fires,
            on_fired=on_fired,
            on_finished=on_finished,
        )

    async def sweep_strays(self) -> int:
        """Kill what is left here of runs that are no longer ours: another machine said that we were lost (R-22)."""
        if not self.session.leased:
            return 0
        living = [process.epoch for process in self.session.living]
        ours = {one.id for one in self._store.read(partial(owned_runs, epochs=living))} | set(
            self.engine.executor.carried
        )
        strays = await asyncio.to_thread(runs_here, self._settings.state)
        for run_id in strays - ours:
            log.warning("processes of a run that is no longer ours are ended", run=run_id)
            await self._processes.sweep(run_id)
        return len(strays - ours)

    async def recover(self, dead: Sequence[int], *, again: bool = False) -> int:
        """Record what happened to the runs of dead processes; return how many there were (R-23).

        `again`: whoever asks does so again where others hold what is needed.
        """
        heir = Heir(
            Brief(self._store) if again else self._store,
            self._clock,
            holder=self.session.holder,
            children=self._processes,
            executor=self.engine.executor,
            slots=self.engine.slots,
        )
        return await recover(heir, dead)

    async def fire_at_boot(self) -> bool:
        """Fire the jobs at boot that this boot of the machine has not fired; False: the clock forbids it for now."""
        if not await self.engine.follows_clock():
            return False
        now = self._clock.now()
        booted_at = now - timedelta(seconds=self._clock.boottime()) if self.session.leased else None
        operation = partial(fire_at_boot, boot=machine_boot(), now=now, booted_at=booted_at)
        for fired in await self._store.submit(operation):
            self.engine.tell_fired(fired)
        return True

    def close(self) -> None:
        """Let threads and spawner go; keepers stay."""
        self._functions.close()
        self._processes.close()

    def _take_outcomes(self, finished: list[Finished]) -> None:
        self.engine.all_ended(finished)

    def _take_released(self, run_id: str) -> None:
        self.engine.released(run_id)
