"""Notifications by a command: the event as JSON on its input and a few variables, exit 0 or it failed."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from rota.model.notify import Receipt

SHOWN = 500


def run(command: Sequence[str], body: str, *, cwd: Path, environment: Mapping[str, str], timeout: float) -> Receipt:
    """Run a command and wait for it; one that takes too long is killed with all it has started."""
    try:
        process = subprocess.Popen(
            list(command),
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return Receipt(ok=False, error=f"{command[0]} cannot be started: {error}")
    try:
        _, told = process.communicate(body.encode(), timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return Receipt(ok=False, error=f"it did not end within {timeout:g} s")
    if process.returncode == 0:
        return Receipt(ok=True, answer=0)
    code, words = process.returncode, told.decode("utf-8", "replace").strip()[-SHOWN:]
    return Receipt(ok=False, answer=code, error=f"exit {code}{f': {words}' if words else ''}")
