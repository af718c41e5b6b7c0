"""The lifecycle of a scheduling process: enter, recover, apply, run, lose the lease, stop, leave."""

import asyncio
import contextlib
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from msgspec.structs import asdict

from rota import faults
from rota.declare.plan import Plan
from rota.engine.clock import tzdata_version
from rota.engine.functions import FunctionTable, InProcessFunctions
from rota.engine.loops.executor import facts_of
from rota.engine.loops.leases import Leases, kept_lease
from rota.engine.loops.logins import ThreadedLogins
from rota.engine.loops.loop import Loop, make_alarm
from rota.engine.loops.notifier import ThreadedPost
from rota.engine.loops.work_sources import ThreadedSources
from rota.engine.membership import shutdown
from rota.engine.membership.control import WakeSocket
from rota.engine.membership.session import DATABASE, Entrance, close_session, open_session, sweep_locks
from rota.engine.membership.shutdown import PASSING, ShortLockStore, StartupRetry, Stop, Stopping
from rota.engine.ports import Desk
from rota.engine.processes import KeeperProcesses
from rota.engine.recovery import DamageCheck, Loss, RecoveryContext, recover, watch_state
from rota.engine.scheduler import Engine
from rota.engine.transactions.budgets import charge_request
from rota.engine.transactions.fire import Fired, fire_at_boot
from rota.engine.transactions.poll import scheduler_state
from rota.log import log
from rota.model.attention import Attention
from rota.model.clock import Clock, iso
from rota.model.errors import RotaError, StateError
from rota.model.records import Run
from rota.model.spec import SecretOrigin
from rota.operations.project.apply import adopt_tzdata
from rota.operations.project.declarations import Sdk
from rota.operations.status.attention import AttentionItem
from rota.operations.status.digest import digest_of
from rota.operations.status.heartbeat import Heartbeat, Liveness
from rota.operations.status.status import needs_at
from rota.runners.processes import identity, machine_boot, runs_here
from rota.settings import Settings
from rota.store.driver import Database, OpenStore, Store
from rota.store.sqlite.store import process_lock_held
from rota.store.tables.jobs import timezone_of
from rota.store.tables.processes import Ending
from rota.store.tables.runs import owned_runs

T = TypeVar("T")

NOW = Stop("now", timedelta())
LEASE_EXPIRED = "lease expired: killed local runs, registering again as a new process"
DISABLED = "scheduler disabled by `scheduler.enabled: false`: no job fires, no run starts"
UPGRADE_HINT = "to downgrade: stop rota, replace rota.db with the copy, install the previous version"


class ProcessObserver(Protocol):
    """A display of the events of a scheduling process."""

    def applied(self, plan: Plan) -> None:
        """The file was applied."""

    def broken(self, error: RotaError) -> None:
        """The file has problems; the last applied jobs stay."""

    def fired(self, fired: Fired) -> None:
        """A job fired or skipped instants."""

    def finished(self, run: Run) -> None:
        """A run ended or returned to the queue."""

    def stopping(self, stop: Stop, *, running: int) -> None:
        """A stop began."""


