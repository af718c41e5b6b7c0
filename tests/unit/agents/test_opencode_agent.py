"""OpenCode: its command line, and what its recorded streams are read as."""

import json

import pytest
from msgspec.structs import replace
from tests.agents.replaying import argv, read, recording, replay

from rota.agents.opencode import ADAPTER, attach, invoke
from rota.model.agents import Access, AgentProblem, AgentTask


def config(**task: object) -> dict[str, object]:
    return json.loads(invoke(AgentTask(**{"prompt": "look", **task})).env["OPENCODE_CONFIG_CONTENT"])


def test_the_prompt_comes_by_standard_input() -> None:
    invocation = invoke(AgentTask(prompt="look"))
    assert invocation.stdin == "look"
    assert "look" not in invocation.argv


def test_model_and_session_are_passed_on() -> None:
    words = argv("opencode", model="anthropic/claude-sonnet", session_id="ses_1")
    assert {"--model=anthropic/claude-sonnet", "--session=ses_1"} <= set(words)


@pytest.mark.parametrize(
    ("access", "edit"),
    [(Access.READ, None), (Access.WRITE, "allow")],
)
def test_access_denies_everything_that_it_does_not_name(access: Access, edit: object) -> None:
    """R-30: access is translated, and nothing is left to be asked for."""
    rules = config(access=access)["permission"]
    assert isinstance(rules, dict)
    assert next(iter(rules.items())) == ("*", "deny")
    assert (rules.get("edit"), rules.get("bash"), rules["read"]) == (edit, None, "allow")


def test_full_access_allows_everything() -> None:
    """R-30"""
    assert config(access=Access.FULL)["permission"] == {"*": "allow"}


def test_the_agent_that_runs_has_the_same_rules_whatever_a_file_says_of_it() -> None:
    """R-30: permissions of an agent in a file count more than the general ones."""
    found = config()
    assert found["agent"] == {"build": {"permission": found["permission"]}}
    assert "build" in argv("opencode")


def test_it_is_given_the_tools_of_rota() -> None:
    found = config(tools_server=("rota", "mcp"))
    local = {"type": "local", "command": ["rota", "mcp"], "enabled": True}
    assert found["mcp"] == {"rota": {**local, "timeout": 60_000}}
    assert "mcp" not in config()


def test_the_model_says_who_answers() -> None:
    assert ADAPTER.provider_for("anthropic/claude-sonnet") == "anthropic"
    assert ADAPTER.provider_for("openrouter/meta/llama") == "openrouter"
    assert ADAPTER.provider_for(None) == "opencode"


def test_rota_keeps_its_limits_of_turns_and_money_and_none_of_tools() -> None:
    """R-30: what it cannot keep is not among its capabilities."""
    found = ADAPTER.capabilities
    assert (found.counts_turns, found.max_turns, found.allowed_tools, found.max_usd) == (True, True, False, True)
    assert (found.resume, found.cost, found.tools_server) == (True, True, True)


def test_a_success_adds_up_tokens_and_cost_of_its_steps() -> None:
    one, two = replay("opencode-success", model="stub/m"), replay("opencode-tool_denied", model="stub/m")
    assert (one.problem, one.summary, one.model) == (None, "stub answer", "stub/m")
    assert (one.tokens_in, one.tokens_out, one.usd, one.turns) == (1200, 34, 0.00254, 1)
    assert (two.tokens_in, two.tokens_out, two.usd, two.turns) == (2400, 68, 0.00508, 2)
    assert (one.session_id or "").startswith("ses_")


def test_a_cost_of_0_is_unknown() -> None:
    """It says 0 for a model whose price it does not know; unknown figures are None, never 0."""
    ended = recording("opencode-success")
    free = ended.stdout.replace("0.00254", "0")
    assert read("opencode", replace(ended, stdout=free)).usd is None


@pytest.mark.parametrize("name", ["opencode-tool_left_out", "opencode-tool_denied"])
def test_a_tool_that_is_not_offered_or_not_allowed_shows_as_denied(name: str) -> None:
    """R-30: denied tools show, also when the run is a success."""
    result = replay(name)
    assert (result.problem, result.denied_tools) == (None, ("bash",))


def test_no_answer_and_no_tool_is_no_success() -> None:
    """Trap: there is no final event, and a run that did nothing is not a success."""
    assert recording("opencode-nothing").exit_code == 0
    result = replay("opencode-nothing")
    assert result.problem is AgentProblem.AGENT_ERROR
    assert "did nothing" in (result.error or "")


def test_an_end_without_any_step_is_a_failure_although_it_exits_with_0() -> None:
    """Trap: there is no final event, so a stream that says nothing must not pass."""
    result = read("opencode", replace(recording("opencode-success"), stdout=""))
    assert (result.problem, result.error) == (AgentProblem.AGENT_ERROR, "opencode ended without a result")


@pytest.mark.parametrize(
    ("name", "problem", "words"),
    [
        ("opencode-bad_key", AgentProblem.AUTH, "no such key"),
        ("opencode-quota", AgentProblem.QUOTA, "too many"),
        ("opencode-no_session", AgentProblem.AGENT_ERROR, "Session not found"),
    ],
)
def test_a_failure_has_its_class_and_its_words(name: str, problem: AgentProblem, words: str) -> None:
    result = replay(name)
    assert result.problem is problem
    assert words in (result.error or "")
    assert "\x1b" not in (result.error or "")


def test_a_person_opens_a_session_without_the_settings_of_the_folder() -> None:
    opened = attach(AgentTask(prompt="", session_id="s-1"))
    assert opened.argv == ("opencode", "--session=s-1")
    assert opened.env == {"OPENCODE_DISABLE_PROJECT_CONFIG": "1"}
    assert attach(AgentTask(prompt="", session_id="s-1", trust_project=True)).env == {}
