"""Conformance: runs and executions as they are inserted, claimed, started, released and finished."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model.clock import to_ms
from rota.model.errors import InvariantRefused
from rota.model.records import Outcome, ProcessIdentity
from rota.model.states import FINAL, Reason, Status, Trigger, WaitingFor
from rota.store.tables import audit, jobs, run_queries, runs
from tests.store.making import (
    DONE,
    FAILED,
    HOUR,
    MINUTE,
    NOW,
    PROCESS,
    SECOND,
    add_holder,
    add_job,
    add_run,
    begin,
    dispatch,
    end,
    insert_run,
    look,
    run_in,
    seen,
    spec_of,
)
from tests.waiting import until


def test_a_run_reads_back_as_it_was_stored(store):
    job = add_job(store, priority=4)
    run = add_run(
        store,
        job,
        trigger=Trigger.SCHEDULE,
        slot_key="k",
        scheduled_for=NOW - MINUTE,
        expires_at=NOW + HOUR,
        params={"a": [1, "é"], "b": None},
        forced=True,
        decisions={"late_ms": 7},
    )
    assert (run.job_id, run.job, run.number, run.version, run.handle) == (job.id, "backup", 1, 1, "backup:1")
    assert (run.trigger, run.status, run.reason) == (Trigger.SCHEDULE, Status.QUEUED, None)
    assert (run.scheduled_for, run.created_at, run.expires_at) == (NOW - MINUTE, NOW, NOW + HOUR)
    assert (run.params, run.decisions, run.forced) == ({"a": [1, "é"], "b": None}, {"late_ms": 7}, True)
    assert (run.priority, run.attempt, run.losses, run.worker_id, run.slot, run.epoch) == (4, 1, 0, None, None, None)
    assert store.read(lambda db: runs.run_by_number(db, job.id, 1)) == run


def test_a_run_without_params_has_those_of_its_job(store):
    assert add_run(store, add_job(store)).params == spec_of().work.params


def test_a_run_that_is_not_there_is_none(store):
    job = add_job(store)
    assert store.read(lambda db: runs.run_by_id(db, "nothing")) is None
    assert store.read(lambda db: runs.run_by_number(db, job.id, 1)) is None
    assert store.read(lambda db: runs.execution_of_run(db, "nothing")) is None


def test_a_skipped_row_is_final_from_birth_and_counts_its_instants(store):
    job = add_job(store)
    run = add_run(
        store,
        job,
        trigger=Trigger.SCHEDULE,
        slot_key="k",
        scheduled_for=NOW - HOUR,
        covers_to=NOW,
        count=60,
        reason=Reason.MISSED,
        error="late",
    )
    assert (run.status, run.reason, run.finished_at, run.error) == (Status.SKIPPED, Reason.MISSED, NOW, "late")
    assert (run.covers_to, run.count) == (NOW, 60)


def test_a_fire_is_stored_once_r_05(store, backend):
    job, other = add_job(store), add_job(store, "other")
    fire = {"trigger": Trigger.SCHEDULE, "slot_key": str(to_ms(NOW)), "scheduled_for": NOW}
    add_run(store, job, **fire)
    add_run(store, other, **fire)
    with pytest.raises(backend.refusal):
        add_run(store, job, **fire)
    with pytest.raises(backend.refusal):
        add_run(store, job, **fire, reason=Reason.MISSED)
    assert store.read(lambda db: jobs.job_by_id(db, job.id)).run_number == 1, "a refused fire counts no run"


def test_runs_without_a_slot_key_are_never_the_same_fire_r_05(store):
    job = add_job(store)
    assert [add_run(store, job).number for _ in range(3)] == [1, 2, 3]


# Few values, so that ties are common and every part of the order decides.
order = st.tuples(st.integers(-1, 0), st.integers(0, 2), st.integers(0, 2), st.sampled_from([False, False, True]))


@settings(max_examples=100)
@given(st.lists(order, min_size=3, max_size=12), st.integers(1, 3))
def test_candidates_come_by_priority_position_creation_and_key_inv_004(store, backend, made, free):
    backend.sql(
        "INSERT INTO ended (run, job, status, reason, finished_at) SELECT run, job, 7, 'requested', 1 FROM live"
    )
    job = store.read(lambda db: jobs.job_by_name(db, "backup")) or add_job(store)

    def insert(db):
        return [insert_run(db, job, at=NOW + created * SECOND) for _, _, created, _ in made]

    rows = []
    for run, (priority, position, _, waits) in zip(store.write(insert), made, strict=True):
        backend.sql(
            """UPDATE live SET rank = :priority, position = :position, state = :state, waiting_for = :waiting_for
            WHERE run = :run""",
            run=run.seq,
            priority=priority,
            position=position,
            state=runs.WAITING if waits else runs.READY,
            waiting_for="predecessor" if waits else None,
        )
        if not waits:
            rows.append((-priority, position, run.created_at, run.seq, run.id))
    found = [candidate.id for candidate in store.read(lambda db: runs.candidates(db, free=free))]
    assert found == [row[-1] for row in sorted(rows)][:free]


def test_a_candidate_brings_what_its_execution_needs(store):
    job = add_job(store)
    run = add_run(store, job, trigger=Trigger.SCHEDULE, slot_key="k", scheduled_for=NOW - MINUTE, params={"a": 1})
    store.write(lambda db: jobs.save_job_state(db, job.id, {"seen": 3}))
    (candidate,) = store.read(lambda db: runs.candidates(db, free=1))
    assert (candidate.id, candidate.handle, candidate.version) == (run.id, "backup:1", 1)
    assert (candidate.nominal, candidate.params, candidate.state) == (NOW - MINUTE, {"a": 1}, {"seen": 3})


def test_only_queued_runs_that_wait_for_nothing_are_candidates(store):
    job, holder = add_job(store), add_holder(store)
    for slot, status in enumerate(Status):
        run_in(store, status, job, holder=holder, slot=slot)
    add_run(store, job, waiting_for=WaitingFor.CONDITION)
    found = store.read(lambda db: runs.candidates(db, free=99))
    assert [candidate.number for candidate in found] == [1]


def test_a_claim_takes_slot_and_epoch_and_is_made_once_r_01(store):
    run, holder = add_run(store, add_job(store)), add_holder(store)
    assert store.write(lambda db: dispatch(db, run, holder, slot=3))
    with pytest.raises(InvariantRefused):
        store.write(lambda db: dispatch(db, run, holder, slot=4))
    found = look(store, run)
    assert (found.status, found.slot, found.epoch, found.worker_id) == (
        Status.DISPATCHED, 3, holder.epoch, holder.worker_id
    )  # fmt: skip
    assert (found.first_dispatched_at, found.started_at) == (NOW, None)
    assert store.read(lambda db: runs.taken_slots(db, holder.worker_id)) == {3}


def test_a_waiting_run_cannot_be_claimed_r_02(store):
    holder = add_holder(store)
    run = add_run(store, add_job(store), waiting_for=WaitingFor.CONDITION)
    with pytest.raises(InvariantRefused):
        store.write(lambda db: dispatch(db, run, holder))
    assert look(store, run) == run


def test_a_claim_may_start_at_once_r_01(store):
    run, holder = add_run(store, add_job(store)), add_holder(store)
    assert store.write(lambda db: dispatch(db, run, holder, started=True))
    found = look(store, run)
    assert (found.status, found.started_at, found.first_dispatched_at) == (Status.RUNNING, NOW, NOW)


def test_a_start_leaves_an_execution_with_its_process_r_01(store):
    job, holder = add_job(store), add_holder(store)
    run = run_in(store, Status.RUNNING, job, holder=holder, slot=2)
    execution = store.read(lambda db: runs.execution_of_run(db, run.id))
    assert (execution.run_id, execution.job_id, execution.worker_id) == (run.id, job.id, holder.worker_id)
    assert (execution.slot, execution.epoch, execution.started_at) == (2, holder.epoch, NOW)
    assert (execution.boot_id, execution.pid, execution.pid_start) == (PROCESS.boot_id, PROCESS.pid, PROCESS.start)
    assert (execution.finished_at, execution.status, execution.artifacts) == (None, None, {})


def test_a_slot_holds_one_run_inv_003(store, backend):
    job, holder = add_job(store), add_holder(store)
    run_in(store, Status.DISPATCHED, job, holder=holder, slot=1)
    second = add_run(store, job)
    with pytest.raises(backend.refusal):
        store.write(lambda db: dispatch(db, second, holder, slot=1))
    assert store.write(lambda db: dispatch(db, second, holder, slot=0))


def test_a_run_does_not_move_into_the_slot_of_another_inv_003(store, backend):
    job, holder = add_job(store), add_holder(store)
    run_in(store, Status.RUNNING, job, holder=holder, slot=1)
    second = run_in(store, Status.DISPATCHED, job, holder=holder, slot=2)
    for slot in (1, 3):  # another one's, and one that is free: a slot is given by a claim alone
        with pytest.raises(backend.refusal):
            backend.sql("UPDATE live SET slot = :slot WHERE run = :run", run=second.seq, slot=slot)
    assert look(store, second) == second
    assert store.read(lambda db: runs.taken_slots(db, holder.worker_id)) == {1, 2}


def test_a_slot_is_free_again_when_its_run_is_final_inv_003(store):
    job, holder = add_job(store), add_holder(store)
    for _ in range(2):
        run_in(store, Status.COMPLETED, job, holder=holder, slot=1)
    assert store.read(lambda db: runs.taken_slots(db, holder.worker_id)) == set()


def test_a_run_has_one_execution(store):
    """Neither a claim nor a start begins it anew."""
    job, holder = add_job(store), add_holder(store)
    for slot, status in enumerate((Status.RUNNING, *sorted(FINAL))):
        run = run_in(store, status, job, holder=holder, slot=slot)
        execution = store.read(lambda db, run=run: runs.execution_of_run(db, run.id))
        assert (execution is None) == (status is Status.SKIPPED)
        with pytest.raises(InvariantRefused):
            store.write(lambda db, run=run: dispatch(db, run, holder, slot=9, started=True))
        assert not store.write(
            lambda db, run=run: runs.start_run(
                db, run.id, epoch=holder.epoch, process=ProcessIdentity("other", 1, 1), now=NOW + MINUTE
            )
        )
        assert look(store, run) == run
        assert store.read(lambda db, run=run: runs.execution_of_run(db, run.id)) == execution


def test_a_released_run_is_back_in_the_queue_without_slot_and_epoch_r_01(store):
    job, holder = add_job(store), add_holder(store)
    run = run_in(store, Status.DISPATCHED, job, holder=holder)
    assert store.write(lambda db: runs.release_run(db, run.id, epoch=holder.epoch))
    found = look(store, run)
    assert (found.status, found.worker_id, found.slot, found.epoch) == (Status.QUEUED, None, None, None)
    assert (found.losses, found.first_dispatched_at) == (0, NOW)
    assert store.write(lambda db: dispatch(db, run, holder))


def test_losses_of_the_worker_are_counted_r_01(store):
    job, holder = add_job(store), add_holder(store)
    run = add_run(store, job)
    for losses in (1, 2, 3):
        store.write(lambda db: dispatch(db, run, holder))
        store.write(lambda db: runs.release_run(db, run.id, epoch=holder.epoch, lost=True))
        assert look(store, run).losses == losses


def test_a_finish_writes_outcome_and_audit_record_together(store):
    job, holder = add_job(store), add_holder(store)
    run = run_in(store, Status.RUNNING, job, holder=holder)
    outcome = Outcome(
        Status.FAILED, Reason.EXIT_CODE, exit_code=3, error="bad", summary="sum", output_bytes=12, files=("a.txt",)
    )
    assert store.write(lambda db: end(db, run, holder, outcome))
    found = look(store, run)
    assert (found.status, found.reason, found.finished_at) == (Status.FAILED, Reason.EXIT_CODE, NOW + MINUTE)
    assert (found.exit_code, found.error, found.result_summary) == (3, "bad", "sum")
    execution = store.read(lambda db: runs.execution_of_run(db, run.id))
    assert (execution.status, execution.exit_code, execution.finished_at) == (Status.FAILED, 3, NOW + MINUTE)
    assert execution.artifacts == {"output_bytes": 12, "files": ["a.txt"], "summary": "sum"}


def test_artifacts_beyond_their_limit_are_cut_and_never_cost_the_outcome_inv_002(store):
    job, holder = add_job(store), add_holder(store)
    run = run_in(store, Status.RUNNING, job, holder=holder)
    outcome = Outcome(Status.COMPLETED, summary="s" * 1000, output_bytes=7, files=tuple(["é" * 600] * 100))
    assert store.write(lambda db: end(db, run, holder, outcome))
    artifacts = store.read(lambda db: runs.execution_of_run(db, run.id)).artifacts
    assert (artifacts["summary"], artifacts["output_bytes"]) == ("s" * 1000, 7)
    assert 0 < len(artifacts["files"]) < 100
    assert artifacts["files_left_out"] == 100 - len(artifacts["files"])


def test_a_finish_that_expects_another_status_changes_nothing(store):
    job, holder = add_job(store), add_holder(store)
    run = run_in(store, Status.DISPATCHED, job, holder=holder)
    end = runs.RunEnd(run.id, DONE, expected=Status.RUNNING, at=NOW)
    assert not store.write(lambda db: runs.finish_runs(db, [end], epoch=holder.epoch))
    assert look(store, run) == run


@pytest.mark.parametrize("write", ["start", "release", "finish", "adopt"])
def test_a_write_that_names_a_stale_epoch_changes_nothing_r_22(store, write):
    job, holder = add_job(store), add_holder(store)
    status = Status.RUNNING if write in ("finish", "adopt") else Status.DISPATCHED
    run = run_in(store, status, job, holder=holder)
    stale = holder.epoch + 1
    writes = {
        "start": lambda db: runs.start_run(db, run.id, epoch=stale, process=PROCESS, now=NOW),
        "release": lambda db: runs.release_run(db, run.id, epoch=stale),
        "finish": lambda db: runs.finish_runs(db, [runs.RunEnd(run.id, DONE, expected=status, at=NOW)], epoch=stale),
        "adopt": lambda db: db.execute("run_adopt", id=run.id, epoch=holder.epoch, expected=stale) == 1,
    }
    assert not store.write(writes[write])
    assert look(store, run) == run


def test_after_adoption_only_the_new_epoch_can_write_r_23(store):
    job, old, new = add_job(store), add_holder(store), add_holder(store, pid=5)
    run = run_in(store, Status.RUNNING, job, holder=old, slot=9)
    assert store.write(lambda db: db.execute("run_adopt", id=run.id, epoch=new.epoch, expected=old.epoch)) == 1
    assert not store.write(lambda db: end(db, run, old))
    assert look(store, run).slot == 9
    assert store.write(lambda db: end(db, run, new))
    assert store.read(lambda db: runs.execution_of_run(db, run.id)).epoch == old.epoch


def test_a_wish_to_cancel_is_noted_once_and_the_first_reason_stands(store):
    job, holder = add_job(store), add_holder(store)
    run = run_in(store, Status.RUNNING, job, holder=holder)
    other = add_holder(store, pid=5)
    assert store.write(lambda db: runs.ask_cancel(db, run.id, reason=Reason.REPLACED, now=NOW))
    assert not store.write(lambda db: runs.ask_cancel(db, run.id, reason=Reason.REQUESTED, now=NOW + SECOND))
    assert store.read(lambda db: runs.cancelling_runs(db, holder.epoch)) == [(run.id, Reason.REPLACED)]
    assert store.read(lambda db: runs.cancelling_runs(db, other.epoch)) == []
    assert look(store, run).cancel_requested_at == NOW
    store.write(lambda db: end(db, run, holder, Outcome(Status.CANCELLED, Reason.REPLACED)))
    assert store.read(lambda db: runs.cancelling_runs(db, holder.epoch)) == []


@pytest.mark.parametrize("status", [Status.QUEUED, Status.COMPLETED])
def test_a_run_that_nobody_holds_cannot_be_asked_to_stop(store, status):
    job, holder = add_job(store), add_holder(store)
    run = run_in(store, status, job, holder=holder)
    assert not store.write(lambda db: runs.ask_cancel(db, run.id, reason=Reason.REQUESTED, now=NOW))


def test_notes_are_added_to_what_was_decided(store):
    job, holder = add_job(store), add_holder(store)
    run = add_run(store, job, decisions={"late_ms": 4})
    store.write(lambda db: runs.note_decisions(db, run.id, {"conditions": [{"name": "up", "answer": "pass"}]}))
    assert look(store, run).decisions == {"late_ms": 4, "conditions": [{"name": "up", "answer": "pass"}]}
    final = run_in(store, Status.COMPLETED, job, holder=holder)
    store.write(lambda db: runs.note_decisions(db, final.id, {"late_ms": 1}))
    assert look(store, final).decisions == {}


def test_owned_runs_are_those_that_the_epochs_hold_with_their_processes(store):
    job, first, second = add_job(store), add_holder(store), add_holder(store, pid=5)
    dispatched = run_in(store, Status.DISPATCHED, job, holder=first, slot=0)
    running = run_in(store, Status.RUNNING, job, holder=first, slot=1)
    run_in(store, Status.COMPLETED, job, holder=first, slot=2)
    others = run_in(store, Status.RUNNING, job, holder=second, slot=3)
    store.write(lambda db: runs.ask_cancel(db, running.id, reason=Reason.REQUESTED, now=NOW))
    found = store.read(lambda db: runs.owned_runs(db, [first.epoch]))
    assert [(owned.id, owned.status, owned.process, owned.cancel_reason) for owned in found] == [
        (dispatched.id, Status.DISPATCHED, None, None),
        (running.id, Status.RUNNING, PROCESS, Reason.REQUESTED),
    ]
    both = store.read(lambda db: runs.owned_runs(db, [first.epoch, second.epoch]))
    assert [owned.id for owned in both] == [dispatched.id, running.id, others.id]
    assert store.read(lambda db: runs.owned_runs(db, [])) == []


def test_unfinished_runs_are_listed_by_job_and_for_all_in_queue_order(store):
    first, second, holder = add_job(store, "a"), add_job(store, "b", priority=5), add_holder(store)
    made = [add_run(store, first), run_in(store, Status.RUNNING, first, holder=holder), add_run(store, second)]
    run_in(store, Status.FAILED, first, holder=holder, slot=1)
    assert [run.id for run in store.read(lambda db: run_queries.unfinished_runs(db, first.id))] == [
        made[0].id,
        made[1].id,
    ]
    queue = store.read(lambda db: run_queries.all_unfinished_runs(db, limit=10))
    assert [run.id for run in queue] == [made[2].id, made[0].id, made[1].id]
    assert len(store.read(lambda db: run_queries.all_unfinished_runs(db, limit=2))) == 2


def test_the_newest_runs_come_first_and_in_pages(store):
    job = add_job(store)
    store.write(lambda db: [insert_run(db, job) for _ in range(5)])
    page = store.read(lambda db: run_queries.newest_runs(db, job.id, limit=2, offset=1))
    assert [run.number for run in page] == [4, 3]


def spans(store, job, since, until):
    return store.read(lambda db: run_queries.executed_spans(db, job.id, since=since, until=until))


def test_executed_spans_are_those_within_a_time_and_those_that_reach_into_it_r_10(store):
    job, holder = add_job(store), add_holder(store)
    plan = [(-5, -4), (-3, 1), (2, 3), (9, None)]
    for slot, (start, finish) in enumerate(plan):
        run = add_run(store, job)
        store.write(
            lambda db, run=run, slot=slot, start=start: begin(db, run, holder, slot=slot, at=NOW + start * HOUR)
        )
        if finish is not None:
            store.write(lambda db, run=run, finish=finish: end(db, run, holder, at=NOW + finish * HOUR))
    assert spans(store, job, NOW, NOW + 5 * HOUR) == [
        (NOW - 3 * HOUR, NOW + HOUR, "backup:2"),
        (NOW + 2 * HOUR, NOW + 3 * HOUR, "backup:3"),
    ]
    assert spans(store, job, NOW + 10 * HOUR, NOW + 11 * HOUR) == [(NOW + 9 * HOUR, None, "backup:4")]


@pytest.mark.parametrize("reason", [Reason.PROCESS_RESTARTED, Reason.WORKER_LOST])
def test_an_execution_that_was_lost_covers_no_instant_r_10(store, reason):
    job, holder = add_job(store), add_holder(store)
    run = run_in(store, Status.RUNNING, job, holder=holder)
    assert len(spans(store, job, NOW - HOUR, NOW + HOUR)) == 1
    store.write(lambda db: end(db, run, holder, Outcome(Status.FAILED, reason)))
    assert spans(store, job, NOW - HOUR, NOW + HOUR) == []


def test_a_failed_operation_leaves_nothing(store):
    job = add_job(store)

    def insert_and_fail(db):
        insert_run(db, job)
        raise LookupError

    with pytest.raises(LookupError):
        store.write(insert_and_fail)
    assert store.read(lambda db: run_queries.newest_runs(db, job.id, limit=9)) == []


def test_a_read_sees_one_snapshot_while_others_write(store, backend):
    job = add_job(store)

    def count_twice(db):
        before = len(run_queries.newest_runs(db, job.id, limit=9))
        backend.sql("UPDATE job SET fire_number = 77")
        return before, jobs.job_by_id(db, job.id).fire_number

    assert store.read(count_twice) == (0, 0)


def test_a_finished_run_has_its_time_spent(store):
    job, holder = add_job(store), add_holder(store)
    run = run_in(store, Status.FAILED, job, holder=holder)
    assert run.finished_at - run.started_at == timedelta(minutes=1)
    assert store.read(lambda db: seen(db, run.id)).error == FAILED.error


def test_of_many_ends_only_those_that_are_ours_are_stored_r_22(store):
    job, holder, other = add_job(store), add_holder(store), add_holder(store, pid=5)
    ours = run_in(store, Status.RUNNING, job, holder=holder, slot=0)
    theirs = run_in(store, Status.RUNNING, job, holder=other, slot=1)
    ends = [runs.RunEnd(run.id, DONE, expected=Status.RUNNING, at=NOW) for run in (theirs, ours)]
    ended = store.write(lambda db: runs.finish_runs(db, ends, epoch=holder.epoch))
    assert [run.id for run in ended] == [ours.id]
    assert look(store, theirs) == theirs


@pytest.mark.parametrize("outcomes", [(DONE, FAILED), (FAILED, FAILED), (DONE, DONE)])
def test_runs_that_end_together_are_stored_each_as_it_ended(store, outcomes):
    """Told one by one, or, where all end in one way, by what they share."""
    job, holder = add_job(store), add_holder(store)
    ended = [run_in(store, Status.RUNNING, job, holder=holder, slot=slot) for slot in range(len(outcomes))]
    ends = [
        runs.RunEnd(run.id, outcome, expected=Status.RUNNING, at=NOW + MINUTE)
        for run, outcome in zip(ended, outcomes, strict=True)
    ]

    def finish(db):
        assert {run.id for run in runs.finish_runs(db, ends, epoch=holder.epoch)} == {run.id for run in ended}

    store.write(finish)
    for run, outcome in zip(ended, outcomes, strict=True):
        final = look(store, run)
        assert (final.status, final.reason, final.error) == (outcome.status, outcome.reason, outcome.error)
        closed = store.read(lambda db, run=run: runs.execution_of_run(db, run.id))
        assert (closed.status, closed.exit_code, closed.error) == (outcome.status, outcome.exit_code, outcome.error)
        assert closed.finished_at == final.finished_at == NOW + MINUTE


def test_many_runs_are_claimed_at_once_each_into_its_own_slot_inv_003(store):
    job, holder = add_job(store), add_holder(store)
    made = [add_run(store, job) for _ in range(3)]
    taken = [runs.ClaimedSlot(run.seq, slot, started=slot == 2) for slot, run in enumerate(made)]
    claimed = store.write(
        lambda db: runs.claim_runs(db, taken, worker_id=holder.worker_id, epoch=holder.epoch, now=NOW)
    )
    assert claimed == 3
    found = [look(store, run) for run in made]
    assert [run.slot for run in found] == [0, 1, 2]
    assert [run.status for run in found] == [Status.DISPATCHED, Status.DISPATCHED, Status.RUNNING]


def test_a_run_that_starts_with_its_claim_in_a_process_of_its_own_names_that_process_r_28(store):
    job, holder = add_job(store), add_holder(store)
    here, beside = [add_run(store, job) for _ in range(2)]
    keeper = ProcessIdentity("boot", 4711, 99)
    taken = [runs.ClaimedSlot(here.seq, 0, started=True), runs.ClaimedSlot(beside.seq, 1, True, keeper)]
    store.write(lambda db: runs.claim_runs(db, taken, worker_id=holder.worker_id, epoch=holder.epoch, now=NOW))
    found = [store.read(lambda db, run=run: runs.execution_of_run(db, run.id)) for run in (here, beside)]
    processes = [ProcessIdentity(one.boot_id, one.pid, one.pid_start) for one in found]
    assert processes == [holder.identity, keeper]
    assert [one.started_at for one in found] == [NOW, NOW]


@pytest.mark.parametrize("wrong", ["it is taken already", "it is named twice", "it waits"])
def test_a_claim_of_runs_that_start_at_once_is_refused_whole_where_one_does_not_come_into_its_slot_inv_003(
    store, wrong
):
    job, holder = add_job(store), add_holder(store)
    first = add_run(store, job)
    waits = {"waiting_for": WaitingFor.BACKOFF, "not_before": NOW} if wrong == "it waits" else {}
    second = first if wrong == "it is named twice" else add_run(store, job, **waits)
    if wrong == "it is taken already":
        store.write(lambda db: dispatch(db, second, holder, slot=7))
    before = [look(store, run) for run in (first, second)]

    def claim(db):
        taken = [runs.ClaimedSlot(run.seq, slot, started=True) for slot, run in enumerate((first, second))]
        runs.claim_runs(db, taken, worker_id=holder.worker_id, epoch=holder.epoch, now=NOW)

    with pytest.raises(InvariantRefused, match="1 of 2 runs were not claimable"):
        store.write(claim)
    assert [look(store, run) for run in (first, second)] == before


def test_every_run_that_a_statement_moves_is_told_once_and_one_that_stays_is_not(store):
    job, holder = add_job(store), add_holder(store)
    made = [add_run(store, job) for _ in range(3)]
    added = [run.id for run in made]

    def told(after: int) -> list[audit.Change]:
        return store.read(lambda db: audit.changes_after(db, after, limit=9))

    # A transaction in progress, whosever it is, holds back what came after it.
    until(lambda: added[2] in [change.subject for change in told(0)], what="the births to be told")
    known = told(0)[-1].seq
    taken = [runs.ClaimedSlot(run.seq, slot, started=True) for slot, run in enumerate(made[:2])]
    store.write(lambda db: runs.claim_runs(db, taken, worker_id=holder.worker_id, epoch=holder.epoch, now=NOW))
    store.write(lambda db: runs.note_decisions(db, added[2], {"conditions": []}))
    until(lambda: len(told(known)) >= 2, what="the claims to be told")
    assert sorted((change.kind, change.subject) for change in told(known)) == [
        ("run.started", one) for one in sorted(added[:2])
    ]


def test_the_change_feed_says_what_happened_to_a_run_that_is_over_already(store):
    job, holder = add_job(store), add_holder(store)
    run, waiting = add_run(store, job), add_run(store, job)
    skipped = add_run(store, job, reason=Reason.OVERLAP)
    store.write(lambda db: begin(db, run, holder))
    store.write(lambda db: end(db, run, holder))
    store.write(lambda db: dispatch(db, waiting, holder, slot=1))
    store.write(lambda db: release(db, waiting, holder))

    def told(one) -> list[str]:
        found = store.read(lambda db: audit.changes_after(db, 0, limit=99))
        return [change.kind for change in found if change.subject == one.id]

    until(lambda: told(waiting)[-1:] == ["run.waiting"], what="the changes to be told")
    assert told(run) == ["run.created", "run.changed", "run.started", "run.finished"]
    assert told(waiting) == ["run.created", "run.changed", "run.waiting"]
    assert told(skipped) == ["run.skipped"]


def release(db, run, holder):
    runs.release_run(db, run.id, epoch=holder.epoch, waiting_for=WaitingFor.CONDITION, not_before=NOW + MINUTE)
