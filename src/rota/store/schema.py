"""The tables, indexes and triggers that a database of this version has."""

from functools import cache

import apsw

from rota.store.migrate import HISTORY
from rota.store.queries import load_migrations


@cache
def expected_schema() -> dict[tuple[str, str], str]:
    """Return (type, name) -> statement of everything that the migrations make, from a fresh database in memory."""
    connection = apsw.Connection(":memory:")
    try:
        connection.execute(HISTORY).fetchall()
        for _, _, script in load_migrations("sqlite"):
            connection.execute(script).fetchall()
        rows = connection.execute("SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'").fetchall()
    finally:
        connection.close()
    return {(str(kind), str(name)): str(text) for kind, name, text in rows}
