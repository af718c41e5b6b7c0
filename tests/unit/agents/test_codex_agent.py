"""Codex: its command line, and what its recorded streams are read as."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.agents.replaying import argv, read, recording, replay

from rota.agents.codex import ADAPTER, attach, invoke
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
    assert "--model=gpt-5" in words


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


def test_rota_keeps_its_limit_of_turns_and_none_of_tools_or_money() -> None:
    """R-30: what it cannot keep is not among its capabilities."""
    found = ADAPTER.capabilities
    assert (found.counts_turns, found.max_turns) == (True, True)
    assert (found.allowed_tools, found.max_usd, found.cost) == (False, False, False)
    assert (found.resume, found.tools_server) == (True, True)


def test_a_success_tells_answer_tokens_and_session_and_no_cost() -> None:
    result = replay("codex-success")
    assert (result.problem, result.summary) == (None, "stub answer")
    assert (result.tokens_in, result.tokens_cached, result.tokens_out, result.usd) == (1200, 100, 34, None)
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


ID = "01a1e2cb-e314-7142-850c-bacffb04b1f5"
"""The session of the recording codex-success."""


def rollout(folder: Path, *payloads: dict[str, Any]) -> str:
    """Write the file of a session as Codex does; return the folder of all sessions."""
    day = folder / "sessions" / "2026" / "11" / "18"
    day.mkdir(parents=True)
    lines = [json.dumps({"type": "response_item", "payload": payload}) for payload in payloads]
    (day / f"rollout-2026-11-18T07-10-51-{ID}.jsonl").write_text("\n".join(lines) + "\n")
    return str(folder / "sessions")


def called(number: int, output: str, **call: str) -> tuple[dict[str, Any], dict[str, Any]]:
    made = {"type": "function_call", "call_id": f"call_{number}", "name": "exec_command", **call}
    return made, {"type": "function_call_output", "call_id": f"call_{number}", "output": output}


BEGUN = {"type": "task_started"}
SANDBOXED = "Process exited with code 1\nOutput:\ntouch: cannot touch '/usr/x': Read-only file system\n"


def test_a_denied_command_that_the_stream_leaves_out_is_found_in_the_file_of_the_session(tmp_path: Path) -> None:
    """Trap: Codex drops the events of commands that end at once."""
    assert replay("codex-success", access=Access.WRITE).denied_tools == ()
    sessions = rollout(tmp_path, BEGUN, *called(1, SANDBOXED))
    assert replay("codex-success", access=Access.WRITE, sessions=sessions).denied_tools == ("shell",)
    assert replay("codex-success", access=Access.FULL, sessions=sessions).denied_tools == ()


def test_only_the_last_turn_of_a_session_counts(tmp_path: Path) -> None:
    sessions = rollout(tmp_path, BEGUN, *called(1, SANDBOXED), BEGUN, *called(2, "Process exited with code 0\n"))
    assert replay("codex-success", access=Access.WRITE, sessions=sessions).denied_tools == ()


def test_words_of_the_sandbox_in_the_output_of_a_command_that_worked_deny_nothing(tmp_path: Path) -> None:
    printed = "Process exited with code 0\nOutput:\nRead-only file system\n"
    sessions = rollout(tmp_path, BEGUN, *called(1, printed))
    assert replay("codex-success", access=Access.WRITE, sessions=sessions).denied_tools == ()


def test_a_tool_of_a_server_is_denied_under_its_name(tmp_path: Path) -> None:
    refused = "MCP tool call requires approval, but approval policy is never"
    sessions = rollout(tmp_path, BEGUN, *called(1, refused, name="list_jobs", namespace="mcp__rota"))
    assert replay("codex-success", sessions=sessions).denied_tools == ("mcp__rota__list_jobs",)


def test_a_run_that_was_stopped_tells_what_the_file_of_its_session_counted(tmp_path: Path) -> None:
    counted = {"input_tokens": 2400, "cached_input_tokens": 200, "output_tokens": 68}
    sessions = rollout(tmp_path, BEGUN, {"turn_token_usage": {"input_tokens": 1200}}, {"turn_token_usage": counted})
    begun = recording("codex-success").stdout.split("\n")[0]
    ended = replace(recording("codex-success"), stdout=begun, exit_code=None, stopped=True)
    result = read("codex", ended, sessions=sessions)
    assert (result.tokens_in, result.tokens_cached, result.tokens_out) == (2400, 200, 68)
    assert not result.tokens_are_total


def test_the_model_is_the_one_that_the_file_of_the_session_names_where_the_job_names_none(tmp_path: Path) -> None:
    sessions = rollout(tmp_path, BEGUN, {"cwd": "/srv", "model": "gpt-5.5"})
    assert replay("codex-success", sessions=sessions).model == "gpt-5.5"
    assert replay("codex-success", sessions=sessions, model="gpt-5.5-mini").model == "gpt-5.5-mini"


@pytest.mark.parametrize("sessions", ["", "/nowhere"])
def test_without_the_file_of_the_session_its_stream_counts(sessions: str) -> None:
    assert replay("codex-success", sessions=sessions).problem is None


def test_the_folder_of_the_sessions_is_that_of_the_run() -> None:
    assert ADAPTER.sessions is not None
    assert ADAPTER.sessions({"HOME": "/home/a"}) == "/home/a/.codex/sessions"
    assert ADAPTER.sessions({"HOME": "/home/a", "CODEX_HOME": "/srv/codex"}) == "/srv/codex/sessions"
    assert ADAPTER.sessions({}) == ""


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


def test_further_folders_are_writable_where_the_run_may_write() -> None:
    task = AgentTask(prompt="look", access=Access.WRITE, cwd="/srv/a", state="/srv/a/.rota", add_dirs=("/srv/b",))
    assert any('"/srv/b"="write"' in word for word in invoke(task).argv)
    assert any('"/srv/b"="read"' in word for word in invoke(replace(task, access=Access.READ)).argv)


def test_a_person_opens_a_session_in_a_folder_that_stays_untrusted() -> None:
    task = AgentTask(prompt="", session_id="s-1", cwd="/srv/a")
    argv = attach(task).argv
    assert argv[0] == "codex"
    assert argv[-2:] == ("resume", "s-1")
    assert '"/srv/a"={"trust_level"="untrusted"}' in argv[2]
    assert attach(replace(task, trust_project=True)).argv == ("codex", "resume", "s-1")
