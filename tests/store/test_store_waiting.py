"""Conformance: waiting runs and what releases them, expiry, cancelling (R-02, R-09, R-11, R-12)."""

import pytest

from rota.engine.transactions.enqueue import cancel, enqueue
from rota.engine.transactions.finish import end_run, end_runs, expire
from rota.model.records import Outcome
from rota.model.spec import Gates, Retry
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.rules.admission import After, Replace
from rota.store.tables import run_queries, runs
from tests.store.making import (
    CANCELLED,
    FAILED,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    add_holder,
    add_job,
    add_run,
    dispatch,
    end,
    look,
    run_in,
)


def queue_after(store, job, *predecessors):
    """Return the identifiers of a chain of runs, each waiting for the one before it."""
    ids = [run.id for run in predecessors]
    for _ in range(3):
        verdict = After(ids[-1])
        born = store.write(lambda db, verdict=verdict: enqueue(db, job, verdict, trigger=Trigger.MANUAL, now=NOW))
        ids.append(born.id)
    return ids


def waiting(store, job):
    found = store.read(lambda db: run_queries.unfinished_runs(db, job.id))
    others = (WaitingFor.PREDECESSOR, WaitingFor.REPLACED_RUN)
    return {run.id: run.predecessor_id for run in found if run.waiting_for in others}


def ready(store):
    return [candidate.id for candidate in store.read(lambda db: runs.candidates(db, free=99))]


def cancelled(store, run_id, reason=Reason.REQUESTED):
    return store.write(lambda db: cancel(db, run_id, reason=reason, now=NOW))


@pytest.mark.parametrize("outcome", [Outcome(Status.COMPLETED), FAILED, CANCELLED])
def test_the_end_of_a_predecessor_releases_the_next_one_alone_r_11(store, outcome):
    job, holder = add_job(store), add_holder(store)
    running = run_in(store, Status.RUNNING, job, holder=holder)
    ids = queue_after(store, job, running)
    assert waiting(store, job) == {ids[1]: ids[0], ids[2]: ids[1], ids[3]: ids[2]}
    assert ready(store) == []
    store.write(lambda db: end(db, running, holder, outcome))
    assert ready(store) == [ids[1]]
    assert waiting(store, job) == {ids[2]: ids[1], ids[3]: ids[2]}


def test_cancelling_the_middle_of_a_chain_leaves_the_rest_waiting_for_the_one_before_r_11(store):
    job, holder = add_job(store), add_holder(store)
    running = run_in(store, Status.RUNNING, job, holder=holder)
    ids = queue_after(store, job, running)
    assert cancelled(store, ids[2])
    assert waiting(store, job) == {ids[1]: ids[0], ids[3]: ids[1]}
    assert cancelled(store, ids[1])
    assert waiting(store, job) == {ids[3]: ids[0]}
    assert ready(store) == []
    store.write(lambda db: end(db, running, holder))
    assert ready(store) == [ids[3]]


def test_cancelling_a_released_run_releases_the_next_r_11(store):
    job, holder = add_job(store), add_holder(store)
    running = run_in(store, Status.RUNNING, job, holder=holder)
    ids = queue_after(store, job, running)
    store.write(lambda db: end(db, running, holder))
    cancelled(store, ids[1])
    assert ready(store) == [ids[2]]


def test_a_chain_cancelled_from_its_end_never_releases_too_early_r_11(store):
    job, holder = add_job(store), add_holder(store)
    running = run_in(store, Status.RUNNING, job, holder=holder)
    ids = queue_after(store, job, running)
    cancelled(store, ids[3])
    cancelled(store, ids[2])
    assert waiting(store, job) == {ids[1]: ids[0]}
    assert ready(store) == []


def test_the_last_in_line_ending_releases_nobody_while_an_earlier_one_goes_on_r_11(store):
    job, holder = add_job(store), add_holder(store)
    running = run_in(store, Status.RUNNING, job, holder=holder)
    beside = run_in(store, Status.RUNNING, job, holder=holder, slot=1)
    ids = queue_after(store, job, beside)
    store.write(lambda db: end(db, beside, holder))
    assert ready(store) == []
    assert waiting(store, job)[ids[1]] == running.id
    store.write(lambda db: end(db, running, holder))
    assert ready(store) == [ids[1]]


