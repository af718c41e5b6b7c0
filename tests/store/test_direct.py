"""Direct calls in the store: their line, their executions, and who carries them (R-13, INV-002, INV-003)."""

from typing import Any

import pytest
from msgspec.structs import replace

from rota.model.errors import InvariantRefused
from rota.model.ids import new_id
from rota.model.records import Job, ProcessIdentity
from rota.model.states import Reason, Status
from rota.store.driver import Store
from rota.store.tables import direct_calls
from rota.store.tables.direct_calls import WaitingCall
from tests.store.making import CANCELLED, DONE, FAILED, MINUTE, NOW, SECOND, add_holder, add_job, add_run, begin

CALLER = ProcessIdentity("boot:with:colons", 4121, 883_771)


def ask(store: Store, job: Job | None = None, **changes: Any) -> WaitingCall:
    call = WaitingCall(
        id=new_id(NOW),
        job_id=job.id if job else None,
        job=job.name if job else None,
        version=job.version if job else None,
        lane_id=1,
        params={"n": 1} if job else {},
        caller=CALLER,
        asked_at=NOW,
    )
    call = replace(call, **changes)
    store.write(lambda db: direct_calls.ask(db, call))
    return call


def start(store: Store, call: WaitingCall, holder, *, slot: int = 0, process: ProcessIdentity = CALLER) -> None:
    def write(db):
        direct_calls.leave(db, call.id, epoch=None)
        direct_calls.begin(
            db, call, worker_id=holder.worker_id, slot=slot, epoch=holder.epoch, process=process, now=NOW + SECOND
        )

    store.write(write)


def found(store: Store, call: WaitingCall) -> direct_calls.Direct:
    one = store.read(lambda db: direct_calls.direct_by_id(db, call.id))
    assert one is not None
    return one


def test_who_came_first_is_first_whatever_the_clock_says(store) -> None:
    """DEC-004, R-13: first come, first served, also across a clock that was set back."""
    job = add_job(store)
    first, second = ask(store, job), ask(store, job, id=new_id(NOW), asked_at=NOW - MINUTE)
    third = ask(store)
    assert [call.id for call in store.read(direct_calls.calls)] == [first.id, second.id, third.id]


def test_a_call_is_kept_as_it_was_asked(store) -> None:
    call = ask(store, add_job(store))
    assert store.read(lambda db: direct_calls.call_by_id(db, call.id)) == call
    assert not call.reserves


def test_a_call_without_a_version_asks_for_the_slot_itself(store) -> None:
    job = add_job(store)
    call = ask(store, job, version=None, params={})
    assert store.read(lambda db: direct_calls.call_by_id(db, call.id)) == call
    assert call.reserves


def test_a_version_without_a_job_is_refused(store, backend) -> None:
    with pytest.raises((*backend.refusal, InvariantRefused)):
        ask(store, version=1)


def test_a_dispatched_call_that_is_released_keeps_its_turn(store) -> None:
    holder, first, second = add_holder(store), ask(store), ask(store)

    def move(db):
        assert direct_calls.dispatch(db, first.id, worker_id=holder.worker_id, slot=3, epoch=holder.epoch)
        assert not direct_calls.dispatch(db, first.id, worker_id=holder.worker_id, slot=4, epoch=holder.epoch)
        assert not direct_calls.release(db, first.id, epoch=holder.epoch + 1)
        assert direct_calls.release(db, first.id, epoch=holder.epoch)

    store.write(move)
    assert [(call.id, call.slot) for call in store.read(direct_calls.calls)] == [(first.id, None), (second.id, None)]


def test_only_the_process_whose_slot_it_has_takes_a_call_out_of_the_line(store) -> None:
    holder, call = add_holder(store), ask(store)
    store.write(lambda db: direct_calls.dispatch(db, call.id, worker_id=holder.worker_id, slot=0, epoch=holder.epoch))
    assert not store.write(lambda db: direct_calls.leave(db, call.id, epoch=None))
    assert not store.write(lambda db: direct_calls.leave(db, call.id, epoch=holder.epoch + 1))
    assert store.write(lambda db: direct_calls.leave(db, call.id, epoch=holder.epoch))
    assert store.read(direct_calls.calls) == []


def test_dismissing_leaves_those_who_have_a_slot(store) -> None:
    holder, kept, sent = add_holder(store), ask(store), ask(store)
    store.write(lambda db: direct_calls.dispatch(db, kept.id, worker_id=holder.worker_id, slot=0, epoch=holder.epoch))
    assert store.write(direct_calls.dismiss) == 1
    assert [call.id for call in store.read(direct_calls.calls)] == [kept.id]
    assert sent.id != kept.id


