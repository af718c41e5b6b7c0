"""Driving the real command line agents against the stub: where they live, what they see, and one run of one."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.agents.registry import adapter
from rota.engine.clock import SystemClock
from rota.model.agents import AgentInvocation, AgentResult, AgentTask, ProcessEnd
from tests.agents.stub import Stub

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
    return {**common, **SETTINGS[name](place)}


def _claude(place: Place) -> dict[str, str]:
    return {
        "CLAUDE_CONFIG_DIR": str(place.home / "claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ANTHROPIC_BASE_URL": place.stub.url,
        "ANTHROPIC_API_KEY": "stub",
    }


def _codex(place: Place) -> dict[str, str]:
    folder = place.home / "codex"
    folder.mkdir(exist_ok=True)
    provider = {"name": "stub", "base_url": f"{place.stub.url}/v1", "env_key": "STUB_KEY", "wire_api": "responses"}
    retries = {"request_max_retries": 1, "stream_max_retries": 1}
    lines = [f"{key} = {json.dumps(value)}" for key, value in (provider | retries).items()]
    settings = ['model = "stub"', 'model_provider = "stub"', "[model_providers.stub]", *lines]
    (folder / "config.toml").write_text("\n".join(settings) + "\n")
    return {"CODEX_HOME": str(folder), "STUB_KEY": "stub"}


def _gemini(place: Place) -> dict[str, str]:
    folder = place.home / ".gemini"
    folder.mkdir(exist_ok=True)
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"maxAttempts": 1, "enableAutoUpdate": False},
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    return {"GEMINI_API_KEY": "stub", "GOOGLE_GEMINI_BASE_URL": place.stub.url}


def _opencode(place: Place) -> dict[str, str]:
    folder = place.home / ".config" / "opencode"
    folder.mkdir(parents=True, exist_ok=True)
    options = {"baseURL": f"{place.stub.url}/v1", "apiKey": "stub"}
    models = {"m": {"name": "m", "tool_call": True, "cost": {"input": 2, "output": 10}}}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "stub", "options": options, "models": models}
    (folder / "opencode.json").write_text(json.dumps({"provider": {"stub": provider}, "autoupdate": False}))
    return {"OPENCODE_DISABLE_MODELS_FETCH": "1"}


SETTINGS: dict[str, Callable[[Place], dict[str, str]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "opencode": _opencode,
}


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
