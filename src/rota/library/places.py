"""What a program gives its scheduler, read: where the state is, and how long to wait."""

import os
from datetime import timedelta
from pathlib import Path

from rota.model.durations import parse_duration
from rota.model.errors import InvalidValue

DATABASE = "rota.db"


def state_of(store: Path) -> Path:
    """Return the state folder: that of a database named rota.db, or the folder that was given."""
    if "://" in str(store) or ":/" in str(store):
        raise InvalidValue(f"store {str(store)!r} is no path", hint='write a path such as "state/rota.db"')
    if store.suffix and store.name != DATABASE and not store.is_dir():
        hint = f"write {str(store.with_name(DATABASE))!r}, or the folder alone"
        raise InvalidValue(f"store {str(store)!r} is not named {DATABASE}", hint=hint)
    folder = Path(os.path.abspath(store.parent if store.name == DATABASE else store))
    _refuse_foreign(folder)
    return folder


def _refuse_foreign(folder: Path) -> None:
    """Refuse a folder of other things: the state folder is closed to others, and all of it is rota's."""
    found = os.listdir(folder) if folder.is_dir() else []
    if found and DATABASE not in found and found != [".gitignore"]:
        hint = f"give it a folder of its own: {str(folder / 'rota' / DATABASE)!r}"
        raise InvalidValue(f"{folder} holds other things than a state of rota", hint=hint)


def duration_of(within: str | float | timedelta | None) -> timedelta | None:
    """Return how long somebody wants to wait: a text such as `5m`, seconds, or a timedelta."""
    if within is None or isinstance(within, timedelta):
        return within
    return parse_duration(within) if isinstance(within, str) else timedelta(seconds=within)
