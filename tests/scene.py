"""Scenes on the database that the tests are run for: SQLite, or with ROTA_TEST_STORE=postgres PostgreSQL."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

import rota.testing
from rota.store.driver import Store
from rota.store.postgres.setup import open_postgres
from rota.store.sqlite.store import SqliteStore
from tests.postgres import copy_postgres, lay_postgres, spoil_postgres
from tests.template import lay_database
from tests.waiting import LONGEST_WAIT

VARIABLE = "ROTA_TEST_STORE"
ON_POSTGRES = os.environ.get(VARIABLE) == "postgres"
sqlite_alone = pytest.mark.skipif(ON_POSTGRES, reason="of SQLite alone")
many_machines = pytest.mark.skipif(not ON_POSTGRES, reason="SQLite is of one machine")
one_machine = pytest.mark.skipif(ON_POSTGRES, reason="what one of many machines sees moves nothing of all")

_addresses: dict[Path, str] = {}
"""The databases of the scenes that play now, by the folder of each."""
_kept: set[Path] = set()


class Scene(rota.testing.Scene):
    """A scene that begins on an empty database; a second one in the same folder joins the first."""

    def open_database(self) -> Store:
        """Open the database of the folder, laid anew for the first who comes."""
        if ON_POSTGRES:
            return open_postgres(address_of(self.settings.state), now=self.clock.now)
        if not self.settings.database.exists():
            lay_database(self.settings.state)
        return super().open_database()

    async def close(self) -> None:
        """End the scene; the next one in this folder begins anew."""
        await super().close()
        _addresses.pop(self.settings.state, None)


def address_of(folder: Path) -> str:
    """Return the address of a folder's database."""
    if folder not in _addresses:
        taken = set(_addresses.values())
        names = (f"scene{number}" for number in range(len(taken) + 1))
        free = next(name for name in names if not any(f"_{name}?" in one or one.endswith(f"_{name}") for one in taken))
        _addresses[folder] = lay_postgres(free)
    return _addresses[folder]


def forget_scenes() -> None:
    """Let the next scenes have the databases of those before, but for those that are kept."""
    for folder in _addresses.keys() - _kept:
        del _addresses[folder]


@contextmanager
def kept(scene: rota.testing.Scene) -> Iterator[None]:
    """Keep the database of a scene over several tests."""
    _kept.add(scene.settings.state)
    try:
        yield
    finally:
        _kept.discard(scene.settings.state)


class Beside:
    """A connection of one's own to the database of a folder, to look at it past rota."""

    def __init__(self, folder: Path) -> None:
        self._connection: Any
        if ON_POSTGRES:
            self._connection = psycopg.connect(address_of(folder), autocommit=True)
        else:
            self._connection = apsw.Connection(str(folder / "rota.db"), flags=apsw.SQLITE_OPEN_READONLY)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query that both databases take, with `?` for each value."""
        if ON_POSTGRES and values:
            query = query.replace("%", "%%").replace("?", "%s")
        found: list[tuple[Any, ...]] = self._connection.execute(query, values or None).fetchall()
        return found

    def close(self) -> None:
        """Let it go."""
        self._connection.close()


def drop_trigger(scene: rota.testing.Scene, name: str, *, table: str) -> None:
    """Take a trigger away."""
    if ON_POSTGRES:
        _tamper_postgres(address_of(scene.settings.state), [f"DROP TRIGGER {name} ON {table}"])
        return
    with closing(apsw.Connection(str(scene.settings.database))) as connection:
        connection.execute(f"DROP TRIGGER {name}")


def tamper(scene: rota.testing.Scene, *statements: str) -> None:
    """Change the database behind rota's back: without triggers and checks, as a stray hand or a broken disk would."""
    if ON_POSTGRES:
        _tamper_postgres(address_of(scene.settings.state), statements)
    else:
        tamper_file(scene.settings.database, *statements)


def tamper_file(database: Path, *statements: str) -> None:
    """Do so with a file of SQLite."""
    connection = apsw.Connection(str(database))
    connection.set_busy_timeout(int(1000 * LONGEST_WAIT))  # a scheduler may be at work on it
    triggers = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    connection.execute("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON")
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    for _, text in triggers:
        connection.execute(str(text))
    connection.close()


@contextmanager
def copied(scene: rota.testing.Scene, folder: Path, *statements: str) -> Iterator[Store]:
    """Lend a copy of a scene's database that was tampered with so."""
    if ON_POSTGRES:
        address = copy_postgres(address_of(scene.settings.state))
        store: Store = open_postgres(address, now=scene.clock.now)
        _tamper_postgres(address, statements)
    else:
        path = folder / "rota.db"
        with closing(apsw.Connection(str(scene.settings.database))) as connection:
            connection.execute("VACUUM INTO ?", (str(path),))
        tamper_file(path, *statements)
        store = SqliteStore(path)
    try:
        yield store
    finally:
        store.close()


_CHECKS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE contype = 'c' AND connamespace = 'public'::regnamespace AND conrelid <> 0
"""


def _tamper_postgres(address: str, statements: Sequence[str]) -> None:
    if any(statement.startswith(("CREATE", "DROP")) for statement in statements):
        spoil_postgres(address)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        try:
            with connection.transaction():
                _run(connection, statements)
        except psycopg.errors.CheckViolation:
            with connection.transaction():
                checks = connection.execute(_CHECKS).fetchall()
                _run(connection, [f"ALTER TABLE {table} DROP CONSTRAINT {name}" for table, name, _ in checks])
                _run(connection, statements)
                _run(connection, [f"ALTER TABLE {one[0]} ADD CONSTRAINT {one[1]} {one[2]} NOT VALID" for one in checks])
                connection.execute("UPDATE pg_constraint SET convalidated = true WHERE contype = 'c'")


def _run(connection: "psycopg.Connection[Any]", statements: Sequence[str]) -> None:
    for statement in statements:
        connection.execute(statement.encode())
