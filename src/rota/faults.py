"""Crash points, for tests alone: armed only by a variable that names a private file of our own.

Standard library only: the spawner and its keepers use it too, without the rest of the package.
"""

import json
import os
import signal
import stat
from typing import Any

VARIABLE = "ROTA_TEST_FAULTS"


def _load() -> dict[str, Any]:
    """Return what a test armed; nothing unless the named file is regular, ours and 0600."""
    path = os.environ.get(VARIABLE)
    if not path:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            found = os.fstat(file.fileno())
            private = stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o600
            if not private or found.st_uid != os.getuid():
                return {}
            loaded: dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        return {}
    return loaded


_armed = _load()
_crash: dict[str, int] = dict(_armed.get("crash", {}))


def armed() -> bool:
    """Tell whether a test armed anything."""
    return bool(_armed)


def passed_on() -> dict[str, str]:
    """Return the environment of a process that otherwise has none: the faults alone, and what their file adds."""
    if not _armed:
        return {}
    return {VARIABLE: os.environ[VARIABLE], **_armed.get("environment", {})}


def point(name: str) -> None:
    """Die here as by kill -9, if a test armed this point.

    `{"crash": {name: n}}` dies at the n-th pass of a process; with `{"passes": folder}` the passes of all processes
    are counted together, and only the n-th of them dies.
    """
    if not _crash or name not in _crash:
        return
    folder = _armed.get("passes")
    if folder:
        dies = _count(os.path.join(folder, name)) == _crash[name]
    else:
        _crash[name] -= 1
        dies = _crash[name] <= 0
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)


def _count(path: str) -> int:
    """Count this pass in a file that grows by a byte with each; return how many there are."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, b".")
        return os.fstat(file).st_size
    finally:
        os.close(file)
