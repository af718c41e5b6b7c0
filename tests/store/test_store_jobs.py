"""Conformance: jobs, their versions and their cursors."""

import pytest

from rota.model.clock import from_ms, to_ms
from rota.model.spec import Schedule
from rota.store.tables import jobs
from tests.store.making import HOUR, MINUTE, NOW, SECOND, TZDATA, add_job, add_run, insert_job, spec_of


def test_a_job_reads_back_as_it_was_stored(store):
    spec = spec_of("backup", labels=("disk", "night"), priority=7, description="ünïcode ✓")
    job = store.write(lambda db: insert_job(db, spec, next_at=NOW + HOUR))
    assert job.spec == spec
    assert (job.name, job.source, job.version, job.enabled) == ("backup", "file", 1, True)
    assert (job.created_at, job.updated_at, job.ledger_from) == (NOW, NOW, NOW)
    assert (job.next_for, job.next_at) == (NOW + HOUR, NOW + HOUR)
    assert (job.retired_at, job.used_up_at, job.anchored_at) == (None, None, None)
    assert (job.fire_number, job.run_number) == (0, 0)
    assert store.read(lambda db: jobs.job_by_name(db, "backup")) == job


def test_no_job_of_a_name_is_none(store):
    assert store.read(lambda db: jobs.job_by_name(db, "backup")) is None


def test_two_jobs_cannot_have_one_name(store, backend):
    add_job(store, "backup")
    with pytest.raises(backend.refusal):
        add_job(store, "backup")


def test_all_jobs_come_by_name_and_the_names_leave_out_retired_ones(store):
    for name in ("b", "a", "c"):
        add_job(store, name)
    retire(store, "b")
    assert [job.name for job in store.read(jobs.all_jobs)] == ["a", "b", "c"]
    assert store.read(jobs.job_names) == ["a", "c"]


def test_due_jobs_are_those_whose_instant_came_most_overdue_first(store):
    late = add_job(store, "late", next_at=NOW - HOUR)
    later = add_job(store, "later", next_at=NOW - MINUTE)
    just = add_job(store, "just", next_at=NOW)
    add_job(store, "future", next_at=NOW + SECOND)
    add_job(store, "manual", next_at=None, schedule=Schedule())
    assert store.read(lambda db: jobs.due_jobs(db, NOW, limit=10)) == [late.id, later.id, just.id]
    assert store.read(lambda db: jobs.due_jobs(db, NOW, limit=2)) == [late.id, later.id]


def test_the_next_due_instant_is_the_earliest_of_all_jobs(store):
    assert store.read(jobs.next_due) is None
    add_job(store, "a", next_at=NOW + HOUR)
    add_job(store, "b", next_at=NOW + MINUTE)
    add_job(store, "c", next_at=None)
    assert store.read(jobs.next_due) == NOW + MINUTE


def change(store, job, spec, *, next_at=None, retired_at=None, used_up_at=None, at=NOW + MINUTE):
    return store.write(
        lambda db: jobs.change_job(
            db,
            job,
            spec,
            source="file",
            retired_at=retired_at,
            used_up_at=used_up_at,
            next_for=next_at,
            next_at=next_at,
            tzdata=TZDATA,
            now=at,
        )
    )


def retire(store, name):
    job = store.read(lambda db: jobs.job_by_name(db, name))
    assert change(store, job, job.spec, retired_at=NOW + MINUTE)


def test_a_change_opens_a_version_and_closes_the_span_before_it(store, backend):
    job = add_job(store)
    new = spec_of(priority=9)
    assert change(store, job, new, next_at=NOW + HOUR)
    changed = store.read(lambda db: jobs.job_by_id(db, job.id))
    assert (changed.version, changed.spec, changed.updated_at) == (2, new, NOW + MINUTE)
    spans = backend.sql("SELECT version, schedules, tzdata, since, until FROM job_version ORDER BY version")
    at = to_ms(NOW)
    assert spans == [(1, 1, TZDATA, at, at + 60_000), (2, 1, TZDATA, at + 60_000, None)]


def test_old_versions_keep_their_definition_inv_005(store):
    job = add_job(store)
    change(store, job, spec_of(priority=9), next_at=NOW + HOUR)
    assert store.read(lambda db: jobs.version_spec(db, job.id, 1)) == job.spec
    assert store.read(lambda db: jobs.version_spec(db, job.id, 2)).priority == 9


@pytest.mark.parametrize("marks", [{"retired_at": NOW}, {"used_up_at": NOW}])
def test_the_span_of_a_retired_or_used_up_job_schedules_nothing(store, backend, marks):
    job = add_job(store)
    change(store, job, job.spec, **marks)
    assert backend.sql("SELECT schedules FROM job_version WHERE version = 2") == [(0,)]
    assert not store.read(lambda db: jobs.job_by_id(db, job.id)).schedules


