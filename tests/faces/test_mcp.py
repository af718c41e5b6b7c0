"""`rota mcp`: the tools over the SDK's own client, through real pipes; what a model sees when something is wrong."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from anyio import to_thread
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, ListToolsResult, TextContent

from rota.cli.commands.agents import ProjectTools
from rota.mcp import ARGUMENTS_LIMIT, responder
from rota.operations.tools.catalog import PERMISSION_TOOL, TOOLS, tools_of
from tests import forking
from tests.faces.conftest import Project

FILE = """
timezone: Europe/Madrid
jobs:
  review: {prompt: look, agent: claude, rota_tools: true}
  backup: {command: [echo, hi], cron: "30 2 * * *"}
"""
LONGEST = 120


def parameters(project: Project, **environ: str) -> StdioServerParameters:
    env = {"PATH": os.environ["PATH"], "HOME": str(project.folder), **environ}
    arguments = ["-m", "rota", "mcp", "--dir", str(project.folder)]
    return StdioServerParameters(command=sys.executable, args=arguments, env=env)


@asynccontextmanager
async def client(project: Project, *, mode: str = "auto", **environ: str) -> AsyncIterator[Client]:
    """Connect to a `rota mcp` that is forked; `legacy` begins with a handshake, `auto` without one."""
    into, out = project.folder / "mcp.in", project.folder / "mcp.out"
    for pipe in (into, out):
        os.mkfifo(pipe)
    _, *arguments = parameters(project).args
    process = forking.start(
        *arguments, environment=parameters(project, **environ).env or {}, into=into, out=out, err=project.folder / "err"
    )
    relay = StdioServerParameters(command="/bin/sh", args=["-c", 'cat "$1" & exec cat > "$0"', str(into), str(out)])
    try:
        async with Client(relay, mode=mode, read_timeout_seconds=LONGEST) as found:
            yield found
        assert await to_thread.run_sync(process.wait, LONGEST) == 0
    finally:
        process.kill()


def text(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.fixture
def served(project: Project) -> Project:
    return project.applied(FILE)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_it_offers_every_tool_with_its_text_and_schema(served: Project, mode: str) -> None:
    async with client(served, mode=mode) as here:
        offered = {tool.name: tool for tool in (await here.list_tools()).tools}
        assert (await here.call_tool("list_jobs", {})).structured_content is not None
    assert set(offered) == set(TOOLS)
    assert offered["schedule_job"].description == TOOLS["schedule_job"].text
    assert offered["schedule_job"].input_schema["additionalProperties"] is False
    assert offered["schedule_job"].input_schema["type"] == "object"
    assert all(tool.output_schema == TOOLS[name].gives for name, tool in offered.items())
    hints = offered["unschedule_job"].annotations
    assert hints is not None
    assert (hints.read_only_hint, hints.destructive_hint) == (False, True)


async def test_a_job_is_made_listed_and_removed_by_a_person_outside_of_a_run(served: Project) -> None:
    async with client(served) as here:
        asked = {"name": "news", "schedule": "0 8 * * *", "task": "Read the news.", "timezone": "Europe/Madrid"}
        made = await here.call_tool("schedule_job", asked)
        assert (made.is_error, json.loads(text(made))) == (False, made.structured_content)
        listed = (await here.call_tool("list_jobs", {})).structured_content
        await here.call_tool("unschedule_job", {"name": "news", "delete": True})
    assert made.structured_content is not None
    job = made.structured_content["job"]
    assert (job["name"], job["made_by"], len(job["next_fires"])) == ("news", "user", 5)
    assert listed is not None
    assert "news" in [one["name"] for one in listed["jobs"]]
    assert "news" not in [one["name"] for one in served.json("list")]


async def test_what_is_wrong_comes_back_as_words_and_the_server_goes_on(served: Project) -> None:
    cases: list[tuple[str, Mapping[str, Any], str]] = [
        ("schedule_everything", {}, "unknown_tool: unknown tool 'schedule_everything'"),
        ("schedule_job", {"name": "x", "task": "y", "schedule": "0 8 * * *", "cron": "1 * * * *"}, "cron"),
        ("schedule_job", {"name": "x", "task": "y", "schedule": "61 8 * * *"}, "minute '61' is outside 0-59"),
        ("schedule_job", {"name": "x", "task": "y", "schedule": 8}, "schedule"),
        ("schedule_job", {"name": "backup", "task": "y", "schedule": "0 8 * * *"}, "backup"),
        ("get_run", {"run": "nothing:7"}, "nothing"),
        ("schedule_job", {"name": "x", "task": "y" * (ARGUMENTS_LIMIT + 1), "schedule": "0 8 * * *"}, "characters"),
    ]
    async with client(served) as here:
        for name, arguments, expected in cases:
            result = await here.call_tool(name, dict(arguments))
            assert result.is_error, name
            assert expected in text(result)
            assert "Traceback" not in text(result)
        assert not (await here.call_tool("list_jobs", {})).is_error
    assert [one["name"] for one in served.json("list")] == ["backup", "review"]


async def test_inside_a_run_it_acts_as_that_run(served: Project) -> None:
    """R-29: the job that it makes carries its maker, and a job of the file cannot be touched."""
    served.ok("trigger", "review")
    served.carry_out([])
    run_id = served.json("show", "review:1")["id"]
    async with client(served, ROTA_RUN_ID=run_id) as here:
        made = await here.call_tool("schedule_job", {"name": "later", "interval_seconds": 3600, "task": "Look again."})
        refused = await here.call_tool("unschedule_job", {"name": "backup"})
    assert made.structured_content is not None, text(made)
    assert made.structured_content["job"]["made_by"] == "agent:claude"
    assert refused.is_error
    assert served.json("show", "backup")["enabled"]


def test_a_bug_of_ours_is_told_without_its_details(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        tools = ()

        def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
            raise ZeroDivisionError("secret detail")

    call = {"name": "list_jobs", "arguments": {}}
    result = CallToolResult.model_validate(asked(Broken(), method="tools/call", params=call)["result"])
    assert result.is_error
    assert text(result).startswith("list_jobs failed inside rota")
    assert "secret detail" not in text(result)
    assert "secret detail" in caplog.text


# the process


def started(project: Project) -> subprocess.Popen[bytes]:
    found = parameters(project)
    return subprocess.Popen(
        [found.command, *found.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=found.env,
    )


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def say(process: subprocess.Popen[bytes], message: object) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message).encode() + b"\n" if not isinstance(message, bytes) else message)
    process.stdin.flush()


def hear(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def test_it_ends_with_its_input_and_says_nothing_else(served: Project) -> None:
    process = started(served)
    out, errors = process.communicate(b"", timeout=LONGEST)
    assert (process.returncode, out, errors) == (0, b"", b"")


def test_lines_that_are_no_messages_do_not_end_it(served: Project) -> None:
    process = started(served)
    say(process, b"no json\n")
    say(process, b"\xff\xfe\n")
    say(process, HELLO)
    answers = [hear(process)]
    while answers[-1].get("id") != 1:
        answers.append(hear(process))
    assert answers[-1]["result"]["serverInfo"]["name"] == "rota"
    process.communicate(timeout=LONGEST)
    assert process.returncode == 0


def test_it_ends_when_nobody_reads_any_more(served: Project) -> None:
    process = started(served)
    say(process, HELLO)
    assert hear(process)["id"] == 1
    assert process.stdout is not None
    process.stdout.close()
    say(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    say(process, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
    assert process.stdin is not None
    process.stdin.close()
    assert process.stderr is not None
    errors = process.stderr.read()
    assert process.wait(LONGEST) == 0
    assert b"Traceback" not in errors


def test_an_interrupt_ends_it_at_once(served: Project) -> None:
    process = started(served)
    say(process, HELLO)
    assert hear(process)["id"] == 1
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LONGEST)
    assert process.returncode == -signal.SIGINT
    assert b"Traceback" not in errors


# without serving


def test_the_tools_are_listed_for_people_and_for_programs_before_anything_is_applied(project: Project) -> None:
    assert project.ok("mcp", "--list").splitlines()[0].startswith("schedule_job")
    told = project.json("mcp")["tools"]
    assert [tool["name"] for tool in told] == list(TOOLS)
    assert all(tool["input_schema"]["type"] == "object" for tool in told)


# before there is anything


def exchange(process: subprocess.Popen[bytes], number: int, method: str, **params: Any) -> Any:
    say(process, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    return hear(process)["result"]


def test_it_starts_in_any_folder_and_finds_the_project_as_soon_as_there_is_one(project: Project) -> None:
    process = started(project)
    say(process, HELLO)
    assert hear(process)["id"] == 1
    assert len(exchange(process, 2, "tools/list")["tools"]) == len(TOOLS)
    lacking = exchange(process, 3, "tools/call", name="list_jobs", arguments={})
    assert lacking["isError"]
    assert "no_project: there is no rota.yaml" in lacking["content"][0]["text"]
    project.write(FILE)
    unapplied = exchange(process, 4, "tools/call", name="list_jobs", arguments={})
    assert "rota apply" in unapplied["content"][0]["text"]
    project.ok("apply")
    found = exchange(process, 5, "tools/call", name="list_jobs", arguments={})["structuredContent"]
    assert sorted(job["name"] for job in found["jobs"]) == ["backup", "review"]
    _, errors = process.communicate(timeout=LONGEST)
    assert (process.returncode, errors) == (0, b"")


def test_a_start_imports_neither_the_sdk_nor_what_only_calls_need() -> None:
    heavy = (
        "mcp.server",
        "mcp_types",
        "apsw",
        "rota.declare",
        "rota.engine",
        "rota.operations.tools.toolbox",
        "asyncio",
    )
    script = (
        "import sys, rota.cli.main, rota.cli.commands.agents, rota.mcp;"
        "from rota.operations.tools.catalog import tools_of;"
        f"tools_of(lambda *_: {{}}); print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# the protocol


class Empty:
    """A box with no tools."""

    tools = ()

    def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"called": name, **arguments}


ENVELOPE = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}


class Deciding:
    """Only the decision about tool calls."""

    def __init__(self) -> None:
        self.tools = tools_of(self.call, permissions="only")

    def call(self, _name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"behavior": "allow", "updatedInput": given["input"]}


def test_a_decision_about_a_tool_call_is_a_text_alone() -> None:
    """Claude Code denies the call for an answer with structured content."""
    call = {"name": PERMISSION_TOOL, "arguments": {"tool_name": "Bash", "input": {"command": "ls"}}}
    (offered,) = asked(Deciding(), method="tools/list")["result"]["tools"]
    result = asked(Deciding(), method="tools/call", params=call)["result"]
    assert "outputSchema" not in offered
    assert "structuredContent" not in result
    (content,) = result["content"]
    assert json.loads(content["text"]) == {"behavior": "allow", "updatedInput": {"command": "ls"}}


def asked(box: Any = None, /, **message: Any) -> Any:
    return responder(box or Empty())(json.dumps({"jsonrpc": "2.0", "id": 7, **message}).encode())


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"no json", -32700),
        (b'{"a": ' + b"[" * 100_000, -32700),
        (b"7", -32600),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 3}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "server/discover"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 3}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a", "arguments": "b"}}', -32602),
    ],
)
def test_a_message_that_makes_no_sense_gets_an_error_of_the_protocol(message: bytes, code: int) -> None:
    found = responder(Empty())(message)
    assert isinstance(found, dict)
    assert found["error"]["code"] == code


@pytest.mark.parametrize(
    "message",
    [
        {"method": "notifications/initialized"},
        {"method": "notifications/cancelled", "params": {"requestId": 1}},
        {"id": 3, "result": {}},
    ],
)
def test_what_asks_nothing_is_not_answered(message: dict[str, Any]) -> None:
    assert responder(Empty())(json.dumps({"jsonrpc": "2.0", **message}).encode()) is None


@pytest.mark.parametrize(
    ("wanted", "agreed"),
    [("2024-11-05", "2024-11-05"), ("2025-11-25", "2025-11-25"), ("1999-01-01", "2025-11-25"), (7, "2025-11-25")],
)
def test_a_handshake_agrees_on_a_version_that_both_know(wanted: Any, agreed: str) -> None:
    assert asked(method="initialize", params={"protocolVersion": wanted})["result"]["protocolVersion"] == agreed


def test_a_request_with_a_version_of_its_own_is_answered_in_that_version() -> None:
    told = asked(method="server/discover", params=ENVELOPE)["result"]
    assert (told["supportedVersions"], told["resultType"]) == (["2026-07-28"], "complete")
    assert told["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "rota"
    called = asked(method="tools/call", params={**ENVELOPE, "name": "x", "arguments": {"a": 1}})["result"]
    assert (called["structuredContent"], called["resultType"]) == ({"called": "x", "a": 1}, "complete")


def test_a_version_that_is_not_served_is_refused_with_those_that_are() -> None:
    params = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}}
    error = asked(method="tools/list", params=params)["error"]
    assert (error["code"], error["data"]["supported"]) == (-32022, ["2026-07-28"])


def test_a_batch_is_answered_as_one() -> None:
    batch = [{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "method": "notifications/initialized"}]
    assert responder(Empty())(json.dumps(batch).encode()) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


def test_the_tools_fit_the_types_of_the_sdk() -> None:
    box = ProjectTools(SimpleNamespace(environ={}), ExitStack())  # type: ignore[arg-type]
    offered = asked(box, method="tools/list")["result"]["tools"]
    fitting = ListToolsResult.model_validate({"tools": offered}).tools
    assert offered == [tool.model_dump(by_alias=True, exclude_none=True) for tool in fitting]
