"""The SQL of a backend: one file for each table, statements headed `-- name: …`, `:name` parameters.

Shared statements are in `sql/`, the others in `sql/sqlite/` and `sql/postgres/`. A part in `{{…}}` is a lock: it is
used only on PostgreSQL, in a transaction that writes.
"""

import os
import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "sql"
HEADER = "-- name: "
LOCK = r"(?s)\{\{(.+?)\}\}"


@cache
def load_queries(backend: str, *, writing: bool = False) -> dict[str, str]:
    """Return name -> statement of all queries of `backend`; those of a `writing` one on PostgreSQL lock rows."""
    lock = r"\1" if writing and backend == "postgres" else ""
    queries: dict[str, str] = {}
    for folder in (FOLDER, FOLDER / backend):
        for file in _files(folder):
            text = file.read_bytes().decode()
            queries |= split_queries(re.sub(LOCK, lock, text) if "{{" in text else text)
    return queries


def split_queries(text: str) -> dict[str, str]:
    r"""Return name -> statement of one file.

    >>> split_queries("-- name: one\nSELECT 1\n\n-- name: two\nSELECT 2\n")
    {'one': 'SELECT 1\n', 'two': 'SELECT 2\n'}
    """
    _, *parts = f"\n{text}".split(f"\n{HEADER}")
    statements = (part.partition("\n") for part in parts)
    return {name: f"{statement.strip()}\n" for name, _, statement in statements}


@cache
def load_migrations(backend: str) -> list[tuple[int, str, str]]:
    """Return (number, name, script) of all migrations of `backend`, in order."""
    parts = ((file, file.stem.partition("_")) for file in _files(FOLDER / backend / "migrations"))
    return sorted((int(number), name, file.read_bytes().decode()) for file, (number, _, name) in parts)


def _files(folder: Path) -> list[Path]:
    return [folder / name for name in os.listdir(folder) if name.endswith(".sql")]
