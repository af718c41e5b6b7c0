"""Migrations and checks of the schema."""

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cache
from pathlib import Path

import apsw

from rota import faults
from rota.model.amounts import counted
from rota.model.clock import to_ms
from rota.model.errors import DatabaseCorrupt, DatabaseNewer, MoveUnfinished, StateError, UpgradeBlocked
from rota.model.ids import stay_above
from rota.store.driver import Database, Row
from rota.store.queries import load_migrations
from rota.store.sqlite.store import (
    APPLICATION_ID,
    SqliteStore,
    connect,
    copy_database,
    process_lock_held,
    reachable,
    translated,
)

HISTORY = """CREATE TABLE IF NOT EXISTS migration (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT"""

RESTART_HINT = "nothing was changed; restart it: `rota service restart`, or `rota stop --detach` and `rota serve`"
MOVING_PREFIX = "moving:"
"""Marks the checksums of a database while a copy fills it, so that it cannot be opened."""
MOVED_TO, MOVED_FROM = "moved_to", "moved_from"


def open_store(path: Path, *, now: datetime, create: bool = True) -> SqliteStore:
    """Open the database at `path`; create or upgrade it if needed, never replace it."""
    if not path.exists():
        if not create:
            raise StateError(f"there is no database {path}", hint="`rota serve` or `rota apply` creates it")
        _create(path)
    store = SqliteStore(path)
    with translated(path):
        connection = connect(path)
        try:
            if not _is_present(connection, path):
                store.copied_to = _upgrade(connection, path, now)
                connection.close()  # its foreign keys are off
                connection = connect(path)
        except BaseException:
            connection.close()
            raise
    store.keep(connection)
    last = store.read(lambda db: db.row("run_last_id"))
    if last is not None and last[0] is not None:
        stay_above(last[0])
    return store


def _create(path: Path) -> None:
    """Create an empty database beside `path`, then rename it: a crash leaves all of it or nothing."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    with reachable(path), translated(path):
        for left in (fresh, Path(f"{fresh}-wal"), Path(f"{fresh}-shm")):
            left.unlink(missing_ok=True)
        os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            _write_history(fresh)
            faults.point("migrate.made")
            os.link(fresh, path)
            faults.point("migrate.named")
        except FileExistsError:
            pass  # another process was first; its file is equal
        finally:
            fresh.unlink()


def _write_history(fresh: Path) -> None:
    connection = apsw.Connection(str(fresh))
    try:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}").fetchall()
        connection.execute(HISTORY).fetchall()
        # Before another process opens it: SQLite does not wait for a lock to change this mode.
        connection.execute("PRAGMA journal_mode = wal").fetchall()
    finally:
        connection.close()


def _is_present(connection: apsw.Connection, path: Path) -> bool:
    """Return whether the database has this rota's schema."""
    if not connection.table_exists(None, "migration"):
        raise DatabaseCorrupt(
            f"the database {path} has no record of its migrations",
            hint="it was changed by something else; restore a backup, or move the file away to start empty",
        )
    return _applied(connection) == {number: digest(script) for number, _, script in load_migrations("sqlite")}


def _upgrade(connection: apsw.Connection, path: Path, now: datetime) -> Path | None:
    """Run the missing migrations; return the copy from before, None for an empty database."""
    wanted = load_migrations("sqlite")
    # A script that recreates a table drops the old one, which would delete the rows that reference it.
    connection.execute("PRAGMA foreign_keys = OFF").fetchall()
    connection.execute("BEGIN IMMEDIATE")
    try:
        applied = _applied(connection)
        check_applied(applied, wanted, str(path))
        missing = [migration for migration in wanted if migration[0] not in applied]
        if not missing:
            connection.execute("ROLLBACK")
            return None  # another process did it meanwhile and may already use the database
        _check_unused(connection, path, applied, wanted=wanted[-1][0])
        copied = _copy_before(path, applied, newest=wanted[-1][0])
        for number, name, script in missing:
            _run(connection, script)
            row = (number, name, digest(script), to_ms(now))
            connection.execute("INSERT INTO migration VALUES (?, ?, ?, ?)", row).fetchall()
        broken = connection.execute("PRAGMA foreign_key_check").fetchall()
        if broken:
            rows, table = counted(len(broken), "row"), broken[0][0]
            raise DatabaseCorrupt(
                f"{rows} of {path} with a broken reference, the first in the table {table}",
                hint="nothing was changed; restore a backup",
            )
        faults.point("migrate.written")
        connection.execute("COMMIT")
        faults.point("migrate.committed")
        return copied
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check_unused(connection: apsw.Connection, path: Path, applied: dict[int, str], *, wanted: int) -> None:
    """Refuse while a process with the older schema lives: its next writes would not fit the new one."""
    if not applied:
        return
    processes = connection.execute("SELECT kind, pid, version, lock FROM process WHERE ended_at IS NULL").fetchall()
    living = [
        f"{kind} (pid {pid}, rota {version})"
        for kind, pid, version, lock in processes
        if process_lock_held(path.parent, str(lock))
    ]
    if living:
        raise UpgradeBlocked(str(path), living, schema=max(applied), wanted=wanted, hint=RESTART_HINT)


