"""Opening a PostgreSQL store and inspecting its server."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from typing import Any

import psycopg

from rota import faults
from rota.model.clock import to_ms
from rota.model.errors import DatabaseForeign, NotApplied, StateError, UpgradeBlocked
from rota.model.ids import stay_above
from rota.rules.health_checks import FLUSHES, Server
from rota.store.migrate import MADE_KEY, check_applied, digest, noted_schema
from rota.store.postgres.pipeline import translated
from rota.store.postgres.pool import ConnectionPool
from rota.store.postgres.store import PostgresStore
from rota.store.queries import load_migrations, load_queries

LOCK = 0x726F7461  # "rota"
MARK = "made by rota"
HISTORY = f"""CREATE TABLE migration (
    number BIGINT PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL, applied_at BIGINT NOT NULL);
COMMENT ON TABLE migration IS '{MARK}'"""
FORGET_FOREIGN = "DELETE FROM change WHERE seq >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint << 20"
"""A dump of another cluster may have changes with future transaction numbers: new changes would sort before them."""
LIVE_PROCESSES = """SELECT kind, worker.name, pid, version FROM process JOIN worker ON worker.id = process.worker_id
WHERE ended_at IS NULL AND lease_until >= extract(epoch FROM clock_timestamp()) * 1000 ORDER BY epoch"""
STOP_HINT = (
    "nothing was changed; stop rota on all machines, then start it again; a killed scheduler counts as running for 30 s"
)
UPGRADE_ATTEMPTS = 5
MIN_SERVER_VERSION = 140_000
"""The oldest supported PostgreSQL as server_version_num."""


def open_postgres(address: str, *, now: Callable[[], datetime], create: bool = True) -> PostgresStore:
    """Open the database of an address; create or upgrade it if needed, never replace it."""
    reach = ConnectionPool(address, now=now)
    with translated(reach.place), reach.plain() as connection:
        _check_server(connection, reach.place)
        _retry_deadlocks(partial(_upgrade, connection, reach.place, now=now(), create=create))
        connection.execute(FORGET_FOREIGN)
    store = PostgresStore(reach)
    try:
        last = store.read(lambda db: db.row("run_last_id"))
    except BaseException:
        store.close()
        raise
    if last is not None and last[0] is not None:
        stay_above(last[0])
    return store


def is_made(address: str, *, now: Callable[[], datetime]) -> bool:
    """Return whether rota's tables are in the database of an address."""
    reach = ConnectionPool(address, now=now)
    with translated(reach.place), reach.plain() as connection:
        return _is_made(connection, reach.place)


def _check_server(connection: psycopg.Connection[Any], place: str) -> None:
    version = connection.info.server_version
    if version < MIN_SERVER_VERSION:
        raise StateError(
            f"the server of {place} is PostgreSQL {version // 10_000}, rota needs 14 or newer", hint="upgrade it"
        )
    if _value(connection, "SELECT current_schema()") is None:
        raise StateError(
            f"the search_path of {place} has no existing schema",
            hint="create one with CREATE SCHEMA, or name another in the address: ?options=-csearch_path%3Dpublic",
        )


def _retry_deadlocks(upgrade: Callable[[], None]) -> None:
    """Upgrade, and retry after a deadlock with a process that starts: the server aborts one of the two."""
    for _ in range(UPGRADE_ATTEMPTS):
        try:
            return upgrade()
        except psycopg.errors.DeadlockDetected:
            continue
    return upgrade()


def _upgrade(connection: psycopg.Connection[Any], place: str, *, now: datetime, create: bool) -> None:
    wanted = load_migrations("postgres")
    if _is_made(connection, place) and _applied(connection) == {number: digest(text) for number, _, text in wanted}:
        return
    if not create and not _is_made(connection, place):
        raise NotApplied(place)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        if not _is_made(connection, place):
            _check_empty(connection, place)
            connection.execute(HISTORY)
        applied = _applied(connection)
        check_applied(applied, wanted, place)
        missing = [migration for migration in wanted if migration[0] not in applied]
        if not missing:
            return  # another process did it meanwhile and may already use the database
        if applied:
            _check_unused(connection, place, schema=max(applied), wanted=wanted[-1][0])
        for number, name, script in missing:
            connection.execute(script.encode())
            row = (number, name, digest(script), to_ms(now))
            connection.execute("INSERT INTO migration VALUES (%s, %s, %s, %s)", row)
            faults.point("upgrade.scripted")
        _note_schema(connection)
        faults.point("upgrade.written")
    faults.point("upgrade.committed")


