"""Processor time of commands that only look, beside an empty Python and git, on a project of three jobs."""

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.measuring import Measure, Report, interleave, rows_of, sized

TARGET = "looking commands ≤ 150 ms, `check` and `apply` ≤ 350 ms, `--help` ≤ 70 ms of processor time"
ROTA = str(Path(sys.executable).with_name("rota"))
EMPTY = "python -c pass"
LOOKING = ("--help", "status", "list", "history", "show a", "explain a", "queue", "next", "token", "touch")
DEFINING = ("check", "apply")
WITH_BYTECODE = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""The environment of commands: without stored bytecode each start compiles rota anew, three times the work."""
YAML = """
jobs:
  a: {cron: "*/5 * * * *", command: "true"}
  b: {interval: 10m, command: "true"}
  c: {command: "true"}
"""


def measure() -> Report:
    """Measure each command in turn; the second start counts, so that all bytecode is there."""
    commands: dict[str, Measure] = {EMPTY: _timed(sys.executable, "-c", "pass"), "git status": _timed("git", "status")}
    commands |= {f"rota {words}": _timed(ROTA, *words.split()) for words in (*LOOKING, *DEFINING)}
    against = {name: (EMPTY,) for name in commands if name != EMPTY}
    return Report("start", TARGET, rows_of(interleave(commands, rounds=sized(7, 1)), "ms", against=against))


def _timed(*command: str) -> Measure:
    def measured(folder: Path) -> float:
        (folder / "rota.yaml").write_text(YAML, "utf-8")
        for words in (["git", "init", "--quiet"], [ROTA, "apply"], list(command)):
            _run(words, folder)
        before = _used()
        _run(command, folder)
        return _used() - before

    return measured


def _run(command: Sequence[str], folder: Path) -> None:
    quiet = subprocess.DEVNULL
    subprocess.run(command, cwd=folder, env=WITH_BYTECODE, stdout=quiet, stderr=quiet, check=False)


def _used() -> float:
    """Return the milliseconds of processor time of all children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (children.ru_utime + children.ru_stime)
