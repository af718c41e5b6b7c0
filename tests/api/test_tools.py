"""The tools for agents over MCP and HTTP: the same door, the same policy."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import rota
from rota.mcp import VERSION_KEY
from rota.operations.admin.access import Scope
from rota.operations.tools.catalog import TOOLS
from tests.api.conftest import BASE, FILE, Api, opened
from tests.faces.conftest import Project

MODERN = "2026-07-28"
ACCEPT = "application/json, text/event-stream"


def ask(api: Api, method: str, *, scope: Scope | None = Scope.AGENT, **params: Any) -> Any:
    """Send one message of MCP; return its result."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    found = api.call("POST", "/mcp", message, scope=scope, Accept=ACCEPT)
    assert found.status_code == 200, found.text
    return found.json()["result"]


def call(api: Api, tool: str, **arguments: Any) -> Any:
    return ask(api, "tools/call", name=tool, arguments=arguments)


def test_the_tools_are_those_of_the_command(api: Api) -> None:
    listed = ask(api, "tools/list")["tools"]
    assert [tool["name"] for tool in listed] == [tool["name"] for tool in api.cli("mcp")["tools"]]


def test_a_tool_answers_and_what_it_changes_is_in_the_audit(api: Api) -> None:
    assert "hello" in json.dumps(call(api, "list_jobs"))
    started = call(api, "trigger_job", name="hello")
    assert started.get("isError", False) is False, started
    assert api.get("/runs")["items"][0]["job"] == "hello"
    assert api.get("/audit")["items"][0]["actor"] == "token:tester"


def test_a_refusal_is_told_in_words(api: Api) -> None:
    told = call(api, "trigger_job", name="nope")
    assert told["isError"] is True
    assert "no job is named 'nope'" in told["content"][0]["text"]


def test_a_model_that_an_agent_program_would_take_for_options_is_refused(api: Api) -> None:
    told = call(api, "schedule_job", name="x", task="look", interval_seconds=3600, model="-m --yolo")
    assert told["isError"] is True
    assert "begins with `-`" in told["content"][0]["text"]


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"jsonrpc": "2.0"}', b'"x"', b'{"id": 1, "method": "ping"}'])
def test_what_is_no_message_is_refused(api: Api, body: bytes) -> None:
    """#86."""
    found = api.call("POST", "/mcp", body, Accept=ACCEPT)
    assert 400 <= found.status_code < 500


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_client_of_the_sdk_lists_and_calls_the_tools(api: Api, mode: str) -> None:
    web = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=api.app), headers=api.headers(Scope.AGENT))
    async with web, Client(streamable_http_client(f"{BASE}/mcp", http_client=web), mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == list(TOOLS)
        listed = (await client.call_tool("list_jobs", {})).structured_content
        refused = await client.call_tool("trigger_job", {"name": "nope"})
    assert listed is not None
    assert {job["name"] for job in listed["jobs"]} == {"both", "hello", "other"}
    assert refused.is_error


def modern(method: str, **params: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a message without a handshake, and its headers."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": {VERSION_KEY: MODERN}, **params}}
    names = {"Mcp-Name": params["name"]} if "name" in params else {}
    return message, {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **names}


@pytest.mark.parametrize(
    ("changed", "status", "code"),
    [
        ({"MCP-Protocol-Version": "2099-01-01"}, 400, -32022),
        ({"MCP-Protocol-Version": "2025-11-25"}, 400, -32020),
        ({"Mcp-Method": "tools/list"}, 400, -32020),
        ({"Mcp-Name": "unschedule_job"}, 400, -32020),
        ({}, 200, None),
    ],
)
def test_a_message_that_its_headers_describe_otherwise_is_refused(
    api: Api, changed: dict[str, str], status: int, code: int | None
) -> None:
    """A proxy may judge a request by its headers."""
    message, headers = modern("tools/call", name="list_jobs", arguments={})
    found = api.call("POST", "/mcp", message, **{**headers, **changed})
    assert (found.status_code, found.json().get("error", {}).get("code")) == (status, code)


def test_an_unknown_method_is_not_found_and_a_session_with_a_handshake_goes_on_after_it(api: Api) -> None:
    """A client with a handshake takes a 404 for the end of its session."""
    message, headers = modern("prompts/list")
    found = api.call("POST", "/mcp", message, **headers)
    assert (found.status_code, found.json()["error"]["code"]) == (404, -32601)
    older = {"jsonrpc": "2.0", "id": 1, "method": "prompts/list"}
    found = api.call("POST", "/mcp", older, **{"MCP-Protocol-Version": "2025-11-25"})
    assert (found.status_code, found.json()["error"]["code"]) == (200, -32601)


