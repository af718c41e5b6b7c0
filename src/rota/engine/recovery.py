"""Recovery of the runs and direct calls of dead processes."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor as ThreadExecutor
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from msgspec import Struct

from rota import faults
from rota.engine.activity import ALL_KEY
from rota.engine.clock import tzdata_version
from rota.engine.loops.executor import Executor
from rota.engine.loops.in_flight import Slots
from rota.engine.membership.locks import WORKER, file_identity
from rota.engine.membership.session import DATABASE, Session
from rota.engine.ports import Processes
from rota.engine.transactions import agents, budgets, direct_calls
from rota.engine.transactions.claim import ClaimOwner
from rota.engine.transactions.finish import Finished, end_run, finish, release_leaked_by
from rota.log import log
from rota.model.clock import MILLISECOND, Clock, to_ms
from rota.model.errors import DatabaseCorrupt, RotaError, StateError
from rota.model.records import Job, Outcome
from rota.model.spec import Work
from rota.model.states import Reason, Status
from rota.rules.outcome import LeftBehind, Recovery, decide_recovery, settle
from rota.rules.queue_order import GROUP_LANE
from rota.store.driver import Database, Store
from rota.store.sqlite.store import Head, mark_database, quick_check, read_head
from rota.store.tables import audit, chats, jobs, notifications, processes, queue, run_queries, runs, work_items
from rota.store.tables import direct_calls as calls_table
from rota.store.tables.direct_calls import Direct, WaitingCall

RESTARTED = Outcome(Status.FAILED, Reason.PROCESS_RESTARTED, error="the scheduler's process ended while it ran")


class RecoveryContext(Struct, frozen=True):
    """A process that recovers: its store and clock, its epoch, the trees it can see, and where adopted work goes."""

    store: Store
    clock: Clock
    holder: ClaimOwner
    children: Processes
    executor: Executor
    slots: Slots

    async def end_tree(self, run_id: str) -> Outcome:
        """End what is left of a run's processes; return how the run ended."""
        unkillable = await self.children.sweep(run_id)
        if unkillable:
            text = f"processes {', '.join(map(str, unkillable))} could not be killed"
            return Outcome(Status.FAILED, Reason.UNKILLABLE, error=text)
        return RESTARTED


async def recover_calls(heir: RecoveryContext, dead: Sequence[int]) -> int:
    """Resolve every direct call of the dead epochs; return how many had started. Calls of dead callers are removed.

    A call whose keeper lives is adopted; the watch of callers sees at once if its caller is gone.
    """
    store, children = heir.store, heir.children
    for call in store.read(calls_table.calls):
        if call.epoch in dead:
            await children.sweep(call.id)  # its keeper may still stand at the gate
        gone = not heir.holder.elsewhere(call.caller) and not children.alive(call.caller)
        if call.epoch in dead or (call.epoch is None and gone):
            wanted = children.alive(call.caller)
            await store.submit(partial(_resolve_unstarted, call=call, wanted=wanted, now=heir.clock.now()))
    direct_call_list = [direct_call for direct_call in store.read(calls_table.unfinished) if direct_call.holder in dead]
    for direct_call in direct_call_list:
        action = store.read(partial(_decide, found=direct_call, children=children))
        log.info("recovering direct call of a dead process", call=direct_call.id, action=action.value)
        if action in (Recovery.ADOPT, Recovery.STOP):
            await _take_over_call(heir, direct_call, stop=action is Recovery.STOP)
        else:
            outcome = await _call_outcome(heir, direct_call, action)
            await store.submit(partial(_record, found=direct_call, outcome=outcome, now=heir.clock.now()))
    return len(direct_call_list)


def _resolve_unstarted(db: Database, *, call: WaitingCall, wanted: bool, now: datetime) -> None:
    if wanted and call.epoch is not None:
        direct_calls.put_back(db, call, epoch=call.epoch, now=now, lost=True)
    else:
        direct_calls.withdraw(db, call.id, now=now)


def _decide(db: Database, *, found: Direct, children: Processes) -> Recovery:
    if found.execution.job_id is None or found.execution.version is None:
        return Recovery.ADOPT if children.alive(found.caller) else Recovery.FAIL_RESTARTED
    work = jobs.version_spec(db, found.execution.job_id, found.execution.version).work
    return decide_recovery(
        LeftBehind(
            status=Status.RUNNING,
            in_process=work.in_process,
            keeper_alive=children.alive(found.process),
            outcome_left=children.outcome_left(found.id),
            losses=0,
            on_restart=work.on_restart,
        )
    )


