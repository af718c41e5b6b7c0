"""Recover: before the first fire, record what really happened to the runs of processes that are gone (R-23)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from rota import faults
from rota.engine import work
from rota.engine.heir import RESTARTED, Heir
from rota.engine.pools import forget_kept
from rota.engine.ports import Processes
from rota.engine.record import Finished, finish, record
from rota.engine.recover_calls import recover_calls
from rota.log import log
from rota.model.records import Outcome
from rota.model.spec import Work
from rota.model.states import Reason, Status
from rota.rules.recovery import LeftBehind, Recovery, decide_recovery
from rota.store import jobs, processes, runs
from rota.store.driver import Database


@dataclass(frozen=True, slots=True)
class Left:
    """A run of a dead process with what the decision needs."""

    owned: runs.Owned
    handle: str
    slot: int
    facts: LeftBehind
    work: Work


async def recover(heir: Heir, dead: Sequence[int]) -> int:
    """Resolve what the dead epochs carried; return how much there was. Doing it twice changes nothing more.

    Nothing is claimed meanwhile, though runs that are stopped here may end: a slot may still hold what comes later.
    """
    with heir.slots.shut():
        found = heir.store.read(partial(_left_behind, dead=dead, children=heir.children))
        for left in found:
            faults.point("recover.found")
            action = decide_recovery(left.facts)
            log.info("run of a lost process", run=left.handle, action=action.value)
            await _resolve(heir, left, action)
            faults.point("recover.resolved")
        calls = await recover_calls(heir, dead)
        await heir.store.submit(partial(_end_processes, dead=dead, now=heir.clock.now()))
    faults.point("recover.epochs_ended")
    return len(found) + calls


def _left_behind(db: Database, *, dead: Sequence[int], children: Processes) -> list[Left]:
    found = []
    for owned in runs.owned_runs(db, dead):
        wanted = jobs.version_spec(db, owned.job_id, owned.version).work
        run = runs.run_by_id(db, owned.id)
        assert run is not None
        assert run.slot is not None
        facts = LeftBehind(
            status=owned.status,
            in_process=wanted.in_process,
            keeper_alive=owned.process is not None and children.alive(owned.process),
            outcome_left=children.outcome_left(owned.id),
            losses=owned.losses,
            on_restart=wanted.on_restart,
        )
        found.append(Left(owned, run.handle, run.slot, facts, wanted))
    return found


async def _resolve(heir: Heir, left: Left, action: Recovery) -> None:
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


async def _take_over(heir: Heir, left: Left, *, stop: bool) -> None:
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


async def _outcome_of(heir: Heir, left: Left, action: Recovery) -> Outcome:
    if action is Recovery.READ_OUTCOME and left.owned.process is not None:
        return await heir.children.outcome(left.owned.id, left.owned.process)
    outcome = RESTARTED if faults.planted("recovery_without_kill") else await heir.end_tree(left.owned.id)
    faults.point("recover.swept")
    return outcome


def resolve_dispatched(db: Database, *, owned: runs.Owned, action: Recovery, now: datetime) -> None:
    """End a run that a process that is gone had claimed and not started, or let it wait again (R-01)."""
    if owned.cancel_reason is not None:
        outcome = Outcome(Status.CANCELLED, owned.cancel_reason)
        finish(db, owned.id, outcome, expected=Status.DISPATCHED, epoch=owned.epoch, now=now)
    elif action is Recovery.FAIL_LOST:
        outcome = Outcome(Status.FAILED, Reason.WORKER_LOST, error="its worker was lost three times before it started")
        finish(db, owned.id, outcome, expected=Status.DISPATCHED, epoch=owned.epoch, now=now)
    else:
        runs.release_run(db, owned.id, epoch=owned.epoch, lost=True)
        work.put_back(db, owned.id, now=now, lost=True)


def _adopt(db: Database, *, owned: runs.Owned, epoch: int) -> bool:
    return db.execute("run_adopt", id=owned.id, epoch=epoch, expected=owned.epoch) == 1


def _record_as_found(db: Database, *, finished: Finished, epoch: int, now: datetime) -> bool:
    return finished.run_id in record(db, [finished], epoch=epoch, now=now)


def _end_processes(db: Database, *, dead: Sequence[int], now: datetime) -> None:
    forget_kept(db, dead)
    for epoch in dead:
        processes.end_process(db, epoch, ending="lost", now=now)
