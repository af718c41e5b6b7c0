"""A new database, made once and copied: the migrations have tests of their own."""

import tempfile
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from rota.store.migrate import open_store


def lay_database(folder: Path) -> Path:
    """Put an empty database of the present schema into a folder; return its path."""
    path = folder / "rota.db"
    path.touch(0o600)
    path.write_bytes(_made())
    return path


@cache
def _made() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rota.db"
        open_store(path, now=datetime(2026, 1, 1, tzinfo=UTC)).close()
        return path.read_bytes()