def test_a_change_of_a_job_that_somebody_changed_first_changes_nothing(store):
    job = add_job(store)
    assert change(store, job, spec_of(priority=1), next_at=NOW + HOUR)
    assert not change(store, job, spec_of(priority=2), next_at=NOW + HOUR)
    assert store.read(lambda db: jobs.job_by_id(db, job.id)).spec.priority == 1


def test_of_a_version_only_its_end_may_change_inv_005(store, backend):
    add_job(store)
    values = {"spec": "'{}'", "schedules": "0"}
    for column in set(backend.columns("job_version")) - {"until"}:
        with pytest.raises(backend.refusal, match="INV-005"):
            backend.sql(f"UPDATE job_version SET {column} = {values.get(column, '1 + 1')}")


def test_the_end_of_a_span_is_written_once_inv_005(store, backend):
    job = add_job(store)
    change(store, job, job.spec, next_at=NOW + HOUR)
    with pytest.raises(backend.refusal, match="INV-005"):
        backend.sql("UPDATE job_version SET until = until + 1 WHERE version = 1")


def move(store, job, next_at, **changes):
    cursor = {"anchored_at": None, "fire_number": job.fire_number + 1, **changes}
    return store.write(lambda db: jobs.move_cursor(db, job, next_for=next_at, next_at=next_at, **cursor))


def test_the_cursor_moves_once_and_loses_when_somebody_moved_it_first(store):
    job = add_job(store, next_at=NOW)
    assert move(store, job, NOW + HOUR)
    assert not move(store, job, NOW + 2 * HOUR)
    moved = store.read(lambda db: jobs.job_by_id(db, job.id))
    assert (moved.next_for, moved.next_at, moved.fire_number) == (NOW + HOUR, NOW + HOUR, 1)


def test_the_cursor_loses_when_the_job_was_changed_first(store):
    job = add_job(store, next_at=NOW)
    change(store, job, spec_of(priority=3), next_at=NOW)
    assert not move(store, job, NOW + HOUR)


def test_a_cursor_that_stands_nowhere_can_be_set_and_cleared(store):
    job = add_job(store, next_at=None)
    assert move(store, job, NOW + HOUR, anchored_at=NOW)
    moved = store.read(lambda db: jobs.job_by_id(db, job.id))
    assert moved.anchored_at == NOW
    assert move(store, moved, None, used_up_at=NOW)
    assert store.read(lambda db: jobs.job_by_id(db, job.id)).used_up_at == NOW
    assert store.read(jobs.next_due) is None


@pytest.mark.parametrize(
    "nonsense",
    [
        "next_for = NULL",
        "next_at = NULL",
        "next_at = next_for - 1",
        "enabled = 0",
        "retired_at = 1",
        "used_up_at = 1",
        "enabled = 2",
        "version = 0",
        "state = 'no json'",
    ],
)
def test_the_schema_refuses_a_job_that_makes_no_sense(store, backend, nonsense):
    add_job(store)
    with pytest.raises(backend.refusal):
        backend.sql(f"UPDATE job SET {nonsense}")


def test_runs_are_numbered_within_their_job(store):
    first, second = add_job(store, "a"), add_job(store, "b")
    numbers = [add_run(store, job).number for job in (first, second, first, first)]
    assert numbers == [1, 1, 2, 3]
    assert store.read(lambda db: jobs.job_by_id(db, first.id)).run_number == 3


def test_two_runs_of_a_job_cannot_have_one_number(store, backend):
    job = add_job(store)
    add_run(store, job)
    backend.sql("UPDATE job SET run_number = 0")
    with pytest.raises(backend.refusal):
        add_run(store, job)


def test_the_state_of_a_job_is_kept_between_runs(store):
    job = add_job(store)
    assert store.read(lambda db: jobs.job_state(db, job.id)) == {}
    store.write(lambda db: jobs.save_job_state(db, job.id, {"seen": [1, "é"], "at": None}))
    assert store.read(lambda db: jobs.job_state(db, job.id)) == {"seen": [1, "é"], "at": None}


def test_instants_are_kept_to_the_millisecond(store):
    at = from_ms(to_ms(NOW) + 1)
    assert add_job(store, next_at=at).next_at == at


def test_a_change_after_the_clock_stepped_back_still_closes_its_span(store, backend):
    job = add_job(store)
    assert change(store, job, spec_of(priority=1), next_at=NOW + HOUR, at=NOW - HOUR)
    at = to_ms(NOW)
    assert backend.sql("SELECT since, until FROM job_version ORDER BY version") == [(at, at), (at, None)]
