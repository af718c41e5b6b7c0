"""Conformance: what the schema itself refuses (INV-001, INV-002, INV-003, INV-005, the life of a run)."""

from itertools import product

import pytest

from rota.model.clock import to_ms
from rota.model.states import FINAL, TRANSITIONS, Status
from rota.store.tables import runs
from tests.store.making import MINUTE, NOW, add_holder, add_job, add_run, run_in

EXECUTION_MAY_CHANGE = {"finished_at", "status", "exit_code", "error", "artifacts"}
RUN_IDENTITY = ("id", "job_id", "number", "version", "trigger", "slot_key", "scheduled_for", "created_at")
PAIRS = [pair for pair in product(Status, Status) if pair[0] is not pair[1]]
LEGAL = {(status, target) for (status, _), target in TRANSITIONS.items()}


def to_status(backend, run, target, holder):
    """Move a run by a plain statement that satisfies every CHECK of the status it enters."""
    final, held = target in FINAL, target in (Status.DISPATCHED, Status.RUNNING)
    return backend.sql(
        """UPDATE run SET status = :status, reason = :reason, finished_at = :finished_at, started_at = :started_at,
            worker_id = :worker_id, slot = :slot, epoch = :epoch WHERE id = :id""",
        id=run.id,
        status=target.value,
        reason="requested" if final and target is not Status.COMPLETED else None,
        finished_at=to_ms(NOW) if final else None,
        started_at=to_ms(NOW) if target is Status.RUNNING else None,
        worker_id=holder.worker_id if held else None,
        slot=7 if held else None,
        epoch=holder.epoch if held else None,
    )


def status_of(backend, run):
    return backend.sql("SELECT status FROM run WHERE id = :id", id=run.id)[0][0]


@pytest.mark.parametrize(("status", "target"), PAIRS, ids=lambda status: status.value)
def test_the_schema_knows_the_same_transitions_as_the_model(store, backend, status, target):
    holder = add_holder(store)
    run = run_in(store, status, add_job(store), holder=holder)
    if (status, target) in LEGAL:
        to_status(backend, run, target, holder)
        assert status_of(backend, run) == target
    else:
        with pytest.raises(backend.refusal, match=r"no such transition|never changes"):
            to_status(backend, run, target, holder)
        assert status_of(backend, run) == status


@pytest.mark.parametrize("status", sorted(FINAL))
def test_a_final_row_never_changes_in_any_column(store, backend, status):
    run = run_in(store, status, add_job(store), holder=add_holder(store))
    before = backend.sql("SELECT * FROM run WHERE id = :id", id=run.id)
    for column in backend.columns("run"):
        with pytest.raises(backend.refusal, match="never changes"):
            backend.sql(f"UPDATE run SET {column} = {column} WHERE id = :id", id=run.id)
    assert backend.sql("SELECT * FROM run WHERE id = :id", id=run.id) == before


@pytest.mark.parametrize("column", RUN_IDENTITY)
def test_the_identity_of_a_run_is_frozen_inv_005(store, backend, column):
    run = add_run(store, add_job(store))
    value = {"trigger": "'schedule'", "scheduled_for": "5", "slot_key": "'k'"}.get(column, "99")
    with pytest.raises(backend.refusal, match="INV-005"):
        backend.sql(f"UPDATE run SET {column} = {value} WHERE id = :id", id=run.id)


def test_params_may_change_before_the_first_dispatch_and_never_after_inv_001(store, backend):
    job, holder = add_job(store), add_holder(store)
    queued = add_run(store, job)
    backend.sql("UPDATE run SET params = '{\"a\":2}' WHERE id = :id", id=queued.id)
    dispatched = run_in(store, Status.DISPATCHED, job, holder=holder)
    with pytest.raises(backend.refusal, match="INV-001"):
        backend.sql("UPDATE run SET params = '{\"a\":3}' WHERE id = :id", id=dispatched.id)
    store.write(lambda db: runs.release_run(db, dispatched.id, epoch=holder.epoch))
    with pytest.raises(backend.refusal, match="INV-001"):
        backend.sql("UPDATE run SET params = '{\"a\":3}' WHERE id = :id", id=dispatched.id)


