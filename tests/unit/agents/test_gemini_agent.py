"""Gemini: its command line, and what its recorded streams are read as."""

import json
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.agents.replaying import ENDED_AT, argv, read, recording, replay

from rota.agents.gemini import ADAPTER, attach, invoke
from rota.model.agents import Access, AgentProblem, AgentTask


def test_the_prompt_comes_by_standard_input() -> None:
    invocation = invoke(AgentTask(prompt="look"))
    assert invocation.stdin == "look"
    assert "look" not in invocation.argv


@pytest.mark.parametrize(
    ("access", "mode"), [(Access.READ, "default"), (Access.WRITE, "auto_edit"), (Access.FULL, "yolo")]
)
def test_access_is_an_approval_mode(access: Access, mode: str) -> None:
    """R-30: access is translated; without a terminal what would be asked for is denied."""
    words = argv("gemini", access=access)
    assert words[words.index("--approval-mode") + 1] == mode
    assert "--skip-trust" in words


def test_model_and_session_are_passed_on() -> None:
    words = argv("gemini", model="gemini-2.5-pro", session_id="abc")
    assert {"--model=gemini-2.5-pro", "--resume=abc"} <= set(words)


def test_it_keeps_no_limit_but_a_session() -> None:
    """R-30: what it cannot keep is not among its capabilities."""
    found = ADAPTER.capabilities
    assert found.resume
    kept = (found.max_turns, found.allowed_tools, found.max_usd, found.cost, found.tools_server)
    assert not any(kept)


def test_a_success_tells_answer_tokens_model_and_session() -> None:
    result = replay("gemini-success")
    assert (result.problem, result.summary) == (None, "stub answer")
    assert (result.tokens_in, result.tokens_out, result.usd) == (1200, 34, None)
    assert (result.model, result.session_id) == ("stub", "c7c42efe-207b-4659-ab3c-a67c20bd9ad0")


def test_an_answer_in_pieces_is_put_together_from_the_last_tool_on() -> None:
    said = [
        {"type": "message", "role": "assistant", "content": "I look.", "delta": True},
        {"type": "tool_use", "tool_name": "glob", "tool_id": "1"},
        {"type": "tool_result", "tool_id": "1", "status": "success"},
        {"type": "message", "role": "assistant", "content": "All ", "delta": True},
        {"type": "message", "role": "assistant", "content": "fine.", "delta": True},
        {"type": "result", "status": "success", "stats": {}},
    ]
    result = read("gemini", replace(recording("gemini-success"), stdout="\n".join(map(json.dumps, said))))
    assert (result.summary, result.tokens_in) == ("All fine.", None)


def test_diagnostics_between_the_events_are_left_out() -> None:
    """Trap: lines such as [STARTUP] come between the events when both streams are one."""
    ended = recording("gemini-success")
    mixed = "[STARTUP] ready\n" + ended.stdout.replace("\n", "\n[DEBUG] {half a line\n")
    assert read("gemini", replace(ended, stdout=mixed)) == read("gemini", ended)


def test_a_tool_that_the_access_leaves_out_shows_as_denied() -> None:
    """R-30: denied tools show, also when the run is a success."""
    result = replay("gemini-tool_left_out")
    assert (result.problem, result.denied_tools) == (None, ("run_shell_command",))


def test_exit_code_41_is_a_missing_login() -> None:
    """Trap: without a login it exits with 41 and prints no event."""
    result = replay("gemini-no_login")
    assert result.problem is AgentProblem.AUTH
    assert "GEMINI_API_KEY" in (result.error or "")


@pytest.mark.parametrize(
    ("name", "code", "problem"),
    [
        ("gemini-bad_key", 145, AgentProblem.AUTH),
        ("gemini-no_access", 147, AgentProblem.AUTH),
        ("gemini-quota", 173, AgentProblem.QUOTA),
        ("gemini-unavailable", 247, AgentProblem.OUTAGE),
    ],
)
def test_an_exit_code_that_is_a_status_cut_to_a_byte_tells_the_class(
    name: str, code: int, problem: AgentProblem
) -> None:
    """Trap: 401 exits with 145 and 429 with 173, which look like signals and are none."""
    assert recording(name).exit_code == code
    assert replay(name).problem is problem


def test_the_delay_that_it_is_told_is_read() -> None:
    result = replay("gemini-delay")
    assert (result.problem, result.resets_at) == (AgentProblem.QUOTA, ENDED_AT + timedelta(seconds=20.5))


def test_a_stream_that_breaks_off_is_a_failure() -> None:
    ended = recording("gemini-success")
    result = read("gemini", replace(ended, stdout=ended.stdout.splitlines()[0], stderr=""))
    assert (result.problem, result.error) == (AgentProblem.AGENT_ERROR, "gemini ended without a result")


def test_an_empty_answer_without_work_is_no_success() -> None:
    """Trap: a run that did nothing is not a success."""
    ended = recording("gemini-success")
    silent = ended.stdout.replace("stub answer", "")
    assert read("gemini", replace(ended, stdout=silent)).problem is AgentProblem.AGENT_ERROR


def test_a_person_opens_a_session_without_the_settings_of_the_folder() -> None:
    opened = attach(AgentTask(prompt="", session_id="s-1"))
    assert opened.argv == ("gemini", "--resume=s-1")
    assert opened.env == {"GEMINI_CLI_TRUST_WORKSPACE": "false"}
