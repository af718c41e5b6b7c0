"""The lifecycle of a scheduling process: enter, run, lose the lease, stop, leave; its runtime and its status."""

import asyncio
import contextlib
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from rota import faults
from rota.engine.clock import make_alarm
from rota.engine.functions import FunctionTable, InProcessFunctions
from rota.engine.loops.executor import facts_of
from rota.engine.loops.leases import Leases, kept_lease
from rota.engine.loops.loop import Loop
from rota.engine.loops.notifier import ThreadedPost
from rota.engine.loops.work_sources import ThreadedSources
from rota.engine.membership.control import WakeSocket
from rota.engine.membership.session import DATABASE, Entrance, Session, close_session, open_session, sweep_locks
from rota.engine.membership.shutdown import (
    AT_FIRST,
    PASSING,
    ShortLockStore,
    StartupRetry,
    Stop,
    Stopping,
    fitting,
    wanted_stop,
)
from rota.engine.processes import KeeperProcesses
from rota.engine.recovery import DamageCheck, Loss, RecoveryContext, recover, watch_state
from rota.engine.scheduler import Engine
from rota.engine.transactions.budgets import charge_request
from rota.engine.transactions.finish import Finished
from rota.engine.transactions.fire import Fired, fire_at_boot
from rota.engine.transactions.poll import scheduler_state
from rota.log import log
from rota.model.clock import Clock, iso
from rota.model.errors import RotaError, StateError
from rota.operations.project.declarations import Sdk
from rota.runners.processes import identity, machine_boot, runs_here
from rota.settings import Settings
from rota.store.driver import Database, OpenStore, Store
from rota.store.sqlite.store import process_lock_held
from rota.store.tables.processes import Ending
from rota.store.tables.runs import owned_runs

NOW = Stop("now", timedelta())
LEASE_EXPIRED = "lease expired: killed local runs, registering again as a new process"


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
            log.warning("killing processes of a run that this scheduler no longer owns", run=run_id)
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


class Host:
    """The lifecycle that daemon, tick and embedded scheduler share; they set `_store` and `_settings`, then enter."""

    _stays: ClassVar[bool] = True
    """Whether the process serves; a tick leaves when its runs have ended."""
    _successor: ClassVar[str] = "the next start"
    _while_running: ClassVar[str]
    _unstored_end: ClassVar[str] = "could not record the shutdown; the next start will run crash recovery"

    _store: OpenStore
    _settings: Settings

    def __init__(self, state: Path, clock: Clock, *, kind: str, table: FunctionTable) -> None:
        self._state = state
        self._clock = clock
        self._kind = kind
        self._table = table
        self._stopping = Stopping(gone=lambda: self._store.problem)
        self._loss: Loss | None = None
        self._declared_lost = False
        self._leaving = False

    async def _enter(
        self, entrance: Entrance, *, environ: Mapping[str, str], host: asyncio.AbstractEventLoop | None = None
    ) -> None:
        """Register this process under a new epoch, and make the runtime that works under it."""
        store, state, me = self._store, self._state, identity(os.getpid())
        enters = ShortLockStore(store) if self._stays else store
        session = open_session(enters, state, self._clock, kind=self._kind, identity=me, entrance=entrance)
        sweep_locks(state)
        self._state_watch = watch_state(state, session, alone=self._stays)
        self._session = session
        self._runtime = Runtime(
            store,
            self._clock,
            settings=self._settings,
            session=session,
            table=self._table,
            environ=environ,
            stays=self._stays,
            fires=self._kind != "worker",
            sdk=Sdk(store, state, self._clock),
            host=host,
            on_fired=self._take_fired,
            on_finished=self._take_finished,
        )
        self._engine = self._runtime.engine

    def _take_fired(self, fired: Fired) -> None:
        """Handle a fire."""

    def _take_finished(self, run_id: str) -> None:
        """Handle the end of a run."""

    def _lease(self) -> contextlib.AbstractContextManager[Leases | None]:
        """Renew the lease of this process meanwhile."""
        return kept_lease(
            self._store,
            self._clock,
            holder=self._session.holder,
            lost=self._take_loss,
            changed=self._engine.wake,
            ended=self._take_finished,
        )

    def _take_loss(self) -> None:
        """Stop at once: the lease expired, and the runs of this process may already run elsewhere (R-22)."""
        self._declared_lost = True
        self._stopping.ask(NOW)

    def _state_lost(self) -> bool:
        """Check the state folder; stop at once if it is gone or is another one."""
        self._loss = self._state_watch.lost()
        if self._loss is not None:
            self._stopping.ask(NOW)
        return self._loss is not None

    @contextlib.contextmanager
    def _signals(self, further: Mapping[int, Callable[[], None]] | None = None) -> Iterator[None]:
        """Stop on SIGTERM and SIGINT; `further`: the handlers of other signals."""
        loop = asyncio.get_running_loop()
        handlers = {signal.SIGTERM: self._signalled, signal.SIGINT: self._signalled, **(further or {})}
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)

    def _signalled(self) -> None:
        self._stopping.ask(wanted_stop("grace", None, scheduler=self._settings.scheduler))

    async def _stop(self, stop: Stop) -> Ending:
        """Claim nothing more and end the runs (R-08); after a lost lease abandon them."""
        engine = self._engine
        if self._declared_lost:
            await engine.abandon()
            return "clean"
        self._leaving = True
        engine.quiesce()
        faults.point("shutdown.quiesced")
        if self._loss is not None:
            stop = NOW
        self._announce_stop(fitting(stop, engine))
        return "detached" if await self._stopping.carry_out(stop, engine) else "clean"

    def _announce_stop(self, stop: Stop) -> None:
        """Show that the process stops."""

    def _leave(self, ending: Ending = "clean") -> None:
        """Close the runtime, and the row of this process unless others closed it or it is gone."""
        self._runtime.close()
        if self._declared_lost:
            self._session.lock.release(remove=True)
        elif self._loss is None:
            try:
                close_session(self._store, self._session, self._clock, ending=ending, last_words=self._last_words)
            except StateError as error:
                log.error(self._unstored_end, error=str(error))

    def _last_words(self, db: Database) -> None:
        """Write what is stored together with the end of the process."""

    def _refuse_losses(self) -> None:
        """Raise if results could not be stored, or the state folder was lost."""
        self._stopping.refuse_unstored(self._state, who=self._successor)
        if self._loss is not None:
            raise StateError(f"{self._loss.what} {self._while_running}", hint=self._loss.hint)


