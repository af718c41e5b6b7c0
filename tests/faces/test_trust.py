"""Looking at a project runs nothing of it; its code runs where a person trusted the folder once."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result

from rota.declare.registry import default
from rota.model.proposals import Author
from rota.operations.project.locate import locate
from rota.operations.tools.context import project_declares
from tests.faces.conftest import Project
from tests.waiting import LONGEST_WAIT

MODULE = """
import pathlib, rota
RAN = pathlib.Path(__file__).with_name("ran").touch()

@rota.job("sweep")
def sweep(ctx): ...

@rota.condition("open")
def is_open(ctx): return True

@rota.agent("clerk")
async def clerk(task): ...
"""
FILE = """
imports: [chores]
jobs:
  sweep: {cron: "0 3 * * *", run: sweep}
  gated: {command: ["true"], conditions: [open]}
  ask: {agent: clerk, prompt: Hello}
"""
LOOKS = [
    ("check",),
    ("next",),
    ("next", "sweep"),
    ("doctor",),
    ("simulate", "--days", "1"),
    ("agents",),
    ("agents", "check"),
    ("apply", "--dry-run"),
    ("run", "sweep", "--dry-run"),
    ("run", "gated", "--dry-run"),
    ("run", "ask", "--dry-run"),
    ("add", "more", "--dry-run", "--", "true"),
    ("service", "install", "--print"),
    ("notify",),
    ("list",),
    ("status",),
    ("trust", "--dry-run"),
]


class Cloned:
    """A project that a stranger wrote and nobody trusted yet."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.folder = project.folder
        self.marker = self.folder / "ran"
        self.home = self.folder.parent / "person"
        self.home.mkdir()
        (self.folder / "chores.py").write_text(MODULE)
        project.write(FILE)

    def rota(self, *arguments: str, **more: str) -> Result:
        """Type a command as a person with a home of their own; modules are imported anew."""
        sys.modules.pop("chores", None)
        environ = {"HOME": str(self.home), "ROTA_TRUST": "", **more}
        return self.project.rota(*arguments, environ=environ)

    @property
    def ran(self) -> bool:
        """Whether its code ran since this was asked last."""
        found = self.marker.exists()
        self.marker.unlink(missing_ok=True)
        return found


@pytest.fixture
def cloned(project: Project, monkeypatch: pytest.MonkeyPatch) -> Cloned:
    """What its modules register in this process is gone after the test."""
    for name in ("functions", "conditions", "agents", "agent_functions"):
        monkeypatch.setattr(default, name, dict(getattr(default, name)))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "chores", raising=False)
    return Cloned(project)


def refused(result: Result) -> bool:
    return result.exit_code == 6 and "is not trusted" in result.stderr


@pytest.mark.parametrize("typed", LOOKS, ids=" ".join)
def test_looking_at_a_project_does_not_import_its_modules(cloned: Cloned, typed: tuple[str, ...]) -> None:
    result = cloned.rota(*typed)
    assert result.exit_code in (0, 1, 6, 66, 69), result.output
    assert not cloned.ran


@pytest.mark.parametrize("typed", LOOKS, ids=" ".join)
def test_looking_at_a_project_does_not_start_its_interpreter(cloned: Cloned, typed: tuple[str, ...]) -> None:
    python = cloned.folder / "python"
    python.write_text(f"#!/bin/sh\ntouch {cloned.marker}\n")
    python.chmod(0o755)
    cloned.project.write(f"python: ./python\n{FILE}".replace("  ask: {agent: clerk, prompt: Hello}\n", ""))
    assert cloned.rota(*typed).exit_code in (0, 1, 2, 6, 66, 69)
    assert not cloned.ran


def test_names_are_checked_without_trust(cloned: Cloned) -> None:
    good = cloned.rota("check")
    assert good.exit_code == 0
    assert "note: the source of chores was read, not run" in good.stdout
    cloned.project.write(FILE.replace("run: sweep", "run: swep"))
    bad = cloned.rota("check")
    assert bad.exit_code == 65
    assert 'no function is named "swep"' in bad.output
    assert not cloned.ran


@pytest.mark.parametrize("typed", [("apply",), ("serve", "--no-http"), ("tick",), ("tick", "--detach"), ("worker",)])
def test_where_nobody_can_be_asked_a_command_that_acts_is_refused(cloned: Cloned, typed: tuple[str, ...]) -> None:
    result = cloned.rota(*typed)
    assert refused(result), result.output
    assert "the Python modules chores would run" in result.stderr
    assert "`rota trust`" in result.stderr
    assert not cloned.ran
    assert not (cloned.folder / ".rota" / "rota.db").exists()


@pytest.mark.parametrize(("said", "code"), [("y", 0), ("n", 6)])
def test_at_a_terminal_the_first_apply_asks_once(cloned: Cloned, said: str, code: int) -> None:
    first, printed = at_terminal(cloned, said, "apply")
    assert first == code, printed
    assert "names Python modules: chores" in printed
    assert "trust this folder? [y/N]" in printed
    assert cloned.ran is (said == "y")
    assert cloned.rota("apply").exit_code == code


