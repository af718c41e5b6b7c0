"""A look at a PostgreSQL server: what it is, how far away, what our role may do there."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

import psycopg

from rota.rules.server import FLUSHES, Server
from rota.store.postgres_errors import translated
from rota.store.reach import Reach

TRIES = 5
_SETTINGS = ("synchronous_commit", *FLUSHES)


def look_at_server(address: str, *, now: Callable[[], datetime], monotonic: Callable[[], float]) -> Server:
    """Return what is found at the server of an address; it need not hold anything of rota's yet."""
    reach = Reach(address, now=now)
    with translated(reach.place), reach.plain() as connection:
        took = [_timed(connection, monotonic) for _ in range(TRIES)]
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


def _value(connection: psycopg.Connection[Any], query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None
