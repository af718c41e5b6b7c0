"""SQLite alone: before an upgrade the database is copied; the copy is whole and as it was."""

import sqlite3
import stat
import threading

import apsw
import pytest

from rota.model.errors import DatabaseCorrupt, DatabaseNewer
from rota.store.migrate import HISTORY, digest, open_store
from rota.store.queries import load_migrations
from rota.store.sqlite.store import APPLICATION_ID, copy_database, quick_check, require_whole
from tests.store.making import NOW, add_job, insert_run


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rota.db"


@pytest.fixture
def older(path):
    """A database of the first schema, with something in it."""
    number, name, script = load_migrations("sqlite")[0]
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}").fetchall()
    connection.execute(HISTORY).fetchall()
    connection.execute(script).fetchall()
    connection.execute("INSERT INTO migration VALUES (?, ?, ?, 0)", (number, name, digest(script))).fetchall()
    connection.execute("INSERT INTO meta VALUES ('kept', 'yes')").fetchall()
    connection.close()
    return path


def newest():
    return load_migrations("sqlite")[-1][0]


def numbers(path):
    with sqlite3.connect(path) as connection:
        return [number for (number,) in connection.execute("SELECT number FROM migration ORDER BY number")]


def test_an_upgrade_copies_the_database_as_it_was_first(older):
    store = open_store(older, now=NOW)
    store.close()
    copy = older.parent / "backups" / f"before-{newest()}.db"
    assert store.copied_to == copy
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert numbers(copy) == [1]
    assert numbers(older)[-1] == newest()
    with sqlite3.connect(copy) as connection:
        assert connection.execute("SELECT value FROM meta WHERE key = 'kept'").fetchall() == [("yes",)]


def test_the_first_making_and_an_ordinary_opening_copy_nothing(path):
    for _ in range(2):
        store = open_store(path, now=NOW)
        store.close()
        assert store.copied_to is None
    assert not (path.parent / "backups").exists()


def test_a_database_that_is_refused_is_not_copied(older):
    with sqlite3.connect(older) as connection:
        connection.execute("INSERT INTO migration VALUES (9999, 'later', 'x', 0)")
    with pytest.raises(DatabaseNewer):
        open_store(older, now=NOW)
    assert not (older.parent / "backups").exists()


def test_an_upgrade_that_cannot_be_copied_is_not_made(older):
    (older.parent / "backups").write_text("in the way")
    with pytest.raises(Exception, match="backups") as raised:
        open_store(older, now=NOW)
    assert raised.value.hint
    assert numbers(older) == [1]


def test_a_copy_under_load_is_one_consistent_snapshot(path, tmp_path):
    """Each transaction inserts two rows: a copy in between shows an odd number nowhere."""
    store = open_store(path, now=NOW)
    job = add_job(store)
    store.write(lambda db: [insert_run(db, job, params={"text": "x" * 3000}) for _ in range(200)])
    ended = threading.Event()

    def keep_writing():
        while not ended.is_set():
            store.write(lambda db: [insert_run(db, job) for _ in range(2)])

    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        for number in range(5):
            copy = tmp_path / f"copy-{number}.db"
            copy_database(path, copy)
            require_whole(copy)
            with sqlite3.connect(copy) as connection:
                (rows,) = connection.execute("SELECT count(*) FROM run").fetchone()
            assert rows % 2 == 0
    finally:
        ended.set()
        writer.join()
        store.close()


def test_damage_is_told(path):
    store = open_store(path, now=NOW)
    job = add_job(store)
    store.write(lambda db: [insert_run(db, job, params={"text": "x" * 3000}) for _ in range(100)])
    store.close()
    assert quick_check(path, stop=threading.Event()) == ()
    data = bytearray(path.read_bytes())
    data[-40_960:] = b"\xee" * 40_960
    path.write_bytes(bytes(data))
    assert quick_check(path)
    with pytest.raises(DatabaseCorrupt, match=str(path)):
        require_whole(path)
