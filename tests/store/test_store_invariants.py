"""Conformance: what the schema itself refuses (INV-001, INV-002, INV-003, INV-005, the life of a run)."""

from itertools import product

import pytest

from rota.model.clock import to_ms
from rota.model.states import FINAL, TRANSITIONS, Reason, Status, WaitingFor
from rota.store.tables import runs
from tests.store.making import MINUTE, NOW, add_holder, add_job, add_run, run_in

PAIRS = [pair for pair in product(Status, Status) if pair[0] is not pair[1]]
LEGAL = {(status, target) for (status, _), target in TRANSITIONS.items()}
LIVING = [status for status in Status if status not in FINAL]
START = ("first_dispatched_at", "started_at", "worker", "slot", "epoch", "adopted_from", "boot_id", "pid", "pid_start")
"""What an end repeats of the row in `live`."""
FROZEN = ("started_at", "worker", "slot", "boot_id", "pid", "pid_start")
"""What never changes from a start on. The epoch may: another process adopts the run (R-23)."""
RUN_MAY_CHANGE = {"params", "priority"}
CALL_MAY_CHANGE = {"finished_at", "status", "exit_code", "error", "artifacts"}
REFUSED = r"no such transition|never changes|INV-002|UNIQUE|unique"
LATER = to_ms(NOW + MINUTE)
CALL = """INSERT INTO call
    (id, job_id, version, lane_id, caller, worker_id, slot, epoch, boot_id, pid, pid_start, started_at)
    VALUES (:id, :job_id, 1, 1, 'tests', :worker_id, :slot, :epoch, 'boot', 1, 1, 1)"""


def end_by_hand(backend, run, status, /, **changes):
    """Store an end by a plain statement; it repeats the start that is stored, but for `changes`, which are SQL."""
    values = {"run": "run.seq", "job": "run.job", "status": str(runs.ENDS[status]), "finished_at": str(LATER)}
    values |= {"reason": "NULL" if status is Status.COMPLETED else f"'{_reason(status)}'"}
    values |= {column: f"begun.{column}" for column in START} | changes
    start = ", ".join(START)
    backend.sql(
        f"""INSERT INTO ended ({", ".join(values)}) SELECT {", ".join(values.values())}
        FROM run LEFT JOIN (SELECT run, {start} FROM live UNION ALL SELECT run, {start} FROM ended) AS begun
            ON begun.run = run.seq
        WHERE run.id = :id""",
        id=run.id,
    )


def _reason(status):
    return next(reason for reason in Reason if reason.status is status)


def live_by_hand(backend, run, state, /, **changes):
    """Put a run into `live` by a plain statement."""
    values = {"run": "seq", "job": "job", "state": str(state), "lane_id": "lane_id", "rank": "0", "position": "1"}
    values |= {"created_at": "created_at"} | changes
    backend.sql(
        f"INSERT INTO live ({', '.join(values)}) SELECT {', '.join(values.values())} FROM run WHERE id = :id", id=run.id
    )


def state_of(target, holder, slot=7):
    """Return the columns of a state in `live`, as SQL, that satisfy every CHECK."""
    held, running = target in (Status.DISPATCHED, Status.RUNNING), target is Status.RUNNING
    return ({"first_dispatched_at": str(to_ms(NOW))} if held else {}) | {
        "worker": f"(SELECT seq FROM worker WHERE id = '{holder.worker_id}')" if held else "NULL",
        "slot": str(slot) if held else "NULL",
        "epoch": str(holder.epoch) if held else "NULL",
        "started_at": str(LATER) if running else "NULL",
        "boot_id": "'other'" if running else "NULL",
        "pid": "7" if running else "NULL",
        "pid_start": "7" if running else "NULL",
    }


def to_status(backend, run, target, holder):
    """Move a run by a plain statement that satisfies every CHECK of the status it enters."""
    if target in FINAL:
        started = {Status.COMPLETED: f"coalesce(begun.started_at, {LATER})", Status.SKIPPED: "NULL"}.get(target)
        end_by_hand(backend, run, target, **({"started_at": started} if started else {}))
        return
    state, columns = runs.STATES[target][1], state_of(target, holder, slot=7 if run.slot is None else run.slot)
    if run.status in FINAL:
        live_by_hand(backend, run, state, **columns)
        return
    changes = ", ".join(f"{column} = {value}" for column, value in columns.items())
    move(backend, run, f"state = {state}, {changes}")


