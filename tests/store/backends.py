"""What a conformance test needs of a backend beyond the store itself: any statement, the catalogue, how it refuses."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from rota.store.driver import Store
from rota.store.migrate import open_store
from rota.store.sqlite import connect
from tests.store.making import NOW
from tests.template import lay_database


@dataclass(frozen=True, slots=True)
class Backend:
    """An open store; `sql` runs any statement beside it, `refusal` is what the database raises when it says no."""

    store: Store
    sql: Callable[..., list[tuple[Any, ...]]]
    columns: Callable[[str], list[str]]
    refusal: type[Exception]


def sqlite(folder: Path) -> Backend:
    path = lay_database(folder)
    store = open_store(path, now=NOW)
    beside = connect(path)

    def sql(statement: str, /, **params: Any) -> list[tuple[Any, ...]]:
        return beside.execute(statement, params).fetchall()

    def columns(table: str) -> list[str]:
        return [name for (name,) in sql("SELECT name FROM pragma_table_info(:name)", name=table)]

    return Backend(store, sql, columns, apsw.ConstraintError)


BACKENDS = {"sqlite": sqlite}
