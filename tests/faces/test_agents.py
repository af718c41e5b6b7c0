"""`rota agents`: what is configured, what of it works on this machine, what runs, what is held."""

import json
import os
from datetime import timedelta
from typing import Any

import pytest
from click.testing import Result

from rota.model.records import Outcome
from rota.model.states import Reason, Status
from tests.agents.programs import answering
from tests.faces.conftest import Project

FILE = """
agents:
  reviewer: {adapter: claude, model: haiku, max_concurrent: 2}
  idler: {adapter: gemini}
jobs:
  review: {prompt: look, agent: reviewer}
  fix: {prompt: mend, agent: codex, access: write}
  backup: {command: [echo, hi]}
"""


@pytest.fixture
def agents(project: Project) -> Project:
    """A project with three agents, of which claude and codex are there and logged in."""
    for name, version in (("claude", "2.1.325 (Claude Code)"), ("codex", "codex-cli 0.166.0")):
        answering(project.folder / "bin", name, version)
    return project.applied(FILE)


def typed(project: Project, *arguments: str, **environ: str) -> Result:
    """Type a command where only the project's own programs and the system's are on PATH."""
    path = os.pathsep.join([str(project.folder / "bin"), "/usr/bin", "/bin"])
    return project.rota(*arguments, environ={"PATH": path, **environ})


def told(project: Project, *arguments: str, **environ: str) -> dict[str, Any]:
    found = json.loads(typed(project, *arguments, "--json", **environ).stdout)["agents"]
    return {one["name"]: one for one in found}


def test_every_entry_and_every_agent_of_a_job_is_listed_once(agents: Project) -> None:
    found = told(agents, "agents")
    assert list(found) == ["codex", "idler", "reviewer"]
    reviewer = found["reviewer"]
    assert (reviewer["adapter"], reviewer["provider"], reviewer["version"]) == ("claude", "anthropic", "2.1.325")
    assert (reviewer["logged_in"], reviewer["headless"], reviewer["problem"]) == (True, True, None)
    assert (reviewer["models"], reviewer["access"], reviewer["jobs"]) == (["haiku"], ["read"], ["review"])
    assert (reviewer["running"], reviewer["max_concurrent"], reviewer["pool"]) == (0, 2, "agent:reviewer")
    assert (found["codex"]["access"], found["idler"]["jobs"]) == (["write"], [])


def test_one_that_is_not_there_is_told_with_a_remedy(agents: Project) -> None:
    idler = told(agents, "agents")["idler"]
    assert (idler["path"], idler["problem"]) == (None, "gemini is not on PATH")
    assert "idler: install it, or start rota with a PATH that includes it" in typed(agents, "agents").stdout


def test_the_table_shows_version_login_and_how_many_run(agents: Project) -> None:
    line = next(line for line in typed(agents, "agents").stdout.splitlines() if line.startswith("reviewer"))
    cells = [cell for cell in line.split("  ") if cell.strip()]
    assert [cell.strip() for cell in cells[2:]] == [
        *("2.1.325", "no", "in", "yes", "haiku", "read", "0 of 2", "never", "ready")
    ]


def test_running_runs_and_the_last_one_are_shown(agents: Project) -> None:
    agents.ok("trigger", "review")
    agents.carry_out([Outcome(Status.COMPLETED, denied_tools=("Bash",), exit_code=0)])
    agents.ok("trigger", "review")
    agents.carry_out([])
    reviewer = told(agents, "agents")["reviewer"]
    assert (reviewer["running"], reviewer["last"]["run"], reviewer["last"]["status"]) == (1, "review:2", "RUNNING")


def test_one_that_is_not_logged_in_makes_check_fail_and_says_what_to_do(agents: Project) -> None:
    answering(agents.folder / "bin", "claude", logged_in=False)
    result = typed(agents, "agents", "check", "reviewer")
    assert result.exit_code == 1
    assert "reviewer  claude is not logged in" in result.stdout
    assert "log in with it once" in result.stdout


