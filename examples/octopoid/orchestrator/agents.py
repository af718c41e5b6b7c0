"""The agents of this machine: one file NAME.pid each in .octopoid/agents, and a worktree of the same name."""

import os
from pathlib import Path

STATE = Path(__file__).resolve().parents[1] / ".octopoid"


def pid_files() -> list[Path]:
    """Return the pid files that agents have left."""
    return sorted((STATE / "agents").glob("*.pid"))


def lives(file: Path) -> bool:
    """Return whether the process that a pid file names is there."""
    try:
        os.kill(int(file.read_text()), 0)
    except (ProcessLookupError, ValueError, FileNotFoundError):
        return False
    except PermissionError:
        return True
    return True