def test_the_retry_of_an_earlier_one_that_ends_at_the_same_time_is_waited_for_r_11(store):
    job, holder = add_job(store, retry=Retry(max_attempts=2)), add_holder(store)
    failing = run_in(store, Status.RUNNING, job, holder=holder)
    beside = run_in(store, Status.RUNNING, job, holder=holder, slot=1)
    ids = queue_after(store, job, beside)
    ends = [
        runs.RunEnd(run.id, outcome, expected=Status.RUNNING, at=NOW)
        for run, outcome in ((beside, Outcome(Status.COMPLETED)), (failing, FAILED))
    ]
    store.write(lambda db: end_runs(db, ends, epoch=holder.epoch, now=NOW))
    retry = store.read(lambda db: run_queries.retry_of(db, failing.id))
    assert ready(store) == []
    assert waiting(store, job)[ids[1]] == retry.id


def test_who_came_later_holds_nobody_up_r_11(store):
    job, holder = add_job(store), add_holder(store)
    running = run_in(store, Status.RUNNING, job, holder=holder)
    ids = queue_after(store, job, running)
    run_in(store, Status.RUNNING, job, holder=holder, slot=1)
    store.write(lambda db: end(db, running, holder))
    assert ready(store) == [ids[1]]


def test_a_backfill_waits_for_its_predecessor_alone_r_11(store):
    job, holder = add_job(store), add_holder(store)
    run_in(store, Status.RUNNING, job, holder=holder)
    filling = run_in(store, Status.RUNNING, job, holder=holder, slot=1)
    behind = add_run(
        store, job, trigger=Trigger.BACKFILL, waiting_for=WaitingFor.PREDECESSOR, predecessor_id=filling.id
    )
    store.write(lambda db: end(db, filling, holder))
    assert ready(store) == [behind.id]


def test_the_end_of_one_job_releases_nothing_of_another(store):
    job, other, holder = add_job(store), add_job(store, "other"), add_holder(store)
    running = run_in(store, Status.RUNNING, job, holder=holder)
    held = run_in(store, Status.RUNNING, other, holder=holder, slot=1)
    queue_after(store, job, running)
    store.write(lambda db: end(db, held, holder))
    assert ready(store) == []


def replace(store, job, *replaced):
    verdict = Replace(tuple(run.id for run in replaced))
    born = store.write(lambda db: enqueue(db, job, verdict, trigger=Trigger.MANUAL, now=NOW))
    return store.read(lambda db: runs.run_by_id(db, born.id))


def test_a_replaced_run_that_has_not_started_ends_at_once_r_12(store):
    job = add_job(store)
    queued = add_run(store, job)
    new = replace(store, job, queued)
    old = look(store, queued)
    assert (old.status, old.reason) == (Status.CANCELLED, Reason.REPLACED)
    assert (new.status, new.waiting_for) == (Status.QUEUED, None)


def test_a_replacing_run_waits_until_every_replaced_run_is_over_r_12(store):
    job, holder = add_job(store), add_holder(store)
    first = run_in(store, Status.RUNNING, job, holder=holder, slot=0)
    second = run_in(store, Status.DISPATCHED, job, holder=holder, slot=1)
    new = replace(store, job, first, second)
    assert new.waiting_for is WaitingFor.REPLACED_RUN
    wanted = store.read(lambda db: runs.cancelling_runs(db, holder.epoch))
    assert wanted == [(first.id, Reason.REPLACED), (second.id, Reason.REPLACED)]
    gone = Outcome(Status.CANCELLED, Reason.REPLACED)
    store.write(lambda db: end(db, first, holder, gone))
    assert ready(store) == []
    store.write(
        lambda db: end_run(db, second.id, gone, expected=Status.DISPATCHED, epoch=holder.epoch, now=NOW + MINUTE)
    )
    assert ready(store) == [new.id]


