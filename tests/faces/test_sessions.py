"""`rota attach` and `fork`: the session of a run in a terminal, and a run that goes on from it."""

import os
import shlex
import subprocess
import sys

import pytest

from rota.model.records import Outcome
from rota.model.states import Reason, Status
from tests.faces.conftest import Project

FILE = """
agents:
  pair: {adapter: claude, account: work}
  own: {adapter: custom, access: full, options: {argv: [own], parser: json, paths: {result: r, session: s}}}
jobs:
  review: {prompt: look, agent: claude, overlap: allow, params: {day: 1}}
  shared: {prompt: look, agent: pair}
  odd: {prompt: look, agent: own}
  listed: {prompt: look, agent: [claude, codex]}
  backup: {command: [echo, hi]}
"""
DONE = Outcome(Status.COMPLETED, exit_code=0, session_id="s-1")


@pytest.fixture
def reviewed(project: Project) -> Project:
    """A project in which review:1 completed in the session s-1."""
    project.applied(FILE)
    return ended(project, "review")


def ended(project: Project, job: str, outcome: Outcome = DONE, *params: str) -> Project:
    project.ok("trigger", job, *params)
    project.carry_out([outcome])
    return project


def refused(project: Project, *arguments: str) -> str:
    result = project.rota(*arguments)
    assert result.exit_code == 6, result.output
    return " ".join(result.stderr.split())


def test_the_command_of_a_session_is_printed_and_nothing_is_opened(reviewed: Project) -> None:
    printed = reviewed.ok("attach", "review", "--print").strip()
    assert printed == f"cd {shlex.quote(str(reviewed.folder))} && claude --resume=s-1 --setting-sources=user"
    assert "attach" not in [entry["action"] for entry in reviewed.json("audit")]


def test_json_has_the_session_its_folder_and_its_login(reviewed: Project) -> None:
    ended(reviewed, "shared")
    found = reviewed.json("attach", "shared:1")
    assert (found["run"], found["adapter"], found["session"]) == ("shared:1", "claude", "s-1")
    assert found["argv"][:2] == ["claude", "--resume=s-1"]
    assert list(found["env"]) == ["CLAUDE_CONFIG_DIR"]
    assert found["env"]["CLAUDE_CONFIG_DIR"].endswith("work")


