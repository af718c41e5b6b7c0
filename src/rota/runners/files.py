"""Files that a result names, copied below the folder of their run. Standard library only: the keeper uses it.

A copy has a number, never the name that the work chose. A name must lead to a plain file in the working folder; links
are not followed, and files of the state folder are refused.
"""

import json
import os
import stat
from collections.abc import Callable
from typing import Any

FOLDER = "files"
INDEX = "index.json"
FILES_LIMIT = 100
ONE_LIMIT = 10_000_000
ALL_LIMIT = 50_000_000
NAME_LIMIT = 1_000
INDEX_LIMIT = 1_000_000
RESULT_LIMIT = 64 * 1024
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

Redact = Callable[[bytes], bytes]


class NotKept(Exception):
    """A named file that is not copied."""


def named_files(result: str) -> list[str]:
    """Return the names in a result file; a file that is no result names none."""
    try:
        with open(os.open(result, _OPEN), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return []
            value = json.loads(file.read(RESULT_LIMIT))
    except (OSError, ValueError, RecursionError):
        return []
    names = value.get("files") if isinstance(value, dict) else None
    if not isinstance(names, list):
        return []
    return [name for name in names if isinstance(name, str)][:FILES_LIMIT]


def keep_files(names: list[str], *, cwd: str, folder: str, redact: Redact | None = None) -> None:
    """Copy the files to the folder of a run, and list them with the reasons of those that are not copied."""
    target = os.path.join(folder, FOLDER)
    os.makedirs(target, mode=0o700, exist_ok=True)
    state = os.stat(os.path.dirname(os.path.dirname(os.path.dirname(folder))))
    entries: list[dict[str, Any]] = []
    room = ALL_LIMIT
    for number, name in enumerate(names):
        shown = redact(name.encode("utf-8", "replace")).decode("utf-8", "replace") if redact else name
        entry: dict[str, Any] = {"name": shown[:NAME_LIMIT], "size": None, "why": None}
        entries.append(entry)
        try:
            data = _read(name, cwd=cwd, state=state, room=room)
            data = redact(data) if redact else data
            _write(os.path.join(target, str(number)), data)
        except NotKept as error:
            entry["why"] = str(error)
        except (OSError, ValueError) as error:
            entry["why"] = (getattr(error, "strerror", None) or str(error)).lower()
        else:
            room -= len(data)
            entry["size"] = len(data)
    _write(os.path.join(target, INDEX), json.dumps(entries).encode("utf-8", "replace"))


def _read(name: str, *, cwd: str, state: os.stat_result, room: int) -> bytes:
    """Return the content of a file below `cwd`, reached without a link."""
    path = os.path.relpath(os.path.normpath(os.path.join(cwd, name)), cwd)
    parts = path.split(os.sep)
    if path == os.curdir or os.pardir in parts:
        raise NotKept("is outside of the working folder")
    place = os.open(cwd, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            below = _enter(part, place)
            os.close(place)
            place = below
            if os.path.samestat(os.fstat(place), state):
                raise NotKept("is in the state folder of rota")
        return _content(parts[-1], place, room=room)
    finally:
        os.close(place)


def _enter(part: str, place: int) -> int:
    try:
        return os.open(part, _OPEN | os.O_DIRECTORY, dir_fd=place)
    except NotADirectoryError:
        raise NotKept("is behind a link or a file") from None


def _content(part: str, place: int, *, room: int) -> bytes:
    if stat.S_ISLNK(os.stat(part, dir_fd=place, follow_symlinks=False).st_mode):
        raise NotKept("is a link")
    with open(os.open(part, _OPEN, dir_fd=place), "rb") as file:
        stat_result = os.fstat(file.fileno())
        if not stat.S_ISREG(stat_result.st_mode):
            raise NotKept("is not a plain file")
        most = min(ONE_LIMIT, room)
        data = file.read(most + 1)
    if len(data) > most:
        limit = ONE_LIMIT if most == ONE_LIMIT else ALL_LIMIT
        raise NotKept(f"is too large: {limit // 1_000_000} MB {'a file' if most == ONE_LIMIT else 'a run'} at most")
    return data


def _write(path: str, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(file, "wb") as opened:
        opened.write(data)


def read_index(folder: str) -> list[dict[str, Any]]:
    """Return the entries of the kept files of a run: name, size, and why a file is not kept."""
    try:
        with open(os.path.join(folder, FOLDER, INDEX), "rb") as file:
            entries = json.loads(file.read(INDEX_LIMIT))
    except (OSError, ValueError):
        return []
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
