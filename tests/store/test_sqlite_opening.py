"""SQLite alone: making, upgrading and refusing a database; what is refused stays as it was, byte by byte."""

import json
import os
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import apsw
import pytest

from rota.model.errors import DatabaseCorrupt, DatabaseForeign, DatabaseNewer, StateError
from rota.store.migrate import open_store
from rota.store.queries import load_migrations
from rota.store.sqlite.store import APPLICATION_ID, connect
from rota.store.tables import jobs, run_queries
from tests.store.making import NOW, add_job, insert_run
from tests.waiting import LONGEST_WAIT

NOBODY = 65534
STEP = re.compile(r"^(?:CREATE TABLE (\w+)|(?:DROP|ALTER) TABLE (\w+)(?:;| RENAME TO (\w+)))", re.MULTILINE)


def made_tables():
    """Return the tables that the migrations leave: made, dropped and renamed one after the other."""
    names = {"migration"}
    for _, _, script in load_migrations("sqlite"):
        for created, left, renamed in STEP.findall(script):
            names = (names - {left}) | {name for name in (created, renamed) if name}
    return names


TABLES = made_tables()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rota.db"


@pytest.fixture
def made(path):
    """A good database with a job and some runs, closed."""
    store = open_store(path, now=NOW)
    job = add_job(store)
    store.write(lambda db: [insert_run(db, job, params={"text": "x" * 3000}) for _ in range(50)])
    store.close()
    return path


