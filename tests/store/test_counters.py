"""The counters of runs: every door by which a run enters, moves or leaves keeps them, once a transaction."""

import asyncio
from datetime import timedelta

import apsw
import pytest

from rota.engine.loops.pruner import prune_batch
from rota.model.ids import new_id
from rota.model.spec import Retention
from rota.model.states import Reason, Status, Trigger
from rota.rules.queue_order import GROUP_LANE
from rota.store.migrate import HISTORY, digest, open_store
from rota.store.queries import load_migrations
from rota.store.sqlite.store import APPLICATION_ID
from rota.store.tables import groups, jobs, runs
from rota.store.tables.runs import NO_WORKER
from tests.store.making import NOW, add_holder, add_job, add_run, dispatch, insert_run, look, run_in


def counted(store):
    """Return the counters that are not 0."""
    found = store.read(runs.counts)
    return {status: kept for status, each in found.items() if (kept := {who: n for who, n in each.items() if n})}


@pytest.mark.parametrize("status", [status for status in Status if status not in (Status.DISPATCHED, Status.SKIPPED)])
def test_a_run_is_counted_in_its_status_alone(store, status):
    holder = add_holder(store)
    run_in(store, status, add_job(store), holder=holder)
    assert counted(store) == {status: {NO_WORKER if status is Status.QUEUED else holder.worker_id: 1}}


def test_a_dispatched_run_counts_as_running(store):
    """R-01."""
    holder = add_holder(store)
    run_in(store, Status.DISPATCHED, add_job(store), holder=holder)
    assert counted(store) == {Status.RUNNING: {holder.worker_id: 1}}


def test_a_run_that_no_worker_touched_is_nobodys(store):
    job = add_job(store)
    run_in(store, Status.SKIPPED, job, holder=add_holder(store))
    add_run(store, job, reason=Reason.MISSED, count=40)
    assert counted(store) == {Status.SKIPPED: {NO_WORKER: 2}}


def test_a_released_run_is_back_in_the_queue(store):
    holder, run = add_holder(store), add_run(store, add_job(store))
    store.write(lambda db: dispatch(db, run, holder))
    store.write(lambda db: runs.release_run(db, run.id, epoch=holder.epoch))
    assert counted(store) == {Status.QUEUED: {NO_WORKER: 1}}


def test_runs_born_together_are_all_counted(store):
    job = add_job(store)
    shared = runs.NewRun(new_id(NOW), job, Trigger.MANUAL, NOW)
    siblings = [runs.NewRunVariant(new_id(NOW)) for _ in range(1000)]
    store.write(lambda db: runs.insert_runs(db, shared, siblings, first=jobs.next_numbers(db, job.id, 1000)))
    assert counted(store) == {Status.QUEUED: {NO_WORKER: 1000}}


def test_a_group_that_begins_late_leaves_the_queue(store):
    """R-15."""
    run = add_run(store, add_job(store), lane_id=GROUP_LANE, waiting_for="predecessor")
    assert counted(store) == {Status.QUEUED: {NO_WORKER: 1}}
    store.write(lambda db: groups.begin_run(db, run.id, now=NOW))
    assert counted(store) == {Status.RUNNING: {NO_WORKER: 1}}


def test_a_write_that_comes_too_late_counts_nothing(store):
    holder, run = add_holder(store), add_run(store, add_job(store))
    store.write(lambda db: dispatch(db, run, holder))
    assert not store.write(lambda db: runs.release_run(db, run.id, epoch=holder.epoch + 1))
    assert counted(store) == {Status.RUNNING: {holder.worker_id: 1}}


def test_pruned_runs_are_counted_no_longer(store):
    holder = add_holder(store)
    job = add_job(store, retention=Retention(runs=timedelta(days=1)))
    run_in(store, Status.COMPLETED, job, holder=holder)
    add_run(store, job)
    store.write(lambda db: prune_batch(db, job=job, now=NOW + timedelta(days=3), limit=10))
    assert counted(store) == {Status.QUEUED: {NO_WORKER: 1}}


def test_what_is_rolled_back_is_not_counted(store):
    job = add_job(store)

    def refused(db):
        insert_run(db, job)
        raise LookupError("no")

    with pytest.raises(LookupError):
        store.write(refused)
    assert counted(store) == {}


def test_of_a_batch_only_what_was_kept_is_counted(store):
    job = add_job(store)

    def refused(db):
        insert_run(db, job)
        raise LookupError("no")

    async def submit():
        writes = [lambda db: insert_run(db, job), refused, lambda db: insert_run(db, job), refused]
        return await asyncio.gather(*(store.submit(write) for write in writes * 5), return_exceptions=True)

    done = asyncio.run(submit())
    assert sum(isinstance(one, LookupError) for one in done) == 10
    assert counted(store) == {Status.QUEUED: {NO_WORKER: 10}}


def test_a_run_moved_twice_in_one_transaction_ends_where_it_ended(store):
    holder, run = add_holder(store), add_run(store, add_job(store))

    def claim_and_release(db):
        dispatch(db, run, holder)
        runs.release_run(db, run.id, epoch=holder.epoch)

    store.write(claim_and_release)
    assert look(store, run).status is Status.QUEUED
    assert counted(store) == {Status.QUEUED: {NO_WORKER: 1}}


def test_an_older_database_is_counted_when_it_is_upgraded(tmp_path):
    path = tmp_path / "rota.db"
    earlier = [one for one in load_migrations("sqlite") if one[0] < 4]
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}").fetchall()
    connection.execute(HISTORY).fetchall()
    for number, name, script in earlier:
        connection.execute(script).fetchall()
        connection.execute("INSERT INTO migration VALUES (?, ?, ?, 0)", (number, name, digest(script))).fetchall()
    connection.execute(
        """INSERT INTO job (id, name, source, version, enabled, created_at, updated_at, ledger_from)
        VALUES ('j', 'backup', 'file', 1, 1, 0, 0, 0)"""
    )
    connection.execute("INSERT INTO job_version VALUES ('j', 1, '{}', '', 1, '', 0, NULL, 0)")
    connection.execute("INSERT INTO worker VALUES ('w', 'host', 0)")
    connection.execute("INSERT INTO process VALUES (1, 'w', 'serve', 'boot', 1, 1, 'lock', '0', 0, NULL, NULL, NULL)")
    rows = [
        ("QUEUED", None, None, None, None),
        ("QUEUED", None, None, None, None),
        ("RUNNING", None, 0, None, "w"),
        ("DISPATCHED", None, None, None, "w"),
        ("FAILED", "exit_code", 0, 1, "w"),
    ]
    for number, (status, reason, started_at, finished_at, worker_id) in enumerate(rows, 1):
        connection.execute(
            """INSERT INTO run (id, job_id, number, version, trigger, status, reason, position, created_at, started_at,
                finished_at, worker_id, slot, epoch, lane_id)
            VALUES (?1, 'j', ?2, 1, 'manual', ?3, ?4, 0, 0, ?5, ?6, ?7, iif(?7 IS NULL, NULL, ?2),
                iif(?7 IS NULL, NULL, 1), 1)""",
            (str(number), number, status, reason, started_at, finished_at, worker_id),
        )
    connection.close()
    store = open_store(path, now=NOW)
    assert counted(store) == {Status.QUEUED: {NO_WORKER: 2}, Status.RUNNING: {"w": 2}, Status.FAILED: {"w": 1}}
    store.close()