def move(backend, run, changes):
    backend.sql(f"UPDATE live SET {changes} WHERE run = (SELECT seq FROM run WHERE id = :id)", id=run.id)


def stored(backend, run):
    """Return the rows of a run in each table."""
    key = "(SELECT seq FROM run WHERE id = :id)"
    tables = {"run": "seq", "live": "run", "ended": "run"}
    return {
        table: backend.sql(f"SELECT * FROM {table} WHERE {column} = {key}", id=run.id)
        for table, column in tables.items()
    }


def status_of(backend, run):
    return backend.sql("SELECT status FROM run_now WHERE id = :id", id=run.id)[0][0]


@pytest.fixture
def holder(store):
    return add_holder(store)


@pytest.mark.parametrize(("status", "target"), PAIRS, ids=lambda status: status.value)
def test_the_schema_knows_the_same_transitions_as_the_model(store, backend, holder, status, target):
    """A run is in `live` or in `ended`, never in both; a refused move changes neither."""
    run = run_in(store, status, add_job(store), holder=holder)
    before = stored(backend, run)
    if (status, target) in LEGAL:
        to_status(backend, run, target, holder)
        assert status_of(backend, run) == target
        after = stored(backend, run)
        assert (len(after["live"]), len(after["ended"])) == ((0, 1) if target in FINAL else (1, 0))
        assert after["run"] == before["run"]
    else:
        with pytest.raises(backend.refusal, match=REFUSED):
            to_status(backend, run, target, holder)
        assert stored(backend, run) == before


@pytest.mark.parametrize("status", [Status.DISPATCHED, Status.RUNNING])
def test_a_waiting_run_is_let_go_before_it_is_claimed_r_02(store, backend, holder, status):
    run = add_run(store, add_job(store), waiting_for=WaitingFor.CONDITION, not_before=NOW)
    changes = ", ".join(f"{column} = {value}" for column, value in state_of(status, holder).items())
    claim = f"state = {runs.STATES[status][0]}, waiting_for = NULL, not_before = NULL, {changes}"
    before = stored(backend, run)
    with pytest.raises(backend.refusal, match="no such transition"):
        move(backend, run, claim)
    assert stored(backend, run) == before
    move(backend, run, "state = 1, waiting_for = NULL, not_before = NULL")
    move(backend, run, "state = 0, waiting_for = 'condition'")
    move(backend, run, "state = 1, waiting_for = NULL")
    move(backend, run, claim)
    assert status_of(backend, run) == status


def bare_run(store, backend, lane_id=1):
    """Return a run that is neither live nor ended, as it is for the length of a statement."""
    job = add_job(store)
    (key,) = backend.sql("SELECT seq FROM job WHERE id = :id", id=job.id)[0]
    backend.sql(
        f"""INSERT INTO run (id, job, number, version, trigger, lane_id, created_at)
        VALUES ('bare', {key}, 9, 1, 'manual', {lane_id}, 1)"""
    )
    return store.read(lambda db: runs.run_by_id(db, "bare"))


@pytest.mark.parametrize("status", sorted(FINAL))
def test_a_run_that_was_never_live_was_skipped(store, backend, status):
    run = bare_run(store, backend)
    if status is Status.SKIPPED:
        end_by_hand(backend, run, status)
        assert status_of(backend, run) == status
        return
    with pytest.raises(backend.refusal, match="no such transition"):
        end_by_hand(backend, run, status, started_at=str(LATER) if status is Status.COMPLETED else "NULL")
    assert stored(backend, run)["ended"] == []


@pytest.mark.parametrize("status", [Status.DISPATCHED, Status.RUNNING])
def test_no_run_is_born_in_a_slot(store, backend, holder, status):
    run = bare_run(store, backend)
    with pytest.raises(backend.refusal, match="no such transition"):
        live_by_hand(backend, run, runs.STATES[status][0], **state_of(status, holder))
    assert stored(backend, run)["live"] == []


def test_the_run_of_a_group_begins_at_once_and_takes_no_slot(store, backend, holder):
    run = bare_run(store, backend, lane_id=0)
    for state in (1, 2):
        with pytest.raises(backend.refusal):
            live_by_hand(backend, run, state, **(state_of(Status.DISPATCHED, holder) if state == 2 else {}))
    with pytest.raises(backend.refusal):
        live_by_hand(backend, run, 3, **state_of(Status.RUNNING, holder))
    live_by_hand(backend, run, 3, started_at="1")
    end_by_hand(backend, run, Status.COMPLETED)
    assert status_of(backend, run) == Status.COMPLETED