class Host(ABC):
    """The lifecycle that daemon, tick and embedded scheduler share; they set `_store` and `_settings`, then enter."""

    _stays: ClassVar[bool] = True
    """Whether the process serves; a tick leaves when its runs have ended."""
    _successor: ClassVar[str] = "the next start"
    _while_running: ClassVar[str]
    _unstored_end: ClassVar[str] = "could not record the shutdown; the next start will run crash recovery"
    _watch_interval: ClassVar[timedelta] = timedelta(seconds=2)

    _store: OpenStore
    _settings: Settings

    def __init__(
        self, state: Path, clock: Clock, *, kind: str, table: FunctionTable, observer: ProcessObserver | None = None
    ) -> None:
        self._state = state
        self._clock = clock
        self._kind = kind
        self._table = table
        self._observer = observer
        self._stopping = Stopping(gone=lambda: self._store.problem)
        self._watch = Loop("watch", self._watch_round, clock=clock)
        self._loss: Loss | None = None
        self._lease_lost = False
        self._leaving = False
        self._boot_fired = True
        """Whether the jobs at boot were fired; they wait for a clock that is right."""

    @contextlib.contextmanager
    def _open(self, store: OpenStore) -> Iterator[OpenStore]:
        """Use a database, and close it."""
        try:
            store.read(lambda db: db.row("probe_indexes"))
            if store.copied_to is not None:
                log.warning("database upgraded", copy=str(store.copied_to), hint=UPGRADE_HINT)
            self._store = store
            yield store
        finally:
            store.close()

    # enter

    @property
    def _brief_store(self) -> Store:
        """The store for steps of the start; a serving process fails fast on locked rows and retries."""
        return ShortLockStore(self._store) if self._stays else self._store

    async def _enter(
        self, entrance: Entrance, *, environ: Mapping[str, str], host: asyncio.AbstractEventLoop | None = None
    ) -> None:
        """Register this process under a new epoch, with an engine of its own; `host` runs the async functions."""
        store, state, me = self._store, self._state, identity(os.getpid())
        session = open_session(self._brief_store, state, self._clock, kind=self._kind, identity=me, entrance=entrance)
        sweep_locks(state)
        self._state_watch = watch_state(state, session, alone=self._stays)
        self._session = session
        shared = partial(store.read, scheduler_state)
        self._processes = KeeperProcesses(
            self._clock, self._settings, environ, scheduler_state=shared, origins=self._origins
        )
        self._functions = InProcessFunctions(
            self._clock,
            self._settings,
            self._table,
            ended=lambda finished: engine.all_ended(finished),  # noqa: PLW0108 -- the engine is made below
            released=lambda run_id: engine.free_slot(run_id),  # noqa: PLW0108
            facts=facts_of(store, self._clock),
            charge=partial(charge_request, store, self._clock),
            scheduler_state=shared,
            sdk=Sdk(store, state, self._clock),
            host=host,
        )
        self._engine = engine = Engine(
            store,
            self._clock,
            settings=self._settings,
            holder=session.holder,
            processes=self._processes,
            functions=self._functions,
            sources=ThreadedSources(self._settings, environ, lambda: self._table.sources, origins=self._origins),
            post=ThreadedPost(self._settings, environ, origins=self._origins),
            logins=ThreadedLogins(self._settings, environ, origins=self._origins),
            find_items=self._find_items,
            build_digest=self._build_digest,
            desk=self._desk,
            origins=self._origins,
            environ=environ,
            stays=self._stays,
            fires=self._kind != "worker",
            on_fired=self._take_fired,
            on_finished=self._take_finished,
        )

    def _origins(self) -> Mapping[str, SecretOrigin]:
        """Return the secrets that the loaded file says where to read."""
        return self._table.secrets

    def _find_items(self, db: Database, now: datetime) -> list[Attention]:
        """Return what needs attention, as `rota status` would ask this process."""
        return [need.attention for need in self._needs(db, now)]

    def _build_digest(self, db: Database, since: datetime, until: datetime) -> dict[str, Any]:
        """Return what happened from one instant to another, with the open items."""
        items = [need.attention for need in self._needs(db, until) if need.seen is None]
        return digest_of(db, since, until, items=items)

    def _needs(self, db: Database, now: datetime) -> tuple[AttentionItem, ...]:
        beat = Heartbeat(Liveness.RUNNING, os.getpid(), self._own_status(), state=self._state)
        return needs_at(db, beat=beat, zone=timezone_of(db), now=now)

    def _own_status(self) -> Mapping[str, Any]:
        """Return the answer to `rota status`; a tick has none."""
        return {}

    def _desk(self) -> Desk:
        """Return what carries out the events of chats; it is loaded only where the file has some."""
        from rota.operations.questions.chats import ChatDesk

        return ChatDesk(self._settings.state)

    async def _attempt(self, step: Callable[[], Awaitable[T]]) -> T:
        """Run one step of the start."""
        return await step()

    async def _prepare(self) -> int:
        """Recover, apply, fire the jobs at boot; return the number of runs of dead processes."""
        recovered = await self._attempt(partial(self._recover, self._session.dead, self._brief_store))
        await self._attempt(self._sweep_strays)
        adopt = partial(adopt_tzdata, tzdata=tzdata_version(), now=self._clock.now())
        await self._attempt(partial(self._brief_store.submit, adopt))
        await self._apply()
        if self._settings.scheduler.enabled and self._kind != "worker":
            self._boot_fired = await self._attempt(self._fire_at_boot)
        return recovered

    async def _recover(self, dead: Sequence[int], store: Store) -> int:
        """Record the outcomes of the runs of dead processes; return their number."""
        context = RecoveryContext(
            store,
            self._clock,
            holder=self._session.holder,
            children=self._processes,
            executor=self._engine.executor,
            slots=self._engine.slots,
        )
        return await recover(context, dead)

    async def _sweep_strays(self) -> None:
        """Kill the processes of runs that this worker lost with its lease."""
        if not self._session.leased:
            return
        living = [process.epoch for process in self._session.living]
        owned = {run.id for run in self._store.read(partial(owned_runs, epochs=living))}
        strays = await asyncio.to_thread(runs_here, self._settings.state)
        for run_id in strays - owned - set(self._engine.executor.carried):
            log.warning("killing processes of a run that this scheduler no longer owns", run=run_id)
            await self._processes.sweep(run_id)

    @abstractmethod
    async def _apply(self) -> None:
        """Make the stored jobs equal to the declared ones, before the first fire."""

    async def _fire_at_boot(self) -> bool:
        """Fire the jobs at boot that this boot of the machine has not fired; False: the clock forbids it for now."""
        if not await self._engine.follows_clock():
            return False
        now = self._clock.now()
        booted_at = now - timedelta(seconds=self._clock.boottime()) if self._session.leased else None
        operation = partial(fire_at_boot, boot=machine_boot(), now=now, booted_at=booted_at)
        for fired in await self._store.submit(operation):
            self._engine.events.fired(fired)
        return True

    # run

    def _take_fired(self, fired: Fired) -> None:
        if self._observer:
            self._observer.fired(fired)

    @abstractmethod
    def _take_finished(self, run_ids: Sequence[str]) -> None:
        """Handle runs that ended together."""

    @contextlib.asynccontextmanager
    async def _background(self, *loops: Loop) -> AsyncIterator[None]:
        """Run the watch loop and `loops` meanwhile, then end the engine's loops."""
        alarm = partial(make_alarm, self._clock)
        loops = (self._watch, *loops)
        tasks = [asyncio.create_task(loop.run(alarm), name=f"rota-{loop.name}") for loop in loops]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._engine.end()

    async def _watch_round(self) -> datetime | None:
        """Stop at once if the state folder is gone or is another one; else watch what the process watches."""
        self._loss = self._state_watch.lost()
        if self._loss is not None:
            self._stopping.ask(NOW)
            return None
        await self._watch_further()
        return self._clock.now() + self._watch_interval

    @abstractmethod
    async def _watch_further(self) -> None:
        """Check everything that no event announces."""

    # lose the lease, stop, leave

    def _lease(self) -> contextlib.AbstractContextManager[Leases | None]:
        """Renew the lease of this process meanwhile."""
        return kept_lease(
            self._store,
            self._clock,
            holder=self._session.holder,
            lost=self._take_lost_lease,
            changed=self._engine.wake,
            ended=self._take_finished,
        )

    def _take_lost_lease(self) -> None:
        """Stop at once: the runs of this process may already run elsewhere."""
        self._lease_lost = True
        self._stopping.ask(NOW)

    @contextlib.contextmanager
    def _signals(self, further: Mapping[int, Callable[[], None]] | None = None) -> Iterator[None]:
        """Stop on SIGTERM and SIGINT; `further`: the handlers of other signals."""
        loop = asyncio.get_running_loop()
        stop = partial(self._ask_stop, "grace", None)
        handlers: dict[int, Callable[[], None]] = {signal.SIGTERM: stop, signal.SIGINT: stop, **(further or {})}
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)

    def _ask_stop(self, mode: shutdown.StopMode, within: float | None) -> None:
        self._stopping.ask(shutdown.wanted_stop(mode, within, scheduler=self._settings.scheduler))

    async def _stop(self, stop: Stop) -> Ending:
        """Claim no more runs and end the running ones; after a lost lease abandon them."""
        engine = self._engine
        if self._lease_lost:
            await engine.abandon()
            return "clean"
        self._leaving = True
        engine.quiesce()
        faults.point("shutdown.quiesced")
        if self._loss is not None:
            stop = NOW
        if self._observer:
            self._observer.stopping(shutdown.fitting(stop, engine), running=len(engine.executor.carried))
        return "detached" if await self._stopping.carry_out(stop, engine) else "clean"

    def _leave(self, ending: Ending = "clean") -> None:
        """End threads and spawner, but no keepers; close the row of this process unless the row is lost."""
        self._functions.close()
        self._processes.close()
        if self._lease_lost:
            self._session.lock.release(remove=True)
        elif self._loss is None:
            try:
                close_session(self._store, self._session, self._clock, ending=ending, last_words=self._last_words)
            except StateError as error:
                log.error(self._unstored_end, error=str(error))

    @abstractmethod
    def _last_words(self, db: Database) -> None:
        """Write what is stored together with the end of the process."""

    def _refuse_losses(self) -> None:
        """Raise if results could not be stored, or the state folder was lost."""
        self._stopping.refuse_unstored(self._state, who=self._successor)
        if self._loss is not None:
            raise StateError(f"{self._loss.what} {self._while_running}", hint=self._loss.hint)


