"""`rota migrate`: everything moves between SQLite and PostgreSQL, and nothing is lost or doubled on the way."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from rota.engine.membership.locks import take_serve_lock
from rota.faults import VARIABLE
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.operations.project.locate import make_state
from rota.store.postgres.transfer import PostgresEnd
from rota.store.transfer import BATCH_ROWS, CopyEnd, SqliteEnd, tables
from tests.faces.conftest import NOON, Project
from tests.postgres import lay_postgres, spoil_postgres

JOBS = """
pools: {db: 2}
budgets: {money: {usd: 5, per: day}}
jobs:
  fine: {command: ['true', 'Grün ゼロ'], cron: '0 9 * * *', pools: [db], labels: [green, zero]}
  bad: {command: ['false'], interval: 1h, retry: {max_attempts: 2, backoff: 1m}, notify: [ops]}
  odd: {command: [printf, 'it''s "quoted" \\\\ %s'], params: {text: a}}
notify: {ops: {command: [cat]}}
groups:
  both: {mode: sequential, members: [fine, bad]}
"""
MANY = 2 * BATCH_ROWS + 1
FILL = """
WITH RECURSIVE counted (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM counted WHERE number < :many)
INSERT INTO event (id, at, kind, data)
SELECT char(97 + number % 26 - 32 * (number % 2)) || number, number, 'ä' || char(0) || 'b', '{"a": "\\n\\u0000"}'
FROM counted
"""


@pytest.fixture
def address() -> str:
    return lay_postgres()


@pytest.fixture
def used(project: Project) -> Project:
    """A project in which much has happened, and some still waits."""
    project.applied(JOBS)
    for name in ("fine", "bad", "both"):
        project.ok("trigger", name)
    failed = Outcome(Status.FAILED, Reason.EXIT_CODE, error="it\tsaid: ä\nno")
    project.carry_out([Outcome(Status.COMPLETED), failed, Outcome(Status.COMPLETED)])
    project.ok("pause", "fine", "--reason", "so")
    project.ok("trigger", "odd", "--param", "text=nichts ☃")
    project.ok("token", "create", "ci", "--scope", "read")
    project.ok("token", "revoke", "ci")
    project.ok("token", "create", "ci", "--scope", "run", "--expires", "never")
    return project


def fill(project: Project, *, many: int = MANY) -> None:
    connection = apsw.Connection(str(project.state / "rota.db"))
    connection.execute(FILL, {"many": many}).fetchall()
    connection.close()


def rows_of(end: CopyEnd) -> dict[str, list[Any]]:
    try:
        return {table.name: [row for rows in end.batches(table) for row in rows] for table in tables()}
    finally:
        end.close()


def in_sqlite(state: Path) -> dict[str, list[Any]]:
    return rows_of(SqliteEnd(state / "rota.db"))


def in_postgres(address: str) -> dict[str, list[Any]]:
    return rows_of(PostgresEnd(address, now=lambda: NOON))


def unended(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Leave out the processes: those that died before are ended by a move."""
    return {name: found for name, found in rows.items() if name != "process"}


def migrate_apart(project: Project, *arguments: str, dies_at: dict[str, int] | None = None) -> int:
    """Type `rota migrate` in a process of its own that may die."""
    environment = {**os.environ, "HOME": str(project.folder)}
    if dies_at:
        armed = project.folder / "faults.json"
        armed.write_text(json.dumps({"crash": dies_at}))
        armed.chmod(0o600)
        environment[VARIABLE] = str(armed)
    command = [sys.executable, "-m", "rota", "--dir", str(project.folder), "migrate", *arguments]
    return subprocess.run(command, env=environment, cwd=project.folder, capture_output=True, check=False).returncode


def test_there_and_back_gives_equal_rows(used: Project, address: str) -> None:
    before = in_sqlite(used.state)
    told = used.ok("migrate", "--to", address)
    assert "checksums are equal on both sides" in told
    assert "clean" in told
    assert f"store: {address}" in told
    there = in_postgres(address)
    assert unended(there) == unended(before)
    assert {len(found) > 0 for name, found in there.items() if name in ("run", "execution", "budget", "run_group")} == {
        True
    }
    used.ok("migrate", "--from", address, "--to", "sqlite:back")
    assert in_sqlite(used.folder / "back") == there