@pytest.mark.parametrize("status", LIVING)
def test_nothing_leaves_the_queue_without_an_end_r_01(store, backend, holder, status):
    run = run_in(store, status, add_job(store), holder=holder)
    before = stored(backend, run)
    with pytest.raises(backend.refusal, match="no such transition"):
        backend.sql("DELETE FROM live")
    assert stored(backend, run) == before


@pytest.mark.parametrize("status", sorted(FINAL))
def test_a_final_run_never_changes_in_any_column_inv_002(store, backend, holder, status):
    run = run_in(store, status, add_job(store), holder=holder)
    before = stored(backend, run)
    for table in ("run", "ended"):
        for column in backend.columns(table):
            with pytest.raises(backend.refusal, match="never changes"):
                backend.sql(f"UPDATE {table} SET {column} = {column}")
    assert stored(backend, run) == before


@pytest.mark.parametrize("status", sorted(FINAL))
def test_a_run_ends_once_inv_002(store, backend, holder, status):
    """Not even where the second end tells the same, nor as one that was never live."""
    run = run_in(store, status, add_job(store), holder=holder)
    before = stored(backend, run)
    with pytest.raises(backend.refusal, match=REFUSED):
        end_by_hand(backend, run, status)
    with pytest.raises(backend.refusal, match=REFUSED):
        end_by_hand(backend, run, Status.SKIPPED, **dict.fromkeys(START, "NULL"))
    with pytest.raises(backend.refusal, match="no such transition"):
        live_by_hand(backend, run, 1)
    assert stored(backend, run) == before


def test_the_identity_of_a_run_is_frozen_inv_005(store, backend):
    """Even while it waits: only params and priority may change."""
    run = add_run(store, add_job(store))
    before = stored(backend, run)
    for column in set(backend.columns("run")) - RUN_MAY_CHANGE:
        with pytest.raises(backend.refusal, match="INV-005"):
            backend.sql(f"UPDATE run SET {column} = '99' WHERE id = :id", id=run.id)
    for column in ("run", "job", "lane_id", "created_at"):
        with pytest.raises(backend.refusal, match="INV-005"):
            move(backend, run, f"{column} = '99'")
    assert stored(backend, run) == before
    backend.sql("UPDATE run SET priority = 99 WHERE id = :id", id=run.id)


def test_params_may_change_before_the_first_dispatch_and_never_after_inv_001(store, backend, holder):
    job = add_job(store)
    queued = add_run(store, job)
    backend.sql("UPDATE run SET params = '{\"a\":2}' WHERE id = :id", id=queued.id)
    dispatched = run_in(store, Status.DISPATCHED, job, holder=holder)
    with pytest.raises(backend.refusal, match="INV-001"):
        backend.sql("UPDATE run SET params = '{\"a\":3}' WHERE id = :id", id=dispatched.id)
    store.write(lambda db: runs.release_run(db, dispatched.id, epoch=holder.epoch))
    with pytest.raises(backend.refusal, match="INV-001"):
        backend.sql("UPDATE run SET params = '{\"a\":3}' WHERE id = :id", id=dispatched.id)


@pytest.mark.parametrize("status", [Status.DISPATCHED, Status.RUNNING])
def test_the_first_dispatch_is_never_taken_back_inv_001(store, backend, holder, status):
    run = run_in(store, status, add_job(store), holder=holder)
    for value in ("NULL", "first_dispatched_at + 1"):
        with pytest.raises(backend.refusal, match="INV-001"):
            move(backend, run, f"first_dispatched_at = {value}")


def test_a_start_never_changes_inv_002(store, backend, holder):
    run = run_in(store, Status.RUNNING, add_job(store), holder=holder)
    before = stored(backend, run)
    for column, value in product(FROZEN, ("'77'", "NULL")):
        with pytest.raises(backend.refusal, match="INV-002"):
            move(backend, run, f"{column} = {value}")
    assert stored(backend, run) == before


