"""Migrations and checks of the schema."""

import hashlib
import json
import os
import re
from collections.abc import Iterable
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
"""Stands before the checksums of a database while a move fills it: nobody opens it so."""


def open_store(path: Path, *, now: datetime, create: bool = True) -> SqliteStore:
    """Open the database at `path`, made or upgraded where needed; never recreate what is there."""
    if not path.exists():
        if not create:
            raise StateError(f"there is no database {path}", hint="`rota serve` or `rota apply` makes it")
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
    """Make an empty database of ours beside `path`, then give it its name: a crash leaves all of it or nothing."""
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
            pass  # another process was first; its file is as good as ours
        finally:
            fresh.unlink()


def _write_history(fresh: Path) -> None:
    connection = apsw.Connection(str(fresh))
    try:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}").fetchall()
        connection.execute(HISTORY).fetchall()
        # While nobody else is there: SQLite waits for nobody to change this, and of many who opened it one failed.
        connection.execute("PRAGMA journal_mode = wal").fetchall()
    finally:
        connection.close()


def _is_present(connection: apsw.Connection, path: Path) -> bool:
    """Tell whether the database has this rota's schema."""
    if not connection.table_exists(None, "migration"):
        raise DatabaseCorrupt(
            f"the database {path} has no record of its migrations",
            hint="it was changed by something else; put back a backup, or move the file away to start empty",
        )
    return _applied(connection) == {number: digest(script) for number, _, script in load_migrations("sqlite")}


def _upgrade(connection: apsw.Connection, path: Path, now: datetime) -> Path | None:
    """Run the migrations that are missing; return the copy that was made before, None if nothing was there to lose."""
    wanted = load_migrations("sqlite")
    # A script that makes a table anew drops the old one, which would take along what points at it.
    connection.execute("PRAGMA foreign_keys = OFF").fetchall()
    connection.execute("BEGIN IMMEDIATE")
    try:
        applied = _applied(connection)
        check_applied(applied, wanted, str(path))
        missing = [one for one in wanted if one[0] not in applied]
        if not missing:
            connection.execute("ROLLBACK")
            return None  # another process did it while this one waited, and may be at work by now
        _check_nobody_works(connection, path, applied, wanted=wanted[-1][0])
        copied = _copy_before(path, applied, newest=wanted[-1][0])
        for number, name, script in missing:
            _run(connection, script)
            row = (number, name, digest(script), to_ms(now))
            connection.execute("INSERT INTO migration VALUES (?, ?, ?, ?)", row).fetchall()
        _check_references(connection, path)
        faults.point("migrate.written")
        connection.execute("COMMIT")
        faults.point("migrate.committed")
        return copied
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check_nobody_works(connection: apsw.Connection, path: Path, applied: dict[int, str], *, wanted: int) -> None:
    """Refuse while a process that knows only the older schema lives: what it would write next was not made for this."""
    if not applied:
        return
    found = connection.execute("SELECT kind, pid, version, lock FROM process WHERE ended_at IS NULL").fetchall()
    living = [
        f"{kind} (pid {pid}, rota {version})"
        for kind, pid, version, lock in found
        if process_lock_held(path.parent, str(lock))
    ]
    if living:
        raise UpgradeBlocked(str(path), living, schema=max(applied), wanted=wanted, hint=RESTART_HINT)


def _check_references(connection: apsw.Connection, path: Path) -> None:
    broken = connection.execute("PRAGMA foreign_key_check").fetchall()
    if broken:
        raise DatabaseCorrupt(
            f"{counted(len(broken), 'row')} of {path} with a broken reference, the first in the table {broken[0][0]}",
            hint="nothing was changed; put back a backup",
        )


def _run(connection: apsw.Connection, script: str) -> None:
    cursor = connection.cursor()
    if faults.armed():
        cursor.exec_trace = _before_statement
    cursor.execute(script).fetchall()


def _before_statement(*_: object) -> bool:
    faults.point("migrate.statement")
    return True


