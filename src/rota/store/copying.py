"""A consistent copy of a living database, and a look for damage in one; neither stops those who write it."""

import os
import threading
from pathlib import Path

import apsw

from rota.model.errors import DatabaseCorrupt
from rota.store.sqlite import DAMAGE_HINT, connect, reachable, translated

PAGES_A_STEP = 256
STEPS_BETWEEN_LOOKS = 20_000
SHOWN = 10


def copy_database(source: Path, target: Path) -> None:
    """Copy one snapshot of `source` to a new file `target`, 0600, whole and synced or not there at all."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    with reachable(target):
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            with translated(target):
                _copy_pages(source, part)
            sync(part)
            part.rename(target)
            sync(target.parent)
        finally:
            part.unlink(missing_ok=True)


def _copy_pages(source: Path, part: Path) -> None:
    origin, copy = connect(source), apsw.Connection(str(part))
    try:
        # An open read transaction keeps one snapshot: a commit by another process does not start the copy anew.
        origin.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
        with copy.backup("main", origin, "main") as backup:
            while not backup.done:
                backup.step(PAGES_A_STEP)
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()
    finally:
        copy.close()
        origin.close()


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def quick_check(path: Path, *, stop: threading.Event | None = None) -> tuple[str, ...]:
    """Return what is damaged in a database, nothing if it is whole; `stop` ends a long look early."""
    connection = connect(path)
    try:
        if stop is not None:
            connection.set_progress_handler(stop.is_set, STEPS_BETWEEN_LOOKS)
        found = [str(row[0]) for row in connection.execute(f"PRAGMA quick_check({SHOWN})").fetchall()]
    except apsw.InterruptError:
        return ()
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return (str(error),)
    finally:
        connection.close()
    return () if found == ["ok"] else tuple(found)


def require_whole(path: Path) -> None:
    """Raise DatabaseCorrupt if a look at the whole database finds damage."""
    damage = quick_check(path)
    if damage:
        raise DatabaseCorrupt(f"the database {path} is damaged ({damage[0]})", hint=DAMAGE_HINT)
