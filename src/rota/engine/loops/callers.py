"""The callers of direct calls: watched while they wait and while they are served, dismissed at a stop."""

import asyncio
from datetime import timedelta
from functools import partial

from msgspec import Struct

from rota.engine.loops.executor import Executor
from rota.engine.loops.in_flight import Events, handle_of
from rota.engine.loops.loop import pause_for
from rota.engine.ports import Processes
from rota.engine.transactions.claim import ClaimOwner
from rota.engine.transactions.direct_calls import caller_ended
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import StateError
from rota.model.records import ProcessIdentity
from rota.store.driver import Database, Store
from rota.store.tables import direct_calls

STORAGE_PAUSE = timedelta(seconds=1)


class CallerQueue(Struct, frozen=True):
    """The direct calls that wait or are about to start, and those of this process that started."""

    calls: tuple[direct_calls.WaitingCall, ...]
    started: tuple[direct_calls.Direct, ...]


class Callers:
    """Watches the callers of direct calls, and stops a call whose caller is gone or gives up."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        holder: ClaimOwner,
        processes: Processes,
        executor: Executor,
        events: Events,
        dismisses: bool = True,
    ) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._processes = processes
        self._executor = executor
        self._events = events
        self._dismisses = dismisses
        self._watched: dict[str, asyncio.Task[None]] = {}

    async def look(self) -> None:
        """Watch new callers, stop calls that were given up, and free the slots that were handed back."""
        line = self._store.read(partial(read_line, holder=self._holder))
        for call in line.calls:
            self._watch(call.id, call.caller)
        for direct_call in line.started:
            self._watch(direct_call.id, direct_call.caller)
            if direct_call.cancel_requested_at is not None:
                self._stop(direct_call.id)
        self._free_handed_back({direct_call.id for direct_call in line.started})
        self._forget({call.id for call in line.calls} | {direct_call.id for direct_call in line.started})

    async def dismiss(self) -> None:
        """Dismiss the waiting callers, since the scheduler stops. They find their row gone and report it.

        A tick dismisses no caller: another process serves them.
        """
        if not self._dismisses:
            return
        try:
            if self._store.read(direct_calls.anybody_waits):
                boot_id = self._holder.identity.boot_id if self._holder.leased else None
                await self._store.submit(partial(direct_calls.dismiss, boot_id=boot_id))
        except StateError as error:
            log.error("could not notify waiting callers of the shutdown", error=str(error))

    def close(self) -> None:
        """Stop watching."""
        for task in self._watched.values():
            task.cancel()
        self._watched.clear()

    def _watch(self, call_id: str, caller: ProcessIdentity) -> None:
        if call_id not in self._watched and caller != self._holder.identity:
            task = asyncio.get_running_loop().create_task(self._until_gone(call_id, caller), name="rota-caller")
            self._watched[call_id] = task

    def _forget(self, known: set[str]) -> None:
        for call_id in [call_id for call_id in self._watched if call_id not in known]:
            self._watched.pop(call_id).cancel()

    async def _until_gone(self, call_id: str, caller: ProcessIdentity) -> None:
        await self._processes.gone(caller)
        while True:
            try:
                unfinished = await self._store.submit(partial(caller_ended, call_id=call_id, now=self._clock.now()))
                break
            except StateError:
                await pause_for(STORAGE_PAUSE)
        if unfinished:
            log.info("caller of a direct call exited", call=call_id, pid=caller.pid)
            self._stop(call_id)
            self._events.caller_left()

    def _stop(self, call_id: str) -> None:
        carried = self._executor.carried.get(call_id)
        if carried is not None and not carried.reserved and not carried.stopping:
            log.info("stopping direct call", call=handle_of(carried))
            self._executor.stop(call_id)

    def _free_handed_back(self, held: set[str]) -> None:
        reserved = [call_id for call_id, carried in self._executor.carried.items() if carried.reserved]
        for call_id in reserved:
            if call_id not in held:
                self._executor.leave(call_id)
                self._events.released(call_id)


def read_line(db: Database, *, holder: ClaimOwner) -> CallerQueue:
    """Return the direct calls that concern a process: those it carries, and those that wait on its machine."""
    started = tuple(direct_call for direct_call in direct_calls.unfinished(db) if direct_call.holder == holder.epoch)
    return CallerQueue(tuple(call for call in direct_calls.calls(db) if not holder.elsewhere(call.caller)), started)
