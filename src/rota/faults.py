"""Crash points and planted bugs, for tests alone: armed only by a variable that names a private file of our own."""

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
            armed: dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        return {}
    return armed


_armed = _load()
_crash: dict[str, int] = dict(_armed.get("crash", {}))
_planted = frozenset(_armed.get("planted", ()))


def point(name: str) -> None:
    """Die here as by kill -9, if a test armed this point; `{"crash": {name: n}}` dies at the n-th pass."""
    if _crash and name in _crash:
        _crash[name] -= 1
        if _crash[name] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


def planted(name: str) -> bool:
    """Tell whether a test planted this bug, to see whether the suite finds it."""
    return name in _planted
