"""The locks that tell who is alive: the operating system holds them, they are gone with their process (R-22)."""

import fcntl
import os
from pathlib import Path

LOCKS = "locks"


def process_lock_held(state: Path, name: str) -> bool:
    """Tell whether the process that took this lock is alive."""
    return is_held(state / LOCKS / name)


def is_held(path: Path) -> bool:
    """Tell whether some process holds the lock of this file; a disk that became read-only does not hide it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
