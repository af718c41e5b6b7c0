"""Driving the real command line agents against the stub: where they live, what they see, and one run of one."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.agents.registry import adapter
from rota.agents.stub import Stub
from rota.engine.clock import SystemClock
from rota.model.agents import AgentInvocation, AgentResult, AgentTask, ProcessEnd
from rota.operations.agents import certify as stubbed

PROGRAMS = Path(__file__).parents[2] / ".agents" / "node_modules" / ".bin"
LONGEST_RUN = 180


class Place(Struct, frozen=True):
    """A folder with a home and a project for one test."""

    folder: Path
    stub: Stub

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def project(self) -> Path:
        return self.folder / "project"


class Drive(Struct, frozen=True):
    """One run: how it was started, how it ended, what was read from it."""

    invocation: AgentInvocation
    ended: ProcessEnd
    result: AgentResult


def make_place(folder: Path, stub: Stub) -> Place:
    """Make a home and a project with one file."""
    place = Place(folder, stub)
    place.home.mkdir()
    place.project.mkdir()
    (place.project / "notes.txt").write_text("three lines\nof notes\nfor an agent\n")
    return place


def prompt(**order: Any) -> str:
    """Return a prompt that tells the stub what to do."""
    return f"Look at the notes.\nstub: {json.dumps(order)}\n"


def environment(name: str, place: Place) -> dict[str, str]:
    """Return all that an agent sees: nothing of this machine but its PATH."""
    home = place.home
    common = {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "HOME": str(home), "LANG": "C.UTF-8", "TZ": "UTC"}
    return {**common, **stubbed.PROGRAMS[name].settings(stubbed.Ground(place.folder, place.stub.url))}


def task_of(place: Place, **changes: Any) -> AgentTask:
    """Return a task in the place's project."""
    folder = place.folder / "run"
    folder.mkdir(exist_ok=True)
    return AgentTask(**{"prompt": prompt(), "folder": str(folder), "cwd": str(place.project), **changes})


def start(name: str, task: AgentTask, place: Place, **env: str) -> tuple[AgentInvocation, dict[str, str]]:
    """Return the process of a task, its files written."""
    invoke = adapter(name).invoke
    assert invoke is not None
    invocation = invoke(task)
    for file, text in invocation.files.items():
        (Path(task.folder) / file).write_text(text)
    return invocation, {**environment(name, place), **invocation.env, **env}


def drive(name: str, task: AgentTask, place: Place, **env: str) -> Drive:
    """Run a task to its end and read it."""
    invocation, environ = start(name, task, place, **env)
    done = subprocess.run(
        [str(PROGRAMS / invocation.argv[0]), *invocation.argv[1:]],
        input=invocation.stdin or "",
        env=environ,
        cwd=task.cwd,
        capture_output=True,
        text=True,
        timeout=LONGEST_RUN,
        check=False,
    )
    ended = ProcessEnd(done.returncode, done.stdout, done.stderr, ended_at=SystemClock().now().astimezone())
    read = adapter(name).read
    assert read is not None
    sessions = adapter(name).sessions
    task = replace(task, sessions=sessions(environ)) if sessions is not None else task
    return Drive(invocation, ended, read(ended, task))
