"""What is said of denied tools, and of agents that cannot work."""

from typing import Any

import pytest

from rota.agents.registry import AgentProbe
from rota.model.agents import Access
from rota.model.spec import AgentWork
from rota.text.jobs import TOOLS_SHOWN, remedy_of, say_denied


def work(**keys: Any) -> AgentWork:
    return AgentWork(**{"agent": "a", "adapter": "claude", "provider": "p", **keys})


@pytest.mark.parametrize(
    ("tools", "keys", "expected"),
    [
        (["Bash", "Bash"], {}, "Bash: beyond `access: read`; set `access: write` or `full`, or reduce the task"),
        (["Bash"], {"access": Access.WRITE}, "Bash: beyond `access: write`; set `access: full`, or reduce the task"),
        (["Bash"], {"access": Access.FULL}, "check the settings and hooks of the program"),
        (["Edit"], {"allowed_tools": ("Read",)}, "Edit: not among its `allowed_tools`"),
        (["mcp__rota__list_jobs"], {}, "rota's own tools need `rota_tools: true`"),
        (["rota_list_jobs"], {"rota_tools": True}, "rota's MCP server did not start in time"),
    ],
)
def test_what_would_allow_a_denied_tool_is_said(tools: list[str], keys: dict[str, Any], expected: str) -> None:
    assert expected in say_denied(tools, work(**keys))


def test_no_denied_tool_is_no_word() -> None:
    assert say_denied([], work()) == ""


def test_many_denied_tools_are_counted() -> None:
    told = say_denied([f"tool{number}" for number in range(TOOLS_SHOWN + 3)], work())
    assert f"tool{TOOLS_SHOWN - 1} and 3 more: " in told


@pytest.mark.parametrize(
    ("found", "keys", "expected"),
    [
        (AgentProbe("a", "/a"), (), ""),
        (AgentProbe("a", problem="not on PATH"), (), "install it"),
        (AgentProbe("a", "http://127.0.0.1:1", problem="no answer"), (), "start that server"),
        (AgentProbe("a", "/a", headless=False, problem="old"), (), "update it"),
        (AgentProbe("a", "/a", logged_in=False, problem="out"), (), "log in with it once"),
        (AgentProbe("a", "/a", logged_in=False, problem="out"), ("KEY",), "`env_pass: [KEY]`"),
        (AgentProbe("a", "/a", problem="`a --version` ended with exit code 3"), (), "try that command"),
    ],
)
def test_each_problem_has_its_remedy(found: AgentProbe, keys: tuple[str, ...], expected: str) -> None:
    told = remedy_of(found, keys)
    assert expected in told
    assert bool(told) == bool(expected)
