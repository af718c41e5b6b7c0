"""Codex: its command line, and what its recorded streams are read as."""

import json
from dataclasses import replace

import pytest
from tests.agents.replaying import argv, read, recording, replay

from rota.agents.codex import ADAPTER, invoke
from rota.model.agents import Access, AgentProblem, AgentTask


def test_the_prompt_comes_by_standard_input_and_nothing_else_does() -> None:
    """Trap: Codex reads standard input to its end, so it is the prompt and then closed."""
    invocation = invoke(AgentTask(prompt="look"))
    assert (invocation.argv[-1], invocation.stdin) == ("-", "look")


def test_it_runs_outside_a_git_repository() -> None:
    """Trap: Codex needs --skip-git-repo-check."""
    assert "--skip-git-repo-check" in argv("codex")


@pytest.mark.parametrize(
    ("access", "sandbox"),
    [(Access.READ, "read-only"), (Access.WRITE, "workspace-write"), (Access.FULL, "danger-full-access")],
)
def test_access_is_a_sandbox_that_asks_nobody(access: Access, sandbox: str) -> None:
    """R-30: access is translated, permission prompts are denied."""
    words = argv("codex", access=access)
    assert words[words.index("-s") + 1] == sandbox
    assert 'approval_policy="never"' in words


def test_a_session_is_resumed_in_its_sandbox() -> None:
    words = argv("codex", session_id="abc", model="gpt-5")
    assert words[words.index("resume") + 1 :] == ["abc", "-"]
    assert words.index("-s") < words.index("resume")
    assert words[words.index("-m") + 1] == "gpt-5"


def test_it_is_given_the_tools_of_rota_with_the_variables_of_the_run() -> None:
    """Codex gives its servers no variables but those named, and asks about their tools unless told otherwise."""
    words = argv("codex", tools_server=("rota", "mcp"))
    given = dict(word.split("=", 1) for word in words if word.startswith("mcp_servers.rota."))
    assert json.loads(given["mcp_servers.rota.command"]) == "rota"
    assert json.loads(given["mcp_servers.rota.args"]) == ["mcp"]
    assert "ROTA_RUN_ID" in json.loads(given["mcp_servers.rota.env_vars"])
    assert json.loads(given["mcp_servers.rota.default_tools_approval_mode"]) == "approve"


def test_it_waits_for_the_server_of_rota_and_fails_without_it() -> None:
    """Trap: otherwise it asks the model before the server is there, and the tools are missing without a word."""
    words = argv("codex", tools_server=("rota", "mcp"))
    assert "mcp_servers.rota.required=true" in words
    assert "mcp_servers.rota.startup_timeout_sec=60" in words


def test_it_keeps_no_limit_of_turns_tools_or_money() -> None:
    """R-30: what it cannot keep is not among its capabilities."""
    found = ADAPTER.capabilities
    assert (found.max_turns, found.allowed_tools, found.max_usd, found.cost) == (False, False, False, False)
    assert (found.resume, found.tools_server) == (True, True)


def test_a_success_tells_answer_tokens_and_session_and_no_cost() -> None:
    result = replay("codex-success")
    assert (result.problem, result.summary) == (None, "stub answer")
    assert (result.tokens_in, result.tokens_out, result.usd) == (1200, 34, None)
    assert result.session_id == "01a1e2cb-e314-7142-850c-bacffb04b1f5"


def test_an_item_that_is_an_error_is_only_a_warning() -> None:
    """Trap: only turn.failed is a failure."""
    assert '"type": "error"' in recording("codex-success").stdout
    assert replay("codex-success").problem is None


def test_a_resumed_session_tells_the_tokens_of_all_its_runs() -> None:
    """Trap: tokens are cumulative on resume."""
    result = replay("codex-resumed")
    assert (result.tokens_in, result.tokens_are_total) == (2400, True)


def test_what_the_sandbox_did_not_let_through_shows_as_denied() -> None:
    """Trap: the sandbox only lets a command fail, and Codex still exits with 0."""
    result = replay("codex-sandboxed", access=Access.WRITE)
    assert recording("codex-sandboxed").exit_code == 0
    assert (result.problem, result.denied_tools) == (None, ("shell",))


def test_with_full_access_there_is_no_sandbox_to_deny_anything() -> None:
    assert replay("codex-sandboxed", access=Access.FULL).denied_tools == ()


def test_a_command_that_ran_is_not_denied() -> None:
    assert replay("codex-command").denied_tools == ()


def test_an_mcp_tool_that_needed_approval_shows_as_denied() -> None:
    item = {"type": "mcp_tool_call", "server": "rota", "tool": "list_jobs", "status": "failed"}
    item |= {"error": {"message": "MCP tool call requires approval, but approval policy is never"}}
    events = [{"type": "item.completed", "item": item}, {"type": "turn.completed", "usage": {}}]
    ended = replace(recording("codex-success"), stdout="\n".join(map(json.dumps, events)))
    result = read("codex", ended)
    assert (result.problem, result.denied_tools) == (AgentProblem.DENIED, ("mcp__rota__list_jobs",))


def test_an_empty_answer_without_work_is_no_success() -> None:
    """Trap: a run that did nothing is not a success."""
    assert recording("codex-nothing").exit_code == 0
    assert replay("codex-nothing").problem is AgentProblem.AGENT_ERROR


@pytest.mark.parametrize(
    ("name", "problem", "words"),
    [
        ("codex-bad_key", AgentProblem.AUTH, "401"),
        ("codex-quota", AgentProblem.QUOTA, "429"),
        ("codex-no_access", AgentProblem.AUTH, "403"),
        ("codex-overloaded", AgentProblem.OUTAGE, "high demand"),
        ("codex-unavailable", AgentProblem.OUTAGE, "503"),
        ("codex-too_long", AgentProblem.AGENT_ERROR, "context_length_exceeded"),
        ("codex-no_session", AgentProblem.AGENT_ERROR, "no rollout found"),
        ("codex-terminated", AgentProblem.AGENT_ERROR, "codex ended with exit code -15"),
    ],
)
def test_a_failure_has_its_class_and_its_words(name: str, problem: AgentProblem, words: str) -> None:
    result = replay(name)
    assert result.problem is problem
    assert words in (result.error or "")


def test_a_usage_limit_tells_when_it_ends() -> None:
    event = {"type": "turn.failed", "error": {"message": "You've hit your usage limit. Try again at 3:05 PM."}}
    result = read("codex", replace(recording("codex-quota"), stdout=json.dumps(event)))
    assert result.problem is AgentProblem.QUOTA
    assert result.resets_at is not None
    assert (result.resets_at.hour, result.resets_at.minute) == (15, 5)


def test_a_stream_that_breaks_off_is_a_failure() -> None:
    begun = recording("codex-terminated").stdout
    result = read("codex", replace(recording("codex-success"), stdout=begun))
    assert (result.problem, result.error) == (AgentProblem.AGENT_ERROR, "codex ended without a result")
