"""Names for shell completion, read by Python's SQLite: nothing heavy is imported and nothing is upgraded."""

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from rota.store.queries import load_queries

TIMEOUT_SECONDS = 0.2


class Reader(Protocol):
    """Reads a database; a failure or timeout gives no rows."""

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""


@dataclass(frozen=True, slots=True)
class FileReader:
    """`Reader` of a SQLite file."""

    database: Path

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        address = f"file:{quote(str(self.database))}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True, timeout=TIMEOUT_SECONDS)) as connection:
                return connection.execute(load_queries("sqlite")[query], values).fetchall()
        except sqlite3.Error:
            return []


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