def test_an_adoption_keeps_the_process_that_started_it_inv_002(store, backend, holder):
    """R-23: the epoch that carries a run changes, the one that started it stays."""
    new = add_holder(store, pid=5)
    run = run_in(store, Status.RUNNING, add_job(store), holder=holder)
    store.write(lambda db: db.execute("run_adopt", id=run.id, epoch=new.epoch, expected=holder.epoch))
    for value in ("NULL", "'77'"):
        with pytest.raises(backend.refusal, match="INV-002"):
            move(backend, run, f"adopted_from = {value}")
    end_by_hand(backend, run, Status.COMPLETED)
    assert backend.sql("SELECT epoch, adopted_from FROM ended") == [(new.epoch, holder.epoch)]
    assert backend.sql("SELECT epoch FROM execution") == [(holder.epoch,)]


@pytest.mark.parametrize("column", ["job", *START])
@pytest.mark.parametrize("value", ["'77'", "NULL"])
def test_an_end_repeats_the_start_exactly_inv_002(store, backend, holder, column, value):
    run = run_in(store, Status.RUNNING, add_job(store), holder=holder)
    if (column, value) == ("adopted_from", "NULL"):
        new = add_holder(store, pid=5)
        store.write(lambda db: db.execute("run_adopt", id=run.id, epoch=new.epoch, expected=holder.epoch))
    before = stored(backend, run)
    with pytest.raises(backend.refusal):
        end_by_hand(
            backend, run, Status.FAILED, **{column: f"CAST({value} AS bigint)" if column != "boot_id" else value}
        )
    assert stored(backend, run) == before
    end_by_hand(backend, run, Status.FAILED)
    after = backend.sql(f"SELECT {', '.join(START)} FROM ended")
    columns = backend.columns("live")
    assert after == [tuple(before["live"][0][columns.index(column)] for column in START)]


@pytest.mark.parametrize(
    ("status", "nonsense"),
    [
        (Status.COMPLETED, {"status": "3"}),
        (Status.COMPLETED, {"status": "8"}),
        (Status.COMPLETED, {"reason": "'exit_code'"}),
        (Status.COMPLETED, {"finished_at": "NULL"}),
        (Status.COMPLETED, {"artifacts": "'no json'"}),
        (Status.FAILED, {"reason": "NULL"}),
        (Status.CANCELLED, {"reason": "NULL"}),
        (Status.CANCELLED, {"losses": "NULL"}),
        (Status.FAILED, {"run": "CAST(NULL AS bigint)"}),
        (Status.FAILED, {"run": "999"}),
    ],
)
def test_the_schema_refuses_an_end_that_makes_no_sense_inv_002(store, backend, holder, status, nonsense):
    run = run_in(store, Status.RUNNING, add_job(store), holder=holder)
    before = stored(backend, run)
    with pytest.raises(backend.refusal):
        end_by_hand(backend, run, status, **nonsense)
    assert stored(backend, run) == before
    end_by_hand(backend, run, status)


def test_a_skip_needs_a_reason(store, backend):
    run = add_run(store, add_job(store))
    with pytest.raises(backend.refusal):
        end_by_hand(backend, run, Status.SKIPPED, reason="NULL")
    end_by_hand(backend, run, Status.SKIPPED)


def test_artifacts_above_sixteen_kilobytes_are_refused_inv_002(store, backend, holder):
    job = add_job(store)
    large = run_in(store, Status.RUNNING, job, holder=holder)
    with pytest.raises(backend.refusal):
        end_by_hand(backend, large, Status.COMPLETED, artifacts="'\"" + "a" * 16383 + "\"'")
    end_by_hand(backend, large, Status.COMPLETED, artifacts="'\"" + "a" * 16382 + "\"'")


def call(backend, job, holder, *, slot, **changes):
    named = {"id": "c", "job_id": job.id, "worker_id": holder.worker_id, "slot": slot, "epoch": holder.epoch}
    return backend.sql(CALL, **named | changes)


def test_of_a_call_only_its_end_is_written_inv_002(store, backend, holder):
    call(backend, add_job(store), holder, slot=1)
    columns = backend.columns("call")
    assert set(columns) > CALL_MAY_CHANGE
    for column in set(columns) - CALL_MAY_CHANGE:
        with pytest.raises(backend.refusal, match="INV-002"):
            backend.sql(f"UPDATE call SET {column} = '77'")
    backend.sql("UPDATE call SET finished_at = 9, status = 'COMPLETED', exit_code = 0, error = 'e', artifacts = '{}'")
    assert backend.sql("SELECT status, exit_code, error, artifacts FROM call") == [("COMPLETED", 0, "e", "{}")]
    for column in columns:
        with pytest.raises(backend.refusal, match="INV-002"):
            backend.sql(f"UPDATE call SET {column} = {column}")