class ServingHost(Host):
    """The lifecycle of a process that serves: it retries its start, and registers again when its lease expired."""

    _lease_hint: ClassVar[Mapping[str, str]] = {}
    _title: ClassVar[str] = "rota"

    def __init__(
        self, state: Path, clock: Clock, *, kind: str, table: FunctionTable, observer: ProcessObserver | None = None
    ) -> None:
        super().__init__(state, clock, kind=kind, table=table, observer=observer)
        self._announced = False
        self._leases: Leases | None = None
        self._socket: WakeSocket | None = None
        self._damage = DamageCheck(state / DATABASE, who=self._title)
        self._started_at = clock.now()

    async def _serve(self) -> None:
        """Serve until stopped, under a new epoch whenever the lease expired."""
        try:
            await self._serve_epoch()
            while self._begins_anew:
                log.warning(LEASE_EXPIRED, **self._lease_hint)
                self._lease_lost = False
                await self._serve_epoch()
        finally:
            self._close_socket()
        self._refuse_losses()

    @property
    def _begins_anew(self) -> bool:
        return self._lease_lost and not self._leaving

    async def _serve_epoch(self) -> None:
        """Serve under one epoch; give up a start that waits for the database when a stop or a lost lease comes."""
        within = None if self._announced else shutdown.AT_FIRST
        self._retry = StartupRetry(self._store, self._clock, over=lambda: self._stopping.wished, within=within)
        try:
            await self._enter_and_run()
        except PASSING as error:
            if not self._stopping.wished or self._leaving:
                raise
            log.warning("startup aborted", error=str(error))
            self._give_up(error)
            if self._lease_lost:
                await self._stopping.asked()  # the request of `_take_lost_lease`

    def _give_up(self, error: RotaError) -> None:
        """Handle a start that was given up."""

    async def _attempt(self, step: Callable[[], Awaitable[T]]) -> T:
        return await self._retry.do(step)

    async def _enter_and_run(self) -> None:
        """Enter, recover, apply, run, stop and leave."""
        await self._attempt(self._register)
        self._ticks = list(self._session.living)
        self._socket = self._socket or WakeSocket(self._state, wake=self._wake, answer=self._answer)
        ending: Ending = "clean"
        try:
            with self._lease() as self._leases:
                with self._engine.slots.shut():  # a run that ends meanwhile must not start another one too early
                    recovered = await self._prepare()
                ending = await self._schedule(recovered)
        except PASSING:
            if self._lease_lost:
                await self._engine.abandon()  # the adopted runs
            raise
        finally:
            if not self._begins_anew:
                self._close_socket()
            self._leave(ending)

    @abstractmethod
    async def _register(self) -> None:
        """Enter with the slots of this process."""

    async def _schedule(self, recovered: int, threads: ThreadPoolExecutor | None = None) -> Ending:
        """Run the loops until a stop is requested, then stop; check the database meanwhile after an unclean stop."""
        unclean = self._session.unclean and not self._session.leased
        with self._damage.beside(threads) if unclean else contextlib.nullcontext():
            async with self._store.listening(self._wake):
                if self._settings.scheduler.enabled:
                    self._engine.start(partial(make_alarm, self._clock))
                else:
                    log.warning(DISABLED)
                async with self._background(*self._lease_loops):
                    if not self._announced:
                        self._announced = True
                        self._announce(recovered)
                    return await self._stop(await self._stopping.asked())

    @property
    def _lease_loops(self) -> tuple[Loop, ...]:
        return (self._leases.loop,) if self._leases is not None else ()

    @abstractmethod
    def _announce(self, recovered: int) -> None:
        """Show that the process serves, once."""

    def _last_words(self, db: Database) -> None:
        """Write nothing else."""

    async def _watch_further(self) -> None:
        """Recover the runs of ticks that died since this process entered; fire the jobs at boot if none could yet."""
        gone = [process for process in self._ticks if not process_lock_held(self._state, process.lock)]
        if gone:
            await self._recover([process.epoch for process in gone], self._store)
            self._ticks = [process for process in self._ticks if process not in gone]
            self._engine.wake()
        if not self._boot_fired:
            self._boot_fired = await self._fire_at_boot()

    # the socket

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
            self._ask_stop(question["mode"], question.get("within"))
            return _carried(self._engine)
        return self._answer_further(question["ask"])

    def _answer_further(self, _asked: str) -> Mapping[str, Any]:
        return {}

    def _own_status(self) -> Mapping[str, Any]:
        return self.status()

    def status(self) -> Mapping[str, Any]:
        """Return the answer to `rota status`."""
        engine, scheduler, unreachable = self._engine, self._settings.scheduler, self._store.problem
        return {
            "pid": os.getpid(),
            "kind": self._kind,
            "started_at": iso(self._started_at),
            "now": iso(self._clock.now()),
            "enabled": scheduler.enabled,
            "concurrency": scheduler.concurrency,
            "slots_taken": engine.slots.taken,
            "carries": _carried(engine),
            "stopping": self._describe_stop(),
            "file_problem": None,
            "storage_problem": unreachable or engine.refusals.problem,
            "gone": unreachable is not None,
            "damage": self._damage.found,
            "failing": asdict(engine.failing) if engine.failing else None,
            "loops": [_loop(loop, engine) for loop in (*engine.loops, self._watch, *self._lease_loops)],
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
            "unstored": sum(run.unstored for run in engine.executor.carried.values()),
        }


def _carried(engine: Engine) -> Mapping[str, int]:
    carried = engine.executor.carried.values()
    calls = sum(run.direct for run in carried)
    return {"running": len(carried) - calls, "direct": calls}


def _loop(loop: Loop, engine: Engine) -> dict[str, Any]:
    pulse = loop.pulse
    error = pulse.error or loop.note or (engine.claimer.pulse.error if loop is engine.claim_loop else None)
    last_at = iso(pulse.last_at) if pulse.last_at else None
    return {"name": loop.name, "rounds": pulse.rounds, "last_at": last_at, "error": error}
