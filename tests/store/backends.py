"""What a conformance test needs of a backend beyond the store itself: any statement, the catalogue, how it refuses."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import apsw
import psycopg
from msgspec import Struct

from rota.store.driver import Store
from rota.store.migrate import open_store
from rota.store.postgres.pipeline import PipelineConnection, rows_of, statement
from rota.store.postgres.pool import ConnectionPool
from rota.store.postgres.store import PostgresStore
from rota.store.sqlite.store import connect
from tests.postgres import lay_postgres
from tests.store.making import NOW
from tests.template import lay_database


class Backend(Struct, frozen=True):
    """An open store; `sql` runs any statement beside it, `refusal` is what the database raises when it says no."""

    store: Store
    sql: Callable[..., list[tuple[Any, ...]]]
    columns: Callable[[str], list[str]]
    refusal: tuple[type[Exception], ...]


def sqlite(folder: Path) -> Backend:
    path = lay_database(folder)
    store = open_store(path, now=NOW)
    beside = cache(partial(connect, path))

    def sql(statement: str, /, **params: Any) -> list[tuple[Any, ...]]:
        return beside().execute(statement, params).fetchall()

    def columns(table: str) -> list[str]:
        return [name for (name,) in sql("SELECT name FROM pragma_table_info(:name)", name=table)]

    return Backend(store, sql, columns, (apsw.ConstraintError,))


def postgres(_: Path) -> Backend:
    address = lay_postgres()
    store = PostgresStore(ConnectionPool(address, now=lambda: NOW))
    beside = cache(lambda: PipelineConnection(psycopg.connect(address, autocommit=True), now=lambda: NOW))

    def sql(text: str, /, **params: Any) -> list[tuple[Any, ...]]:
        return rows_of(beside().run(statement(text), params))

    def columns(table: str) -> list[str]:
        return [
            name
            for (name,) in sql(
                "SELECT attname FROM pg_attribute WHERE attrelid = CAST(:name AS regclass)"
                " AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
                name=table,
            )
        ]

    # What is not JSON is refused as such, before its check is asked.
    return Backend(store, sql, columns, (psycopg.IntegrityError, psycopg.errors.InvalidTextRepresentation))


BACKENDS = {"sqlite": sqlite, "postgres": postgres}