def _run(connection: apsw.Connection, script: str) -> None:
    cursor = connection.cursor()
    if faults.armed():
        cursor.exec_trace = _before_statement
    cursor.execute(script).fetchall()


def _before_statement(*_: object) -> bool:
    faults.point("migrate.statement")
    return True


def _copy_before(path: Path, applied: dict[int, str], *, newest: int) -> Path | None:
    """Copy a database with data under our write lock, as the way back to the older rota."""
    if not applied:
        return None
    from rota.log import log

    megabytes = path.stat().st_size // 1_000_000
    log.warning("upgrading the database", path=str(path), schema=newest, before=max(applied), megabytes=megabytes)
    copy = path.parent / "backups" / f"before-{newest}.db"
    with reachable(copy):
        copy.parent.mkdir(mode=0o700, exist_ok=True)
    copy_database(path, copy)
    return copy


def _applied(connection: apsw.Connection) -> dict[int, str]:
    rows = connection.execute("SELECT number, digest FROM migration ORDER BY number").fetchall()
    return {int(str(number)): str(digest) for number, digest in rows}


def check_applied(applied: dict[int, str], wanted: list[tuple[int, str, str]], place: str) -> None:
    """Refuse a database of a newer rota, of another build, or of an unfinished copy."""
    newest = wanted[-1][0]
    if any(checksum.startswith(MOVING_PREFIX) for checksum in applied.values()):
        raise MoveUnfinished(place)
    if applied and max(applied) > newest:
        raise DatabaseNewer(
            f"the database {place} has schema {max(applied)}, this rota knows {newest}",
            hint="upgrade rota, or restore a backup made before the upgrade",
        )
    for number, name, script in wanted:
        if number in applied and applied[number] != digest(script):
            raise DatabaseCorrupt(
                f"migration {number} ({name}) of {place} differs from that of this rota",
                hint="the database was created by another build; use that build, or restore a backup",
            )


def digest(script: str) -> str:
    """Return the stored checksum of a migration."""
    import hashlib

    return hashlib.sha256(script.encode()).hexdigest()


Schema = dict[tuple[str, str], str]
"""(type, name) -> statement."""

MADE_KEY = "schema"
SERVER = "server"
"""The type of the row with the server's version; the other rows depend on it."""
_MAKING = r"(?m)^CREATE (TABLE|FUNCTION) (\w+)"


def require_schema(db: Database) -> None:
    """Refuse a database that a newer rota has upgraded since it was opened."""
    row = db.row("schema_newest")
    if row is not None and row[0] > newest_schema():
        raise DatabaseNewer(
            f"the database was upgraded to schema {row[0]} meanwhile, this rota knows {newest_schema()}",
            hint="start it again: a newer rota is installed",
        )


def newest_schema() -> int:
    """Return the newest schema of this rota; both backends have the same number."""
    return load_migrations("sqlite")[-1][0]


def noted_schema(rows: Iterable[Row]) -> str:
    """Return the schema after the migrations, from the rows of `audit_schema`, to be stored under `MADE_KEY`.

    PostgreSQL has no database in memory, as SQLite has, to compare with later.
    """
    return json.dumps([row for row in rows if _is_ours(*row[:2])])


def present_schema(db: Database) -> Schema:
    """Return the schema of the database."""
    rows = db.rows("audit_schema")
    shared = any(kind == SERVER for kind, _, _ in rows)
    return {(kind, name): text for kind, name, text in rows if not shared or _is_ours(kind, name)}


def expected_schema(db: Database) -> Schema:
    """Return the schema of the migrations: the stored one, else that of a new database in memory."""
    noted = db.row("meta_get", key=MADE_KEY)
    if noted is None:
        return dict(_fresh_schema())
    return {(kind, name): text for kind, name, text in json.loads(noted[0])}


def _is_ours(kind: str, name: str) -> bool:
    """Return whether it belongs to rota: other programs may share the schema."""
    return kind == SERVER or (kind, name) in _made() or ("table", name.partition(".")[0]) in _made()


@cache
def _made() -> frozenset[tuple[str, str]]:
    scripts = [script for _, _, script in load_migrations("postgres")]
    made = ((kind.lower(), name) for script in scripts for kind, name in re.findall(_MAKING, script))
    return frozenset({*made, ("table", "migration")})


@contextlib.contextmanager
def fresh_database() -> Iterator[apsw.Connection]:
    """Open a new database in memory with the schema of this version."""
    with contextlib.closing(apsw.Connection(":memory:")) as connection:
        connection.execute(HISTORY).fetchall()
        for _, _, script in load_migrations("sqlite"):
            connection.execute(script).fetchall()
        yield connection


@cache
def _fresh_schema() -> Schema:
    with fresh_database() as fresh:
        rows = fresh.execute("SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'").fetchall()
    return {(str(kind), str(name)): str(text) for kind, name, text in rows}
