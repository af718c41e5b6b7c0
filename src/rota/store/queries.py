"""The SQL of a backend: one file for each table, statements headed `-- name: …`, `:name` parameters.

Shared statements are in `sql/`, the others in `sql/sqlite/` and `sql/postgres/`. A part in `{{…}}` is a lock: it is
used only on PostgreSQL, in a transaction that writes.
"""

import re
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

SUFFIX = ".sql"
HEADER = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
LOCK = re.compile(r"\{\{(.+?)\}\}", re.DOTALL)


@cache
def load_queries(backend: str, *, writing: bool = False) -> dict[str, str]:
    """Return name -> statement of all queries of `backend`; those of a `writing` one on PostgreSQL lock rows."""
    lock = r"\1" if writing and backend == "postgres" else ""
    folders = (_folder(), _folder() / backend)
    return {
        name: LOCK.sub(lock, text)
        for folder in folders
        for file in _files(folder)
        for name, text in split_queries(file.read_text("utf-8")).items()
    }


def split_queries(text: str) -> dict[str, str]:
    r"""Return name -> statement of one file.

    >>> split_queries("-- name: one\nSELECT 1\n\n-- name: two\nSELECT 2\n")
    {'one': 'SELECT 1\n', 'two': 'SELECT 2\n'}
    """
    _, *parts = HEADER.split(text)
    return {name: f"{statement.strip()}\n" for name, statement in zip(parts[::2], parts[1::2], strict=True)}


@cache
def load_migrations(backend: str) -> list[tuple[int, str, str]]:
    """Return (number, name, script) of all migrations of `backend`, in order."""
    migrations = []
    for file in _files(_folder() / backend / "migrations"):
        number, _, name = file.name.removesuffix(SUFFIX).partition("_")
        migrations.append((int(number), name, file.read_text("utf-8")))
    return sorted(migrations)


def _folder() -> Traversable:
    return resources.files("rota.store") / "sql"


def _files(folder: Traversable) -> list[Traversable]:
    return [file for file in folder.iterdir() if file.name.endswith(SUFFIX)]