def test_a_second_replacement_cancels_the_first_that_still_waits_r_12(store):
    job, holder = add_job(store), add_holder(store)
    running = run_in(store, Status.RUNNING, job, holder=holder)
    first = replace(store, job, running)
    second = replace(store, job, running, first)
    assert look(store, first).reason is Reason.REPLACED
    assert ready(store) == []
    store.write(lambda db: end(db, running, holder, Outcome(Status.CANCELLED, Reason.REPLACED)))
    assert ready(store) == [second.id]


def test_cancelling_a_run_that_is_held_asks_and_a_final_one_is_left_alone(store):
    job, holder = add_job(store), add_holder(store)
    running = run_in(store, Status.RUNNING, job, holder=holder)
    assert not cancelled(store, running.id)
    assert look(store, running).status is Status.RUNNING
    store.write(lambda db: end(db, running, holder))
    assert cancelled(store, running.id)
    assert look(store, running).status is Status.COMPLETED


def test_a_run_that_waits_for_a_condition_is_released_when_its_time_comes_r_09(store):
    job, holder = add_job(store), add_holder(store)
    run = run_in(store, Status.DISPATCHED, job, holder=holder)
    until = NOW + MINUTE
    store.write(
        lambda db: runs.release_run(db, run.id, epoch=holder.epoch, waiting_for=WaitingFor.CONDITION, not_before=until)
    )
    found = look(store, run)
    assert (found.waiting_for, found.not_before) == (WaitingFor.CONDITION, until)
    assert store.read(lambda db: db.row("run_next_release")) == (int(until.timestamp() * 1000),)
    assert store.write(lambda db: run_queries.release_due(db, until - SECOND)) == 0
    assert ready(store) == []
    assert store.write(lambda db: run_queries.release_due(db, until)) == 1
    assert ready(store) == [run.id]
    assert look(store, run).not_before is None
    assert store.write(lambda db: run_queries.release_due(db, until)) == 0


def test_time_releases_no_run_that_waits_for_another(store):
    job, holder = add_job(store), add_holder(store)
    queue_after(store, job, run_in(store, Status.RUNNING, job, holder=holder))
    assert store.write(lambda db: run_queries.release_due(db, NOW + 1000 * HOUR)) == 0


def test_a_queued_run_expires_and_lets_the_next_one_go_r_09(store):
    job = add_job(store, gates=Gates(expires_after=MINUTE))
    run = add_run(store, job, expires_at=NOW + MINUTE, waiting_for=WaitingFor.CONDITION)
    following = store.write(lambda db: enqueue(db, job, After(run.id), trigger=Trigger.MANUAL, now=NOW + SECOND))
    assert store.read(lambda db: db.row("run_next_expiry")) == (int((NOW + MINUTE).timestamp() * 1000),)
    assert store.write(lambda db: expire(db, now=NOW + MINUTE - SECOND, limit=9)) == []
    assert len(store.write(lambda db: expire(db, now=NOW + MINUTE, limit=9))) == 1
    found = look(store, run)
    assert (found.status, found.reason, found.waiting_for) == (Status.SKIPPED, Reason.EXPIRED, None)
    assert ready(store) == [following.id]


def test_a_run_that_is_held_does_not_expire_r_09(store):
    job, holder = add_job(store), add_holder(store)
    run = add_run(store, job, expires_at=NOW)
    assert store.write(lambda db: dispatch(db, run, holder))
    assert store.write(lambda db: expire(db, now=NOW + HOUR, limit=9)) == []


def test_expiry_takes_the_oldest_first_and_not_more_than_it_may(store):
    job = add_job(store)
    made = [add_run(store, job, expires_at=NOW - number * MINUTE) for number in range(3)]
    assert len(store.write(lambda db: expire(db, now=NOW, limit=2))) == 2
    assert [look(store, run).status for run in made] == [Status.QUEUED, Status.SKIPPED, Status.SKIPPED]
