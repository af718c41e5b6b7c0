"""Direct calls in the database: served before the queue, first come first served, never preempting."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from rota.engine.transactions import agents, poll
from rota.engine.transactions import budgets as budgets_transactions
from rota.engine.transactions.finish import Finished, keep_session
from rota.model.records import Outcome, ProcessIdentity
from rota.model.spec import JobSpec, Kind, Work
from rota.model.states import Reason, Status, Trigger
from rota.rules.outcome import ended_at, settle
from rota.rules.queue_order import Room
from rota.store.driver import Database
from rota.store.tables import budgets, direct_calls, jobs, queue, runs
from rota.store.tables.direct_calls import RESERVED_SLOT, WaitingCall

if TYPE_CHECKING:
    from rota.engine.transactions.claim import ClaimOwner

CALLER_ENDED = Outcome(Status.FAILED, Reason.WORKER_LOST, error="the caller ended")
GIVEN_UP = Outcome(Status.CANCELLED, Reason.REQUESTED)

Alive = Callable[[ProcessIdentity], bool]


class Served(Struct, frozen=True):
    """A call that got its slot. `started`: nothing stands before its start."""

    call: WaitingCall
    run: runs.Candidate
    spec: JobSpec
    slot: int
    started: bool


def serve(
    db: Database,
    holder: "ClaimOwner",
    free: Sequence[int],
    *,
    room: Room,
    alive: Alive,
    now: datetime,
    until: datetime | None = None,
) -> list[Served]:
    """Give waiting callers their slots, in the order of their calls; remove callers that are gone.

    A caller that lacks room in a pool holds it against everybody behind, and against the queue, also one of another
    machine, which a worker there serves. `until`: serve only calls that were made by then.
    """
    served: list[Served] = []
    for call in direct_calls.calls(db):
        if call.slot is not None:
            continue
        if holder.elsewhere(call.caller):
            if room.lacks(call.draws) is not None:
                room.hold(call.draws)
        elif not alive(call.caller):
            direct_calls.leave(db, call.id, epoch=None)
        elif len(served) == len(free) or (until is not None and call.asked_at > until):
            break
        elif room.lacks(call.draws) is not None or not queue.take(db, call.draws):
            room.hold(call.draws)
        else:
            room.take(call.draws)
            served.append(_serve(db, call, holder, slot=free[len(served)], now=now))
    return served


def anybody_came_after(db: Database, until: datetime) -> bool:
    """Return whether a call waits that was made later than that."""
    return any(call.slot is None and call.asked_at > until for call in direct_calls.calls(db))


def _serve(db: Database, call: WaitingCall, holder: "ClaimOwner", *, slot: int, now: datetime) -> Served:
    spec = _spec(db, call)
    started = call.reserves or (spec.work.in_process and spec.work.agent is None and not spec.budgets)
    if started:
        direct_calls.leave(db, call.id, epoch=None)
        process = call.caller if call.reserves else holder.identity
        _begin(db, call, holder, slot=slot, process=process, now=now)
    else:
        direct_calls.dispatch(db, call.id, worker_id=holder.worker_id, slot=slot, epoch=holder.epoch)
    return Served(call, _candidate(db, call), spec, slot, started)


def _spec(db: Database, call: WaitingCall) -> JobSpec:
    if call.job_id is None or call.version is None:
        return JobSpec(RESERVED_SLOT, Work(Kind.FUNCTION))
    return jobs.version_spec(db, call.job_id, call.version)


def _candidate(db: Database, call: WaitingCall) -> runs.Candidate:
    """Return the call in the shape of a run that passes every gate: a direct call asks for slot and pools alone."""
    return runs.Candidate(
        id=call.id,
        job_id=call.job_id or "",
        version=call.version or 0,
        number=0,
        job=call.job or RESERVED_SLOT,
        trigger=Trigger.DIRECT,
        scheduled_for=None,
        created_at=call.asked_at,
        attempt=1,
        params=call.params,
        expires_at=None,
        forced=True,
        state={} if call.job_id is None or call.reserves else jobs.job_state(db, call.job_id),
    )


def _begin(
    db: Database, call: WaitingCall, holder: "ClaimOwner", *, slot: int, process: ProcessIdentity, now: datetime
) -> None:
    direct_calls.begin(db, call, worker_id=holder.worker_id, slot=slot, epoch=holder.epoch, process=process, now=now)


def start(
    db: Database, call: WaitingCall, holder: "ClaimOwner", *, slot: int, process: ProcessIdentity, now: datetime
) -> bool:
    """Turn a call that has its slot into an execution; return whether it is still wanted."""
    if not direct_calls.leave(db, call.id, epoch=holder.epoch):
        return False
    _begin(db, call, holder, slot=slot, process=process, now=now)
    return True


def put_back(db: Database, call: WaitingCall, *, epoch: int, now: datetime, lost: bool = False) -> bool:
    """Requeue a call that had a slot and did not start; `lost`: its process is gone."""
    released = direct_calls.release(db, call.id, epoch=epoch)
    if released:
        queue.give_back(db, [call.lane_id])
        budgets.release(db, [call.id])
        agents.put_back(db, call.id, now=now, lost=lost)
    return released


def give_up(
    db: Database, call: WaitingCall, holder: "ClaimOwner", outcome: Outcome, *, slot: int, now: datetime
) -> bool:
    """End a call that could not start. One that failed leaves an execution all the same: it has no run to say so."""
    if not direct_calls.leave(db, call.id, epoch=holder.epoch):
        return False
    queue.give_back(db, [call.lane_id])
    budgets_transactions.settle(db, [budgets_transactions.EndedSpender(call.id, started=False)], now=now)
    agents.settle(db, [agents.EndedCall(call.id, outcome)], now=now)
    if outcome.status is Status.FAILED:
        _begin(db, call, holder, slot=slot, process=holder.identity, now=now)
        direct_calls.finish(db, call.id, settle(outcome, None), epoch=holder.epoch, at=now)
    return True


def withdraw(db: Database, call_id: str, *, now: datetime) -> bool:
    """Give up a place, or ask for the end of a call that has started; return whether anything was left to give up."""
    call = direct_calls.call_by_id(db, call_id)
    if call is None:
        direct_call = direct_calls.direct_by_id(db, call_id)
        if direct_call is not None and direct_call.reserves:
            return finish(db, call_id, GIVEN_UP, epoch=None, now=now)
        return direct_calls.ask_cancel(db, call_id, now=now)
    if call.epoch is not None:
        queue.give_back(db, [call.lane_id])
        budgets_transactions.settle(db, [budgets_transactions.EndedSpender(call.id, started=False)], now=now)
        agents.settle(db, [agents.EndedCall(call.id, GIVEN_UP)], now=now)
    return direct_calls.leave(db, call_id, epoch=call.epoch)


def caller_ended(db: Database, call_id: str, *, now: datetime) -> bool:
    """Do what a caller's end asks for: its place is free, its call is cancelled, its reservation is over.

    Return whether the call was not over.
    """
    direct_call = direct_calls.direct_by_id(db, call_id)
    if direct_call is not None and direct_call.reserves:
        return finish(db, call_id, CALLER_ENDED, epoch=None, now=now)
    return withdraw(db, call_id, now=now)


def finish(
    db: Database, call_id: str, outcome: Outcome, *, epoch: int | None, now: datetime, kept: bool = False
) -> bool:
    """End a call that has started, and give its pools back, unless a thread of it still runs. It is never retried."""
    direct_call = direct_calls.direct_by_id(db, call_id)
    (outcome,) = poll.judge(db, [budgets_transactions.price(db, outcome)])
    if direct_call is None or not direct_calls.finish(db, call_id, outcome, epoch=epoch, at=ended_at(outcome, now)):
        return False
    budgets_transactions.settle(db, [budgets_transactions.EndedSpender(call_id, outcome.usage)], now=now)
    agents.settle(db, [agents.EndedCall(call_id, outcome)], now=now)
    if outcome.provider is not None:
        answered = agents.ProviderAnswer(call_id, outcome, direct_call.execution.started_at, ended_at(outcome, now))
        agents.note_answers(db, [answered], now=now)
    if kept:
        db.execute("direct_keep", id=call_id, epoch=epoch)
    else:
        queue.give_back(db, [direct_call.lane_id])
    if outcome.state is not None and direct_call.execution.job_id is not None:
        jobs.save_job_state(db, direct_call.execution.job_id, outcome.state)
    if direct_call.execution.job_id is not None:
        keep_session(db, call_id, outcome, job_id=direct_call.execution.job_id, now=now)
    poll.save(db, [outcome.scheduler_state])
    return True


def record_calls(
    db: Database, finished: Sequence[Finished], *, epoch: int, now: datetime, kept: Collection[str] = ()
) -> dict[str, Outcome]:
    """Store the ends of direct calls of `epoch`; return the outcomes as stored, of those that were still ours."""
    stored: dict[str, Outcome] = {}
    for one in finished:
        direct_call = direct_calls.direct_by_id(db, one.run_id)
        reason = Reason.REQUESTED if direct_call is not None and direct_call.cancel_requested_at is not None else None
        outcome = settle(one.outcome, reason)
        if finish(db, one.run_id, outcome, epoch=epoch, now=now, kept=one.run_id in kept):
            stored[one.run_id] = outcome
    return stored
