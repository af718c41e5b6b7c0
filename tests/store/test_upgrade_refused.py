"""An upgrade of the database waits until nobody of an older rota is at work on it (R-22)."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import apsw
import psycopg
import pytest

from rota.engine.membership.locks import take_process_lock
from rota.model.errors import UpgradeBlocked
from rota.store.migrate import HISTORY, _upgrade, digest, newest_schema, open_store
from rota.store.postgres.setup import HISTORY as HISTORY_THERE
from rota.store.postgres.setup import LOCK, open_postgres
from rota.store.queries import load_migrations
from rota.store.sqlite.store import APPLICATION_ID
from tests.store.making import NOW
from tests.store.test_postgres import blank
from tests.waiting import LONGEST_WAIT, until

ENTERED = "INSERT INTO process (worker_id, kind, boot_id, pid, pid_start, lock, version, started_at) VALUES"
FAR = 4_000_000_000_000
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture
def older(tmp_path):
    """A database of the first schema, on which a process has not said goodbye; with the lock of that."""
    number, name, script = load_migrations("sqlite")[0]
    lock = take_process_lock(tmp_path)
    with closing(apsw.Connection(str(tmp_path / "rota.db"))) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}; {HISTORY}; {script}").fetchall()
        connection.execute("INSERT INTO migration VALUES (?, ?, ?, 0)", (number, name, digest(script))).fetchall()
        connection.execute("INSERT INTO worker (id, name, created_at) VALUES ('w', 'here', 0)").fetchall()
        connection.execute(f"{ENTERED} ('w', 'serve', 'boot', 4121, 1, ?, '0.0.9', 0)", (lock.path.name,)).fetchall()
    return tmp_path / "rota.db", lock


@pytest.fixture
def older_there():
    """The address of a database of the first schema of PostgreSQL, on which a process has a lease."""
    address = blank("older")
    number, name, script = load_migrations("postgres")[0]
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"{HISTORY_THERE}; {script}")
        connection.execute("INSERT INTO migration VALUES (%s, %s, %s, 0)", (number, name, digest(script)))
        connection.execute("INSERT INTO worker (id, name, created_at) VALUES ('w', 'web2', 0)")
        connection.execute(f"{ENTERED} ('w', 'worker', 'boot', 4121, 1, 'lock', '0.0.9', 0)")
        connection.execute("UPDATE process SET lease_until = %s", (FAR,))
    return address


def numbers(path):
    with closing(apsw.Connection(str(path))) as connection:
        return [number for (number,) in connection.execute("SELECT number FROM migration ORDER BY number")]


def test_an_upgrade_is_refused_while_an_older_process_lives_and_changes_nothing(older):
    """R-22: its lock says that it lives."""
    path, lock = older
    with pytest.raises(UpgradeBlocked, match=r"in use by serve \(pid 4121, rota 0\.0\.9\)") as raised:
        open_store(path, now=NOW)
    assert "rota service restart" in raised.value.hint
    assert numbers(path) == [1]
    assert not (path.parent / "backups").exists()
    lock.release()


def test_an_upgrade_passes_over_a_process_that_is_gone_without_goodbye(older):
    path, lock = older
    lock.release()
    open_store(path, now=NOW).close()
    assert numbers(path)[-1] == newest_schema()


def test_an_upgrade_is_refused_while_another_machine_has_a_lease(older_there):
    """R-22: elsewhere only leases tell."""
    with pytest.raises(UpgradeBlocked, match=r"in use by worker on web2 \(pid 4121, rota 0\.0\.9\)"):
        open_postgres(older_there, now=lambda: NOW)
    with psycopg.connect(older_there) as connection:
        assert connection.execute("SELECT count(*) FROM migration").fetchone() == (1,)


def test_an_upgrade_passes_over_a_machine_whose_lease_is_over(older_there):
    with psycopg.connect(older_there, autocommit=True) as connection:
        connection.execute("UPDATE process SET lease_until = 1")
    open_postgres(older_there, now=lambda: NOW).close()
    with psycopg.connect(older_there) as connection:
        assert connection.execute("SELECT max(number) FROM migration").fetchone() == (newest_schema(),)


def test_many_who_are_at_work_are_counted():
    error = UpgradeBlocked("rota.db", ["a", "b", "c", "d", "e"], schema=8, wanted=9, hint="")
    assert error.message.endswith("in use by a, b, c and 2 more")


def test_who_waited_while_another_upgraded_here_finds_nothing_to_do(older):
    """R-22: by then the other one is at work, on the schema that both know."""
    path, lock = older
    lock.release()
    open_store(path, now=NOW).close()
    lock = take_process_lock(path.parent)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE process SET lock = ?", (lock.path.name,)).fetchall()
        assert _upgrade(connection, path, NOW) is None
        assert not connection.in_transaction
    lock.release()


def test_who_waited_while_another_upgraded_there_finds_nothing_to_do(older_there):
    """R-22: so do machines that start together on an empty database."""
    with psycopg.connect(older_there, autocommit=True) as other, ThreadPoolExecutor(1) as pool:
        other.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        opening = pool.submit(open_postgres, older_there, now=lambda: NOW)
        until(lambda: other.execute(WAITING).fetchone() != (0,), what="the upgrade to wait for the other one")
        for number, name, script in load_migrations("postgres")[1:]:
            other.execute(script)
            other.execute("INSERT INTO migration VALUES (%s, %s, %s, 0)", (number, name, digest(script)))
        other.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
        opening.result(LONGEST_WAIT).close()


def test_an_upgrade_that_meets_somebody_who_enters_is_done_all_the_same(older_there):
    """Who enters looks at workers before it is there; the upgrade wants both tables, the other way round."""
    with psycopg.connect(older_there) as entering, psycopg.connect(older_there, autocommit=True) as beside:
        beside.execute("UPDATE process SET lease_until = 1")
        entering.execute("SELECT * FROM worker").fetchall()
        upgrade = threading.Thread(target=lambda: open_postgres(older_there, now=lambda: NOW).close())
        upgrade.start()
        until(lambda: beside.execute(WAITING).fetchone() != (0,), what="the upgrade to wait for who enters")
        with suppress(psycopg.errors.DeadlockDetected):  # the server ends one of the two: on a slow machine this one
            entering.execute(f"{ENTERED} ('w', 'serve', 'boot', 7, 1, 'lock', '0.0.9', 0)")
        entering.rollback()
        upgrade.join(LONGEST_WAIT)
        assert beside.execute("SELECT max(number) FROM migration").fetchone() == (newest_schema(),)
