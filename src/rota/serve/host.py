"""The runtime of a scheduling process: engine, runners, and the statistics of its loops."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from rota.engine.functions import FunctionTable, InProcessFunctions
from rota.engine.loops.executor import facts_of
from rota.engine.loops.loop import Loop
from rota.engine.loops.notifier import ThreadedPost
from rota.engine.loops.work_sources import ThreadedSources
from rota.engine.membership.session import Session
from rota.engine.membership.shutdown import ShortLockStore, Stopping
from rota.engine.processes import KeeperProcesses
from rota.engine.recovery import RecoveryContext, recover
from rota.engine.scheduler import Engine
from rota.engine.transactions.budgets import charge_request
from rota.engine.transactions.finish import Finished
from rota.engine.transactions.fire import Fired, fire_at_boot
from rota.engine.transactions.poll import scheduler_state
from rota.log import log
from rota.model.clock import Clock, iso
from rota.runners.processes import machine_boot, runs_here
from rota.settings import Settings
from rota.store.driver import Store
from rota.store.tables.runs import owned_runs


class Runtime:
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
        heir = RecoveryContext(
            ShortLockStore(self._store) if again else self._store,
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


def tell_status(
    engine: Engine,
    clock: Clock,
    *,
    settings: Settings,
    started_at: datetime,
    further: Sequence[Loop] = (),
    stopping: Stopping | None = None,
    file_problem: str | None = None,
    damage: str | None = None,
) -> Mapping[str, Any]:
    """Return what `rota status` is answered; `further` are the loops of the process beside the engine's."""
    return {
        "pid": os.getpid(),
        "started_at": iso(started_at),
        "now": iso(clock.now()),
        "enabled": settings.scheduler.enabled,
        "concurrency": settings.scheduler.concurrency,
        "slots_taken": engine.slots.taken,
        "carries": tell_carried(engine),
        "stopping": _tell_stop(engine, clock, stopping) if stopping is not None and stopping.stop else None,
        "file_problem": file_problem,
        "storage_problem": engine.refusals.problem,
        "damage": damage,
        "failing": asdict(engine.failing) if engine.failing else None,
        "loops": [_loop(loop, engine) for loop in (*engine.loops, *further)],
    }


def _tell_stop(engine: Engine, clock: Clock, stopping: Stopping) -> Mapping[str, Any]:
    """Return how a process stops and what it waits for; `until` null: without bound."""
    left = stopping.left
    return {
        "mode": stopping.stop.mode if stopping.stop is not None else None,
        "until": iso(clock.now() + left) if left is not None else None,
        "ending": stopping.ending,
        **tell_carried(engine),
        "unstored": sum(one.unstored for one in engine.executor.carried.values()),
    }


def tell_carried(engine: Engine) -> Mapping[str, int]:
    """Return how many runs and direct calls a process carries."""
    carried = engine.executor.carried.values()
    calls = sum(one.direct for one in carried)
    return {"running": len(carried) - calls, "direct": calls}


def _loop(loop: Loop, engine: Engine) -> dict[str, Any]:
    pulse = loop.pulse
    error = pulse.error or (engine.claimer.pulse.error if loop is engine.claim_loop else None)
    last_at = iso(pulse.last_at) if pulse.last_at else None
    return {"name": loop.name, "rounds": pulse.rounds, "last_at": last_at, "error": error}