def test_a_database_that_was_moved_says_so(used, address):
    used.ok("migrate", "--to", address)
    needed = [one for one in used.json("status")["attention"] if one["name"] == "database"]
    assert [one["what"].startswith("was migrated to postgresql://") for one in needed] == [True]
    assert "this database was migrated to postgresql://" in used.rota("doctor").stdout


def test_the_target_works_on(used: Project, address: str) -> None:
    """Identities and keys are where they were: new rows come behind the old ones."""
    used.ok("migrate", "--to", address)
    environ = {"ROTA_STORE": address}
    for arguments in (["trigger", "bad", "--force"], ["verify"]):
        result = used.rota(*arguments, environ=environ)
        assert result.exit_code == 0, result.output
    with psycopg.connect(address) as connection:
        assert connection.execute("SELECT count(*) FROM pg_constraint WHERE contype = 'f'").fetchone() != (0,)
        assert connection.execute("SELECT to_regclass('moving')").fetchone() == (None,)


def test_epochs_that_were_given_out_are_not_given_out_again(used: Project, address: str) -> None:
    """R-22: a worker that was declared lost must never meet its own epoch again, also where the row is gone."""
    connection = apsw.Connection(str(used.state / "rota.db"))
    connection.execute("UPDATE sqlite_sequence SET seq = 77 WHERE name = 'process'").fetchall()
    connection.close()
    used.ok("migrate", "--to", address)
    used.ok("migrate", "--from", address, "--to", "sqlite:back")
    there, back = PostgresEnd(address, now=lambda: NOON), SqliteEnd(used.folder / "back" / "rota.db")
    assert there.last_numbers()["process"] == back.last_numbers()["process"] == 77
    there.close()
    back.close()


def test_batches_are_in_the_same_order_on_both_sides_and_nul_is_replaced(used: Project, address: str) -> None:
    fill(used)
    told = used.json("migrate", "--to", address)
    assert told["replaced"] == MANY
    there = in_postgres(address)["event"]
    assert [row[0] for row in there] == [row[0] for row in in_sqlite(used.state)["event"]]
    assert {row[2] for row in there} >= {"ä\N{REPLACEMENT CHARACTER}b"}


@pytest.mark.parametrize(
    "dies_at", [{"move.begun": 1}, {"move.written": 3}, {"move.committed": 5}, {"move.finished": 1}], ids=str
)
def test_a_move_that_was_killed_goes_on_and_loses_and_doubles_nothing(
    used: Project, address: str, dies_at: dict[str, int]
) -> None:
    """R-23: kill -9 in the middle."""
    fill(used)
    assert migrate_apart(used, "--to", address, dies_at=dies_at) == -signal.SIGKILL
    if "move.finished" not in dies_at:
        refused = used.rota("list", environ={"ROTA_STORE": address})
        assert (refused.exit_code, "is not finished" in refused.output) == (74, True)
    told = used.json("migrate", "--to", address)
    assert told["resumed"]
    assert told["verify"]["violations"] == []
    wanted = unended(in_sqlite(used.state))
    wanted["event"] = [
        (*row[:2], row[2].replace("\0", "\N{REPLACEMENT CHARACTER}"), *row[3:]) for row in wanted["event"]
    ]
    assert unended(in_postgres(address)) == wanted


def test_a_killed_move_into_sqlite_goes_on_too(used: Project, address: str) -> None:
    used.ok("migrate", "--to", address)
    arguments = ("--from", address, "--to", "sqlite:back")
    assert migrate_apart(used, *arguments, dies_at={"move.written": 4}) == -signal.SIGKILL
    assert used.rota("list", environ={"ROTA_STATE": "back"}).exit_code == 74
    assert used.json("migrate", *arguments)["resumed"]
    assert in_sqlite(used.folder / "back") == in_postgres(address)


def test_a_source_that_changed_since_is_copied_anew_only_when_asked(used: Project, address: str) -> None:
    assert migrate_apart(used, "--to", address, dies_at={"move.committed": 5}) == -signal.SIGKILL
    used.ok("trigger", "odd", "--force")
    refused = used.rota("migrate", "--to", address)
    assert refused.exit_code == 6
    assert "--restart" in refused.output
    used.ok("migrate", "--to", address, "--restart")
    assert unended(in_postgres(address)) == unended(in_sqlite(used.state))