def test_what_asks_nothing_is_accepted_without_an_answer(api: Api) -> None:
    found = api.call("POST", "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (found.status_code, found.content) == (202, b"")


def test_a_token_that_may_only_look_has_no_tools(api: Api) -> None:
    """MCP SDK CVE-2025-66416: the transport has the token and the door of everything else."""
    assert api.call("POST", "/mcp", {}, scope=Scope.READ).status_code == 403
    assert api.bare.post("/mcp", json={}).status_code == 401
    assert api.call("POST", "/mcp", {}, Host="evil.test").status_code == 421
    assert api.call("POST", "/mcp", {}, Origin="http://evil.test").status_code == 403


def test_the_templates_are_loaded_at_the_first_request_and_the_sdk_of_mcp_never() -> None:
    heavy = ("mcp", "mcp_types", "jinja2", "rota.mcp")
    code = f"import sys, rota.http.server; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# the policy, at every door through which an agent comes


def restrict(api: Api, policy: str) -> None:
    file = api.project.folder / "rota.yaml"
    file.write_text(f"agent_policy: {policy}\n{file.read_text()}")
    api.project.ok("apply")


def by_route(api: Api) -> str:
    found = api.call("POST", "/api/v1/jobs/hello/trigger", {}, scope=Scope.AGENT)
    return "" if found.status_code == 202 else str(found.json()["detail"])


def by_older_route(api: Api) -> str:
    found = api.call("POST", "/jobs/hello/trigger", {}, scope=Scope.AGENT)
    return "" if found.status_code == 202 else str(found.json()["detail"])


def by_mcp(api: Api) -> str:
    return told_by(call(api, "trigger_job", name="hello"))


def by_mcp_of_an_owner(api: Api) -> str:
    return told_by(ask(api, "tools/call", scope=None, name="trigger_job", arguments={"name": "hello"}))


def by_tool_function(api: Api) -> str:
    tool = next(one for one in rota.tools(api.project.folder) if one.name == "trigger_job")
    try:
        tool.call(name="hello")
    except rota.RotaError as error:
        return str(error)
    return ""


def by_command_in_a_run(api: Api) -> str:
    if not api.cli("history", "agent"):
        api.project.ok("trigger", "agent")
        api.project.begin()
    inside = {"ROTA_RUN_ID": api.cli("show", "agent:1")["id"]}
    result = api.project.rota("trigger", "hello", environ=inside)
    return "" if result.exit_code == 0 else result.stderr


def told_by(result: Any) -> str:
    return str(result["content"][0]["text"]) if result.get("isError") else ""


DOORS = (by_route, by_older_route, by_mcp, by_mcp_of_an_owner, by_tool_function, by_command_in_a_run)


@pytest.fixture
def with_agent(tmp_path: Path) -> Iterator[Api]:
    project = Project(tmp_path).applied(FILE.replace("groups:", "  agent: {agent: claude, prompt: look}\ngroups:"))
    with opened(project) as made:
        yield made


@pytest.mark.parametrize("door", DOORS)
def test_every_door_for_agents_counts_what_they_start(with_agent: Api, door: Callable[[Api], str]) -> None:
    restrict(with_agent, "{creations_per_hour: 3}")
    assert [door(with_agent) for _ in range(3)] == ["", "", ""]
    assert "limit 3" in door(with_agent)
    assert len(with_agent.cli("history", "hello", "--all")) == 3


@pytest.mark.parametrize("door", DOORS)
def test_every_door_for_agents_is_shut_where_the_policy_is_off(with_agent: Api, door: Callable[[Api], str]) -> None:
    restrict(with_agent, "{enabled: false}")
    assert "does not allow tools to create or start jobs" in door(with_agent)
    assert with_agent.cli("history", "hello") == []


@pytest.mark.parametrize("path", ["/api/v1/jobs/hello/trigger", "/jobs/hello/trigger"])
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_token_of_an_agent_forces_nothing(api: Api, path: str, dry_run: bool) -> None:
    found = api.call("POST", path, {"force": True, "dry_run": dry_run}, scope=Scope.AGENT)
    assert (found.status_code, found.json()["code"]) == (403, "policy_refused")
    assert api.get("/runs")["items"] == []
    assert api.call("POST", path, {"force": True}, scope=Scope.RUN).status_code == 202


def test_a_token_of_a_person_is_not_bound(api: Api) -> None:
    restrict(api, "{enabled: false}")
    for _ in range(5):
        assert api.call("POST", "/api/v1/jobs/hello/trigger", {}, scope=Scope.RUN).status_code == 202