def test_check_of_those_that_work_is_0_and_names_what_they_keep(agents: Project) -> None:
    result = typed(agents, "agents", "check", "reviewer")
    assert result.exit_code == 0
    assert (
        "allowed_tools, max_turns, max_usd, loop_guard, model, session: resume, rota_tools, trust_project, access read "
        "ask write full" in result.stdout
    )


def test_a_key_of_this_shell_that_its_runs_do_not_get_is_no_login(agents: Project) -> None:
    """R-27: a run gets no other variable unless it is named."""
    answering(agents.folder / "bin", "claude", logged_in=False)
    found = told(agents, "agents", "check", "reviewer", ANTHROPIC_API_KEY="k")["reviewer"]
    assert found["logged_in"] is False
    assert "`env_pass: [ANTHROPIC_API_KEY]`" in found["remedy"]


@pytest.mark.parametrize("given", ["env_pass: [ANTHROPIC_API_KEY]", "env: {ANTHROPIC_API_KEY: {secret: KEY}}"])
def test_a_key_that_a_job_gives_its_runs_is_a_login(given: str, agents: Project) -> None:
    answering(agents.folder / "bin", "claude", logged_in=False)
    agents.applied(FILE.replace("agent: reviewer}", f"agent: reviewer, {given}}}"))
    found = told(agents, "agents", ANTHROPIC_API_KEY="k", KEY="k")["reviewer"]
    assert (found["logged_in"], found["problem"]) == (True, None)


def test_a_version_that_lacks_an_option_of_headless_mode_is_told(agents: Project) -> None:
    answering(agents.folder / "bin", "codex", options=("--json", "--sandbox"))
    found = told(agents, "agents")["codex"]
    assert (found["headless"], found["problem"]) == (False, "this version does not support --skip-git-repo-check")
    assert "update it" in found["remedy"]


def test_a_broken_file_leaves_the_agents_of_the_applied_jobs(agents: Project) -> None:
    agents.write("jobs: {bad: {every: 5m}}\n")
    result = typed(agents, "agents")
    assert "the file has problems (1)" in result.stderr
    assert "reviewer" in result.stdout


def test_a_function_is_an_agent_that_is_always_there(project: Project) -> None:
    (project.folder / "thinking.py").write_text("def think(task):\n    return None\n")
    project.applied("agents: {thinker: {adapter: {run: 'thinking:think'}}}\njobs: {a: {prompt: x, agent: thinker}}\n")
    found = told(project, "agents")["thinker"]
    assert (found["path"], found["headless"], found["problem"]) == ("thinking:think", True, None)


def test_a_function_that_no_job_asks_shows_the_access_that_a_job_would_have(project: Project) -> None:
    (project.folder / "thinking.py").write_text("def think(task):\n    return None\n")
    project.applied(
        "agents: {thinker: {adapter: {run: 'thinking:think'}}, writer: {adapter: claude}}\njobs: {a: {command: x}}\n"
    )
    found = told(project, "agents")
    assert (found["thinker"]["access"], found["writer"]["access"]) == (["full"], ["read"])
    assert "as in the function" in typed(project, "agents", "check", "thinker").stdout


def test_ollama_is_looked_for_at_the_host_that_its_options_name(project: Project) -> None:
    project.write("agents: {local: {adapter: ollama, model: m, options: {host: '127.0.0.1:1'}}}\njobs: {}\n")
    found = told(project, "agents")["local"]
    assert found["path"] == "http://127.0.0.1:1"
    assert "start that server" in found["remedy"]


def test_an_unknown_agent_is_answered_with_the_nearest(agents: Project) -> None:
    result = typed(agents, "agents", "check", "reviewr")
    assert result.exit_code == 2
    assert "did you mean 'reviewer'?" in result.stderr


def test_without_agents_a_way_to_have_one_is_named(project: Project) -> None:
    project.applied("jobs: {a: {command: [echo]}}\n")
    assert "no agents; a job with `prompt:` uses one" in typed(project, "agents").stdout


