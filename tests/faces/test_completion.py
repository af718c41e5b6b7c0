"""`rota completion`: scripts for three shells, and what they offer."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from rota.cli.invocation import Invocation
from rota.cli.main import COMMANDS, cli
from rota.model.records import Outcome
from rota.model.states import Status
from rota.store.completion import FileReader, known_jobs, known_runs
from tests.faces.conftest import Project
from tests.postgres import lay_postgres

HEAVY = ("pydantic", "apsw", "rich", "psutil", "asyncio")
ASK = """
import os, sys
from rota.cli import run as main
try: main()
except SystemExit: pass
print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""


def offered(project: Project, *words: str) -> list[str]:
    *before, last = words
    invocation = Invocation({"HOME": str(project.folder)}, project.folder, project.clock)
    found = ShellComplete(cli, {"obj": invocation}, "rota", "_ROTA_COMPLETE").get_completions(before, last)
    return [item.value for item in found]


@pytest.fixture
def filled(project: Project) -> Project:
    project.applied("jobs:\n  backup: {command: [x]}\n  build: {command: [y]}\n  other: {command: [z]}\n")
    for _ in range(2):
        project.ok("trigger", "backup")
        project.carry_out([Outcome(Status.COMPLETED)])
    return project


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_calls_rota(project: Project, shell: str) -> None:
    script = project.ok("completion", shell)
    assert f"_ROTA_COMPLETE={shell}_complete" in script
    assert project.json("completion", shell) == {"shell": shell, "script": script.removesuffix("\n")}


def test_an_unknown_shell_is_told(project: Project) -> None:
    assert project.rota("completion", "tcsh").exit_code == 2


def test_the_script_is_one_that_bash_can_read(project: Project) -> None:
    script = project.ok("completion", "bash")
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


def test_commands_are_offered(project: Project) -> None:
    assert offered(project, "") == list(COMMANDS)
    assert "history" in offered(project, "hi")
    assert "--dir" in offered(project, "--d")
    assert "--grep" in offered(project, "logs", "--g")


@pytest.mark.parametrize("command", ["run", "trigger", "history", "next", "pause", "resume", "export", "show", "logs"])
def test_jobs_are_offered(filled: Project, command: str) -> None:
    assert offered(filled, command, "b") == ["backup", "build"]


@pytest.mark.parametrize("command", ["logs", "show", "explain", "cancel"])
def test_runs_are_offered_newest_first_behind_their_job(filled: Project, command: str) -> None:
    assert offered(filled, command, "backup:") == ["backup:2", "backup:1"]
    assert offered(filled, command, "backup:1") == ["backup:1"]


def test_targets_and_agents_are_offered_where_a_command_takes_one(project: Project) -> None:
    project.applied(
        "notify:\n  ops: {command: [x]}\n  log: {command: [y]}\n"
        "agents:\n  reviewer: {adapter: claude}\njobs:\n  a: {prompt: x, agent: reviewer}\n"
    )
    assert offered(project, "notify", "test", "") == ["log", "ops"]
    assert offered(project, "notify", "enable", "o") == ["ops"]
    assert offered(project, "agents", "check", "") == ["reviewer"]


def test_a_job_alone_takes_no_runs(filled: Project) -> None:
    assert offered(filled, "run", "backup:") == []


def test_nothing_is_offered_outside_a_project_or_without_a_database(project: Project, tmp_path: Path) -> None:
    assert offered(project, "run", "") == []
    project.write("jobs:\n  a: {command: [x]}\n")
    assert offered(project, "run", "") == []
    (tmp_path / "rota.db").write_bytes(b"this is no database at all, only text")
    assert known_jobs(FileReader(tmp_path / "rota.db")) == []
    assert known_runs(FileReader(tmp_path / "missing.db"), "a") == []
    assert offered(project, "notify", "test", "") == offered(project, "agents", "check", "") == []


def test_names_come_from_postgresql_too(project: Project) -> None:
    address = lay_postgres()
    project.write(
        f"store: {address}\nnotify:\n  ops: {{command: [x]}}\n"
        "agents:\n  reviewer: {adapter: claude}\njobs:\n  backup: {command: [x]}\n  a: {prompt: x, agent: reviewer}\n"
    )
    assert offered(project, "run", "b") == []
    project.ok("apply")
    project.ok("trigger", "backup")
    assert offered(project, "run", "b") == ["backup"]
    assert offered(project, "logs", "backup:") == ["backup:1"]
    assert offered(project, "notify", "test", "") == ["ops"]
    assert offered(project, "agents", "check", "") == ["reviewer"]


@pytest.mark.parametrize("store", ["postgresql://nobody@127.0.0.1:1/none", "postgresql://a:${secret:NONE}@b/c"])
def test_nothing_is_offered_where_the_server_cannot_be_asked(project: Project, store: str) -> None:
    project.write(f"store: {store}\njobs:\n  a: {{command: [x]}}\n")
    assert offered(project, "run", "") == []


def test_a_server_that_does_not_answer_keeps_no_shell_waiting(project: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        project.write(f"store: postgresql://nobody@127.0.0.1:{port}/none\njobs:\n  a: {{command: [x]}}\n")
        assert offered(project, "run", "") == []


def test_another_project_is_named_with_dir(filled: Project, tmp_path: Path) -> None:
    elsewhere = Project(tmp_path / "elsewhere")
    elsewhere.folder.mkdir()
    assert offered(elsewhere, "--dir", str(filled.folder), "run", "o") == ["other"]
    assert offered(elsewhere, "run", "--dir", str(filled.folder), "o") == ["other"]


def test_a_shell_gets_names_without_heavy_imports(filled: Project) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(filled.folder), "_ROTA_COMPLETE": "bash_complete"}
    environment |= {"COMP_WORDS": "rota run ba", "COMP_CWORD": "2"}
    ran = subprocess.run(
        [sys.executable, "-c", ASK.format(heavy=HEAVY)],
        cwd=filled.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "plain,backup\n"
    assert ran.stderr.strip() == "[]"
