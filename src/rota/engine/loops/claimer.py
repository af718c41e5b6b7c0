"""The loop that claims queued runs into free slots and notifies other machines."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial

from msgspec import Struct

from rota.engine.loops.in_flight import RESERVED, Events, InFlightRun, Slots
from rota.engine.loops.loop import AGAIN, Pulse, StorageErrors
from rota.engine.ports import Functions, Processes
from rota.engine.transactions.claim import (
    ClaimCache,
    Claimed,
    ClaimOwner,
    Launched,
    Launcher,
    ask_claim,
    claim,
    slots_to_fill,
)
from rota.model.clock import Clock
from rota.model.records import ProcessIdentity
from rota.store.driver import Database, Store, WriteOptions

LEAST_PAUSE = 1.0
"""Seconds between two announcements: a machine that was woken claims by itself while there is more."""


class PeerNotifier:
    """Announces work to the others, at most once a second: every announcement makes commits stand in line."""

    def __init__(self, store: Store, clock: Clock, *, holder: ClaimOwner, slots: Slots) -> None:
        self._store = store
        self._clock = clock
        self._shared = holder.leased
        self._slots = slots
        self._told_at: float | None = None

    def notify(self) -> None:
        """Wake other machines if this one is full. Call from the event loop."""
        now = self._clock.monotonic()
        if not self._shared or self._slots.free() or (self._told_at is not None and now < self._told_at + LEAST_PAUSE):
            return
        self._told_at = now
        self._store.submit(announce).add_done_callback(_forget)


def announce(db: Database) -> None:
    """Wake schedulers on other machines."""
    db.announces = True


def _forget(future: "asyncio.Future[None]") -> None:
    """Read the error, so that asyncio does not log it: other machines look every few seconds anyway."""
    if not future.cancelled():
        future.exception()


PASSED_OVER = 0.1
"""Seconds before runs that another transaction had locked are tried again."""
ASIDE_FROM = 128
"""From how many slots on halves of them are large enough for a transaction each: one costs as much as 20 runs."""


class Claims(Struct, frozen=True):
    """The result of a claim, and whether there may be more."""

    claimed: list[Claimed]
    more: bool


NOTHING_CLAIMED = Claims([], more=False)


class _Keepers:
    """The keepers that are reserved for one claim."""

    def __init__(self, processes: Processes, ending: Mapping[ProcessIdentity, InFlightRun], *, count: int) -> None:
        self._processes = processes
        self._ending = ending
        self._reserved = processes.reserve(count, list(ending))

    def launcher(self) -> Launcher:
        """Return what launches in them; one that holds an outcome is used if this transaction has written that."""
        usable = [process for process in self._reserved if process not in self._ending or self._ending[process].written]

        def launch(claimed: Claimed) -> Launched | None:
            launched = self._processes.launch_reserved(claimed, usable[-1]) if usable else None
            if launched is not None:
                usable.pop()
            return launched

        return launch

    def release(self, taken: Sequence[Claimed], *, claimed: bool) -> None:
        """Give back those that the claim did not use."""
        if self._reserved:
            used = {one.launched.identity for one in taken if one.launched is not None}
            self._processes.release([process for process in self._reserved if process not in used], claimed=claimed)


class Claimer:
    """Fills the free slots of one worker."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        holder: ClaimOwner,
        slots: Slots,
        processes: Processes,
        functions: Functions,
        peers: PeerNotifier,
        storage_errors: StorageErrors,
        events: Events,
        trusted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._slots = slots
        self._processes = processes
        self._functions = functions
        self._peers = peers
        self._storage_errors = storage_errors
        self._events = events
        self._trusted = trusted
        """Whether the clock may be followed."""
        self._known = ClaimCache()
        self._again = False
        self._claiming: asyncio.Future[Claims] | None = None
        self.allowed = True
        """Whether it claims at all."""
        self.pulse = Pulse()
        """How often claims failed in a row; their rounds end before they do."""
        self.until: datetime | None = None
        """Claim only runs that were queued by then; None: all."""

    async def over(self, *, within: float | None = None) -> None:
        """Wait until no claim is under way, or so many seconds have passed."""
        if self._claiming is not None:
            await asyncio.wait([self._claiming], timeout=within)

    def abandon(self) -> None:
        """Claim nothing any more; what is being claimed was taken back, or never comes."""
        self.allowed = False
        if self._claiming is not None:
            self._claiming.cancel()

    def now(self) -> None:
        """Ask for runs for the free slots, in the same commit as what was submitted just before."""
        if not self.allowed or not self._trusted():
            return
        if self._claiming is not None:
            self._again = True
            return
        free = self._slots.free()
        if not free:
            return
        for slot in free:
            self._slots.take(slot, RESERVED)
        self._again = False
        keepers = _Keepers(self._processes, dict(self._slots.ending), count=len(free))
        self._claiming = self._store.submit(
            partial(self._claim, free=free, until=self.until, now=self._clock.now(), keepers=keepers),
            WriteOptions(
                prefetch=partial(self._ask, free=free),
                on_precommit=self._foretell,
            ),
        )
        self._slots.filling = True
        self._claiming.add_done_callback(partial(self._claimed, free=free, keepers=keepers))

    def _foretell(self, claims: Claims) -> None:
        if any(claimed.started for claimed in claims.claimed):
            self._functions.prepare(claims.claimed)

    @property
    def _portion(self) -> int:
        """How many are claimed at once: all, or half of them where one half is stored beside the other."""
        return self._slots.concurrency // (2 if self._slots.exclusive else 1)

    def _ask(self, db: Database, *, free: Sequence[int]) -> None:
        ask_claim(db, self._holder, free, limit=self._portion, known=self._known)

    def _claim(
        self, db: Database, *, free: Sequence[int], until: datetime | None, now: datetime, keepers: "_Keepers"
    ) -> Claims:
        usable = slots_to_fill(db, self._holder, free, limit=self._portion, known=self._known)
        if usable is None:
            return NOTHING_CLAIMED
        alive = self._processes.alive
        launch = keepers.launcher()
        claimed = claim(db, self._holder, usable, now=now, alive=alive, until=until, known=self._known, launch=launch)
        return Claims(claimed, more=bool(claimed) and len(claimed) == len(usable))

    def _claimed(self, future: "asyncio.Future[Claims]", *, free: Sequence[int], keepers: "_Keepers") -> None:
        self._claiming, self._slots.filling = None, False
        self._slots.exclusive = self._holder.leased and self._known.alone and self._slots.concurrency >= ASIDE_FROM
        for slot in free:
            self._slots.give_back(slot)
        error = None if future.cancelled() else future.exception()
        claims = NOTHING_CLAIMED if future.cancelled() or error is not None else future.result()
        keepers.release(claims.claimed, claimed=not future.cancelled() and error is None)
        self._known.keep(claims.claimed)
        for claimed in claims.claimed:
            self._slots.take(claimed.slot, claimed.run.id)
        if not future.cancelled() and error is None:
            self.pulse.succeed()
        if error is not None:
            self.pulse.fail(error)
            self._storage_errors.report("claim", error)
            asyncio.get_running_loop().call_later(AGAIN, self.now)
        elif claims.claimed:
            self._storage_errors.clear("claim")
        self._events.claimed(claims.claimed)
        if claims.more:
            self._peers.notify()
        if error is not None or self._claiming is not None:
            return
        if claims.more or self._again:
            self.now()
        elif self._known.passed_over:
            asyncio.get_running_loop().call_later(PASSED_OVER, self.now)
