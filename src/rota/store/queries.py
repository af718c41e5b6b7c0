"""The SQL of a backend, by name: one statement a file, `:name` parameters."""

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from rota import faults

SUFFIX = ".sql"


@cache
def load_queries(backend: str) -> dict[str, str]:
    """Return name -> statement of all query files of `backend`."""
    queries = {file.name.removesuffix(SUFFIX): file.read_text("utf-8") for file in _files(_folder(backend))}
    if faults.planted("no_epoch_check"):
        return {name: text.replace("epoch IS :epoch", ":epoch IS :epoch") for name, text in queries.items()}
    return queries


def load_migrations(backend: str) -> list[tuple[int, str, str]]:
    """Return (number, name, script) of all migrations of `backend`, in order."""
    found = []
    for file in _files(_folder(backend) / "migrations"):
        number, _, name = file.name.removesuffix(SUFFIX).partition("_")
        found.append((int(number), name, file.read_text("utf-8")))
    if faults.planted("unique_key_dropped"):
        found = [
            (number, name, text.replace("UNIQUE INDEX run_fire", "INDEX run_fire")) for number, name, text in found
        ]
    return sorted(found)


def _folder(backend: str) -> Traversable:
    return resources.files("rota.store") / "sql" / backend


def _files(folder: Traversable) -> list[Traversable]:
    return [file for file in folder.iterdir() if file.name.endswith(SUFFIX)]