def _work_of(db: Database, *, found: Direct) -> Work | None:
    if found.execution.job_id is None or found.execution.version is None:
        return None
    return jobs.version_spec(db, found.execution.job_id, found.execution.version).work


def _adopt_call(db: Database, *, found: Direct, epoch: int) -> bool:
    assert found.holder is not None
    return calls_table.adopt(db, found.id, epoch=epoch, expected=found.holder)


async def _take_over_call(heir: RecoveryContext, found: Direct, *, stop: bool) -> None:
    if not await heir.store.submit(partial(_adopt_call, found=found, epoch=heir.holder.epoch)):
        await heir.children.sweep(found.id)  # another machine said meanwhile that we were lost
        return
    work = heir.store.read(partial(_work_of, found=found))
    heir.slots.take(found.execution.slot, found.id)
    heir.executor.adopt_call(found, work)
    if stop:
        heir.executor.stop(found.id)


async def _call_outcome(heir: RecoveryContext, found: Direct, action: Recovery) -> Outcome:
    if action is Recovery.READ_OUTCOME:
        return await heir.children.outcome(found.id, found.process)
    return direct_calls.CALLER_ENDED if found.reserves else await heir.end_tree(found.id)


def _record(db: Database, *, found: Direct, outcome: Outcome, now: datetime) -> bool:
    reason = Reason.REQUESTED if found.cancel_requested_at is not None else None
    return direct_calls.finish(db, found.id, settle(outcome, reason), epoch=found.holder, now=now)


class Left(Struct, frozen=True):
    """A run of a dead process with what the decision needs."""

    owned: runs.Owned
    handle: str
    slot: int
    facts: LeftBehind
    work: Work


async def recover(heir: RecoveryContext, dead: Sequence[int]) -> int:
    """Resolve what the dead epochs carried; return how much there was. Doing it twice changes nothing more.

    Nothing is claimed meanwhile, though runs that are stopped here may end: a slot may still hold what comes later.
    """
    with heir.slots.shut():
        found = heir.store.read(partial(_left_behind, dead=dead, children=heir.children))
        for left in found:
            faults.point("recover.found")
            action = decide_recovery(left.facts)
            log.info("recovering run of a dead process", run=left.handle, action=action.value)
            await _resolve(heir, left, action)
            faults.point("recover.resolved")
        calls = await recover_calls(heir, dead)
        await heir.store.submit(partial(_end_processes, dead=dead, now=heir.clock.now()))
    faults.point("recover.epochs_ended")
    return len(found) + calls


def _left_behind(db: Database, *, dead: Sequence[int], children: Processes) -> list[Left]:
    found = []
    for owned in runs.owned_runs(db, dead):
        work = jobs.version_spec(db, owned.job_id, owned.version).work
        run = runs.run_by_id(db, owned.id)
        assert run is not None
        assert run.slot is not None
        facts = LeftBehind(
            status=owned.status,
            in_process=work.in_process,
            keeper_alive=owned.process is not None and children.alive(owned.process),
            outcome_left=children.outcome_left(owned.id),
            losses=owned.losses,
            on_restart=work.on_restart,
        )
        found.append(Left(owned, run.handle, run.slot, facts, work))
    return found


async def _resolve(heir: RecoveryContext, left: Left, action: Recovery) -> None:
    owned, store = left.owned, heir.store
    if action in (Recovery.REQUEUE, Recovery.FAIL_LOST):
        await heir.children.sweep(owned.id)
        await store.submit(partial(resolve_dispatched, owned=owned, action=action, now=heir.clock.now()))
        return
    if action in (Recovery.ADOPT, Recovery.STOP):
        await _take_over(heir, left, stop=action is Recovery.STOP)
        return
    outcome = await _outcome_of(heir, left, action)
    if left.work.output.shared:
        await heir.executor.outputs.finish(owned.id)
    finished = Finished(owned.id, owned.job_id, outcome)
    await store.submit(partial(_record_as_found, finished=finished, epoch=owned.epoch, now=heir.clock.now()))


async def _take_over(heir: RecoveryContext, left: Left, *, stop: bool) -> None:
    owned = left.owned
    assert owned.process is not None
    if not await heir.store.submit(partial(_adopt, owned=owned, epoch=heir.holder.epoch)):
        await heir.children.sweep(owned.id)  # another machine said meanwhile that we were lost, and may run it again
        return
    faults.point("recover.adopted")
    heir.slots.take(left.slot, owned.id)
    heir.executor.adopt(owned, slot=left.slot, process=owned.process, work=left.work)
    if stop or owned.cancel_reason is not None:
        heir.executor.stop(owned.id)


