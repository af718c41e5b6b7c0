"""Recover direct calls: what processes that are gone left of them, recorded as it really was (R-13, R-23)."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from rota.engine import direct as calling
from rota.engine.heir import Heir
from rota.engine.ports import Processes
from rota.log import log
from rota.model.records import Outcome
from rota.model.spec import Work
from rota.model.states import Reason, Status
from rota.rules.outcome import settle
from rota.rules.recovery import LeftBehind, Recovery, decide_recovery
from rota.store import direct, jobs
from rota.store.direct import Call, Direct
from rota.store.driver import Database


async def recover_calls(heir: Heir, dead: Sequence[int]) -> int:
    """Resolve every direct call of the dead epochs; return how many had started. Callers who are gone lose their place.

    A call whose keeper lives is adopted; those who watch the callers see at once that one of them is gone.
    """
    store, children = heir.store, heir.children
    for call in store.read(direct.calls):
        if call.epoch in dead:
            await children.sweep(call.id)  # its keeper may still stand at the gate
        gone = not heir.holder.elsewhere(call.caller) and not children.alive(call.caller)
        if call.epoch in dead or (call.epoch is None and gone):
            wanted = children.alive(call.caller)
            await store.submit(partial(_resolve_unstarted, call=call, wanted=wanted, now=heir.clock.now()))
    found = [one for one in store.read(direct.unfinished) if one.holder in dead]
    for one in found:
        action = store.read(partial(_decide, found=one, children=children))
        log.info("direct call of a lost process", call=one.id, action=action.value)
        if action in (Recovery.ADOPT, Recovery.STOP):
            await _take_over(heir, one, stop=action is Recovery.STOP)
        else:
            outcome = await _outcome_of(heir, one, action)
            await store.submit(partial(_record, found=one, outcome=outcome, now=heir.clock.now()))
    return len(found)


def _resolve_unstarted(db: Database, *, call: Call, wanted: bool, now: datetime) -> None:
    if wanted and call.epoch is not None:
        calling.put_back(db, call, epoch=call.epoch, now=now, lost=True)
    else:
        calling.withdraw(db, call.id, now=now)


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


def _adopt(db: Database, *, found: Direct, epoch: int) -> bool:
    assert found.holder is not None
    return direct.adopt(db, found.id, epoch=epoch, expected=found.holder)


async def _take_over(heir: Heir, found: Direct, *, stop: bool) -> None:
    if not await heir.store.submit(partial(_adopt, found=found, epoch=heir.holder.epoch)):
        await heir.children.sweep(found.id)  # another machine said meanwhile that we were lost
        return
    work = heir.store.read(partial(_work_of, found=found))
    heir.slots.take(found.execution.slot, found.id)
    heir.executor.adopt_call(found, work)
    if stop:
        heir.executor.stop(found.id)


async def _outcome_of(heir: Heir, found: Direct, action: Recovery) -> Outcome:
    if action is Recovery.READ_OUTCOME:
        return await heir.children.outcome(found.id, found.process)
    return calling.CALLER_ENDED if found.reserves else await heir.end_tree(found.id)


def _record(db: Database, *, found: Direct, outcome: Outcome, now: datetime) -> bool:
    asked = Reason.REQUESTED if found.cancel_requested_at is not None else None
    return calling.finish(db, found.id, settle(outcome, asked), epoch=found.holder, now=now)