def at_terminal(cloned: Cloned, said: str, *arguments: str) -> tuple[int, str]:
    """Type a command at a terminal, and an answer; return its exit code and what it printed."""
    terminal, its_side = os.openpty()
    try:
        os.write(terminal, f"{said}\n".encode())
        done = subprocess.run(
            [sys.executable, "-m", "rota", "--dir", str(cloned.folder), *arguments],
            stdin=its_side,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_WAIT,
            env={"PATH": os.environ["PATH"], "HOME": str(cloned.home)},
        )
    finally:
        os.close(its_side)
        os.close(terminal)
    return done.returncode, done.stdout + done.stderr


def test_a_broken_file_is_no_way_around_the_question(cloned: Cloned) -> None:
    cloned.project.write(f"{FILE}  wrong: {{cron: nonsense, run: sweep}}\n")
    assert refused(cloned.rota("tick"))
    assert not cloned.ran


def test_a_trusted_folder_is_imported_until_the_trust_is_taken_back(cloned: Cloned) -> None:
    assert cloned.rota("trust").stdout == f"{cloned.folder} is now trusted; it names chores\n"
    assert not cloned.ran
    assert cloned.rota("check").exit_code == 0
    assert cloned.ran
    assert cloned.rota("apply").exit_code == 0
    assert cloned.rota("run", "gated", "--dry-run").exit_code == 0
    assert cloned.ran
    cloned.rota("trust", "--remove")
    cloned.rota("check")
    assert not cloned.ran


def test_trust_is_recorded_beside_the_person_and_names_no_other_place(cloned: Cloned, tmp_path: Path) -> None:
    before = sorted(cloned.folder.iterdir())
    cloned.rota("trust")
    assert sorted(cloned.folder.iterdir()) == before
    assert len(list((cloned.home / ".local/state/rota/trusted").iterdir())) == 1
    other = tmp_path / "copy"
    shutil.copytree(cloned.folder, other)
    cloned.rota("--dir", str(other), "check")
    assert not (other / "ran").exists()
    cloned.rota("check", HOME=str(tmp_path / "somebody"))
    assert not cloned.ran


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_a_folder_that_changes_its_owner_is_no_longer_trusted(cloned: Cloned) -> None:
    cloned.rota("trust")
    os.chown(cloned.folder, 12345, -1)
    cloned.rota("check")
    assert not cloned.ran


def test_the_environment_may_name_trusted_folders(cloned: Cloned) -> None:
    named = os.pathsep.join(["relative", str(cloned.home), str(cloned.folder)])
    assert cloned.rota("apply", ROTA_TRUST=named).exit_code == 0
    assert cloned.ran


def test_trust_that_cannot_be_recorded_is_told(cloned: Cloned) -> None:
    (cloned.home / ".local").write_text("no folder")
    result = cloned.rota("trust")
    assert result.exit_code == 74
    assert f"ROTA_TRUST={cloned.folder}" in result.stderr


def test_the_answer_in_json(cloned: Cloned) -> None:
    result = cloned.rota("trust", "--json")
    assert '"trusted": true' in result.stdout
    assert '"before": false' in result.stdout
    assert '"chores"' in result.stdout


def test_a_project_without_modules_needs_no_trust_and_gets_it_when_it_is_applied(cloned: Cloned) -> None:
    gate = f"conditions: [{{command: [touch, {cloned.marker}]}}]"
    cloned.project.write(f'jobs:\n  gated: {{command: ["true"], {gate}}}\n')
    assert refused(cloned.rota("run", "gated", "--dry-run"))
    assert not cloned.ran
    assert cloned.rota("apply").exit_code == 0
    assert cloned.rota("run", "gated", "--dry-run").exit_code == 0
    assert cloned.ran


@pytest.mark.parametrize("typed", [("agents",), ("agents", "check"), ("doctor",), ("run", "ask", "--dry-run")])
def test_a_look_starts_no_program_that_only_the_file_names(cloned: Cloned, typed: tuple[str, ...]) -> None:
    agent = cloned.folder / "agent"
    agent.write_text(f"#!/bin/sh\ntouch {cloned.marker}\necho 1.0\n")
    agent.chmod(0o755)
    claude = cloned.folder / "claude"
    shutil.copy(agent, claude)
    cloned.project.write(f"""
agents:
  own: {{adapter: custom, options: {{argv: [{agent}], version: [{agent}, --version], login: [{agent}, login]}}}}
  reviewer: {{adapter: claude}}
jobs:
  ask: {{agent: own, access: full, prompt: Hello}}
  other: {{agent: reviewer, prompt: Hello, env: {{PATH: "{cloned.folder}"}}}}
""")
    assert cloned.rota(*typed).exit_code in (0, 1), typed
    assert not cloned.ran
    cloned.rota("trust")
    cloned.rota(*typed)
    assert cloned.ran


def test_agents_do_not_trust(cloned: Cloned) -> None:
    assert cloned.rota("trust", ROTA_RUN_ID="0190b3a2-0000-7000-8000-000000000000").exit_code == 6
    assert not (cloned.home / ".local").exists()


def test_a_tool_that_makes_a_job_in_a_state_that_came_with_the_folder_imports_nothing(cloned: Cloned) -> None:
    declare = project_declares(locate(str(cloned.folder), {}, cloned.folder), {"HOME": str(cloned.home)})
    assert declare("more", {"run": "sweep"}, Author()).work.function == "sweep"
    assert not cloned.ran


def test_a_service_is_told_that_its_folder_is_trusted(cloned: Cloned) -> None:
    printed = cloned.rota("service", "install", "--print").stdout
    assert f"ROTA_TRUST={cloned.folder}" in printed or f"<string>{cloned.folder}</string>" in printed
