"""Conformance: what the pages of jobs read, many jobs at once."""

import pytest

from rota.model.states import Status
from rota.store.tables import jobs, run_queries
from tests.store.making import DONE, FAILED, MINUTE, NOW, SECOND, add_holder, add_job, add_run, begin, end, run_in


def test_the_newest_runs_of_many_jobs_are_those_of_each(store):
    first, second, idle = (add_job(store, name) for name in ("first", "second", "idle"))
    for minute in range(4):
        add_run(store, first, at=NOW + minute * MINUTE)
    add_run(store, second)
    found = store.read(lambda db: run_queries.newest_of_jobs(db, [second.id, idle.id, first.id], limit=3))
    assert {job_id: [run.number for run in of_job] for job_id, of_job in found.items()} == {
        second.id: [1],
        first.id: [4, 3, 2],
    }
    assert list(found) == [second.id, first.id]


def test_the_oldest_unfinished_run_of_many_jobs_is_found(store):
    first, second = add_job(store, "first"), add_job(store, "second")
    holder = add_holder(store)
    run_in(store, Status.COMPLETED, first, holder=holder)
    waiting = [add_run(store, first, at=NOW + minute * MINUTE) for minute in (1, 2)]
    run_in(store, Status.SKIPPED, second, holder=holder)
    found = store.read(lambda db: run_queries.oldest_unfinished(db, [first.id, second.id]))
    assert {job_id: [run.id for run in of_job] for job_id, of_job in found.items()} == {first.id: [waiting[0].id]}


@pytest.mark.parametrize(
    ("outcomes", "failing"),
    [([], False), ([DONE], False), ([FAILED], True), ([FAILED, DONE], False), ([DONE, FAILED], True)],
)
def test_a_job_fails_whose_newest_end_is_a_failure(store, outcomes, failing):
    job, holder = add_job(store), add_holder(store)
    for number, outcome in enumerate(outcomes):
        run = add_run(store, job)
        store.write(lambda db, run=run: begin(db, run, holder))
        at = NOW + MINUTE + number * SECOND
        store.write(lambda db, run=run, outcome=outcome, at=at: end(db, run, holder, outcome, at=at))
    assert store.read(jobs.failing_jobs) == ({job.id} if failing else set())


def test_versions_come_newest_first_below_a_number(store):
    job = add_job(store)
    for until in (NOW + MINUTE, NOW + 2 * MINUTE):
        at = until - 30 * SECOND
        present = store.read(lambda db: jobs.job_by_id(db, job.id))
        store.write(
            lambda db, present=present, at=at: jobs.change_job(
                db,
                present,
                present.spec,
                source="file",
                retired_at=None,
                used_up_at=None,
                next_for=None,
                next_at=None,
                tzdata="2026c",
                now=at,
            )
        )
    found = store.read(lambda db: jobs.versions(db, job.id, below=99, limit=9))
    assert [(one.number, one.until is None) for one in found] == [(3, True), (2, False), (1, False)]
    assert found[1].since == NOW + 30 * SECOND
    older = store.read(lambda db: jobs.versions(db, job.id, below=3, limit=1))
    assert [one.number for one in older] == [2]