class ServingHost(Host, ABC):
    """The lifecycle of a process that serves: it retries its start, and registers again when its lease expired."""

    _lease_hint: ClassVar[Mapping[str, str]] = {}

    def __init__(self, state: Path, clock: Clock, *, kind: str, table: FunctionTable, who: str) -> None:
        super().__init__(state, clock, kind=kind, table=table)
        self._announced = False
        self._boot_fired = True
        """Whether the jobs at boot were fired; they wait for a clock that is right."""
        self._leases: Leases | None = None
        self._socket: WakeSocket | None = None
        self._damage = DamageCheck(state / DATABASE, who=who)
        self._started_at = clock.now()
        self._watch = Loop("watch", self._watch_round, clock=clock)

    async def _serve(self) -> None:
        """Serve until stopped, under a new epoch whenever the lease expired."""
        try:
            await self._serve_patiently()
            while self._begins_anew:
                log.warning(LEASE_EXPIRED, **self._lease_hint)
                self._declared_lost = False
                await self._serve_patiently()
        finally:
            self._close_socket()
        self._refuse_losses()

    @property
    def _begins_anew(self) -> bool:
        return self._declared_lost and not self._leaving

    async def _serve_patiently(self) -> None:
        """Serve under one epoch; give up a start that waits for the database when a stop or a lost lease comes."""
        within = None if self._announced else AT_FIRST
        patience = StartupRetry(self._store, self._clock, over=lambda: self._stopping.wished, within=within)
        try:
            await self._serve_epoch(patience)
        except PASSING as error:
            if not self._stopping.wished or self._leaving:
                raise
            log.warning("startup aborted", error=str(error))
            self._give_up(error)
            if self._declared_lost:
                await self._stopping.asked()  # the wish of `_take_loss`

    def _give_up(self, error: RotaError) -> None:
        """Handle a start that was given up."""

    async def _serve_epoch(self, patience: StartupRetry) -> None:
        """Enter, recover, apply, run, stop and leave."""
        await patience.do(self._register)
        self._ticks = list(self._session.living)
        self._socket = self._socket or WakeSocket(self._state, wake=self._wake, answer=self._answer)
        ending: Ending = "clean"
        try:
            with self._lease() as self._leases:
                with self._engine.slots.shut():  # a run that ends meanwhile must not start another one too early
                    recovered = await self._prepare(patience)
                ending = await self._schedule(recovered)
        except PASSING:
            if self._declared_lost:
                await self._engine.abandon()  # the adopted runs
            raise
        finally:
            if not self._begins_anew:
                self._close_socket()
            self._leave(ending)

    @abstractmethod
    async def _register(self) -> None:
        """Enter with the slots of this process."""

    async def _prepare(self, patience: StartupRetry) -> int:
        """Recover, apply, fire the jobs at boot (R-23); return how many runs of dead processes there were."""
        recovered = await patience.do(partial(self._runtime.recover, self._session.dead, again=True))
        await patience.do(self._runtime.sweep_strays)
        await self._apply(patience)
        if self._settings.scheduler.enabled and self._kind != "worker":
            self._boot_fired = await patience.do(self._runtime.fire_at_boot)
        return recovered

    @abstractmethod
    async def _apply(self, patience: StartupRetry) -> None:
        """Make the stored jobs equal to the declared ones."""

    @abstractmethod
    async def _schedule(self, recovered: int) -> Ending:
        """Run `_until_stopped` with the threads and listeners of this process."""

    async def _until_stopped(self, recovered: int) -> Ending:
        """Run the loops until a stop is asked for, then stop in order."""
        alarm = partial(make_alarm, self._clock)
        if self._settings.scheduler.enabled:
            self._engine.start(alarm)
        loops = [self._watch, *((self._leases.loop,) if self._leases is not None else ())]
        watching = [asyncio.create_task(loop.run(alarm), name=f"rota-{loop.name}") for loop in loops]
        if not self._announced:
            self._announced = True
            self._announce(recovered)
        try:
            return await self._stop(await self._stopping.asked())
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
            await self._engine.end()

    def _announce(self, recovered: int) -> None:
        """Show that the process serves, once."""

    @abstractmethod
    async def _watch_round(self) -> datetime | None:
        """Check the state folder and the ticks; return when to check again."""

    async def _take_over(self) -> None:
        """Recover the runs of ticks that died since this process entered; fire the jobs at boot if none could yet."""
        gone = [process for process in self._ticks if not process_lock_held(self._state, process.lock)]
        if gone:
            await self._runtime.recover([process.epoch for process in gone])
            self._ticks = [process for process in self._ticks if process not in gone]
            self._engine.wake()
        if not self._boot_fired:
            self._boot_fired = await self._runtime.fire_at_boot()

    def _damage_check(self, threads: ThreadPoolExecutor | None = None) -> contextlib.AbstractContextManager[None]:
        """Check the database file for damage meanwhile, after an unclean stop."""
        needed = self._session.unclean and not self._session.leased
        return self._damage.beside(threads) if needed else contextlib.nullcontext()

    def _close_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _wake(self) -> None:
        self._engine.wake()

    def _answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer a command that connected to the socket."""
        if question["ask"] == "status":
            return self.status()
        if question["ask"] == "stop":
            scheduler = self._settings.scheduler
            self._stopping.ask(wanted_stop(question["mode"], question.get("within"), scheduler=scheduler))
            return _carried(self._engine)
        return self._answer_further(question["ask"])

    def _answer_further(self, _asked: str) -> Mapping[str, Any]:
        return {}

    def status(self) -> Mapping[str, Any]:
        """Return the answer to `rota status`."""
        return self._describe(self._watch)

    def _describe(self, *loops: Loop) -> Mapping[str, Any]:
        """Return the state of the scheduler, its engine's loops and `loops`."""
        engine, scheduler = self._engine, self._settings.scheduler
        return {
            "pid": os.getpid(),
            "started_at": iso(self._started_at),
            "now": iso(self._clock.now()),
            "enabled": scheduler.enabled,
            "concurrency": scheduler.concurrency,
            "slots_taken": engine.slots.taken,
            "carries": _carried(engine),
            "stopping": self._describe_stop(),
            "file_problem": None,
            "storage_problem": engine.refusals.problem,
            "damage": self._damage.found,
            "failing": asdict(engine.failing) if engine.failing else None,
            "loops": [_loop(loop, engine) for loop in (*engine.loops, *loops)],
        }

    def _describe_stop(self) -> Mapping[str, Any] | None:
        """Return the stop that is under way and the runs it waits for; `until` null: without bound."""
        stopping, engine = self._stopping, self._engine
        if stopping.stop is None:
            return None
        left = stopping.left
        return {
            "mode": stopping.stop.mode,
            "until": iso(self._clock.now() + left) if left is not None else None,
            "ending": stopping.ending,
            **_carried(engine),
            "unstored": sum(one.unstored for one in engine.executor.carried.values()),
        }


def _carried(engine: Engine) -> Mapping[str, int]:
    """Return how many runs and direct calls a process carries."""
    carried = engine.executor.carried.values()
    calls = sum(one.direct for one in carried)
    return {"running": len(carried) - calls, "direct": calls}


def _loop(loop: Loop, engine: Engine) -> dict[str, Any]:
    pulse = loop.pulse
    error = pulse.error or (engine.claimer.pulse.error if loop is engine.claim_loop else None)
    last_at = iso(pulse.last_at) if pulse.last_at else None
    return {"name": loop.name, "rounds": pulse.rounds, "last_at": last_at, "error": error}
