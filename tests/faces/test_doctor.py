"""`rota doctor`: what it finds on this machine and in a project."""

import os
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from rota.engine.membership.locks import take_serve_lock
from rota.engine.transactions.pause import pause_everything
from rota.operations.project.locate import open_state
from rota.rules.liveness import REASON
from tests.agents.programs import answering
from tests.faces.conftest import Project

FILE = """
jobs:
  fine: {command: [echo, hi]}
"""


def findings(project: Project, topic: str, *arguments: str, environ: dict[str, str] | None = None) -> list[Any]:
    import json

    found = json.loads(project.rota("doctor", "--json", *arguments, environ=environ).stdout)["findings"]
    return [(finding["level"], finding["text"], finding["remedy"]) for finding in found if finding["topic"] == topic]


def test_a_sound_project_has_no_problem(project: Project) -> None:
    """But those of the machine's disk, which may be full or far away."""
    project.applied(FILE)
    found = project.json("doctor")["findings"]
    assert [one for one in found if one["level"] == "problem" and one["topic"] not in ("disk", "file system")] == []
    assert f"{project.state / 'rota.db'} is whole" in project.rota("doctor").stdout


def test_outside_a_project_only_the_machine_is_looked_at(project: Project) -> None:
    assert "no project here" in project.ok("doctor")


def test_quiet_leaves_out_what_is_well(project: Project) -> None:
    project.applied(FILE)
    assert "SQLite" in project.rota("doctor").stdout
    assert "SQLite" not in project.rota("doctor", "--quiet").stdout


def test_a_broken_file_is_a_problem_with_its_line(project: Project) -> None:
    project.write("jobs:\n  bad: {every: 5m}\n")
    assert project.rota("doctor").exit_code == 1
    level, text, remedy = findings(project, "file")[0]
    assert (level, remedy) == ("problem", "rota check")
    assert "rota.yaml:2:" in text


def test_a_command_that_is_not_on_the_path_is_named_with_its_job(project: Project) -> None:
    project.write(
        "jobs:\n  gone: {command: [no-such-program]}\n  here: {command: [./do.sh]}\n"
        "  off: {command: [nope], enabled: false}\n"
    )
    (project.folder / "do.sh").write_text("#!/bin/sh\n")
    (project.folder / "do.sh").chmod(0o755)
    ((level, text, _),) = findings(project, "PATH")
    assert level == "problem"
    assert text == "not found on this PATH: gone: no-such-program"


def test_a_secret_that_a_job_needs_and_nobody_has_is_told(project: Project) -> None:
    """R-27: its runs would fail as secret_missing."""
    project.write(
        "jobs:\n  pull: {command: [echo], env: {TOKEN: {secret: GITHUB_TOKEN}}}\n  other: {command: [echo]}\n"
    )
    ((level, text, remedy),) = findings(project, "secrets")
    assert (level, text) == ("warning", "GITHUB_TOKEN is missing, and needed by pull")
    assert remedy.startswith("rota secrets set GITHUB_TOKEN")
    assert findings(project, "secrets", environ={"GITHUB_TOKEN": "x"}) == []


def test_secrets_that_others_may_read_are_a_problem(project: Project) -> None:
    project.applied(FILE)
    secrets = project.state / "secrets.env"
    secrets.write_text("A=b\n")
    secrets.chmod(0o644)
    assert ("problem", f"{secrets} is open to other users (mode 0644)", f"chmod 600 {secrets}") in findings(
        project, "permissions"
    )


def test_a_stalled_scheduler_is_a_problem(project: Project) -> None:
    project.applied(FILE)
    lock = take_serve_lock(project.state)
    try:
        ((level, text, _),) = findings(project, "scheduler")
    finally:
        lock.release()
    assert level == "problem"
    assert f"process {os.getpid()} holds the lock" in text


def test_locks_of_processes_that_are_gone_are_noted(project: Project) -> None:
    project.applied(FILE)
    (project.state / "locks").mkdir()
    (project.state / "locks" / "left").touch()
    assert findings(project, "locks")[0][:2] == ("note", "1 lock file of a process that is gone")


def test_a_crash_loop_is_a_problem_with_the_way_on(project: Project) -> None:
    """R-23."""
    project.applied(FILE)
    store = open_state(project.state, project.clock, create=False)
    store.write(partial(pause_everything, until=None, reason=REASON, now=project.clock.now()))
    store.close()
    assert any(level == "problem" and "resume --all" in remedy for level, _, remedy in findings(project, "scheduler"))


def test_a_clock_behind_the_last_start_is_a_warning(project: Project) -> None:
    project.applied(FILE)
    project.ok("trigger", "fine")
    project.carry_out([])
    project.clock.advance(timedelta(hours=-2))
    assert findings(project, "clock")[0][0] == "warning"


def test_damage_in_the_database_is_a_problem(project: Project) -> None:
    project.applied(FILE)
    path = project.state / "rota.db"
    data = bytearray(path.read_bytes())
    data[-4096:] = b"\xee" * 4096
    path.write_bytes(bytes(data))
    ((level, text, remedy),) = findings(project, "database")
    assert level == "problem"
    assert str(path) in text
    assert "backup" in remedy


def test_an_agent_on_the_path_is_found_with_its_version(project: Project) -> None:
    program = answering(project.folder / "bin", "claude", "2.1.259 (Claude Code)")
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    found = findings(project, "agents", environ={"PATH": path})
    assert found[0][:2] == ("ok", "claude 2.1.259, logged in, runs headless")


def test_an_agent_of_an_enabled_job_that_cannot_work_is_a_problem(project: Project) -> None:
    project.write("jobs: {review: {prompt: look}, off: {prompt: look, agent: codex, enabled: false}}\n")
    found = findings(project, "agents", environ={"PATH": "/usr/bin:/bin"})
    told = [(level, text) for level, text, _ in found]
    assert told == [("problem", "claude: claude is not on PATH"), ("note", "codex: codex is not on PATH")]
    assert project.rota("doctor", environ={"PATH": "/usr/bin:/bin"}).exit_code == 1


def test_an_agent_that_is_not_logged_in_is_noted(project: Project) -> None:
    program = answering(project.folder / "bin", "codex", "codex-cli 0.166.0", logged_in=False)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    ((level, text, remedy),) = findings(project, "agents", environ={"PATH": path})
    assert (level, text) == ("note", "codex 0.166.0: codex is not logged in")
    assert "log in" in remedy


def test_a_state_in_a_synced_folder_is_a_warning(project: Project) -> None:
    synced = Project(project.folder / "Dropbox" / "api", project.clock)
    Path(synced.folder).mkdir(parents=True)
    synced.write(FILE)
    ((level, text, remedy),) = findings(synced, "file system")
    assert level == "warning"
    assert "Dropbox" in text
    assert "ROTA_STATE" in remedy
