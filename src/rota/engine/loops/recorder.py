"""The loop that stores finished runs and wakes the loops affected by them."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from functools import partial

from rota import faults
from rota.engine.loops.in_flight import Events, InFlightRun, Recorded, RunStep, Slots, handle_of
from rota.engine.loops.loop import AGAIN, StorageErrors
from rota.engine.loops.outputs import Outputs
from rota.engine.ports import Functions
from rota.engine.transactions.claim import Claimed, ClaimOwner
from rota.engine.transactions.direct_calls import record_calls
from rota.engine.transactions.finish import Finished, FinishMode, finish, release_leaked
from rota.log import log
from rota.model.clock import Clock
from rota.model.records import Outcome
from rota.model.spec import Kind
from rota.model.states import Status, Trigger
from rota.rules.outcome import ends_alone
from rota.store.driver import Database, Store, WriteOptions


def one_of_each_kind(ended: Sequence[InFlightRun | None]) -> Iterable[InFlightRun | None]:
    """Return one of each job and door: what their ends have to do with others is the same for all of them."""
    kinds: dict[tuple[int, Trigger | None], InFlightRun | None] = {}
    for carried in ended:
        claimed = None if carried is None else carried.claimed
        kinds[(id(carried), None) if claimed is None else (id(claimed.spec), claimed.run.trigger)] = carried
    return kinds.values()


def has_no_dependents(carried: InFlightRun | None, outcome: Outcome) -> bool:
    """Return whether an end affects no other run; unknown for a run that another process claimed."""
    claimed = None if carried is None else carried.claimed
    return claimed is not None and ends_alone(outcome, claimed.spec, claimed.run.trigger)


def notifies(claimed: Claimed) -> bool:
    """Return whether the end of a run or of its group may send a notification."""
    return claimed.spec.reports or claimed.run.trigger in (Trigger.GROUP, Trigger.RETRY, Trigger.ANSWER)


def moves_fires(claimed: Claimed) -> bool:
    """Return whether the end of a run may move an instant of its job, its group, or runs that wait for a poll."""
    alone = claimed.run.trigger in (Trigger.MANUAL, Trigger.DIRECT) and claimed.spec.work.kind is not Kind.POLL
    return not alone or not claimed.spec.schedule.manual


class LeakedThreadPools:
    """Pools that threads of ended runs still hold."""

    def __init__(self, store: Store, *, storage_errors: StorageErrors, events: Events) -> None:
        self._store = store
        self._storage_errors = storage_errors
        self._events = events
        self._run_ids: set[str] = set()

    def keep(self, run_ids: Collection[str]) -> None:
        """Note runs that end while code of them still runs."""
        self._run_ids.update(run_ids)

    def give_back(self, run_id: str) -> None:
        """Give back what the thread of a run kept, if it kept anything."""
        if run_id in self._run_ids:
            future = self._store.submit(partial(release_leaked, run_id=run_id))
            future.add_done_callback(partial(self._given, run_id))

    def _given(self, run_id: str, future: "asyncio.Future[None]") -> None:
        error = None if future.cancelled() else future.exception()
        if error is not None:
            self._storage_errors.report("record", error)
            asyncio.get_running_loop().call_later(AGAIN, self.give_back, run_id)
            return
        self._run_ids.discard(run_id)
        self._events.freed()


class Recorder:
    """Stores the outcomes of runs; those that come together share a transaction.

    While a claim is under way outcomes gather: the writer could not take them earlier, and together they cost less.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        holder: ClaimOwner,
        functions: Functions,
        in_flight: dict[str, InFlightRun],
        outputs: Outputs,
        slots: Slots,
        kept: LeakedThreadPools,
        storage_errors: StorageErrors,
        events: Events,
    ) -> None:
        self._store = store
        self._clock = clock
        self._epoch = holder.epoch
        self._functions = functions
        self._in_flight = in_flight
        self._outputs = outputs
        self._slots = slots
        self._kept = kept
        self._storage_errors = storage_errors
        self._events = events
        self._outcomes: list[Finished] = []
        self._flush_planned = False
        self._storing_aside = False
        self._sharing: set[asyncio.Task[None]] = set()

    @property
    def waits(self) -> bool:
        """Whether outcomes wait to be stored."""
        return bool(self._outcomes)

    def forget(self) -> None:
        """Drop what is not stored: it is no longer ours."""
        self._outcomes.clear()

    def ended(self, finished: Finished) -> None:
        """Take an outcome; it is stored with all that ended in this turn of the event loop."""
        self._outcomes.append(finished)
        if not self._flush_planned:
            self._flush_planned = True
            asyncio.get_running_loop().call_soon(self.flush)

    def all_ended(self, finished: Sequence[Finished]) -> None:
        """Take many outcomes and store them now; those of functions that share their output after that."""
        sharing = [one for one in finished if self._shares(one.run_id)]
        for one in sharing:
            task = asyncio.get_running_loop().create_task(self._share(one), name="rota-output")
            self._sharing.add(task)
            task.add_done_callback(self._sharing.discard)
        self._outcomes.extend(one for one in finished if one not in sharing)
        self.flush()

    def _shares(self, run_id: str) -> bool:
        """Return whether a function's output is still to be shared; that of a command was when it ended."""
        carried = self._in_flight.get(run_id)
        return carried is not None and carried.shares and carried.in_process and not carried.unstored

    async def _share(self, finished: Finished) -> None:
        await self._outputs.finish(finished.run_id)
        self.ended(finished)

    def flush(self) -> None:
        """Submit the outcomes at hand and report their slots as free, so that a claim shares the commit.

        Where outcomes are stored beside claims, those that affect no other run only wait for each other; their slots
        are free when they are stored.
        """
        self._flush_planned = False
        batch = self._outcomes
        if not batch or (self._slots.filling and not self._slots.exclusive):
            return
        left = [self._in_flight.get(finished.run_id) for finished in batch]
        may_leak = [one.run_id for one, run in zip(batch, left, strict=True) if run is None or run.may_leak]
        kept = {run_id for run_id in may_leak if self._functions.holds(run_id)}
        alone = all(has_no_dependents(carried, one.outcome) for one, carried in zip(batch, left, strict=True))
        mode = FinishMode.BATCH_INDEPENDENT if alone else FinishMode.BATCH_LOCKED
        aside = alone and not kept and self._slots.exclusive
        if self._storing_aside if aside else self._slots.filling:
            return
        self._outcomes = []
        for carried in left:
            if carried is not None:
                carried.step(RunStep.STORE)
                if not aside and carried.run_id not in kept:
                    self._slots.give_back(carried.slot)
        self._kept.keep(kept)
        self._storing_aside = self._storing_aside or aside
        commands = [carried for carried in left if carried is not None and carried.process is not None]
        self._slots.ending |= {} if aside else {one.process: one for one in commands if one.process is not None}
        calls = {carried.run_id for carried in left if carried is not None and carried.direct}
        now = self._clock.now()
        record_all = partial(self._record, batch=batch, calls=calls, commands=commands, kept=kept, mode=mode, now=now)
        future = self._store.submit(record_all, WriteOptions(concurrent=aside))
        future.add_done_callback(partial(self._stored, batch, aside=aside))
        self._events.freed()

    def _record(
        self,
        db: Database,
        *,
        batch: Sequence[Finished],
        commands: Sequence[InFlightRun],
        calls: Collection[str],
        kept: Collection[str],
        mode: FinishMode,
        now: datetime,
    ) -> dict[str, Outcome]:
        """Store outcomes, and note those that are written for a claim in the same transaction."""
        for carried in commands:
            carried.written = False
        if calls:
            ended = [finished for finished in batch if finished.run_id in calls]
            stored = record_calls(db, ended, epoch=self._epoch, now=now, kept=kept)
            rest = [finished for finished in batch if finished.run_id not in calls]
            stored = {**finish(db, rest, epoch=self._epoch, now=now, leaked=kept), **stored}
        else:
            stored = finish(db, batch, mode, epoch=self._epoch, now=now, leaked=kept)
        for carried in commands:
            carried.written = carried.run_id in stored
        return stored

    def _stored(self, batch: list[Finished], future: "asyncio.Future[dict[str, Outcome]]", *, aside: bool) -> None:
        self._storing_aside = self._storing_aside and not aside
        error = None if future.cancelled() else future.exception()
        for carried in (self._in_flight.get(finished.run_id) for finished in batch):
            if carried is not None and carried.process is not None:
                self._slots.ending.pop(carried.process, None)
        if error is not None:
            self._store_later(batch, error)
            return
        faults.point("record.committed")
        self._storage_errors.clear("record")
        stored = future.result()
        left = [self._in_flight.pop(finished.run_id, None) for finished in batch]
        for finished, carried in zip(batch, left, strict=True):
            if aside and carried is not None:
                self._slots.give_back(carried.slot)
            outcome = stored.get(finished.run_id)
            if carried is not None and outcome is not None and outcome.status is Status.FAILED:
                log.info("run failed", run=handle_of(carried), reason=outcome.reason, error=outcome.error)
        self._events.recorded(Recorded(batch, left, stored))
        if aside:
            self.flush()  # results that arrived meanwhile
        if not self._slots.filling:
            self._events.freed()

    def _store_later(self, batch: list[Finished], error: BaseException) -> None:
        """Keep the outcomes of a failed write in memory and their slots taken, and retry."""
        self._storage_errors.report("record", error)
        for finished in batch:
            carried = self._in_flight.get(finished.run_id)
            if carried is not None:
                carried.step(RunStep.REFUSE)
                self._slots.take(carried.slot, finished.run_id)
        parts = [batch] if len(batch) == 1 else [[finished] for finished in batch]
        for part in parts:
            asyncio.get_running_loop().call_later(AGAIN, self.all_ended, part)