def _copy_before(path: Path, applied: dict[int, str], *, newest: int) -> Path | None:
    """Copy a database that holds something, under our write lock: the way back if the new rota does not suit."""
    if not applied:
        return None
    copy = path.parent / "backups" / f"before-{newest}.db"
    with reachable(copy):
        copy.parent.mkdir(mode=0o700, exist_ok=True)
    copy_database(path, copy)
    return copy


def _applied(connection: apsw.Connection) -> dict[int, str]:
    rows = connection.execute("SELECT number, digest FROM migration ORDER BY number").fetchall()
    return {int(str(number)): str(digest) for number, digest in rows}


def check_applied(applied: dict[int, str], wanted: list[tuple[int, str, str]], place: str) -> None:
    """Refuse a database of a newer rota, or one that another build has made."""
    newest = wanted[-1][0]
    if any(known.startswith(MOVING_PREFIX) for known in applied.values()):
        raise MoveUnfinished(place)
    if applied and max(applied) > newest:
        raise DatabaseNewer(
            f"the database {place} has schema {max(applied)}, this rota knows {newest}",
            hint="upgrade rota, or put back a backup made before the upgrade",
        )
    for number, name, script in wanted:
        if number in applied and applied[number] != digest(script):
            raise DatabaseCorrupt(
                f"migration {number} ({name}) of {place} is not the one this rota has",
                hint="the database was made by another build; use that build, or put back a backup",
            )


def digest(script: str) -> str:
    """Return the checksum under which a migration is remembered."""
    return hashlib.sha256(script.encode()).hexdigest()


Schema = dict[tuple[str, str], str]
"""(type, name) -> statement."""

MADE_KEY = "schema"
SERVER = "server"
"""The type of the one line that is no part of the schema: the version of the server whose words the others are."""
_MAKING = re.compile(r"^CREATE (TABLE|FUNCTION) (\w+)", re.MULTILINE)


def require_schema(db: Database) -> None:
    """Refuse a database that a newer rota has upgraded since it was opened."""
    found = db.row("schema_newest")
    known = newest_schema()
    if found is not None and found[0] > known:
        raise DatabaseNewer(
            f"the database was upgraded to schema {found[0]} meanwhile, this rota knows {known}",
            hint="start it again: a newer rota is installed",
        )


def newest_schema() -> int:
    """Return the schema that this rota knows; both backends count alike."""
    return load_migrations("sqlite")[-1][0]


def noted_schema(rows: Iterable[Row]) -> str:
    """Return what a server that has just run the migrations tells of them, to be kept under `MADE_KEY`.

    `rows` are those of `audit_schema`. Nobody can make a fresh database beside, as with SQLite, to compare with later.
    """
    return json.dumps([row for row in rows if _is_ours(*row[:2])])


def present_schema(db: Database) -> Schema:
    """Return what is there."""
    rows = db.rows("audit_schema")
    shared = any(kind == SERVER for kind, _, _ in rows)
    return {(kind, name): text for kind, name, text in rows if not shared or _is_ours(kind, name)}


def expected_schema(db: Database) -> Schema:
    """Return everything that the migrations make: as it was noted, else from a fresh database in memory."""
    noted = db.row("meta_get", key=MADE_KEY)
    if noted is None:
        return dict(_fresh_schema())
    return {(kind, name): text for kind, name, text in json.loads(noted[0])}


def _is_ours(kind: str, name: str) -> bool:
    """Tell whether rota's scripts make it, or it hangs on a table of theirs: others may share the schema."""
    return kind == SERVER or (kind, name) in _made() or ("table", name.partition(".")[0]) in _made()


@cache
def _made() -> frozenset[tuple[str, str]]:
    scripts = [script for _, _, script in load_migrations("postgres")]
    found = ((kind.lower(), name) for script in scripts for kind, name in _MAKING.findall(script))
    return frozenset({*found, ("table", "migration")})


@cache
def _fresh_schema() -> Schema:
    connection = apsw.Connection(":memory:")
    try:
        connection.execute(HISTORY).fetchall()
        for _, _, script in load_migrations("sqlite"):
            connection.execute(script).fetchall()
        rows = connection.execute("SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'").fetchall()
    finally:
        connection.close()
    return {(str(kind), str(name)): str(text) for kind, name, text in rows}
