"""The upgrade to schema 14, where the table of a row is its state: no value is lost, a kill leaves the old database."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from rota import faults
from rota.model.records import ProcessIdentity
from rota.model.states import Status
from rota.rules.stats import HOUR
from rota.store.migrate import HISTORY, digest, open_store
from rota.store.queries import load_migrations
from rota.store.sqlite.store import APPLICATION_ID
from rota.store.tables import direct_calls, queue, runs, stats
from tests.store.making import NOW
from tests.waiting import LONGEST_WAIT

BEFORE = 13
HELD = {"worker_id": "w2", "epoch": 2, "first_dispatched_at": 30}
STARTED = {**HELD, "started_at": 40}
PROCESS = {"boot_id": "boot", "pid": 77, "pid_start": 770}
CALL = {"job_id": "j", "version": 2, "lane_id": 1, "caller": "5:50:boot", "worker_id": "w1", "epoch": 2, **PROCESS}
FULL = {"slot_key": "k", "scheduled_for": 5, "covers_to": 9, "count": 3, "trigger": "schedule"}
RUNS = {
    "ready": {"status": "QUEUED", "rank": 4, "position": 11, "priority": 4, "params": '{"a":1}', "forced": 1},
    "ready-in-pool": {"status": "QUEUED", "lane_id": 2, "expires_at": 99, "decisions": '{"late_ms":7}'},
    "given-back": {"status": "QUEUED", "first_dispatched_at": 30, "losses": 2},
    "backoff": {"status": "QUEUED", "waiting_for": "backoff", "not_before": 80, "trigger": "retry", "attempt": 2,
        "retry_of": "failed", "chain_id": "failed"},
    "waits": {"status": "QUEUED", "waiting_for": "predecessor", "predecessor_id": "running"},
    "dispatched": {"status": "DISPATCHED", **HELD, "slot": 1, "cancel_requested_at": 50, "cancel_reason": "requested"},
    "running": {"status": "RUNNING", **STARTED, "slot": 2, **FULL},
    "adopted": {"status": "RUNNING", **STARTED, "slot": 3, "epoch": 3},
    "group": {"status": "RUNNING", "lane_id": 0, "started_at": 40, "job_id": "g"},
    "member": {"status": "QUEUED", "group_id": "gg", "place": 1, "trigger": "group", "always": 1},
    "group-waits": {"status": "QUEUED", "lane_id": 0, "waiting_for": "predecessor", "predecessor_id": "group",
        "job_id": "g"},
    "completed": {"status": "COMPLETED", **STARTED, "slot": 2, "finished_at": 60, "result_summary": "sum",
        "decisions": '{"retry":{"outages":1}}', "version": 1},
    "completed-adopted": {"status": "COMPLETED", **STARTED, "slot": 2, "epoch": 3, "finished_at": 60},
    "failed": {"status": "FAILED", "reason": "exit_code", **STARTED, "slot": 2, "finished_at": 60,
        "error": "left with 3", "rank": 9, "position": 12, "priority": 3, "expires_at": 70},
    "failed-before-its-start": {"status": "FAILED", "reason": "spawn_failed", **HELD, "slot": 2, "finished_at": 60},
    "skipped": {"status": "SKIPPED", "reason": "missed", "finished_at": 10, **FULL, "slot_key": "l"},
    "skipped-at-its-gate": {"status": "SKIPPED", "reason": "condition", **HELD, "slot": 4, "finished_at": 60},
    "cancelled": {"status": "CANCELLED", "reason": "requested", **STARTED, "slot": 5, "finished_at": 60,
        "cancel_requested_at": 55, "cancel_reason": "requested", "losses": 1},
    "cancelled-in-the-queue": {"status": "CANCELLED", "reason": "replaced", "finished_at": 60,
        "predecessor_id": "gone"},
    "group-failed": {"status": "FAILED", "reason": "members_failed", "lane_id": 0, "started_at": 40, "finished_at": 60,
        "job_id": "g"},
}  # fmt: skip
ENDED = {"finished_at": 60, "exit_code": 0}
EXECUTIONS = {
    "running": {},
    "adopted": {"epoch": 2},
    "completed": {**ENDED, "status": "COMPLETED", "artifacts": '{"summary": "sum", "usage": {"requests": 3}}'},
    "completed-adopted": {**ENDED, "status": "COMPLETED", "epoch": 1},
    "failed": {**ENDED, "status": "FAILED", "exit_code": 3, "error": "left with 3", "artifacts": '{"output_bytes":12}'},
    "cancelled": {"finished_at": 60, "status": "CANCELLED"},
}
CALLS = {
    "called": {**CALL, "slot": 6, "started_at": 40, **ENDED, "status": "FAILED", "error": "bad", "params": '{"a":2}',
        "artifacts": '{"reason":"exit_code"}'},
    "calling": {**CALL, "slot": 7, "started_at": 45},
    "reserved": {**CALL, "slot": 8, "started_at": 46, "job_id": None, "version": None, "lane_id": 2},
}  # fmt: skip
PREFIX = "01980000-0000-7000-8000-"
"""Identifiers begin with the time; here a name follows it."""
NAMING = {"id", "run_id", "execution_id", "retry_of", "chain_id", "predecessor_id"}
LOST_WITH_THE_END = {"rank", "position"}
"""What a finished run no longer has: its place in the queue."""


def insert(connection, table, **values):
    if table in ("run", "execution", "run_group", "direct_hold"):
        named = {name: PREFIX + values[name] for name in NAMING & values.keys() if values[name] is not None}
        values |= named | ({"group_id": PREFIX + values["group_id"]} if "group_id" in values else {})
    names = ", ".join(values)
    marks = ", ".join(f":{name}" for name in values)
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", values).fetchall()


@pytest.fixture
def older(tmp_path):
    """A database of schema 13 with runs and calls in every state."""
    path = tmp_path / "rota.db"
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA journal_mode = wal; {HISTORY}").fetchall()
        for number, name, script in load_migrations("sqlite"):
            if number <= BEFORE:
                connection.execute(script).fetchall()
                insert(connection, "migration", number=number, name=name, digest=digest(script), applied_at=0)
        fill(connection)
    return path


def fill(connection):
    connection.execute("PRAGMA foreign_keys = ON; BEGIN").fetchall()
    shared = {"source": "file", "enabled": 1, "created_at": 1, "updated_at": 1, "ledger_from": 1}
    for job, name, version in (("x", "retired", 1), ("j", "backup", 2), ("g", "nightly", 1)):
        insert(connection, "job", id=job, name=name, version=version, run_number=99, **shared)
        for number in range(1, version + 1):
            until = 20 if number < version else None
            spec = {"spec": "{}", "digest": "d", "schedules": 1, "tzdata": "t", "since": 1, "until": until}
            insert(connection, "job_version", job_id=job, version=number, **spec)
    connection.execute("DELETE FROM job_version WHERE job_id = 'x'; DELETE FROM job WHERE id = 'x'").fetchall()
    for worker in ("w2", "w1"):
        insert(connection, "worker", id=worker, name=worker, created_at=1)
    for epoch in (1, 2, 3):
        process = {"worker_id": "w2", "kind": "serve", "lock": f"{epoch}", "version": "0", "started_at": 1}
        insert(connection, "process", epoch=epoch, boot_id="boot", pid=epoch, pid_start=epoch, **process)
    insert(connection, "lane", id=2, key="gpu=1")
    connection.execute("PRAGMA defer_foreign_keys = ON").fetchall()  # the group and its run name each other
    group = {"mode": "parallel", "on_failure": "stop", "size": 1, "created_at": 1}
    insert(connection, "run_group", id="gg", name="nightly", number=1, run_id="group", **group)
    for number, (run, values) in enumerate(RUNS.items(), 1):
        usual = {"job_id": "j", "number": number, "version": 1 if values.get("job_id") == "g" else 2}
        usual |= {"trigger": "manual", "position": 1000 - number, "created_at": 20 + number}
        insert(connection, "run", **{"id": run, **usual, **values})
    for run, values in EXECUTIONS.items():
        own = RUNS[run]
        usual = {"job_id": "j", "version": own.get("version", 2), "worker_id": "w2", "slot": own["slot"], "epoch": 2}
        insert(connection, "execution", **{"id": run, "run_id": run, "started_at": 40, **usual, **PROCESS, **values})
    for call, values in CALLS.items():
        insert(connection, "execution", id=call, **values)
    for call in ("calling", "reserved"):
        insert(connection, "direct_hold", execution_id=call, epoch=3, cancel_requested_at=None)
    connection.execute("COMMIT").fetchall()


def rows_of(path, table):
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        return {name_of(row["id"]): dict(row) for row in connection.execute(f"SELECT * FROM {table}")}


def name_of(identifier):
    return identifier.removeprefix(PREFIX)


def whole(path):
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def test_every_run_is_after_the_upgrade_what_it_was_before(older):
    before = rows_of(older, "run")
    open_store(older, now=NOW).close()
    after = rows_of(older, "run_now")
    assert before.keys() == after.keys()
    for run, row in before.items():
        lost = LOST_WITH_THE_END if row["finished_at"] is not None else set()
        kept = row.keys() - lost
        assert {name: after[run][name] for name in kept} == {name: row[name] for name in kept}, run


def test_every_execution_is_after_the_upgrade_what_it_was_before(older):
    before = rows_of(older, "execution")
    assert len(before) == len(EXECUTIONS) + len(CALLS)
    open_store(older, now=NOW).close()
    assert rows_of(older, "execution") == before


def test_a_run_is_in_one_table_after_the_upgrade(older):
    open_store(older, now=NOW).close()
    with closing(apsw.Connection(str(older))) as connection:
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        found = connection.execute("SELECT run.id, state FROM live JOIN run ON run.seq = live.run")
        live = {name_of(run): state for run, state in found}
        found = connection.execute("SELECT run.id, status FROM ended JOIN run ON run.seq = ended.run")
        ended = {name_of(run): status for run, status in found}
        ids = [run for (run,) in connection.execute("SELECT id FROM run ORDER BY seq")]
    assert not live.keys() & ended.keys()
    finished = {run for run, values in RUNS.items() if "finished_at" in values}
    assert (ended.keys(), live.keys()) == (finished, RUNS.keys() - finished)
    states = {"ready": 1, "ready-in-pool": 1, "given-back": 1, "member": 1, "backoff": 0, "waits": 0, "group-waits": 0}
    assert live == {**states, "dispatched": 2, "running": 3, "adopted": 3, "group": 3}
    assert {run: ended[run] for run in ("completed", "failed", "skipped", "cancelled")} == {
        "completed": 4, "failed": 5, "skipped": 6, "cancelled": 7
    }  # fmt: skip
    assert ids == sorted(ids), "the keys follow the identifiers"


def test_work_goes_on_after_the_upgrade(older):
    store = open_store(older, now=NOW)
    owned = {name_of(one.id): one for one in store.read(lambda db: runs.owned_runs(db, [2, 3]))}
    assert owned.keys() == {"dispatched", "running", "adopted"}
    assert owned["running"].process == ProcessIdentity("boot", 77, 770)
    assert (owned["adopted"].epoch, owned["dispatched"].process) == (3, None)
    assert [name_of(run.id) for run in store.read(lambda db: runs.candidates(db, free=9))] == [
        "ready",
        "member",
        "given-back",
    ]
    assert [head.lane_id for head in store.read(queue.heads)] == [1]
    assert store.read(lambda db: runs.taken_slots(db, "w2")) == {1, 2, 3}
    assert store.read(lambda db: runs.taken_slots(db, "w1")) == {7, 8}
    assert {name_of(view.execution.id) for view in store.read(direct_calls.unfinished)} == {"calling", "reserved"}
    ready = store.read(lambda db: runs.run_by_id(db, PREFIX + "ready"))
    taken = [runs.ClaimedSlot(ready.seq, 9, started=True)]
    store.write(lambda db: runs.claim_runs(db, taken, worker_id="w2", epoch=3, now=NOW))
    assert store.read(lambda db: runs.run_by_id(db, PREFIX + "ready")).status is Status.RUNNING
    store.close()


def test_an_upgrade_keeps_a_copy_of_what_was(older):
    before = whole(older)
    store = open_store(older, now=NOW)
    store.close()
    assert whole(store.copied_to) == before


UPGRADE = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from rota.store.migrate import open_store
open_store(Path(sys.argv[1]), now=datetime(2026, 11, 15, tzinfo=UTC)).close()
"""


