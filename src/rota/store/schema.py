"""The tables, indexes and triggers that a database of this version has."""

import json
import re
from collections.abc import Iterable
from functools import cache

import apsw

from rota.model.errors import DatabaseNewer
from rota.store.driver import Database, Row
from rota.store.migrate import HISTORY
from rota.store.queries import load_migrations

Schema = dict[tuple[str, str], str]
"""(type, name) -> statement."""

MADE_KEY = "schema"
SERVER = "server"
"""The type of the one line that is no part of the schema: the version of the server whose words the others are."""
_MAKING = re.compile(r"^CREATE (TABLE|FUNCTION) (\w+)", re.MULTILINE)


def require_schema(db: Database) -> None:
    """Refuse a database that a newer rota has upgraded since it was opened."""
    found = db.row("schema_newest")
    known = newest_schema()
    if found is not None and found[0] > known:
        raise DatabaseNewer(
            f"the database was upgraded to schema {found[0]} meanwhile, this rota knows {known}",
            hint="start it again: a newer rota is installed",
        )


def newest_schema() -> int:
    """Return the schema that this rota knows; both backends count alike."""
    return load_migrations("sqlite")[-1][0]


def noted_schema(rows: Iterable[Row]) -> str:
    """Return what a server that has just run the migrations tells of them, to be kept under `MADE_KEY`.

    `rows` are those of `audit_schema`. Nobody can make a fresh database beside, as with SQLite, to compare with later.
    """
    return json.dumps([row for row in rows if _is_ours(*row[:2])])


def present_schema(db: Database) -> Schema:
    """Return what is there."""
    rows = db.rows("audit_schema")
    shared = any(kind == SERVER for kind, _, _ in rows)
    return {(kind, name): text for kind, name, text in rows if not shared or _is_ours(kind, name)}


def expected_schema(db: Database) -> Schema:
    """Return everything that the migrations make: as it was noted, else from a fresh database in memory."""
    noted = db.row("meta_get", key=MADE_KEY)
    if noted is None:
        return dict(_fresh_schema())
    return {(kind, name): text for kind, name, text in json.loads(noted[0])}


def _is_ours(kind: str, name: str) -> bool:
    """Tell whether rota's scripts make it, or it hangs on a table of theirs: others may share the schema."""
    return kind == SERVER or (kind, name) in _made() or ("table", name.partition(".")[0]) in _made()


@cache
def _made() -> frozenset[tuple[str, str]]:
    scripts = [script for _, _, script in load_migrations("postgres")]
    found = ((kind.lower(), name) for script in scripts for kind, name in _MAKING.findall(script))
    return frozenset({*found, ("table", "migration")})


@cache
def _fresh_schema() -> Schema:
    connection = apsw.Connection(":memory:")
    try:
        connection.execute(HISTORY).fetchall()
        for _, _, script in load_migrations("sqlite"):
            connection.execute(script).fetchall()
        rows = connection.execute("SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'").fetchall()
    finally:
        connection.close()
    return {(str(kind), str(name)): str(text) for kind, name, text in rows}