def bytes_in(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def refused(path, kind):
    """Open a database that must be refused; return the error after a look at what a person gets to read."""
    before = bytes_in(path.parent)
    with pytest.raises(kind) as raised:
        open_store(path, now=NOW)
    assert type(raised.value) is kind
    assert str(path) in raised.value.message
    assert raised.value.hint
    assert bytes_in(path.parent) == before
    return raised.value


def tables(path):
    with sqlite3.connect(path) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def test_a_new_database_is_made_with_every_table_and_its_history(path):
    open_store(path, now=NOW).close()
    assert tables(path) - {"sqlite_sequence"} == TABLES
    assert {"run", "live", "ended", "call"} < TABLES
    assert not {"execution", "run_new", "direct_hold_new"} & TABLES
    connection = connect(path)
    numbers = [number for (number,) in connection.execute("SELECT number FROM migration")]
    assert numbers == [number for number, _, _ in load_migrations("sqlite")]


def test_a_database_that_should_be_there_is_not_made_in_passing(path):
    with pytest.raises(StateError, match=str(path)) as raised:
        open_store(path, now=NOW, create=False)
    assert raised.value.hint
    assert not path.exists()


def test_opening_again_keeps_everything_and_writes_nothing(made):
    before = bytes_in(made.parent)
    store = open_store(made, now=NOW)
    assert len(store.read(lambda db: run_queries.history(db, limit=99))) == 50
    store.close()
    assert bytes_in(made.parent) == before


def test_the_database_is_readable_by_its_owner_alone(path):
    before = os.umask(0)
    try:
        store = open_store(path, now=NOW)
        add_job(store)
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert modes == {"rota.db": 0o600, "rota.db-wal": 0o600, "rota.db-shm": 0o600}


def test_somebody_elses_database_is_refused(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    refused(path, DatabaseForeign)


def test_the_log_of_somebody_elses_database_is_left_alone(path, tmp_path):
    original = tmp_path / "theirs"
    original.mkdir()
    connection = sqlite3.connect(original / "rota.db")
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("CREATE TABLE theirs (a)")
    connection.commit()
    for suffix in ("", "-wal"):
        shutil.copy(original / f"rota.db{suffix}", f"{path}{suffix}")
    connection.close()
    refused(path, DatabaseForeign)


def test_an_empty_file_is_refused(path):
    path.touch()
    refused(path, DatabaseForeign)


def test_a_file_that_is_no_database_is_refused(path):
    path.write_text("jobs:\n  backup: {command: restic}\n" * 100)
    refused(path, DatabaseCorrupt)


def test_a_directory_in_its_place_is_refused(path):
    path.mkdir()
    refused(path, StateError)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    path = tmp_path / "missing" / "rota.db"
    with pytest.raises(StateError) as raised:
        open_store(path, now=NOW)
    assert str(path) in raised.value.message
    assert raised.value.hint
    assert not path.parent.exists()


def change(path, statement, *params):
    connection = apsw.Connection(str(path))
    connection.execute(statement, params).fetchall()
    connection.close()


def test_the_database_of_a_newer_rota_is_refused_with_both_numbers(made):
    change(made, "INSERT INTO migration VALUES (99, 'later', 'x', 1)")
    error = refused(made, DatabaseNewer)
    assert "schema 99" in error.message
    assert f"knows {load_migrations('sqlite')[-1][0]}" in error.message


def test_a_migration_that_is_not_ours_is_refused(made):
    change(made, "UPDATE migration SET digest = 'other' WHERE number = 1")
    assert "migration 1" in refused(made, DatabaseCorrupt).message


def test_our_database_without_its_history_is_refused(made):
    change(made, "DROP TABLE migration")
    refused(made, DatabaseCorrupt)


@pytest.mark.parametrize("kept", [1, 100, 4096, 5000])
def test_a_truncated_database_is_refused(made, kept):
    os.truncate(made, kept)
    refused(made, DatabaseCorrupt)


@pytest.mark.parametrize("offset", [0, 16, 100])
def test_a_database_with_a_damaged_head_is_refused(made, offset):
    with made.open("r+b") as file:
        file.seek(offset)
        file.write(b"\xff" * 16)
    refused(made, DatabaseCorrupt)


def test_damage_further_inside_is_told_when_it_is_met_and_nothing_is_changed(made):
    with made.open("r+b") as file:
        file.seek(2 * 4096)
        file.write(b"\xff" * (made.stat().st_size - 3 * 4096))
    before = made.read_bytes()
    with pytest.raises(DatabaseCorrupt) as raised:
        open_store(made, now=NOW).read(lambda db: [jobs.all_jobs(db), run_queries.history(db, limit=99)])
    assert str(made) in raised.value.message
    assert made.read_bytes() == before


def unfinished_database(path):
    """Make what a creation leaves that was killed before its first migration."""
    change(path, f"PRAGMA application_id = {APPLICATION_ID}")
    change(path, "CREATE TABLE migration (number INTEGER PRIMARY KEY, name TEXT, digest TEXT, applied_at INTEGER)")


def test_a_database_without_any_migration_is_finished(path):
    unfinished_database(path)
    open_store(path, now=NOW).close()
    assert tables(path) >= TABLES


def test_a_migration_that_fails_in_the_middle_leaves_nothing_of_itself(path):
    unfinished_database(path)
    change(path, "CREATE TABLE execution (in_the_way)")
    with pytest.raises(apsw.SQLError, match="execution already exists"):
        open_store(path, now=NOW)
    assert tables(path) == {"migration", "execution"}
    assert connect(path).execute("SELECT * FROM migration").fetchall() == []


OPEN = """
import os, signal, sys
from pathlib import Path
import apsw
sys.path.insert(0, sys.argv[2])
from making import NOW
from rota.store.migrate import open_store
"""

KILLED = (
    OPEN
    + """
left = int(sys.argv[3])
def count(event):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
apsw.connection_hooks.append(lambda connection: connection.trace_v2(apsw.SQLITE_TRACE_STMT, count))
open_store(Path(sys.argv[1]), now=NOW)
"""
)


def start(program, path, *args, **options):
    argv = [sys.executable, "-c", program, str(path), str(Path(__file__).parent), *map(str, args)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.parametrize("statement", [1, 2, 3, 6, 12, 25, 40])
def test_a_kill_at_any_statement_of_the_making_leaves_all_or_nothing(path, statement):
    process = start(KILLED, path, statement)
    _, errors = process.communicate(timeout=LONGEST_WAIT)
    assert process.returncode == -signal.SIGKILL, errors
    if path.exists():
        assert tables(path) - {"sqlite_sequence"} in ({"migration"}, TABLES)
    open_store(path, now=NOW).close()
    assert tables(path) - {"sqlite_sequence"} == TABLES


TOGETHER = (
    OPEN
    + """
print("ready", flush=True)
sys.stdin.readline()
store = open_store(Path(sys.argv[1]), now=NOW)
store.write(lambda db: db.execute("meta_set", key=str(os.getpid()), value="here"))
store.close()
"""
)


def test_four_processes_that_make_it_at_once_leave_one_good_database(path):
    processes = [start(TOGETHER, path, stdin=subprocess.PIPE) for _ in range(4)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    errors = [process.communicate(timeout=LONGEST_WAIT)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, errors
    connection = connect(path)
    assert {int(key) for (key,) in connection.execute("SELECT key FROM meta")} == {process.pid for process in processes}
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert not [file.name for file in path.parent.iterdir() if file.name.endswith(".new")]


REFUSED = (
    OPEN
    + f"""
import json
from rota.store.queries import load_migrations, load_queries
load_migrations("sqlite"), load_queries("sqlite")
if os.getuid() == 0:
    os.setgid({NOBODY})
    os.setuid({NOBODY})
"""
    + """
from rota.model.errors import StateError
try:
    store = open_store(Path(sys.argv[1]), now=NOW)
    store.write(lambda db: db.execute("meta_set", key="a", value="b"))
except StateError as error:
    print(json.dumps([error.code, error.message, error.hint]))
"""
)


@pytest.fixture
def shared(made):
    """A folder that an ordinary user can reach, with a good database that everybody may write."""
    folder = Path(tempfile.mkdtemp(prefix="rota-"))
    shutil.copy(made, folder / "rota.db")
    (folder / "rota.db").chmod(0o666)
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


def refused_to_a_user(path):
    before = bytes_in(path.parent)
    process = start(REFUSED, path)
    output, errors = process.communicate(timeout=LONGEST_WAIT)
    assert process.returncode == 0, errors
    code, message, hint = json.loads(output or "[null, null, null]")
    assert code == "database_read_only", (message, errors)
    assert str(path) in message
    assert hint
    assert bytes_in(path.parent) == before


def test_a_database_that_cannot_be_written_is_refused(shared):
    (shared / "rota.db").chmod(0o444)
    refused_to_a_user(shared / "rota.db")


def test_a_database_that_cannot_be_read_is_refused(shared):
    if os.getuid() != 0:
        pytest.skip("its bytes are compared by a user who may read them")
    (shared / "rota.db").chmod(0o000)
    refused_to_a_user(shared / "rota.db")


def test_a_database_in_a_folder_that_cannot_be_written_is_refused(shared):
    shared.chmod(0o555)
    refused_to_a_user(shared / "rota.db")


def test_a_new_database_in_a_folder_that_cannot_be_written_is_refused(shared):
    shared.chmod(0o555)
    refused_to_a_user(shared / "new.db")


LEAVE_WAL = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0)
try:
    print(connection.execute("PRAGMA journal_mode = delete").fetchone()[0])
except sqlite3.OperationalError as error:
    print(error)
"""


def test_a_second_connection_does_not_take_the_locks_of_the_first_away(made):
    store = open_store(made, now=NOW)
    store.read(jobs.all_jobs)
    connect(made).close()
    process = start(LEAVE_WAL, made)
    assert process.communicate(timeout=LONGEST_WAIT)[0] == "database is locked\n"
    store.close()