def _check_unused(connection: psycopg.Connection[Any], place: str, *, schema: int, wanted: int) -> None:
    """Refuse while processes with the older schema live; block the start of others until the upgrade ends."""
    connection.execute("LOCK TABLE process IN SHARE MODE")
    processes = connection.execute(LIVE_PROCESSES).fetchall()
    living = [f"{kind} on {worker} (pid {pid}, rota {version})" for kind, worker, pid, version in processes]
    if living:
        raise UpgradeBlocked(place, living, schema=schema, wanted=wanted, hint=STOP_HINT)


def _note_schema(connection: psycopg.Connection[Any]) -> None:
    """Store the schema as the server describes it: `rota verify` compares with it."""
    rows = connection.execute(load_queries("postgres")["audit_schema"].encode()).fetchall()
    keep = "INSERT INTO meta VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    connection.execute(keep, (MADE_KEY, noted_schema(rows)))


def _is_made(connection: psycopg.Connection[Any], place: str) -> bool:
    """Return whether rota's tables exist; refuse a foreign table with the name of ours."""
    if _value(connection, "SELECT to_regclass('migration')") is None:
        return False
    if _value(connection, "SELECT obj_description(to_regclass('migration'), 'pg_class')") == MARK:
        return True
    raise DatabaseForeign(f"the table migration in {place} is not rota's", hint=_OWN_HINT)


_OWN_HINT = "give rota a database or a schema of its own, such as ?options=-csearch_path%3Drota"


def _check_empty(connection: psycopg.Connection[Any], place: str) -> None:
    """Refuse a schema with foreign tables that have the names of ours."""
    taken = _value(
        connection,
        "SELECT string_agg(relname, ', ' ORDER BY relname) FROM pg_class"
        " WHERE relnamespace = CAST(current_schema() AS regnamespace)"
        " AND relkind IN ('r', 'v', 'p') AND relname IN ('job', 'run', 'worker', 'process', 'execution', 'meta')",
    )
    if taken and not _is_made(connection, place):  # another process may have made them since we looked
        raise DatabaseForeign(f"{place} has tables that are not rota's: {taken}", hint=_OWN_HINT)


def _applied(connection: psycopg.Connection[Any]) -> dict[int, str]:
    return dict(connection.execute("SELECT number, digest FROM migration").fetchall())


def _value(connection: psycopg.Connection[Any], query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None


TIMED_QUERIES = 5
_SETTINGS = ("synchronous_commit", *FLUSHES)


def look_at_server(address: str, *, now: Callable[[], datetime], monotonic: Callable[[], float]) -> Server:
    """Return the properties of the server of an address; it need not have rota's tables."""
    reach = ConnectionPool(address, now=now)
    with translated(reach.place), reach.plain() as connection:
        took = [_timed(connection, monotonic) for _ in range(TIMED_QUERIES)]
        before = now()
        theirs = _value(connection, "SELECT clock_timestamp()").astimezone(UTC)
        apart = before + (now() - before) / 2 - theirs
        return Server(
            place=reach.place,
            version=str(_value(connection, "SHOW server_version")).partition(" ")[0],
            round_trip=timedelta(seconds=median(took)),
            apart=apart,
            settings={name: str(_value(connection, f"SHOW {name}")) for name in _SETTINGS},
            connections=int(_value(connection, "SELECT coalesce(sum(numbackends), 0) FROM pg_stat_database")),
            most_connections=int(_value(connection, "SHOW max_connections")),
            may_write=_value(connection, "SHOW transaction_read_only") == "off",
            owns=bool(_value(connection, _OWNS)),
        )


_OWNS = (
    "SELECT coalesce(bool_and(pg_has_role(relowner, 'MEMBER')), has_schema_privilege(current_schema(), 'CREATE'))"
    " FROM pg_class WHERE oid = to_regclass('migration')"
)


def _timed(connection: psycopg.Connection[Any], monotonic: Callable[[], float]) -> float:
    begun = monotonic()
    connection.execute("SELECT 1")
    return monotonic() - begun
