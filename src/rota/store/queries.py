"""The SQL of a backend, by name: one statement a file, `:name` parameters. What both take lies above their folders."""

import re
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from rota import faults

SUFFIX = ".sql"
WHEN_WRITING = re.compile(r"^( *)-- when writing: ", re.MULTILINE)
"""Opens a line that only counts on PostgreSQL inside a transaction that writes: the lock that makes others wait."""
EPOCH_CHECK = re.compile(r"\bepoch (IS|IS NOT DISTINCT FROM) :epoch\b")


@cache
def load_queries(backend: str, *, writing: bool = False) -> dict[str, str]:
    """Return name -> statement of all query files of `backend`; on PostgreSQL those of a `writing` transaction lock."""
    folders = (_folder(), _folder() / backend)
    queries = {file.name.removesuffix(SUFFIX): file.read_text("utf-8") for folder in folders for file in _files(folder)}
    if writing and backend == "postgres":
        queries = {name: WHEN_WRITING.sub(r"\1", text) for name, text in queries.items()}
    if faults.planted("no_epoch_check"):
        return {name: EPOCH_CHECK.sub(r"CAST(:epoch AS bigint) \1 :epoch", text) for name, text in queries.items()}
    return queries


@cache
def load_migrations(backend: str) -> list[tuple[int, str, str]]:
    """Return (number, name, script) of all migrations of `backend`, in order."""
    found = []
    for file in _files(_folder() / backend / "migrations"):
        number, _, name = file.name.removesuffix(SUFFIX).partition("_")
        found.append((int(number), name, file.read_text("utf-8")))
    if faults.planted("unique_key_dropped"):
        found = [
            (number, name, text.replace("UNIQUE INDEX run_fire", "INDEX run_fire")) for number, name, text in found
        ]
    return sorted(found)


def _folder() -> Traversable:
    return resources.files("rota.store") / "sql"


def _files(folder: Traversable) -> list[Traversable]:
    return [file for file in folder.iterdir() if file.name.endswith(SUFFIX)]