async def _outcome_of(heir: RecoveryContext, left: Left, action: Recovery) -> Outcome:
    if action is Recovery.READ_OUTCOME and left.owned.process is not None:
        return await heir.children.outcome(left.owned.id, left.owned.process)
    outcome = await heir.end_tree(left.owned.id)
    faults.point("recover.swept")
    return outcome


def resolve_dispatched(db: Database, *, owned: runs.Owned, action: Recovery, now: datetime) -> None:
    """End a run that a process that is gone had claimed and not started, or let it wait again."""
    if owned.cancel_reason is not None:
        outcome = Outcome(Status.CANCELLED, owned.cancel_reason)
        end_run(db, owned.id, outcome, expected=Status.DISPATCHED, epoch=owned.epoch, now=now)
    elif action is Recovery.FAIL_LOST:
        outcome = Outcome(Status.FAILED, Reason.WORKER_LOST, error="its worker was lost three times before it started")
        end_run(db, owned.id, outcome, expected=Status.DISPATCHED, epoch=owned.epoch, now=now)
    else:
        runs.release_run(db, owned.id, epoch=owned.epoch, lost=True)
        agents.put_back(db, owned.id, now=now, lost=True)


def _adopt(db: Database, *, owned: runs.Owned, epoch: int) -> bool:
    return db.execute("run_adopt", id=owned.id, epoch=epoch, expected=owned.epoch) == 1


def _record_as_found(db: Database, *, finished: Finished, epoch: int, now: datetime) -> bool:
    return finished.run_id in finish(db, [finished], epoch=epoch, now=now)


def _end_processes(db: Database, *, dead: Sequence[int], now: datetime) -> None:
    release_leaked_by(db, dead)
    for epoch in dead:
        processes.end_process(db, epoch, ending="lost", now=now)


HINT = "work continues as far as possible; stop {who} and restore a backup with `rota restore`"
_GONE_HINT = "no more runs were started; restore it, or start again with an empty one"
_OVERWRITTEN_HINT = (
    "nothing more was started, and the file is left as it was found; before you use it remove the files beside it"
    " that end in -wal and -shm, or restore a backup with `rota restore`"
)


class DamageCheck:
    """Reads a database file for damage, in a thread; `who` names the process to stop."""

    def __init__(self, path: Path, *, who: str) -> None:
        self._path = path
        self._hint = HINT.format(who=who)
        self.found: str | None = None

    @contextlib.contextmanager
    def beside(self, threads: ThreadExecutor | None = None) -> Iterator[None]:
        """Look while the work in here goes on, and stop with it."""
        stop = threading.Event()
        looking = asyncio.create_task(self._look(stop, threads), name="rota-check")
        try:
            yield
        finally:
            stop.set()
            looking.cancel()

    async def _look(self, stop: threading.Event, threads: ThreadExecutor | None) -> None:
        try:
            check = partial(quick_check, self._path, stop=stop)
            found = await asyncio.get_running_loop().run_in_executor(threads, check)
        except RotaError as error:
            found = (str(error),)
        if found:
            self.found = f"{self._path} is damaged: {found[0]}; restore a backup"
            log.error("database is corrupt", path=str(self._path), found=found, hint=self._hint)
        else:
            log.debug("database integrity check passed")


def watch_state(state: Path, session: Session, *, alone: bool) -> "StateWatch":
    """Return what watches the state folder; `alone`: no other process serves it, so its database may be marked."""
    if session.leased:
        return StateWatch(state / WORKER)
    watch = StateWatch(state / DATABASE)
    watch.begin(alone=alone)
    return watch


class Loss(Struct, frozen=True):
    """Damage of the state of a process, with a remedy."""

    what: str
    hint: str