@pytest.mark.parametrize(
    "nonsense",
    [
        "finished_at = 1",
        "status = 'COMPLETED'",
        "finished_at = 1, status = 'SKIPPED'",
        "finished_at = 1, status = 'QUEUED'",
        "artifacts = 'no json'",
        "artifacts = '\"" + "a" * 16383 + "\"'",
    ],
    ids=lambda nonsense: nonsense[:40],
)
def test_the_schema_refuses_a_call_that_makes_no_sense_inv_002(store, backend, holder, nonsense):
    call(backend, add_job(store), holder, slot=1)
    with pytest.raises(backend.refusal):
        backend.sql(f"UPDATE call SET {nonsense}")
    backend.sql("UPDATE call SET artifacts = :text", text='"' + "a" * 16382 + '"')


@pytest.mark.parametrize("missing", ["job_id", "worker_id", "epoch"])
def test_a_call_names_rows_that_exist(store, backend, holder, missing):
    job = add_job(store)
    with pytest.raises(backend.refusal):
        call(backend, job, holder, slot=5, **{missing: 99 if missing == "epoch" else "nobody"})
    call(backend, job, holder, slot=5)


@pytest.mark.parametrize("status", [Status.DISPATCHED, Status.RUNNING])
def test_a_slot_has_one_run_or_one_call_inv_003(store, backend, holder, status):
    job = add_job(store)
    run_in(store, status, job, holder=holder, slot=7)
    other = add_run(store, job)
    before = stored(backend, other)
    for target in (Status.DISPATCHED, Status.RUNNING):
        with pytest.raises(backend.refusal):
            to_status(backend, other, target, holder)  # slot 7
    assert stored(backend, other) == before
    with pytest.raises(backend.refusal, match="INV-003"):
        call(backend, job, holder, slot=7)
    call(backend, job, holder, slot=6)
    with pytest.raises(backend.refusal):
        call(backend, job, holder, slot=6, id="d")


@pytest.mark.parametrize("status", [Status.DISPATCHED, Status.RUNNING])
def test_a_run_enters_the_slot_of_a_call_when_that_is_over_inv_003(store, backend, holder, status):
    job = add_job(store)
    run = add_run(store, job)
    call(backend, job, holder, slot=7)
    # PostgreSQL looks for the calls under way among those that a process carries.
    backend.sql("INSERT INTO direct_hold (execution_id, epoch) VALUES ('c', :epoch)", epoch=holder.epoch)
    before = stored(backend, run)
    with pytest.raises(backend.refusal, match="INV-003"):
        to_status(backend, run, status, holder)
    assert stored(backend, run) == before
    backend.sql("DELETE FROM direct_hold")
    backend.sql("UPDATE call SET finished_at = 9, status = 'COMPLETED'")
    to_status(backend, run, status, holder)
    assert status_of(backend, run) == status


