"""Conformance: history, its filters and its paging, and the processes that schedule (R-22, R-23)."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from rota.model.ids import IdSource
from rota.model.states import Reason, Status, Trigger
from rota.store.tables import processes, run_queries
from tests.store.making import (
    HOUR,
    MINUTE,
    NOW,
    PROCESS,
    SECOND,
    add_holder,
    add_job,
    add_run,
    enter,
    insert_run,
    run_in,
)


def numbers(store, **filters):
    return [run.number for run in store.read(lambda db: run_queries.history(db, **{"limit": 99, **filters}))]


@pytest.fixture
def ids():
    return IdSource()


@pytest.fixture
def job(store, ids):
    """A job with five runs, a minute apart."""
    job = add_job(store)

    def insert(db):
        for minute in range(5):
            at = NOW + minute * MINUTE
            insert_run(db, job, at=at, id=ids.new(at))

    store.write(insert)
    return job


def test_history_is_newest_first_and_bounded(store, job):
    assert numbers(store) == [5, 4, 3, 2, 1]
    assert numbers(store, limit=2) == [5, 4]
    assert numbers(store, job_id=job.id, limit=3) == [5, 4, 3]


@pytest.mark.parametrize("of_job", [True, False])
def test_history_holds_what_was_made_from_since_to_before_until(store, job, of_job):
    scope = {"job_id": job.id} if of_job else {}
    assert numbers(store, since=NOW + 2 * MINUTE, **scope) == [5, 4, 3]
    assert numbers(store, until=NOW + 2 * MINUTE, **scope) == [2, 1]
    assert numbers(store, since=NOW + MINUTE, until=NOW + 3 * MINUTE, **scope) == [3, 2]
    assert numbers(store, since=NOW + 9 * HOUR, **scope) == []
    assert numbers(store, since=NOW + MINUTE + SECOND / 1000, until=NOW + 2 * MINUTE, **scope) == []


def test_history_takes_any_instant_as_a_bound(store, job):
    assert numbers(store, since=datetime(1, 1, 1, tzinfo=UTC), until=datetime(9999, 12, 31, tzinfo=UTC)) == [
        5, 4, 3, 2, 1
    ]  # fmt: skip
    assert numbers(store, until=datetime(1969, 12, 31, tzinfo=UTC)) == []


def test_pages_by_time_hold_every_run_once(store, job):
    found, until = [], None
    while page := store.read(lambda db, until=until: run_queries.history(db, until=until, limit=2)):
        found.extend(run.number for run in page)
        until = page[-1].created_at
    assert found == [5, 4, 3, 2, 1]


@pytest.mark.parametrize("of_job", [True, False])
def test_history_is_filtered_by_status_and_reason(store, of_job):
    job, holder = add_job(store), add_holder(store)
    for slot, status in enumerate(Status):
        run_in(store, status, job, holder=holder, slot=slot)
    scope = {"job_id": job.id} if of_job else {}
    by_status = {status: number for number, status in enumerate(Status, 1)}
    for status, number in by_status.items():
        assert numbers(store, statuses=[status], **scope) == [number]
    assert numbers(store, statuses=["FAILED", "SKIPPED"], **scope) == [6, 5]
    assert numbers(store, statuses=[], **scope) == []
    assert numbers(store, reasons=[Reason.EXPIRED], **scope) == [by_status[Status.SKIPPED]]
    assert numbers(store, statuses=["FAILED"], reasons=[Reason.EXPIRED], **scope) == []
    assert numbers(store, statuses=["SKIPPED/expired", "FAILED/expired", "QUEUED"], **scope) == [6, 1]


def test_history_of_chosen_jobs_leaves_out_the_others(store):
    first, second, third = (add_job(store, name) for name in "abc")
    for job in (first, second, third, first):
        add_run(store, job)
    found = store.read(lambda db: run_queries.history(db, job_ids=[first.id, third.id], limit=9))
    assert [run.handle for run in found] == ["a:2", "c:1", "a:1"]
    assert store.read(lambda db: run_queries.history(db, job_ids=[], limit=9)) == []


def test_runs_alike_are_added_up_back_to_the_first_that_is_not(store):
    job, holder = add_job(store), add_holder(store)
    add_run(store, add_job(store, "other"))
    done, failed = Status.COMPLETED, Status.FAILED
    runs = [run_in(store, status, job, holder=holder) for status in (done, done, failed, done, done, done)]

    def before(run, **filters):
        older = store.read(lambda db: run_queries.alike_before(db, run, **filters))
        return older.runs, older.times, older.oldest, older.complete

    assert before(runs[5]) == (2, 2, 4, False)
    assert before(runs[3]) == (0, 0, None, False)
    assert before(runs[2]) == (0, 0, None, False)
    assert before(runs[1]) == (1, 1, 1, True)
    assert before(runs[5], statuses=[done]) == (4, 4, 1, True)
    assert before(runs[5], job_ids=[job.id], reasons=[Reason.EXPIRED]) == (0, 0, None, True)


@pytest.mark.parametrize("of_job", [True, False])
def test_what_runs_say_comes_in_the_same_order_and_with_the_same_filters(store, job, of_job):
    run_in(store, Status.FAILED, job, holder=add_holder(store))
    scope = {"job_id": job.id} if of_job else {"job_ids": [job.id]}

    def said(**filters):
        return store.read(lambda db: run_queries.said(db, **{"limit": 99, **scope, **filters}))

    newest = numbers(store, **scope)
    assert [one.number for one in said()] == newest
    assert [one.number for one in said(limit=2)] == newest[:2]
    assert [one.number for one in said(since=NOW + 3 * MINUTE)] == numbers(store, since=NOW + 3 * MINUTE, **scope)
    (failed,) = said(statuses=["FAILED"])
    (run,) = store.read(lambda db: run_queries.history(db, statuses=["FAILED"], limit=9))
    assert (failed.id, failed.text) == (run.id, f"{run.error}\n{run.result_summary or ''}")


def test_a_filter_is_a_value_and_never_a_part_of_the_statement(store, job):
    assert numbers(store, statuses=["QUEUED' OR '1'='1", '"]'], job_id="' OR 1=1 --") == []
    assert numbers(store) == [5, 4, 3, 2, 1]


def test_history_shows_the_exit_code_of_the_execution(store):
    run_in(store, Status.FAILED, add_job(store), holder=add_holder(store))
    (run,) = store.read(lambda db: run_queries.history(db, limit=9))
    assert (run.exit_code, run.reason, run.trigger) == (3, Reason.EXIT_CODE, Trigger.MANUAL)


def test_a_state_folder_has_one_worker_r_23(store):
    first, second = add_holder(store), add_holder(store, pid=5)
    assert first.worker_id == second.worker_id
    assert second.epoch > first.epoch


def test_an_epoch_is_never_given_twice_even_when_its_row_is_gone_r_22(store, backend):
    first = add_holder(store)
    backend.sql("DELETE FROM process")
    assert add_holder(store).epoch > first.epoch


def test_open_processes_are_those_that_said_no_goodbye_r_22(store):
    epochs = [add_holder(store, pid=pid).epoch for pid in (11, 12, 13)]
    store.write(lambda db: processes.end_process(db, epochs[1], ending="clean", now=NOW + HOUR))
    found = store.read(processes.open_processes)
    assert [process.epoch for process in found] == [epochs[0], epochs[2]]
    assert (found[0].kind, found[0].identity, found[0].lock) == ("serve", replace(PROCESS, pid=11), "11.lock")
    assert found[0].started_at == NOW


def test_the_first_goodbye_of_a_process_stands_r_22(store, backend):
    epoch = add_holder(store).epoch
    store.write(lambda db: processes.end_process(db, epoch, ending="detached", now=NOW))
    store.write(lambda db: processes.end_process(db, epoch, ending="lost", now=NOW + HOUR))
    assert backend.sql("SELECT ending FROM process") == [("detached",)]


@pytest.mark.parametrize("nonsense", ["ending = 'clean'", "ended_at = 1", "ending = 'gone', ended_at = 1"])
def test_the_schema_refuses_a_process_that_makes_no_sense(store, backend, nonsense):
    add_holder(store)
    with pytest.raises(backend.refusal):
        backend.sql(f"UPDATE process SET {nonsense}")


def test_epochs_with_runs_are_found_also_when_their_process_left_r_23(store):
    job = add_job(store)
    detached, idle, busy = (add_holder(store, pid=pid) for pid in (11, 12, 13))
    run_in(store, Status.RUNNING, job, holder=detached, slot=0)
    run_in(store, Status.COMPLETED, job, holder=idle, slot=1)
    run_in(store, Status.DISPATCHED, job, holder=busy, slot=2)
    store.write(lambda db: processes.end_process(db, detached.epoch, ending="detached", now=NOW))
    assert sorted(store.read(processes.epochs_with_runs)) == [detached.epoch, busy.epoch]


def test_a_process_needs_a_worker(store, backend):
    store.write(enter)
    with pytest.raises(backend.refusal):
        backend.sql("UPDATE process SET worker_id = 'nobody'")