class StateWatch:
    """Looks whether the state folder is the one that this process entered, and the database file the one it wrote.

    SQLite does not notice a file that is overwritten in place: it goes on with its log and with the pages it has read.
    """

    def __init__(self, anchor: Path) -> None:
        self._anchor = anchor
        self._identity = file_identity(anchor)
        self._marks: tuple[int, ...] = ()
        self._head: Head | None = None
        self._looked_at: tuple[int, int] | None = None
        self._doubtful = False

    def begin(self, *, alone: bool) -> None:
        """Note what the database file is like, and where this process serves it alone, mark it."""
        before = read_head(self._anchor)
        if alone and before is not None:
            with contextlib.suppress(StateError):  # a full disk: the file is watched without a mark
                self._marks = (before.mark, mark_database(self._anchor))
        self._head = read_head(self._anchor)

    def lost(self) -> Loss | None:
        """Return what happened to the state, None while it is there.

        Only the second look in a row counts: the first one may have met a checkpoint.
        """
        if file_identity(self._anchor) != self._identity:
            return Loss(f"the state folder {self._anchor.parent} disappeared or was replaced", _GONE_HINT)
        if self._head is None or not self._is_overwritten(self._head):
            self._doubtful = False
            return None
        if not self._doubtful:
            self._doubtful = True
            return None
        return Loss(f"the database {self._anchor} was overwritten", _OVERWRITTEN_HINT)

    def _is_overwritten(self, earlier: Head) -> bool:
        try:
            stat = self._anchor.stat()
            if self._looked_at == (stat.st_mtime_ns, stat.st_size):
                return False
            head = read_head(self._anchor)
        except DatabaseCorrupt:
            return True
        except (OSError, StateError):
            return False  # the loops tell that the file cannot be read
        if head is None or not head.follows(earlier, marks=self._marks):
            return True
        if self._marks and head.mark == self._marks[-1]:
            self._marks = self._marks[-1:]
        self._head, self._looked_at = head, (stat.st_mtime_ns, stat.st_size)
        return False


def settle_restored(db: Database, *, made_at: datetime, host: str, reason: str, now: datetime) -> None:
    """Pause everything from the moment of the copy on, and close what ran then.

    Nothing is fired for the time between: those instants belonged to the other scheduler or to none. What ran is not
    looked for: on the same machine it may still run, under the scheduler that the copy was taken from.
    """
    value = {"since": to_ms(made_at), "until": None, "reason": reason}
    db.execute("meta_set", key=ALL_KEY, value=json.dumps(value))
    for job in jobs.all_jobs(db):
        if job.retired_at is None:
            _hold(db, job, made_at=made_at, reason=reason)
    work_items.leave_all(db, f"restored from a backup of {host}: its items are left as they are", now=now)
    _close_runs(db, host=host, now=now)
    _close_calls(db, host=host, now=now)
    notifications.leave_all(db, f"restored from a backup of {host}, which sends the report itself", now=now)
    chats.leave_all(db, f"restored from a backup of {host}, which sends the message itself")
    for process in processes.open_processes(db):
        release_leaked_by(db, [process.epoch])
        processes.end_process(db, process.epoch, ending="detached", now=now)
    audit.insert_event(db, "restored", now=now, host=host, made_at=made_at.isoformat())


def _hold(db: Database, job: Job, *, made_at: datetime, reason: str) -> None:
    if job.paused_at is not None:
        db.execute("job_pause_change", id=job.id, until=None, reason=reason)
        return
    since = made_at if job.next_for is None else min(made_at, job.next_for - MILLISECOND)
    since = max(since, job.updated_at, job.created_at)
    jobs.store_pause(db, job, until=None, reason=reason, tzdata=tzdata_version(), now=since)


def _close_runs(db: Database, *, host: str, now: datetime) -> None:
    for run in run_queries.running_runs(db):
        if run.status is Status.DISPATCHED and run.epoch is not None:
            runs.release_run(db, run.id, epoch=run.epoch)
        elif run.status is Status.RUNNING and run.lane_id != GROUP_LANE:
            end_run(db, run.id, _unknown_end(host), expected=Status.RUNNING, epoch=run.epoch, now=now)


def _close_calls(db: Database, *, host: str, now: datetime) -> None:
    """End the direct calls, and dismiss those that waited: their callers were on the other machine."""
    for call in calls_table.unfinished(db):
        if calls_table.finish(db, call.id, _unknown_end(host), epoch=None, at=now):
            queue.give_back(db, [call.lane_id])
            budgets.settle(db, [budgets.EndedSpender(call.id)], now=now)
    for waiting in calls_table.calls(db):
        if calls_table.leave(db, waiting.id, epoch=waiting.epoch) and waiting.slot is not None:
            queue.give_back(db, [waiting.lane_id])
            budgets.settle(db, [budgets.EndedSpender(waiting.id, started=False)], now=now)


def _unknown_end(host: str) -> Outcome:
    error = f"it ran on {host} when the backup was made; its result is unknown here"
    return Outcome(Status.FAILED, Reason.PROCESS_RESTARTED, error=error)


def age(made_at: datetime, now: datetime) -> timedelta:
    """Return how old a copy is; one from the future of a wrong clock is new."""
    return max(now - made_at, timedelta())
