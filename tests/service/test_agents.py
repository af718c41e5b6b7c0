"""Agent jobs with a real scheduler and a scripted program in the place of Claude Code."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.agents.fake_agent import install
from tests.service.serving import Project, gone, kill
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("service")

SCRIPT = """#!{python}
import json, os, pathlib, sys, time

def say(**event):
    print(json.dumps(event), flush=True)

prompt = sys.stdin.read()
with open("seen", "a") as seen:
    seen.write(json.dumps({{"argv": sys.argv[1:], "prompt": prompt, "pid": os.getpid()}}) + "\\n")
say(type="system", subtype="init", session_id="s-1", model="claude-haiku")
print("a word of its own", file=sys.stderr)
while "wait" in prompt and not pathlib.Path("go").exists():
    time.sleep(0.02)
result = {{"type": "result", "subtype": "success", "session_id": "s-1", "num_turns": 2, "total_cost_usd": 0.0123}}
usage = {{"input_tokens": 1200, "output_tokens": 34}}
if "login" in prompt:
    say(**result, is_error=True, api_error_status=401, result="Invalid API key")
    sys.exit(1)
say(**result, is_error=False, usage=usage, result="two PRs are stale", permission_denials=[{{"tool_name": "Bash"}}])
"""
FILE = """
defaults: {{env: {{PATH: "{folder}/bin:/usr/bin:/bin"}}, term_grace: 0}}
agents:
  reviewer: {{adapter: claude, model: haiku, max_turns: 5, max_usd: 0.5, max_concurrent: 9}}
jobs:
{jobs}
"""
SUMMARY = "two PRs are stale · 1 tool denied: Bash"


def serve(project: Project, **jobs: str) -> None:
    """Serve a project with these jobs, each the keys below its name."""
    program = project.folder / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(SCRIPT.format(python=sys.executable))
    program.chmod(0o755)
    written = "\n".join(f"  {name}: {{{keys}}}" for name, keys in jobs.items())
    project.write(FILE.format(folder=project.folder, jobs=written))
    project.serve()


def seen(project: Project) -> list[dict[str, Any]]:
    """Return what each agent was given, in the order of their starts."""
    path = project.folder / "seen"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def started(project: Project, count: int = 1) -> list[int]:
    """Wait until so many agents have read their prompts; return their pids."""
    until(lambda: len(seen(project)) >= count, what=f"{count} agents to start")
    return [one["pid"] for one in seen(project)]


def artifacts(project: Project, job: str) -> Mapping[str, Any]:
    """Return what is kept of a job's only run beside its row."""
    [run] = project.history(job)
    found: Mapping[str, Any] = project.json("show", run["run"])["execution"]["artifacts"]
    return found


def summary(project: Project, job: str) -> str | None:
    [run] = project.history(job)
    told: str | None = run["result_summary"]
    return told


def test_an_agent_gets_its_limits_and_its_prompt_and_is_recorded(project: Project) -> None:
    """R-30: the limits are arguments of the program; the envelope stands once, before the task."""
    serve(project, review='prompt: "Look at {{ job }}."')
    project.rota("trigger", "review")
    project.until_told("review", [("COMPLETED", None)])
    [given] = seen(project)
    [run] = project.history("review")
    options = dict(word.split("=", 1) for word in given["argv"] if "=" in word)
    assert (options["--model"], options["--max-turns"], options["--max-budget-usd"]) == ("haiku", "5", "0.5")
    _, meta, empty, *task = given["prompt"].split("\n")
    assert (empty, task) == ("", ["Look at review."])
    assert json.loads(meta)["rota_meta"]["run_id"] == run["id"]
    assert given["prompt"].count("rota_meta") == 1
    assert summary(project, "review") == SUMMARY
    kept = artifacts(project, "review")
    assert kept["usage"] == {"tokens_in": 1200, "tokens_out": 34, "usd_millionths": 12_300, "model": "claude-haiku"}
    assert (kept["session_id"], kept["denied_tools"]) == ("s-1", ["Bash"])
    assert '"subtype": "init"' in project.rota("logs", "--raw", run["run"]).stdout


def test_an_error_that_calls_itself_a_success_is_a_failure(project: Project) -> None:
    serve(project, review="prompt: login")
    project.rota("trigger", "review")
    project.until_told("review", [("FAILED", "auth")])
    assert "Invalid API key" in project.history("review")[0]["error"]


def test_an_agent_that_takes_too_long_is_killed_and_recorded(project: Project) -> None:
    serve(project, review="prompt: wait, timeout: 3s")
    project.rota("trigger", "review")
    project.until_told("review", [("FAILED", "timed_out")])
    assert all(gone(one["pid"]) for one in seen(project))


def test_where_no_output_is_kept_the_summary_stays(project: Project) -> None:
    serve(project, review="prompt: x, output: none")
    project.rota("trigger", "review")
    project.until_told("review", [("COMPLETED", None)])
    assert summary(project, "review") == SUMMARY
    kept = [path.read_bytes() for path in Path(project.state).rglob("*") if path.is_file() and path.suffix != ".db"]
    assert not any(b'"subtype": "init"' in content for content in kept)


def test_an_agent_outlives_its_scheduler_and_the_next_one_reads_it(project: Project) -> None:
    """R-23: the run is adopted, and its end is what its agent said."""
    serve(project, review="prompt: wait")
    project.rota("trigger", "review")
    [pid] = started(project)
    kill(project.servers[0])
    assert not gone(pid)
    project.serve()
    (project.folder / "go").touch()
    project.until_told("review", [("COMPLETED", None)])
    assert summary(project, "review") == SUMMARY
    assert artifacts(project, "review")["usage"]["tokens_in"] == 1200


def test_the_pool_of_all_agents_holds_the_third_back(project: Project) -> None:
    """R-04."""
    serve(project, review="prompt: wait, overlap: allow")
    for _ in range(3):
        project.rota("trigger", "review")
    started(project, 2)
    until(lambda: held(project) == ["agents"], what="the third to wait for the pool")
    assert sorted(status for status, _ in project.told("review")) == ["QUEUED", "RUNNING", "RUNNING"]
    (project.folder / "go").touch()
    project.until_told("review", [("COMPLETED", None)] * 3)


def held(project: Project) -> list[str]:
    """Return the pools that runs lack, as the queue tells it."""
    return [one["pool"] for one in project.json("queue")["ready"] if one["pool"]]


def test_a_provider_that_refuses_is_held_also_after_a_kill_until_somebody_lets_it_go(project: Project) -> None:
    """DESIGN.md section 8: a recorded refusal of Claude Code, played by its scripted program."""
    serve(project, fix="prompt: x, agent: claude", other="prompt: y, agent: claude")
    program = install(project.folder / "bin", "claude-usage_limit")
    project.rota("trigger", "fix")
    project.until_told("fix", [("FAILED", "quota")])
    project.rota("trigger", "other")
    assert [(one["run"], one["held"]) for one in project.json("queue")["ready"]] == [("other:1", "provider_hold")]
    [hold] = project.json("status")["holds"]
    assert (hold["provider"], hold["run"], hold["waiting"]) == ("anthropic", "fix:1", 1)
    kill(project.servers[-1])
    project.serve()
    assert "provider anthropic held until" in project.rota("explain", "other").stdout
    assert "provider anthropic held until" in project.rota("queue").stdout
    assert project.history("other")[0]["status"] == "QUEUED"
    program.write_text(SCRIPT.format(python=sys.executable))
    project.rota("agents", "release", "anthropic")
    project.until_told("other", [("COMPLETED", None)])
    assert project.json("status")["holds"] == []
    assert "clean" in project.rota("verify").stdout