def test_the_first_dispatch_is_never_taken_back_inv_001(store, backend):
    run = run_in(store, Status.DISPATCHED, add_job(store), holder=add_holder(store))
    with pytest.raises(backend.refusal, match="INV-001"):
        backend.sql("UPDATE run SET first_dispatched_at = NULL WHERE id = :id", id=run.id)


def test_of_an_execution_only_the_five_may_change_inv_002(store, backend):
    run_in(store, Status.RUNNING, add_job(store), holder=add_holder(store))
    columns = backend.columns("execution")
    assert set(columns) > EXECUTION_MAY_CHANGE
    for column in set(columns) - EXECUTION_MAY_CHANGE:
        with pytest.raises(backend.refusal, match="INV-002"):
            backend.sql(f"UPDATE execution SET {column} = 77")
    backend.sql(
        """UPDATE execution SET finished_at = :now, status = 'COMPLETED', exit_code = 0, error = 'e', artifacts = '{}'
        WHERE finished_at IS NULL""",
        now=to_ms(NOW + MINUTE),
    )
    assert backend.sql("SELECT status, exit_code, error, artifacts FROM execution") == [("COMPLETED", 0, "e", "{}")]


def test_nothing_of_an_execution_changes_after_its_end_inv_002(store, backend):
    run_in(store, Status.COMPLETED, add_job(store), holder=add_holder(store))
    for column in backend.columns("execution"):
        with pytest.raises(backend.refusal, match="INV-002"):
            backend.sql(f"UPDATE execution SET {column} = {column}")


@pytest.mark.parametrize(
    "nonsense",
    [
        "finished_at = 1",
        "status = 'COMPLETED'",
        "finished_at = 1, status = 'SKIPPED'",
        "finished_at = 1, status = 'QUEUED'",
        "artifacts = 'no json'",
    ],
)
def test_the_schema_refuses_an_execution_that_makes_no_sense_inv_002(store, backend, nonsense):
    run_in(store, Status.RUNNING, add_job(store), holder=add_holder(store))
    with pytest.raises(backend.refusal):
        backend.sql(f"UPDATE execution SET {nonsense}")


def test_artifacts_above_sixteen_kilobytes_are_refused_inv_002(store, backend):
    run_in(store, Status.RUNNING, add_job(store), holder=add_holder(store))
    backend.sql("UPDATE execution SET artifacts = :text", text='"' + "a" * 16382 + '"')
    with pytest.raises(backend.refusal):
        backend.sql("UPDATE execution SET artifacts = :text", text='"' + "a" * 16383 + '"')


