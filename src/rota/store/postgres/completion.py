"""Names for shell completion from a server: one short query, no names without a quick answer."""

import threading
from dataclasses import dataclass
from typing import Any

import psycopg

from rota.store.postgres.pipeline import statement
from rota.store.queries import load_queries

CONNECT_TIMEOUT = 1.0
"""The seconds that a shell waits for name server, firewall and locks together."""


@dataclass(frozen=True, slots=True)
class ServerReader:
    """`Reader` of a PostgreSQL database."""

    address: str

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
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
