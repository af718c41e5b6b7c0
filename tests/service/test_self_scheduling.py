"""A scheduled agent calls rota's own MCP server and makes a job, which fires, runs and is reported; scripted."""

import sys

import pytest

from tests.service.serving import Project
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("service")

SCRIPT = """#!{python}
import json, subprocess, sys

def say(**event):
    print(json.dumps(event), flush=True)

prompt = sys.stdin.read()
say(type="system", subtype="init", session_id="s-1", model="claude-haiku")
answer = "followed up"
if "plan" in prompt:
    config = json.loads(sys.argv[sys.argv.index("--mcp-config") + 1])["mcpServers"]["rota"]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    server = subprocess.Popen([config["command"], *config["args"]], env={{}}, **pipes)

    def ask(number, method, **params):
        message = {{"jsonrpc": "2.0", "id": number, "method": method, "params": params}}
        server.stdin.write(json.dumps(message) + "\\n")
        server.stdin.flush()
        return json.loads(server.stdout.readline())["result"]

    ask(1, "initialize", protocolVersion="2025-06-18", capabilities={{}}, clientInfo={{"name": "x", "version": "1"}})
    job = {{"name": "follow-up", "interval_seconds": 1, "task": "Look again."}}
    answer = ask(2, "tools/call", name="schedule_job", arguments=job)["content"][0]["text"]
    server.stdin.close()
    server.wait()
say(type="result", subtype="success", is_error=False, session_id="s-1", num_turns=2, result=answer)
"""
FILE = """
defaults: {{env: {{PATH: "{folder}/bin:/usr/bin:/bin"}}}}
agent_policy: {{min_interval: {interval}}}
jobs:
  plan: {{interval: 1h, prompt: Make a plan., agent: claude, rota_tools: true}}
"""


def serve(project: Project, *, interval: str) -> None:
    program = project.folder / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(SCRIPT.format(python=sys.executable))
    program.chmod(0o755)
    project.write(FILE.format(folder=project.folder, interval=interval))
    project.serve()


def test_what_a_scheduled_agent_schedules_fires_runs_and_is_reported(project: Project) -> None:
    serve(project, interval="1s")
    project.until_told("plan", [("COMPLETED", None)])
    until(lambda: project.told("follow-up")[:1] == [("COMPLETED", None)], what="what was made to run")
    made = project.json("show", "follow-up")["made"]
    assert (made["by"], made["run_id"]) == ("agent:claude", project.history("plan")[0]["id"])
    assert project.history("follow-up")[0]["result_summary"] == "followed up"
    project.rota("remove", "--made-by", "agent", "--yes")
    project.rota("stop", "--when-idle")
    assert project.json("verify")["clean"]


def test_a_wish_beyond_the_policy_comes_back_to_the_agent_as_words(project: Project) -> None:
    serve(project, interval="5m")
    project.until_told("plan", [("COMPLETED", None)])
    told = project.history("plan")[0]["result_summary"]
    assert told.startswith("too_often: the job would start every 1 s")
    assert [job["name"] for job in project.json("list")] == ["plan"]
