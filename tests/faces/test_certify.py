"""`rota agents certify`: a program is tried against the stub, here a scripted one in the place of Claude Code."""

import json
import os
import sys

import pytest
from click.testing import Result

from rota.agents.adapter import Event
from rota.agents.registry import FIXED
from rota.operations.agents.certify import CLASSES, PROGRAMS
from tests.faces.conftest import Project

SCRIPT = """#!{python}
import json, os, pathlib, subprocess, sys, urllib.request
if "--version" in sys.argv:
    print("{version} (Claude Code)"); sys.exit()
if "auth" in sys.argv:
    sys.exit()
if "--help" in sys.argv:
    print("--print --output-format --permission-mode --allowedTools --disallowedTools --tools --setting-sources")
    sys.exit()
assert "ANTHROPIC_API_KEY" in os.environ and os.environ["ANTHROPIC_API_KEY"] == "stub"
does = {does!r}
if "{broken}":
    sys.exit(3)

def post(messages):
    body = json.dumps({{"model": "m", "tools": [{{}}], "messages": messages}}).encode()
    request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", body)
    return json.loads(urllib.request.urlopen(request).read())["content"][0]

messages = [{{"role": "user", "content": sys.stdin.read()}}]
block = post(messages)
if "mcp" in does and os.path.exists(".mcp.json"):
    server = json.loads(pathlib.Path(".mcp.json").read_text())["mcpServers"]["x"]
    subprocess.run([server["command"], *server["args"]])
if block["type"] == "tool_use":
    tool, given = block["name"], block["input"]
    inside = given.get("file_path", "").startswith(os.getcwd())
    if tool == "Write" and ("write" if inside else "outside") in does:
        pathlib.Path(given["file_path"]).write_text(given["content"])
    if tool == "Bash" and ("network" if "/dev/tcp" in given["command"] else "shell") in does:
        subprocess.run(given["command"], shell=True)
    result = {{"type": "tool_result", "tool_use_id": block["id"], "content": "x"}}
    post([*messages, {{"role": "user", "content": [result]}}])
"""
FILE = "agents: {reviewer: {adapter: claude}}\njobs: {review: {prompt: look, agent: reviewer}}\n"


def install(project: Project, *, does: tuple[str, ...] = (), version: str = "2.1.325", broken: str = "") -> None:
    program = project.folder / "bin" / "claude"
    program.parent.mkdir(exist_ok=True)
    program.write_text(SCRIPT.format(python=sys.executable, does=does, version=version, broken=broken))
    program.chmod(0o755)


def typed(project: Project, *arguments: str) -> Result:
    path = os.pathsep.join([str(project.folder / "bin"), "/usr/bin", "/bin"])
    return project.rota(*arguments, environ={"PATH": path, "ANTHROPIC_API_KEY": "the user's"})


def certified(project: Project) -> Event:
    found: Event = json.loads(typed(project, "agents", "certify", "reviewer", "--json").stdout)
    return found


def test_a_program_that_denies_everything_is_certified_in_its_version(project: Project) -> None:
    install(project)
    project.applied(FILE)
    assert "certified    no\n" in typed(project, "agents", "check").stdout
    result = typed(project, "agents", "certify")
    assert result.exit_code == 0, result.output
    assert "claude 2.1.325: certified" in result.stdout
    assert "certified    yes\n" in typed(project, "agents", "check").stdout
    install(project, version="2.2.0")
    assert "certified    no, 2.1.325 was\n" in typed(project, "agents", "check").stdout
    assert '"certified": false' in typed(project, "agents", "--json").stdout


@pytest.mark.parametrize("act", CLASSES)
def test_each_class_that_a_program_does_is_found_by_its_effect(project: Project, act: str) -> None:
    install(project, does=(act,))
    project.applied(FILE)
    found = certified(project)
    [made] = found["certified"]
    assert (found["ok"], made["passed"]) == (False, False)
    assert made["attempts"] == {name: "done" if name == act else "denied" for name in CLASSES}
    assert f"certified    failed: {act} done\n" in typed(project, "agents", "check").stdout


def test_a_program_that_does_not_run_is_not_certified(project: Project) -> None:
    install(project, broken="yes")
    project.applied(FILE)
    [made] = certified(project)["certified"]
    assert (made["passed"], set(made["attempts"].values())) == (False, {"untried"})


def test_an_agent_without_a_program_that_can_be_tried_is_refused(project: Project) -> None:
    project.applied("agents: {small: {adapter: ollama, model: m}}\njobs: {review: {prompt: look, agent: small}}\n")
    result = typed(project, "agents", "certify", "small")
    assert result.exit_code != 0
    assert "small cannot be certified" in result.output


def test_every_program_that_can_run_tools_can_be_tried() -> None:
    assert set(PROGRAMS) == {name for name, each in FIXED.items() if each.invoke is not None}