def test_before_anything_is_applied_the_file_is_asked(project: Project) -> None:
    answering(project.folder / "bin", "claude")
    project.write(FILE)
    assert told(project, "agents")["reviewer"]["last"] is None


# holds


@pytest.fixture
def held(agents: Project) -> Project:
    """One run of review was refused for its quota."""
    refused = Outcome(Status.FAILED, Reason.QUOTA, error="usage limit reached", provider="anthropic")
    agents.ok("trigger", "review")
    agents.carry_out([refused], took=timedelta(seconds=5))
    return agents


def test_a_held_provider_shows_on_its_agents_and_is_released_by_hand(held: Project) -> None:
    hold = told(held, "agents")["reviewer"]["hold"]
    assert (hold["provider"], hold["run"]) == ("anthropic", "review:1")
    assert "provider anthropic held until 12:15" in typed(held, "agents").stdout
    assert "would be released" in typed(held, "agents", "release", "anthropic", "--dry-run").stdout
    assert told(held, "agents")["reviewer"]["hold"] is not None
    assert "provider anthropic is released" in typed(held, "agents", "release", "reviewer").stdout
    assert told(held, "agents")["reviewer"]["hold"] is None


def test_releasing_what_is_not_held_is_refused(agents: Project) -> None:
    result = typed(agents, "agents", "release", "anthropic")
    assert result.exit_code == 6
    assert "not held" in result.stderr


def refused_for_login(agents: Project) -> None:
    """Let the run review:1 fail because claude is not logged in."""
    answering(agents.folder / "bin", "claude", logged_in=False)
    agents.ok("trigger", "review")
    agents.carry_out([Outcome(Status.FAILED, Reason.AUTH, error="Not logged in", provider="anthropic")])


def test_a_check_releases_a_provider_that_waited_for_a_login(agents: Project) -> None:
    refused_for_login(agents)
    result = typed(agents, "agents", "check")
    assert "provider anthropic held until it is logged in, next check" in typed(agents, "status").stdout
    assert "is released" not in result.stdout
    answering(agents.folder / "bin", "claude")
    result = typed(agents, "agents", "check", "reviewer")
    assert "provider anthropic is released" in result.stdout
    assert told(agents, "agents")["reviewer"]["hold"] is None


def test_a_check_of_another_agent_releases_nothing(agents: Project) -> None:
    refused_for_login(agents)
    answering(agents.folder / "bin", "claude")
    assert "is released" not in typed(agents, "agents", "check", "codex").stdout
    assert told(agents, "agents")["reviewer"]["hold"]["problem"] == "auth"


def test_a_name_and_all_exclude_each_other(agents: Project) -> None:
    result = typed(agents, "agents", "check", "codex", "--all")
    assert result.exit_code == 2
    assert "exclude each other" in result.stderr


def test_an_account_is_checked_in_its_own_folder_and_the_way_to_log_in_is_printed(agents: Project) -> None:
    program = agents.folder / "bin" / "claude"
    program.write_text(
        '#!/bin/sh\ncase "$1" in --version) echo 2.1.0;; auth) test -f "$CLAUDE_CONFIG_DIR/login";; '
        "*) echo --print --output-format --verbose --permission-mode --allowedTools --disallowedTools --tools "
        "--settings --setting-sources --mcp-config --strict-mcp-config --max-turns --max-budget-usd --resume;; esac\n"
    )
    folder = agents.folder / "logins"
    agents.applied(
        f"agents: {{w: {{adapter: claude, account: {{name: work, dir: {folder}}}}}}}\njobs: {{j: {{prompt: x}}}}\n"
    )
    found = typed(agents, "agents", "check", "w")
    assert found.exit_code == 1
    assert f"CLAUDE_CONFIG_DIR={folder}" in found.stdout
    assert f"mkdir -p {folder} && CLAUDE_CONFIG_DIR={folder} claude auth login" in found.stdout
    folder.mkdir()
    (folder / "login").touch()
    one = told(agents, "agents")["w"]
    assert (one["account"], one["login_folder"], one["logged_in"]) == ("work", str(folder), True)