@pytest.mark.parametrize(
    ("status", "nonsense"),
    [
        (Status.QUEUED, "status = 'SOMETHING'"),
        (Status.QUEUED, "status = 'SKIPPED', reason = 'expired'"),
        (Status.QUEUED, "status = 'SKIPPED', finished_at = 1"),
        (Status.QUEUED, "status = 'CANCELLED', finished_at = 1"),
        (Status.QUEUED, "finished_at = 1"),
        (Status.QUEUED, "reason = 'missed'"),
        (Status.QUEUED, "not_before = 1"),
        (Status.QUEUED, "status = 'DISPATCHED'"),
        (Status.QUEUED, "count = 0"),
        (Status.QUEUED, "params = 'no json'"),
        (Status.QUEUED, "decisions = 'no json'"),
        (Status.QUEUED, "forced = 2"),
        (Status.DISPATCHED, "worker_id = NULL"),
        (Status.DISPATCHED, "slot = NULL"),
        (Status.DISPATCHED, "epoch = NULL"),
        (Status.DISPATCHED, "waiting_for = 'condition'"),
        (Status.DISPATCHED, "status = 'RUNNING'"),
        (Status.DISPATCHED, "status = 'FAILED', finished_at = 1"),
        (Status.RUNNING, "worker_id = NULL"),
        (Status.RUNNING, "slot = NULL"),
        (Status.RUNNING, "epoch = NULL"),
        (Status.RUNNING, "started_at = NULL"),
        (Status.RUNNING, "waiting_for = 'predecessor'"),
        (Status.RUNNING, "status = 'COMPLETED'"),
        (Status.RUNNING, "status = 'COMPLETED', finished_at = 1, reason = 'exit_code'"),
        (Status.RUNNING, "status = 'FAILED', finished_at = 1"),
        (Status.RUNNING, "epoch = 999"),
        (Status.RUNNING, "worker_id = 'nobody'"),
    ],
)
def test_the_schema_refuses_a_run_that_makes_no_sense(store, backend, status, nonsense):
    run = run_in(store, status, add_job(store), holder=add_holder(store))
    with pytest.raises(backend.refusal):
        backend.sql(f"UPDATE run SET {nonsense} WHERE id = :id", id=run.id)


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ("trigger, status", "'schedule', 'QUEUED'"),
        ("trigger, status, scheduled_for, covers_to", "'schedule', 'QUEUED', 5, 5"),
        ("trigger, status, retry_of", "'manual', 'QUEUED', 'nobody'"),
        ("trigger, status, lane_id", "'manual', 'QUEUED', 99"),
    ],
)
def test_the_schema_refuses_a_newborn_that_makes_no_sense(store, backend, columns, values):
    job = add_job(store)
    insert = f"""INSERT INTO run (id, job_id, number, version, position, created_at, {columns})
        VALUES ('x', :job, 1, 1, 1, 1, {values})"""
    with pytest.raises(backend.refusal):
        backend.sql(insert, job=job.id)
    backend.sql(insert.replace(columns, "trigger, status").replace(values, "'manual', 'QUEUED'"), job=job.id)


def test_a_run_needs_a_version_that_exists_inv_005(store, backend):
    job = add_job(store)
    with pytest.raises(backend.refusal):
        backend.sql(
            """INSERT INTO run (id, job_id, number, version, position, created_at, trigger, status)
            VALUES ('x', :job, 1, 2, 1, 1, 'manual', 'QUEUED')""",
            job=job.id,
        )


def test_a_job_with_runs_and_a_run_with_an_execution_cannot_vanish(store, backend):
    run_in(store, Status.COMPLETED, add_job(store), holder=add_holder(store))
    for table in ("job", "job_version", "run", "worker", "process"):
        with pytest.raises(backend.refusal):
            backend.sql(f"DELETE FROM {table}")


@pytest.mark.parametrize("change", ["worker_id = 'nobody'", "epoch = 99"])
def test_a_run_names_a_worker_and_a_process_that_exist(store, backend, change):
    run_in(store, Status.RUNNING, add_job(store), holder=add_holder(store))
    with pytest.raises(backend.refusal):
        backend.sql(f"UPDATE run SET {change}")


@pytest.mark.parametrize("missing", ["run_id", "job_id", "worker_id", "epoch"])
def test_an_execution_names_rows_that_exist(store, backend, missing):
    job, holder = add_job(store), add_holder(store)
    run = run_in(store, Status.DISPATCHED, job, holder=holder, slot=5)
    named = {"run_id": run.id, "job_id": job.id, "worker_id": holder.worker_id, "epoch": holder.epoch}
    insert = """INSERT INTO execution (id, run_id, job_id, worker_id, epoch, slot, boot_id, pid, pid_start, started_at)
        VALUES ('e', :run_id, :job_id, :worker_id, :epoch, 5, 'boot', 1, 1, 1)"""
    with pytest.raises(backend.refusal):
        backend.sql(insert, **{**named, missing: 99 if missing == "epoch" else "nobody"})
    backend.sql(insert, **named)


@pytest.mark.parametrize(("table", "key"), [("worker", "id"), ("process", "epoch"), ("job", "id")])
def test_what_is_named_keeps_its_identifier(store, backend, table, key):
    run_in(store, Status.COMPLETED, add_job(store), holder=add_holder(store))
    with pytest.raises(backend.refusal):
        backend.sql(f"UPDATE {table} SET {key} = {'99' if key == 'epoch' else repr('other')}")
