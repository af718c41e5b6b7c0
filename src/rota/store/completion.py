"""Names for shell completion, by one short query. The module imports nothing heavy and upgrades nothing."""

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from msgspec import Struct

from rota.store.queries import load_queries

TIMEOUT_SECONDS = 0.2
CONNECT_TIMEOUT = 1.0
"""The seconds that a shell waits for name server, firewall and locks together."""


class Reader(Protocol):
    """Reads a database; a failure or timeout gives no rows."""

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""


class FileReader(Struct, frozen=True):
    """`Reader` of a SQLite file."""

    database: Path

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        address = f"file:{quote(str(self.database))}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True, timeout=TIMEOUT_SECONDS)) as connection:
                return connection.execute(load_queries("sqlite")[query], values).fetchall()
        except sqlite3.Error:
            return []


class ServerReader(Struct, frozen=True):
    """`Reader` of a PostgreSQL database."""

    address: str

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        import psycopg

        from rota.store.postgres.pipeline import statement

        rows: list[tuple[Any, ...]] = []

        def ask() -> None:
            command = statement(load_queries("postgres")[query])
            try:
                with psycopg.connect(self.address, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
                    rows.extend(connection.execute(command.text, [values[name] for name in command.names]).fetchall())
            except psycopg.Error:
                return

        asking = threading.Thread(target=ask, name="rota-names", daemon=True)
        asking.start()
        asking.join(CONNECT_TIMEOUT)
        return [] if asking.is_alive() else rows


def known_jobs(reader: Reader) -> list[str]:
    """Return the names of the jobs that are not retired."""
    return [name for (name,) in reader.rows("job_names")]


def known_runs(reader: Reader, job: str, *, limit: int = 20) -> list[str]:
    """Return the handles of a job's newest runs."""
    return [handle for (handle,) in reader.rows("run_handles", job=job, limit=limit)]


def known_targets(reader: Reader) -> list[str]:
    """Return the names of the notification targets."""
    rows = reader.rows("meta_get", key="targets")
    return sorted(json.loads(rows[0][0])) if rows else []


def known_agents(reader: Reader) -> list[str]:
    """Return the names of the agents of jobs, by their pools."""
    pools = [name for name, *_ in reader.rows("pools_all")]
    return [name.removeprefix("agent:") for name in pools if name.startswith("agent:")]
