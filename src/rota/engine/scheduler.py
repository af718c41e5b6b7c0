"""The scheduler of a process: its loops, their status, and one pass of all of them."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from msgspec import Struct

from rota.engine.activity import next_release, outlook
from rota.engine.loops.attention import AttentionWatch, DigestWriter
from rota.engine.loops.awake import Awake
from rota.engine.loops.callers import Callers
from rota.engine.loops.chats import Chats
from rota.engine.loops.claimer import Claimer, PeerNotifier
from rota.engine.loops.executor import Executor
from rota.engine.loops.firer import COMPARE_EVERY, ClockJumpDetector, Firer, Pinger, ServerClock, ServerNow
from rota.engine.loops.in_flight import Events, InFlightRun, Recorded, Slots, handle_of
from rota.engine.loops.logins import LoginChecks, ThreadedLogins
from rota.engine.loops.loop import AlarmFactory, Loop, StorageErrors
from rota.engine.loops.notifier import Deliveries, ThreadedPost
from rota.engine.loops.outputs import Outputs
from rota.engine.loops.pruner import Pruner
from rota.engine.loops.recorder import (
    LeakedThreadPools,
    Recorder,
    moves_fires,
    notifies,
    one_of_each_kind,
)
from rota.engine.loops.work_sources import Items, ThreadedSources, WorkReporter
from rota.engine.loops.workspaces import uses_worktree
from rota.engine.ports import Desk, Functions, Logins, Post, PowerSwitch, Processes, Sources
from rota.engine.transactions.attention import FindItems
from rota.engine.transactions.claim import Claimed, ClaimOwner
from rota.engine.transactions.digests import BuildDigest
from rota.engine.transactions.finish import Finished
from rota.engine.transactions.fire import Fired, replan
from rota.engine.transactions.pause import release_due
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import StateError
from rota.model.spec import KeepAwake, SecretOrigin
from rota.model.states import Status
from rota.rules.liveness import say_skew
from rota.runners.power import SystemPower
from rota.settings import Settings
from rota.store.driver import Store
from rota.store.tables import runs
from rota.store.tables.processes import server_now

CLAIMS_FIRST = 0.05
"""For how many seconds the other loops let a claim go first when another process changed something."""


CLOCK_WRONG = "clock_wrong"
FAILURES = 2
"""After how many failures in a row a stage counts as failing: a single one may be a lock held for a moment."""


class Failing(Struct, frozen=True):
    """A stage without which no run starts, and the error that it meets again and again; or the clock."""

    stage: str
    code: str
    error: str


class Engine:
    """Fires, claims, executes and records for one worker, on one event loop."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        settings: Settings,
        holder: ClaimOwner,
        processes: Processes,
        functions: Functions,
        sources: Sources | None = None,
        post: Post | None = None,
        logins: Logins | None = None,
        power: PowerSwitch | None = None,
        find_items: FindItems | None = None,
        build_digest: BuildDigest | None = None,
        desk: Callable[[], Desk] | None = None,
        origins: Callable[[], Mapping[str, SecretOrigin]] | None = None,
        environ: Mapping[str, str] = os.environ,
        stays: bool = True,
        fires: bool = True,
        server_now: ServerNow = server_now,
        on_fired: Callable[[Fired], None] = lambda _fired: None,
        on_finished: Callable[[Sequence[str]], None] = lambda _run_ids: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._holder = holder
        self._processes = processes
        self._functions = functions
        self._on_fired = on_fired
        self._on_finished = on_finished
        self._fires = fires
        """Whether it looks after the calendar and the house too; else it only takes runs and carries them out."""
        self._tasks: list[asyncio.Task[None]] = []
        self._waking: asyncio.Task[None] | None = None
        self._emptied = asyncio.Event()
        self.events = Events()
        self.slots = Slots(settings.scheduler.concurrency)
        self.refusals = StorageErrors(clock)
        self.server_clock = ServerClock(store, clock, holder=holder, server_now=server_now)
        self._kept = LeakedThreadPools(store, storage_errors=self.refusals, events=self.events)
        self._peers = PeerNotifier(store, clock, holder=holder, slots=self.slots)
        sources = sources or ThreadedSources(settings, os.environ)
        self.outbox = WorkReporter(store, clock, sources)
        self.items = Items(store, clock, sources=sources, outbox=self.outbox)
        post = post or ThreadedPost(settings, os.environ)
        self.deliveries = Deliveries(store, clock, post, tick=settings.scheduler.tick)
        self.attention = AttentionWatch(
            store,
            clock,
            find_items,
            stays=stays,
            tick=settings.scheduler.tick,
            written=self.deliveries.loop.wake,
        )
        self.digests = DigestWriter(store, clock, build_digest, written=self.deliveries.loop.wake)
        logins = logins or ThreadedLogins(settings, os.environ)
        self.logins = LoginChecks(store, clock, logins, released=self.claim_now)
        self.chats = Chats(
            store,
            clock,
            settings=settings,
            environ=environ,
            origins=origins,
            epoch=holder.epoch,
            desk=desk if stays and fires else None,
            server_now=server_now,
            changed=self.wake,
        )
        self.awake = Awake(
            store,
            clock,
            power or SystemPower(),
            policy=settings.scheduler.keep_awake,
            running=lambda: len(self.executor.carried),
            wakes=stays and fires,
        )
        self._pinger = Pinger(post, settings.scheduler.ping if stays else None)
        self.outputs = Outputs(store, clock, settings.state)
        self.executor = Executor(
            store,
            clock,
            holder=holder,
            processes=processes,
            functions=functions,
            settings=settings,
            items=self.items,
            outputs=self.outputs,
            logins=logins,
            storage_errors=self.refusals,
            events=self.events,
        )
        self.claimer = Claimer(
            store,
            clock,
            holder=holder,
            slots=self.slots,
            processes=processes,
            functions=functions,
            peers=self._peers,
            storage_errors=self.refusals,
            events=self.events,
            trusted=lambda: self.server_clock.trusted,
        )
        self.claimer.allowed = settings.scheduler.enabled
        self._recorder = Recorder(
            store,
            clock,
            holder=holder,
            functions=functions,
            in_flight=self.executor.carried,
            outputs=self.outputs,
            slots=self.slots,
            kept=self._kept,
            storage_errors=self.refusals,
            events=self.events,
        )
        self.callers = Callers(
            store,
            clock,
            holder=holder,
            processes=processes,
            executor=self.executor,
            events=self.events,
            dismisses=stays,
        )
        self._steps = ClockJumpDetector(store, clock, holder=holder)
        self.firer = Firer(store, storage_errors=self.refusals, events=self.events)
        self.cadence_loop = Loop("cadence", self._cadence_round, clock=clock)
        self.fire_loop = Loop("fire", self._fire_round, clock=clock)
        self.claim_loop = Loop("claim", self._claim_round, clock=clock)
        self.release_loop = Loop("release", self._release_round, clock=clock)
        self.cancel_loop = Loop("cancel", self._cancel_round, clock=clock)
        self.direct_loop = Loop("direct", self._direct_round, clock=clock)
        self.workspace_loop = Loop("workspaces", self._workspace_round, clock=clock)
        self._pruner = Pruner(store, clock, settings, stays=stays, rows=fires)
        self.prune_loop = Loop("prune", self._prune_round, clock=clock)
        self._connect()

    def _connect(self) -> None:
        """Add each stage to the events that give it work, in the order of the flow."""
        events, claim = self.events, self.claimer.now
        events.enqueued.add(claim)
        events.fired.add(self._fired)
        events.claimed.add(lambda _claimed: self._recorder.flush())  # the writer has work while these begin
        events.claimed.add(self.executor.begin_all, self._claimed)
        events.finished.add(self._recorder.ended)
        events.recorded.add(self.executor.settle, self._recorded)
        events.released.add(self.free_slot, self.items.left, self._released)
        events.caller_left.add(self.direct_loop.wake, claim)
        events.freed.add(claim)
        if self.awake.policy is not KeepAwake.OFF:
            events.claimed.add(lambda taken: self.awake.loop.wake() if taken else None)
            events.freed.add(self.awake.loop.wake)

    @property
    def loops(self) -> tuple[Loop, ...]:
        """All duties, in the order of the flow."""
        work = (self.cancel_loop, self.direct_loop, self.workspace_loop, self.outbox.loop, self.outputs.loop)
        if not self._fires:
            return (self.claim_loop, *work, self.awake.loop, self.prune_loop)
        flow = (self.cadence_loop, self.fire_loop, self.claim_loop, self.release_loop)
        return (
            *flow,
            *work,
            self.logins.loop,
            self.attention.loop,
            self.digests.loop,
            self.deliveries.loop,
            self.chats.loop,
            self.awake.loop,
            self.prune_loop,
        )

    @property
    def wrong_clock(self) -> Failing | None:
        """Why the clock of this machine may not be followed; None: it may."""
        if self.server_clock.agrees:
            return None
        return Failing("clock", CLOCK_WRONG, f"this machine's clock is {say_skew(self.server_clock.skew)}")

    @property
    def failing(self) -> Failing | None:
        """The stage, fire or claim, that fails round after round; None: runs can start."""
        if (wrong := self.wrong_clock) is not None:
            return wrong
        stages = {"fire": (self.fire_loop.pulse,), "claim": (self.claimer.pulse, self.claim_loop.pulse)}
        for stage, pulses in stages.items():
            for pulse in pulses:
                if pulse.failures >= FAILURES:
                    return Failing(stage, pulse.code or "", pulse.error or "")
        return None

    def start(self, make_alarm: AlarmFactory) -> None:
        """Run the loops."""
        self._tasks = [asyncio.create_task(loop.run(make_alarm), name=f"rota-{loop.name}") for loop in self.loops]

    async def end(self) -> None:
        """Stop the loops; what runs goes on."""
        tasks = [*self._tasks, *([] if self._waking is None else [self._waking])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks = []
        if self._fires:
            await self.chats.finish()
            await self.deliveries.finish()
        await self.outbox.finish()
        self.callers.close()
        await asyncio.to_thread(self.awake.close)

    async def abandon(self) -> None:
        """End the trees of everything that is carried, at once, and record nothing: it is no longer ours."""
        self.chats.abandon()
        self.claimer.abandon()
        left = self.executor.abandon()
        self._recorder.forget()
        await asyncio.gather(*(self._processes.sweep(run_id) for run_id in left))

    def quiesce(self) -> None:
        """Fire and claim nothing more; runs at their gates go back to the queue."""
        self.claimer.allowed = False
        for task, loop in zip(self._tasks, self.loops, strict=False):
            if loop is self.fire_loop:
                task.cancel()
        for run_id in list(self.executor.carried):
            self.executor.hand_back(run_id)
        self.direct_loop.wake()

    @property
    def busy(self) -> bool:
        """Whether a run is carried, an outcome is not yet stored, or a claim is under way that may bring one."""
        return bool(self.executor.carried) or self._recorder.waits or self.slots.filling

    @property
    def only_unstored(self) -> bool:
        """Whether all that is left of the runs is results that the storage refuses."""
        return all(carried.unstored for carried in self.executor.carried.values())

    @property
    def nothing_runs(self) -> bool:
        """Whether all that is left of the runs is to store where they go."""
        return all(carried.over for carried in self.executor.carried.values())

    async def until_empty(self) -> None:
        """Wait until nothing is carried and every outcome is stored."""
        while self.busy:
            self._emptied.clear()
            await self._emptied.wait()

    def wake(self) -> None:
        """Look at everything again: another process changed something. Most likely there is something to claim."""
        self.claim_now()
        if self._waking is None:
            self._waking = asyncio.get_running_loop().create_task(self._wake_others(), name="rota-wake")

    async def _wake_others(self) -> None:
        """Wake the other loops after the claim, so that claimed runs begin before their reads."""
        await self.claimer.over(within=CLAIMS_FIRST)
        self._waking = None
        for loop in self.loops:
            if loop not in (self.claim_loop, self.prune_loop):
                loop.wake()

    # the clock

    async def follows_clock(self) -> bool:
        """Return whether what is due may be done: on a shared database only while the clocks agree."""
        agreed = self.server_clock.agrees
        agrees = await self.server_clock.look()
        if agrees and not agreed:
            for loop in self.loops:
                loop.wake()
        return agrees

    def _compare_again(self) -> datetime:
        return self._clock.now() + timedelta(seconds=COMPARE_EVERY)

    # cadence

    async def _cadence_round(self) -> datetime | None:
        """Re-plan jobs whose interval depends on the mode as soon as it changes."""
        if not await self.follows_clock():
            return self._compare_again()
        now = self._clock.now()
        found = self._store.read(partial(outlook, now=now))
        if found.stale:
            changed = await self._store.submit(partial(replan, now=now))
            for job, mode in changed.items():
                log.info("job rescheduled", job=job, mode=mode.value)
            self.fire_loop.wake()
            self.claim_now()
        tick = now + self._settings.scheduler.tick
        return tick if found.changes_at is None else min(found.changes_at, tick)

    # fire

    async def _fire_round(self) -> datetime | None:
        trusted = await self.follows_clock()
        if await self._steps.look(trusted=trusted):
            self.release_loop.wake()
        if not trusted:
            return self._compare_again()
        now = self._clock.now()
        if await self.firer.fire_due(now):
            self.cancel_loop.wake()  # a new run may replace an old one
            self._peers.notify()
        self._pinger.beat(now)
        self.awake.loop.wake()  # the next instant may be another
        return self.firer.next_at(now, tick=now + self._settings.scheduler.tick)

    def _fired(self, fired: Fired) -> None:
        for born, reason, count in fired.skips:
            log.info("run skipped", run=born.handle, reason=reason.value, count=count)
        if fired.notifies:
            self.deliveries.loop.wake()
        self._on_fired(fired)

    # claim

    async def _claim_round(self) -> datetime | None:
        if not await self.follows_clock():
            return self._compare_again()
        self.claim_now()
        await self.claimer.over()
        return self._clock.now() + self._settings.scheduler.tick

    def claim_now(self) -> None:
        """Ask for runs for the free slots."""
        self.claimer.now()

    def _claimed(self, taken: Sequence[Claimed]) -> None:
        self._emptied.set()
        if not self.claimer.allowed:  # the stop came while the claim was under way
            for claimed in taken:
                self.executor.hand_back(claimed.run.id)
        if any(claimed.call is not None for claimed in taken):
            self.direct_loop.wake()  # its caller may have gone on already

    def _released(self, run_id: str) -> None:
        self._notify_finished([run_id])
        self._emptied.set()
        self.release_loop.wake()
        self.fire_loop.wake()
        self.events.freed()

    def free_slot(self, run_id: str) -> None:
        """Free the slot of a run, unless code of it still runs."""
        slot = self.slots.slot_of(run_id)
        if slot is not None and not self._functions.holds(run_id):
            self.slots.give_back(slot)
            self._kept.give_back(run_id)
            self.events.freed()

    # record

    def all_ended(self, finished: Sequence[Finished]) -> None:
        """Take many outcomes."""
        self._recorder.all_ended(self.executor.check_called(finished))

    def _recorded(self, ended: Recorded) -> None:
        self._notify_finished([finished.run_id for finished in ended.batch])
        for finished, carried in zip(ended.batch, ended.carried, strict=True):
            if carried is None or carried.agent:
                self.items.left(finished.run_id)
        if any(outcome.status is Status.FAILED for outcome in ended.stored.values()):
            self.release_loop.wake()  # its next attempt waits for its backoff
        self.attention.run_ended()
        self._emptied.set()
        for carried in one_of_each_kind(ended.carried):
            self._wake_affected(carried)

    def _wake_affected(self, carried: InFlightRun | None) -> None:
        claimed = None if carried is None else carried.claimed
        if claimed is None or moves_fires(claimed):
            self.fire_loop.wake()
        if carried is None:
            return
        if claimed is None:
            self.outbox.loop.wake()  # another process may have claimed what it works on
        if carried.direct:
            self.direct_loop.wake()  # its caller needs no watch any more
        if claimed is None or notifies(claimed):
            self.deliveries.loop.wake()
        if claimed is None or claimed.spec.work.agent is not None:
            self.logins.loop.wake()  # it may have been refused for a missing login
            self.cadence_loop.wake()  # it may count as activity
            if claimed is None or uses_worktree(claimed):
                self.workspace_loop.wake()

    def _notify_finished(self, run_ids: Sequence[str]) -> None:
        """Notify the observer of runs that ended together. A failing observer is logged."""
        try:
            self._on_finished(run_ids)
        except StateError as error:
            log.warning("could not display the end of a run", run=", ".join(run_ids), error=str(error))

    # release and cancel

    async def _release_round(self) -> datetime | None:
        """Release runs whose waiting time is over, and expire those that waited too long."""
        if not await self.follows_clock():
            return self._compare_again()
        now = self._clock.now()
        due = self._store.read(next_release)
        if due is not None and due <= now:
            ended = await self._store.submit(partial(release_due, now=now))
            if ended.expired:
                self._notify_finished(ended.expired)
            for pause in ended.pauses:
                log.info("pause ended", job=pause.job, skipped=pause.count)
            for provider in ended.holds:
                log.info("provider hold ended", provider=provider)
            self.fire_loop.wake()
            self.deliveries.loop.wake()
            self.claim_now()
            due = self._store.read(next_release)
        tick = now + self._settings.scheduler.tick
        return tick if due is None else min(due, tick)

    async def _cancel_round(self) -> datetime | None:
        """Stop runs whose cancellation is stored; a periodic round finds those that no event announced."""
        for run_id, reason in self._store.read(partial(runs.cancelling_runs, epoch=self._holder.epoch)):
            carried = self.executor.carried.get(run_id)
            if carried is not None and not carried.stopping:
                log.info("stopping run", run=handle_of(carried), reason=reason.value)
                self.executor.stop(run_id)
        return self._clock.now() + self._settings.scheduler.tick

    async def _direct_round(self) -> datetime | None:
        """Watch the callers of direct calls; dismiss new ones while the scheduler stops."""
        if not self.claimer.allowed:
            await self.callers.dismiss()
        await self.callers.look()
        return self._clock.now() + self._settings.scheduler.tick

    async def _prune_round(self) -> datetime | None:
        return await self._pruner.round() if await self.follows_clock() else self._compare_again()

    async def _workspace_round(self) -> datetime | None:
        await self.executor.briefing.workspaces.sweep()
        return None


MAX_PASSES = 1000


async def run_once(engine: Engine, clock: Clock) -> datetime:
    """Fire and claim what is due; return the time of the claim. Later ticks handle later work.

    While runs execute, free slots are filled only with runs that were queued by then, so that every tick ends.
    """
    if engine.claimer.allowed:
        await _run_loops(engine, clock)
    engine.claimer.until = clock.now()
    await engine.claim_loop.turn()
    return engine.claimer.until


async def _run_loops(engine: Engine, clock: Clock) -> None:
    """Run a round of every loop, and more while a loop is due again.

    Fire comes last and claim after it, so that they see what the others made possible: a pause that ended, a run that
    was released. Cancel comes after both, since a new run may replace another. Pruning may take longer and is left out.
    """
    began = clock.now()
    flow = (engine.fire_loop, engine.claim_loop, engine.cancel_loop)
    loops = [loop for loop in engine.loops if loop not in (*flow, engine.prune_loop)]
    for _ in range(MAX_PASSES):
        due = [await loop.turn() for loop in (*loops, *flow)]
        if not any(at is not None and at <= began for at in due):
            break
