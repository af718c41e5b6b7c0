"""Leases on a shared database: renew our own, and declare workers lost whose lease expired."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial

from msgspec import Struct

from rota.engine.loops.loop import Loop
from rota.engine.recovery import resolve_dispatched
from rota.engine.transactions import direct_calls
from rota.engine.transactions.claim import ClaimOwner
from rota.engine.transactions.finish import Finished, finish, release_leaked_by
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import RotaError
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.rules.liveness import LEASE, LOOK_EVERY, Renewals, may_judge, next_renewal, renewed
from rota.rules.outcome import Recovery, lost_too_often
from rota.store.driver import Database, Store
from rota.store.tables import direct_calls as calls_table
from rota.store.tables import processes, runs

JOIN_TIMEOUT_SECONDS = 2.0
"""How many seconds a renewal that is under way has to end when the process does."""


class LostWork(Struct, frozen=True):
    """The work of a lost process: failed runs, the number of failed calls, and requeued runs."""

    runs: tuple[str, ...]
    calls: int
    requeued: int

    @property
    def failed(self) -> int:
        """How much failed."""
        return len(self.runs) + self.calls


class PeerState(Struct, frozen=True):
    """Work for other machines: expired leases, and whether a direct call waits."""

    lapsed: list[processes.Lapsed]
    anybody_waits: bool


class Leases:
    """Keeps the lease of one process, on a thread of its own, and says of others that they are lost.

    `lost` is called on the event loop when another worker declared this one lost, `changed` when other workers left
    work, and `ended` for each of their runs that failed with them.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        holder: ClaimOwner,
        lost: Callable[[], None],
        changed: Callable[[], None],
        ended: Callable[[Sequence[str]], None] = lambda _run_ids: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._lost = lost
        self._changed = changed
        self._ended = ended
        self._series: Renewals | None = None
        self._refused: str | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="rota-lease", daemon=True)
        self.loop = Loop("leases", self.round, clock=clock)

    def start(self) -> None:
        """Renew from now on. Call on the event loop that hears of a loss."""
        self._hearing = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Renew no more."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(JOIN_TIMEOUT_SECONDS)

    def renew(self) -> bool:
        """Renew once; return whether this process still holds its lease."""
        until = self._store.write(partial(processes.renew_lease, epoch=self._holder.epoch, lease=LEASE))
        if until is not None:
            self._series = renewed(self._series, self._clock.boottime())
        return until is not None

    def _keep(self) -> None:
        pause = 0.0
        while not self._ending.wait(pause):
            refused = False
            try:
                if not self.renew():
                    self._tell_lost()
                    return
                self._works()
            except Exception as error:  # any error: a worker that stops renewing is declared lost
                refused = True
                self._tell_refused(error)
            at = self._clock.boottime()
            pause = max(0.0, next_renewal(self._series, refused=refused, at=at) - at)

    def _tell_lost(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._hearing.call_soon_threadsafe(self._hear_loss)

    def _hear_loss(self) -> None:
        if not self._ending.is_set():  # else another epoch has begun, or everything ends
            self._lost()

    def _tell_refused(self, error: Exception) -> None:
        if self._refused != str(error):
            tell = log.warning if isinstance(error, RotaError) else log.exception
            tell("lease renewal failed, retrying", error=str(error))
        self._refused = str(error)

    def _works(self) -> None:
        if self._refused is not None:
            log.info("lease renewal recovered")
        self._refused = None

    async def round(self) -> datetime | None:
        """Look for processes of other machines whose lease is over, and take back what they had."""
        if may_judge(self._series, self._clock.boottime()):
            seen = self._store.read(partial(_look, but=self._holder.worker_id))
            for one in seen.lapsed:
                await self._take_back(one)
            if seen.anybody_waits:
                await self._store.submit(partial(dismiss_unheard, now=self._clock.now()))
        again: datetime = self._clock.now() + LOOK_EVERY
        return again

    async def _take_back(self, one: processes.Lapsed) -> None:
        left = await self._store.submit(partial(lose, epoch=one.epoch, worker=one.worker, now=self._clock.now()))
        if left is not None:
            told = {"failed": left.failed, "requeued": left.requeued}
            log.warning("worker lost", worker=one.worker, host=one.host, kind=one.kind, **told)
            self._changed()
            for run_id in left.runs:
                self._ended([run_id])


def _look(db: Database, *, but: str) -> PeerState:
    return PeerState(processes.lapsed_processes(db, but=but), calls_table.anybody_waits(db))


@contextlib.contextmanager
def kept_lease(
    store: Store,
    clock: Clock,
    *,
    holder: ClaimOwner,
    lost: Callable[[], None],
    changed: Callable[[], None],
    ended: Callable[[Sequence[str]], None],
) -> Iterator[Leases | None]:
    """Renew the lease of a process meanwhile; none where its lock tells that it is alive."""
    if not holder.leased:
        yield None
        return
    leases = Leases(store, clock, holder=holder, lost=lost, changed=changed, ended=ended)
    leases.start()
    try:
        yield leases
    finally:
        leases.stop()


def lose(db: Database, epoch: int, *, worker: str, now: datetime, forced: bool = False) -> LostWork | None:
    """Say that a process of another machine is lost: its runs fail, or wait again; None: its lease holds after all.

    Its own writes name its epoch and change nothing from here on.
    """
    if not processes.still_lapsed(db, epoch, forced=forced):
        return None
    left = take_over(db, epoch, lost_outcome(worker), now=now)
    release_leaked_by(db, [epoch])
    processes.end_process(db, epoch, ending="lost", now=now)
    return left


def take_over(db: Database, epoch: int, outcome: Outcome, *, now: datetime) -> LostWork:
    """End the runs of a lost epoch; runs that had not started go back to the queue."""
    owned = runs.owned_runs(db, [epoch])
    running = [Finished(one.id, one.job_id, outcome) for one in owned if one.status is Status.RUNNING]
    waiting = [one for one in owned if one.status is Status.DISPATCHED]
    finish(db, running, epoch=epoch, now=now)
    for one in waiting:
        action = Recovery.FAIL_LOST if lost_too_often(one.losses) else Recovery.REQUEUE
        resolve_dispatched(db, owned=one, action=action, now=now)
    calls = [
        Finished(direct_call.id, "", outcome)
        for direct_call in calls_table.unfinished(db)
        if direct_call.holder == epoch
    ]
    direct_calls.record_calls(db, calls, epoch=epoch, now=now)
    for call in calls_table.calls(db):
        if call.epoch == epoch:
            direct_calls.withdraw(db, call.id, now=now)
    return LostWork(tuple(one.run_id for one in running), len(calls), len(waiting))


def dismiss_unheard(db: Database, *, now: datetime) -> None:
    """Remove waiting callers of machines without a worker: no process there can see whether they live."""
    at = processes.server_now(db)
    living = [
        process
        for process in processes.open_processes(db)
        if process.lease_until is not None and process.lease_until >= at
    ]
    boots = {process.identity.boot_id for process in living}
    for call in calls_table.calls(db):
        if call.slot is None and call.caller.boot_id not in boots:
            direct_calls.withdraw(db, call.id, now=now)


def lost_outcome(worker: str) -> Outcome:
    """Return how the runs of a worker end that was lost."""
    error = f"its worker {worker} was lost: no heartbeat for {LEASE.seconds} s"
    return Outcome(Status.FAILED, Reason.WORKER_LOST, error=error)