def test_the_program_replaces_the_command_in_the_folder_of_the_session(reviewed: Project) -> None:
    program = reviewed.folder / "bin" / "claude"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$PWD" "$@"\n')
    program.chmod(0o755)
    environ = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(reviewed.folder)}
    done = subprocess.run(
        [sys.executable, "-m", "rota", "attach", "review:1"],
        cwd=reviewed.folder,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == [str(reviewed.folder), "--resume=s-1", "--setting-sources=user"]
    entry = next(entry for entry in reviewed.json("audit") if entry["action"] == "attach")
    assert entry["target"] == "review:1"


def test_a_missing_program_is_told_with_the_command(reviewed: Project) -> None:
    result = reviewed.rota("attach", "review:1", environ={"PATH": str(reviewed.folder)})
    assert result.exit_code == 71
    assert "'claude' was not found on your PATH" in result.stderr
    assert "--resume=s-1" in result.stderr
    assert "attach" not in [entry["action"] for entry in reviewed.json("audit")]


def test_what_has_no_session_is_refused_by_name(reviewed: Project) -> None:
    ended(reviewed, "review", Outcome(Status.FAILED, Reason.AUTH, error="no login"))
    assert "review:2 has no session: its program named none" in refused(reviewed, "attach", "review:2")
    reviewed.ok("trigger", "backup")
    assert "backup:1 is not a run of an agent" in refused(reviewed, "attach", "backup:1")
    reviewed.ok("trigger", "review")
    assert "review:3 is not finished: it is QUEUED" in refused(reviewed, "attach", "review:3")
    assert "review:3 is not finished" in refused(reviewed, "fork", "review:3", "--prompt", "more")


def test_a_session_that_could_be_an_option_is_refused(project: Project) -> None:
    ended(project.applied(FILE), "review", Outcome(Status.COMPLETED, exit_code=0, session_id="--print"))
    assert "review:1 has no session" in refused(project, "attach", "review:1")


def test_an_adapter_without_sessions_is_refused_by_name(project: Project) -> None:
    ended(project.applied(FILE), "odd")
    assert "ran in custom, which opens no session in a terminal" in refused(project, "attach", "odd")
    assert "ran in custom, which resumes no session" in refused(project, "fork", "odd", "--prompt", "more")


def test_a_folder_that_is_gone_is_refused(project: Project) -> None:
    project.applied(FILE.replace("look, agent: claude,", "look, agent: claude, cwd: below,"))
    (project.folder / "below").mkdir()
    ended(project, "review")
    (project.folder / "below").rmdir()
    assert f"worked in a folder that is gone: {project.folder / 'below'}" in refused(project, "attach", "review")


def test_a_fork_is_a_new_run_with_the_params_of_the_old_one(reviewed: Project) -> None:
    ended(reviewed, "review", DONE, "--param", "day=7")
    said = reviewed.ok("fork", "review:2", "--prompt", "Now add a test.")
    assert said.startswith("review:2  forked as review:3; no scheduler is running here.")
    new = reviewed.json("show", "review:3")
    assert (new["trigger"], new["params"], new["status"]) == ("fork", {"day": 7}, "QUEUED")
    assert "forked review:2" in reviewed.ok("explain", "review:3")
    assert [run["run"] for run in reviewed.json("history", "--trigger", "fork")] == ["review:3"]
    assert reviewed.ok("verify")
    entry = next(entry for entry in reviewed.json("audit") if entry["action"] == "fork")
    assert entry["target"] == "review:2"


def test_a_prompt_comes_from_stdin_and_must_say_something(reviewed: Project) -> None:
    assert reviewed.rota("fork", "review", "--prompt", " \n ").exit_code == 2
    assert reviewed.rota("fork", "review").exit_code == 2
    assert len(reviewed.json("history")) == 1


def test_a_dry_run_forks_nothing_and_refuses_what_a_fork_would(reviewed: Project) -> None:
    assert "review:1  would be forked" in reviewed.ok("fork", "review", "--prompt", "more", "--dry-run")
    assert reviewed.json("fork", "review", "--prompt", "more", "--dry-run") == {"forked": "review:1", "would": "queue"}
    assert len(reviewed.json("history")) == 1
    reviewed.ok("trigger", "backup")
    assert "is not a run of an agent" in refused(reviewed, "fork", "backup", "--prompt", "more", "--dry-run")


def test_a_job_with_another_agent_than_the_run_is_not_forked(reviewed: Project) -> None:
    reviewed.applied(FILE.replace("look, agent: claude", "look, agent: codex"))
    assert "belongs to an earlier definition of its job" in refused(reviewed, "fork", "review:1", "--prompt", "more")
    ended(reviewed, "listed")
    assert "has a job with a list of agents" in refused(reviewed, "fork", "listed:1", "--prompt", "more")
    assert "--resume=s-1" in reviewed.ok("attach", "review:1", "--print")


def test_a_job_that_is_gone_is_not_forked_and_overlap_applies(reviewed: Project) -> None:
    reviewed.applied(FILE.replace("overlap: allow", "overlap: forbid"))
    reviewed.ok("trigger", "review")
    assert "review" in refused(reviewed, "fork", "review:1", "--prompt", "more")
    reviewed.ok("fork", "review:1", "--prompt", "more", "--force")
    reviewed.applied("jobs: {backup: {command: [echo, hi]}}")
    assert "retired" in refused(reviewed, "fork", "review:1", "--prompt", "more")


def test_an_agent_opens_and_forks_nothing(reviewed: Project) -> None:
    reviewed.ok("trigger", "review")
    reviewed.begin()
    run = reviewed.json("show", "review:2")["id"]
    for words in (("attach", "review:1", "--print"), ("fork", "review:1", "--prompt", "more")):
        result = reviewed.rota(*words, environ={"ROTA_RUN_ID": run})
        assert (result.exit_code, "review:2" in result.stderr) == (6, True)
