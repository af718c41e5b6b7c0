"""The tools for agents over MCP and HTTP: the same door, the same policy."""

import json
import subprocess
import sys
from typing import Any

import pytest

from rota.operations.access import Scope
from tests.api.conftest import Api

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


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"jsonrpc": "2.0"}', b'"x"'])
def test_what_is_no_message_is_refused(api: Api, body: bytes) -> None:
    """#86."""
    found = api.call("POST", "/mcp", body, Accept=ACCEPT)
    assert 400 <= found.status_code < 500


def test_a_token_that_may_only_look_has_no_tools(api: Api) -> None:
    """MCP SDK CVE-2025-66416: the transport has the token and the door of everything else."""
    assert api.call("POST", "/mcp", {}, scope=Scope.READ).status_code == 403
    assert api.bare.post("/mcp", json={}).status_code == 401
    assert api.call("POST", "/mcp", {}, Host="evil.test").status_code == 421
    assert api.call("POST", "/mcp", {}, Origin="http://evil.test").status_code == 403


def test_the_protocol_and_the_templates_are_loaded_at_the_first_request() -> None:
    heavy = ("mcp", "mcp_types", "jinja2")
    code = f"import sys, rota.http.server; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