def test_a_half_done_target_takes_no_other_source(used: Project, address: str) -> None:
    assert migrate_apart(used, "--to", address, dies_at={"move.committed": 2}) == -signal.SIGKILL
    used.ok("migrate", "--to", "sqlite:other")
    refused = used.rota("migrate", "--from", "sqlite:other", "--to", address)
    assert refused.exit_code == 6
    assert "half of a migration from" in refused.output
    spoil_postgres(address)


def test_the_source_is_left_as_it_was_and_says_where_it_went(used: Project, address: str) -> None:
    before = in_sqlite(used.state)
    used.ok("migrate", "--to", address)
    assert in_sqlite(used.state) == before
    again = used.rota("migrate", "--to", address)
    assert again.exit_code == 6
    assert "already" in again.output


def test_the_folder_stays_the_worker_that_it_was(used: Project, address: str) -> None:
    used.ok("migrate", "--to", address)
    assert (used.state / "worker").read_text().strip() == in_postgres(address)["worker"][0][0]


def test_a_dry_run_counts_and_changes_nothing(used: Project, address: str) -> None:
    told = used.json("migrate", "--to", address, "--dry-run")
    assert told["tables"]["job"] == 4
    assert in_postgres(address)["job"] == []
    used.ok("migrate", "--to", address)


def test_a_target_that_holds_something_is_refused(used: Project, address: str) -> None:
    used.rota("apply", environ={"ROTA_STORE": address})
    for arguments in (["--dry-run"], []):
        refused = used.rota("migrate", "--to", address, *arguments)
        assert (refused.exit_code, "is not empty" in refused.output) == (6, True)


def test_a_living_scheduler_on_either_side_is_refused(used: Project, address: str) -> None:
    make_state(used.folder / "back")
    for state, arguments in ((used.state, ["--to", address]), (used.folder / "back", ["--to", "sqlite:back"])):
        lock = take_serve_lock(state)
        assert used.rota("migrate", *arguments).exit_code == 73
        lock.release()
    used.ok("migrate", "--to", address)
    with psycopg.connect(address) as connection:
        connection.execute("UPDATE process SET ended_at = NULL, ending = NULL, lease_until = 9999999999999")
    refused = used.rota("migrate", "--from", address, "--to", "sqlite:back")
    assert refused.exit_code == 6
    assert "schedulers are running" in refused.output


def test_runs_that_are_under_way_are_refused(used: Project, address: str) -> None:
    used.begin()
    refused = used.rota("migrate", "--to", address)
    assert refused.exit_code == 6
    assert "rota stop" in refused.output


def test_an_older_schema_is_refused(used: Project, address: str) -> None:
    connection = apsw.Connection(str(used.state / "rota.db"))
    connection.execute("DELETE FROM migration WHERE number = (SELECT max(number) FROM migration)").fetchall()
    connection.close()
    refused = used.rota("migrate", "--to", address)
    assert refused.exit_code == 6
    assert "upgrade it first" in refused.output


@pytest.mark.parametrize("store", ["mysql://u:geheim@db/rota", "sqlite:", "rota.db"])
def test_a_store_that_rota_does_not_know_is_told(used: Project, store: str) -> None:
    refused = used.rota("migrate", "--to", store)
    assert refused.exit_code == 2
    assert "geheim" not in refused.output


def test_passwords_are_never_shown(used: Project, address: str) -> None:
    """R-27: also not where the address is told as what to write."""
    secret = address.replace("postgres:@", "postgres:geheim@")
    for arguments in (["--dry-run"], ["--json"], []):
        assert "geheim" not in used.rota("migrate", "--to", secret, *arguments).output


def test_a_folder_of_other_things_is_no_target(used: Project) -> None:
    (used.folder / "notes").mkdir()
    (used.folder / "notes" / "mine.txt").write_text("mine")
    assert used.rota("migrate", "--to", "sqlite:notes").exit_code == 6
    assert used.rota("migrate", "--to", "sqlite:.rota").exit_code == 2
