"""Names for a shell's completion from a server: one short question, and silence where no answer comes soon."""

import threading
from dataclasses import dataclass
from typing import Any

import psycopg

from rota.store.postgres.pipeline import statement
from rota.store.queries import load_queries

CONNECT_TIMEOUT = 1.0
"""For how many seconds a shell waits, whatever is in the way: a name server, a firewall, a lock."""


@dataclass(frozen=True, slots=True)
class ServerReader:
    """Reads a database of PostgreSQL."""

    address: str

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        found: list[tuple[Any, ...]] = []

        def ask() -> None:
            asked = statement(load_queries("postgres")[query])
            try:
                with psycopg.connect(self.address, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
                    found.extend(connection.execute(asked.text, [values[name] for name in asked.names]).fetchall())
            except psycopg.Error:
                return

        asking = threading.Thread(target=ask, name="rota-names", daemon=True)
        asking.start()
        asking.join(CONNECT_TIMEOUT)
        return [] if asking.is_alive() else found