def test_a_started_call_is_an_execution_without_a_run(store) -> None:
    job, holder = add_job(store), add_holder(store)
    call = ask(store, job)
    start(store, call, holder, slot=2)
    one = found(store, call)
    assert (one.execution.run_id, one.execution.job_id, one.execution.version) == (None, job.id, job.version)
    assert (one.job, one.caller, one.process, one.holder) == (job.name, CALLER, CALLER, holder.epoch)
    assert (one.execution.slot, one.execution.params, one.execution.status) == (2, {"n": 1}, None)
    assert store.read(direct_calls.calls) == []
    assert [other.id for other in store.read(direct_calls.unfinished)] == [call.id]


def test_a_call_ends_once_and_for_the_process_that_carries_it(store) -> None:
    """INV-002."""
    holder, call = add_holder(store), ask(store)
    start(store, call, holder)
    end = {"epoch": holder.epoch, "at": NOW + MINUTE}
    assert not store.write(lambda db: direct_calls.finish(db, call.id, DONE, epoch=holder.epoch + 1, at=NOW + MINUTE))
    assert store.write(lambda db: direct_calls.finish(db, call.id, FAILED, **end))
    assert not store.write(lambda db: direct_calls.finish(db, call.id, DONE, **end))
    execution = found(store, call).execution
    assert (execution.status, execution.exit_code, execution.error) == (Status.FAILED, 3, "it left with 3")
    assert execution.artifacts == {"reason": Reason.EXIT_CODE.value}
    assert execution.finished_at == NOW + MINUTE
    assert store.read(direct_calls.unfinished) == []


def test_the_caller_itself_need_not_know_who_carries_its_call(store) -> None:
    holder, call = add_holder(store), ask(store)
    start(store, call, holder)
    assert store.write(lambda db: direct_calls.finish(db, call.id, CANCELLED, epoch=None, at=NOW))


def test_an_adopted_call_is_carried_by_its_new_process_alone(store) -> None:
    """R-23; the execution keeps the epoch under which it started (INV-002)."""
    old, new, call = add_holder(store), add_holder(store, pid=5000), ask(store)
    start(store, call, old)
    assert not store.write(lambda db: direct_calls.adopt(db, call.id, epoch=new.epoch, expected=new.epoch))
    assert store.write(lambda db: direct_calls.adopt(db, call.id, epoch=new.epoch, expected=old.epoch))
    assert (found(store, call).holder, found(store, call).execution.epoch) == (new.epoch, old.epoch)
    assert not store.write(lambda db: direct_calls.finish(db, call.id, DONE, epoch=old.epoch, at=NOW))


def test_the_first_wish_to_cancel_stands(store) -> None:
    holder, call = add_holder(store), ask(store)
    assert not store.write(lambda db: direct_calls.ask_cancel(db, call.id, now=NOW))
    start(store, call, holder)
    assert store.write(lambda db: direct_calls.ask_cancel(db, call.id, now=NOW + SECOND))
    assert not store.write(lambda db: direct_calls.ask_cancel(db, call.id, now=NOW + MINUTE))
    assert found(store, call).cancel_requested_at == NOW + SECOND


def test_a_direct_call_gets_no_slot_that_a_run_has(store, backend) -> None:
    """INV-003 over runs and direct calls."""
    holder, run, call = add_holder(store), add_run(store, add_job(store)), ask(store)
    store.write(lambda db: begin(db, run, holder, slot=0))
    with pytest.raises((*backend.refusal, InvariantRefused)):
        store.write(
            lambda db: direct_calls.dispatch(db, call.id, worker_id=holder.worker_id, slot=0, epoch=holder.epoch)
        )
    with pytest.raises((*backend.refusal, InvariantRefused)):
        start(store, call, holder, slot=0)


def test_two_direct_calls_get_no_slot_together(store, backend) -> None:
    """INV-003."""
    holder, first, second = add_holder(store), ask(store), ask(store)
    start(store, first, holder, slot=1)
    with pytest.raises((*backend.refusal, InvariantRefused)):
        store.write(
            lambda db: direct_calls.dispatch(db, second.id, worker_id=holder.worker_id, slot=1, epoch=holder.epoch)
        )
    with pytest.raises((*backend.refusal, InvariantRefused)):
        start(store, second, holder, slot=1)


def test_a_run_gets_no_slot_that_a_direct_call_runs_in(store, backend) -> None:
    """INV-003: its start is refused."""
    holder, run, call = add_holder(store), add_run(store, add_job(store)), ask(store)
    start(store, call, holder, slot=0)
    with pytest.raises((*backend.refusal, InvariantRefused)):
        store.write(lambda db: begin(db, run, holder, slot=0))