@pytest.mark.parametrize(
    ("status", "nonsense"),
    [
        (Status.QUEUED, "state = 4"),
        (Status.QUEUED, "slot = 1"),
        (Status.QUEUED, "slot = 1, worker = (SELECT min(seq) FROM worker)"),
        (Status.DISPATCHED, "slot = 8"),
        (Status.DISPATCHED, "first_dispatched_at = NULL"),
        (Status.RUNNING, "adopted_from = 999"),
        (Status.RUNNING, "epoch = (SELECT max(epoch) FROM process), adopted_from = 999"),
        (Status.QUEUED, "state = -1"),
        (Status.QUEUED, "state = NULL"),
        (Status.QUEUED, "state = 0"),
        (Status.QUEUED, "state = 2"),
        (Status.QUEUED, "state = 3"),
        (Status.QUEUED, "waiting_for = 'poll'"),
        (Status.QUEUED, "not_before = 1"),
        (Status.QUEUED, "started_at = 1"),
        (Status.QUEUED, "worker = 1, slot = 1, epoch = 1"),
        (Status.QUEUED, "boot_id = 'boot', pid = 1, pid_start = 1"),
        (Status.QUEUED, "decisions = 'no json'"),
        (Status.DISPATCHED, "worker = NULL"),
        (Status.DISPATCHED, "slot = NULL"),
        (Status.DISPATCHED, "epoch = NULL"),
        (Status.DISPATCHED, "waiting_for = 'condition'"),
        (Status.DISPATCHED, "not_before = 1"),
        (Status.DISPATCHED, "state = 1"),
        (Status.DISPATCHED, "state = 3"),
        (Status.DISPATCHED, "started_at = 1"),
        (Status.DISPATCHED, "boot_id = 'boot', pid = 1, pid_start = 1"),
        (Status.DISPATCHED, "state = 3, started_at = 1, pid = 1"),
        (Status.DISPATCHED, "state = 3, started_at = 1, boot_id = 'boot', pid_start = 1"),
        (Status.DISPATCHED, "worker = 999"),
        (Status.DISPATCHED, "epoch = 999"),
        (Status.RUNNING, "worker = NULL"),
        (Status.RUNNING, "slot = NULL"),
        (Status.RUNNING, "epoch = NULL"),
        (Status.RUNNING, "started_at = NULL"),
        (Status.RUNNING, "waiting_for = 'predecessor'"),
        (Status.RUNNING, "not_before = 1"),
        (Status.RUNNING, "state = 2"),
        (Status.RUNNING, "epoch = 999"),
        (Status.RUNNING, "worker = 999"),
    ],
)
def test_the_schema_refuses_a_state_that_makes_no_sense(store, backend, holder, status, nonsense):
    run = run_in(store, status, add_job(store), holder=holder)
    before = stored(backend, run)
    with pytest.raises(backend.refusal):
        move(backend, run, nonsense)
    assert stored(backend, run) == before


@pytest.mark.parametrize(
    "nonsense",
    [
        {"trigger": "'schedule'"},
        {"trigger": "'schedule'", "scheduled_for": "5", "covers_to": "5"},
        {"count": "0"},
        {"lane_id": "99"},
        {"params": "'no json'"},
        {"attempt": "0"},
        {"retry_of": "'nobody'"},
        {"chain_id": "'nobody'"},
        {"group_id": "'nobody'", "place": "1"},
        {"place": "1"},
        {"forced": "2"},
        {"always": "2"},
        {"version": "2"},
        {"job": "99"},
        {"id": "NULL"},
    ],
    ids=str,
)
def test_the_schema_refuses_a_newborn_that_makes_no_sense_inv_005(store, backend, nonsense):
    """Nor does a run name a job, a version, a lane, a group or another run that is not there."""
    job = add_job(store)

    def insert(**changes):
        values = {"id": "'x'", "job": "(SELECT seq FROM job WHERE id = :job)", "number": "1", "version": "1"}
        values |= {"trigger": "'manual'", "created_at": "1"} | changes
        named = {} if "job" in changes else {"job": job.id}
        backend.sql(f"INSERT INTO run ({', '.join(values)}) VALUES ({', '.join(values.values())})", **named)

    with pytest.raises(backend.refusal):
        insert(**nonsense)
    assert backend.sql("SELECT count(*) FROM run") == [(0,)]
    insert()


@pytest.mark.parametrize("run", ["999", "NULL"])
def test_what_is_live_is_a_run(store, backend, run):
    add_job(store)
    with pytest.raises(backend.refusal):
        backend.sql(
            f"INSERT INTO live (run, job, state, lane_id, rank, position, created_at) VALUES ({run}, 1, 1, 1, 0, 1, 1)"
        )
    assert backend.sql("SELECT count(*) FROM live") == [(0,)]


@pytest.mark.parametrize("status", [Status.QUEUED, Status.RUNNING, Status.COMPLETED])
def test_a_job_with_runs_and_a_run_with_a_state_cannot_vanish(store, backend, holder, status):
    run_in(store, status, add_job(store), holder=holder)
    held = () if status is Status.QUEUED else ("worker", "process")
    for table in ("job", "job_version", "run", *held):
        with pytest.raises(backend.refusal):
            backend.sql(f"DELETE FROM {table}")


@pytest.mark.parametrize("status", [Status.RUNNING, Status.COMPLETED])
@pytest.mark.parametrize(
    ("table", "key"), [("worker", "id"), ("worker", "seq"), ("process", "epoch"), ("job", "id"), ("job", "seq")]
)
def test_what_is_named_keeps_its_identifier(store, backend, holder, table, key, status):
    run_in(store, status, add_job(store), holder=holder)
    with pytest.raises(backend.refusal):
        backend.sql(f"UPDATE {table} SET {key} = '99'")