def killed(path: Path, point: str, passes: int) -> None:
    """Upgrade in a process that dies at this pass of a point, as by kill -9."""
    armed = path.with_name("faults.json")
    armed.touch(0o600)
    armed.write_text(json.dumps({"crash": {point: passes}}))
    argv = [sys.executable, "-c", UPGRADE, str(path)]
    done = subprocess.run(
        argv, env={**os.environ, faults.VARIABLE: str(armed)}, capture_output=True, timeout=LONGEST_WAIT, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def statements_of(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often the upgrade of a copy passes the point of its statements."""
    copy = path.with_name("copy.db")
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),)).fetchall()
    passed: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr(faults, "armed", lambda: True)
        patched.setattr(faults, "point", passed.append)
        open_store(copy, now=NOW).close()
    return passed.count("migrate.statement")


@pytest.mark.parametrize("share", [0.01, 0.15, 0.25, 0.4, 0.6, 0.8, 1])
def test_a_kill_in_the_middle_leaves_the_old_database_as_it_was(older, monkeypatch, share):
    before, statements = whole(older), statements_of(older, monkeypatch)
    assert statements > 20
    killed(older, "migrate.statement", max(1, int(share * statements)))
    assert whole(older) == before
    open_store(older, now=NOW).close()
    assert rows_of(older, "run_now").keys() == RUNS.keys()


def test_a_kill_before_the_commit_leaves_the_old_database_and_one_after_it_the_new(older):
    before = whole(older)
    killed(older, "migrate.written", 1)
    assert whole(older) == before
    killed(older, "migrate.committed", 1)
    assert rows_of(older, "run_now").keys() == RUNS.keys()
    open_store(older, now=NOW).close()


def test_what_ended_before_the_statistics_is_counted_later(older):
    store = open_store(older, now=NOW)
    assert store.read(stats.counted_from) == HOUR
    assert not store.read(lambda db: stats.series(db, None, span=HOUR, since=0, until=1 << 50))
    while store.write(stats.count_past):
        pass
    (tally,) = store.read(lambda db: stats.series(db, None, span=HOUR, since=0, until=1 << 50)).values()
    ended = [run for run in RUNS.values() if run["status"] in ("COMPLETED", "FAILED", "SKIPPED", "CANCELLED")]
    assert tally["n"] == len(ended) + 1  # and one direct call
    assert store.read(stats.counted_from) is None
    store.close()
