"""Crash points for tests, armed by a variable that names a private file of this user.

Standard library only: the spawner and its keepers use it without the rest of the package.
"""

import json
import os
import signal
import stat
from typing import Any

VARIABLE = "ROTA_TEST_FAULTS"


def _load() -> dict[str, Any]:
    """Return the armed faults; none unless the file is regular, owned by this user and 0600."""
    path = os.environ.get(VARIABLE)
    if not path:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            private = stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) == 0o600
            if not private or status.st_uid != os.getuid():
                return {}
            loaded: dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        return {}
    return loaded


_armed = _load()
_crash: dict[str, int] = dict(_armed.get("crash", {}))


def armed() -> bool:
    """Return whether any fault is armed."""
    return bool(_armed)


def passed_on() -> dict[str, str]:
    """Return the variables that arm a process without an environment."""
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
    """Add a byte to a file for this pass; return the number of passes."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, b".")
        return os.fstat(file).st_size
    finally:
        os.close(file)
