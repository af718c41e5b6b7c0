"""Claude Code: its command line, and what its recorded streams are read as."""

import json
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace
from tests.agents.replaying import argv, read, recording, replay

from rota.agents.claude import ADAPTER, attach, beyond, invoke
from rota.model.agents import Access, AgentProblem, AgentTask, McpServer, ProcessEnd


def value_of(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


# its command line


def test_a_person_opens_a_session_without_the_settings_of_the_folder_unless_they_are_trusted() -> None:
    task = AgentTask(prompt="", session_id="s-1", cwd="/srv/a")
    assert attach(task).argv == ("claude", "--resume=s-1", "--setting-sources=user")
    assert attach(replace(task, trust_project=True)).argv == ("claude", "--resume=s-1")


def test_a_fork_goes_on_in_a_copy_of_the_session() -> None:
    assert "--fork-session" in invoke(AgentTask(prompt="more", session_id="s-1", fork=True)).argv
    assert "--fork-session" not in invoke(AgentTask(prompt="more", session_id="s-1")).argv
    assert "--fork-session" not in invoke(AgentTask(prompt="more", fork=True)).argv


def test_the_prompt_goes_to_standard_input() -> None:
    invocation = invoke(AgentTask(prompt="a prompt of any length"))
    assert invocation.stdin == "a prompt of any length"
    assert "a prompt of any length" not in invocation.argv


def test_a_stream_of_json_is_asked_for_with_verbose() -> None:
    """Trap: without --verbose it refuses to print its events."""
    words = argv("claude")
    assert value_of(words, "--output-format") == "stream-json"
    assert "--verbose" in words


def test_it_retries_twice_instead_of_for_minutes() -> None:
    """Trap: a bad key is retried ten times, with growing pauses."""
    assert invoke(AgentTask(prompt="look")).env["CLAUDE_CODE_MAX_RETRIES"] == "2"


def test_limits_model_and_session_are_passed_on() -> None:
    """R-30: each limit that it can keep reaches it."""
    words = argv("claude", max_turns=30, max_usd=2.5, model="sonnet", session_id="abc")
    assert {"--max-turns=30", "--max-budget-usd=2.5", "--model=sonnet", "--resume=abc"} <= set(words)


def test_what_is_not_set_is_not_passed_on() -> None:
    options = {word.partition("=")[0] for word in argv("claude")}
    assert {"--max-turns", "--max-budget-usd", "--model", "--resume", "--mcp-config"}.isdisjoint(options)


def test_access_to_read_offers_reading_tools_alone_and_asks_nobody() -> None:
    """R-30: access is translated, permission prompts are denied."""
    words = argv("claude")
    assert value_of(words, "--tools") == value_of(words, "--allowedTools") == "Read,Grep,Glob"
    assert value_of(words, "--permission-mode") == "dontAsk"


def test_access_to_write_edits_in_the_workspace_and_runs_no_command() -> None:
    """R-30. A tool that is named may edit everywhere, so editing tools are offered and not named."""
    words = argv("claude", access=Access.WRITE)
    assert value_of(words, "--permission-mode") == "acceptEdits"
    assert value_of(words, "--tools") == "Read,Grep,Glob,Edit,Write,NotebookEdit"
    assert value_of(words, "--allowedTools") == "Read,Grep,Glob"


def test_full_access_names_every_tool_because_root_may_not_skip_permissions() -> None:
    """Trap: --dangerously-skip-permissions and bypassPermissions are refused as root."""
    words = argv("claude", access=Access.FULL)
    assert {"--dangerously-skip-permissions", "bypassPermissions", "--tools"}.isdisjoint(words)
    assert {"Bash", "Edit", "Write", "WebFetch"} <= set(value_of(words, "--allowedTools").split(","))


def test_allowed_tools_are_the_only_ones_offered() -> None:
    """R-30: without --tools a command that only looks would run although Bash is not allowed."""
    words = argv("claude", allowed_tools=("Read", "mcp__github__get_issue"))
    assert value_of(words, "--tools") == "Read"
    assert value_of(words, "--allowedTools") == "Read,mcp__github__get_issue"
    assert value_of(words, "--permission-mode") == "dontAsk"


def test_a_tool_that_changes_things_goes_beyond_access_to_read() -> None:
    """R-30: such a job is refused at load, and the tool is not passed on either."""
    tools = ("Read", "Edit", "Bash(git log *)")
    assert beyond(Access.READ, tools) == ("Edit", "Bash(git log *)")
    assert beyond(Access.WRITE, tools) == ()
    assert value_of(argv("claude", allowed_tools=tools), "--allowedTools") == "Read"


def test_its_own_timetable_is_taken_away() -> None:
    assert value_of(argv("claude"), "--disallowedTools") == "CronCreate,CronDelete,ScheduleWakeup"


def test_it_is_given_the_tools_of_rota_and_no_other_server() -> None:
    words = argv("claude", tools_server=("rota", "mcp"))
    servers = json.loads(value_of(words, "--mcp-config"))["mcpServers"]
    assert servers == {"rota": {"command": "rota", "args": ["mcp"]}}
    assert "--strict-mcp-config" in words
    assert "mcp__rota" in value_of(words, "--allowedTools").split(",")


def test_it_waits_long_enough_for_the_server_of_rota() -> None:
    """Trap: after 30 s it goes on without the tools."""
    assert invoke(AgentTask(prompt="look", tools_server=("rota", "mcp"))).env["MCP_TIMEOUT"] == "60000"
    assert "MCP_TIMEOUT" not in invoke(AgentTask(prompt="look")).env


def test_servers_of_its_own_settings_start_only_for_who_may_use_them() -> None:
    assert "--strict-mcp-config" in argv("claude")
    assert "--strict-mcp-config" not in argv("claude", allowed_tools=("mcp__github__get_issue",))
    assert "--strict-mcp-config" not in argv("claude", access=Access.FULL)


def test_it_can_keep_every_limit() -> None:
    """R-30"""
    found = ADAPTER.capabilities
    kept = (found.allowed_tools, found.max_turns, found.max_usd, found.resume, found.cost, found.tools_server)
    assert all(kept)


# what it says


def test_a_success_tells_answer_usage_cost_and_session() -> None:
    result = replay("claude-success")
    assert (result.problem, result.error, result.summary) == (None, None, "stub answer")
    assert (result.tokens_in, result.tokens_out, result.usd, result.turns) == (1300, 34, 0.0055, 1)
    assert result.model == "claude-opus-5-5"
    assert result.session_id


def test_a_resumed_session_tells_the_cost_of_all_its_runs() -> None:
    """Trap: cost is cumulative on --resume; so are the tokens by model."""
    result = replay("claude-resumed")
    assert (result.usd, result.usd_is_total) == (0.011, True)
    assert (result.tokens_in, result.tokens_out, result.tokens_are_total) == (2600, 68, True)


def test_a_denied_tool_is_a_success_that_carries_its_name() -> None:
    """Trap: a denied tool exits 0 and shows only in permission_denials."""
    result = replay("claude-tool_denied")
    assert recording("claude-tool_denied").exit_code == 0
    assert (result.problem, result.denied_tools) == (None, ("Bash",))


def test_a_tool_that_was_not_offered_counts_as_denied() -> None:
    """R-30: denied tools show, also where permission_denials is empty."""
    assert replay("claude-tool_left_out").denied_tools == ("Bash",)


def test_a_tool_that_was_used_is_not_denied() -> None:
    result = replay("claude-edit")
    assert (result.problem, result.denied_tools) == (None, ())


def test_no_answer_and_no_tool_is_no_success() -> None:
    """Trap: a run that did nothing is not a success."""
    result = replay("claude-nothing")
    assert recording("claude-nothing").exit_code == 0
    assert result.problem is AgentProblem.AGENT_ERROR
    assert "did nothing" in (result.error or "")


def _without_answer(name: str) -> str:
    events = [json.loads(line) for line in recording(name).stdout.splitlines()]
    return "\n".join(json.dumps(event | ({"result": ""} if event["type"] == "result" else {})) for event in events)


def test_nothing_but_denials_and_no_answer_is_denied() -> None:
    """Trap: a run that did nothing is not a success."""
    result = read("claude", replace(recording("claude-tool_denied"), stdout=_without_answer("claude-tool_denied")))
    assert (result.problem, result.denied_tools) == (AgentProblem.DENIED, ("Bash",))
    assert "Bash" in (result.error or "")


def test_a_tool_that_was_used_is_something_done_also_without_an_answer() -> None:
    result = read("claude", replace(recording("claude-edit"), stdout=_without_answer("claude-edit")))
    assert result.problem is None


def test_a_run_that_did_not_come_to_its_result_tells_what_its_messages_used() -> None:
    ended = recording("claude-max_turns")
    lines = [line for line in ended.stdout.split("\n") if '"type": "result"' not in line]
    doubled = [line for line in lines for _ in range(2 if "msg_14" in line else 1)]
    result = read("claude", replace(ended, stdout="\n".join(doubled), stopped=True))
    assert (result.tokens_in, result.tokens_cached, result.tokens_are_total) == (2600, 200, False)
    assert result.tokens_out is not None


@pytest.mark.parametrize(
    ("name", "problem", "words"),
    [
        ("claude-bad_key", AgentProblem.AUTH, "Invalid API key"),
        ("claude-no_login", AgentProblem.AUTH, "Not logged in"),
        ("claude-rate_limit", AgentProblem.QUOTA, "429"),
        ("claude-overloaded", AgentProblem.OUTAGE, "529"),
    ],
)
def test_an_error_of_the_api_is_a_failure_although_its_subtype_says_success(
    name: str, problem: AgentProblem, words: str
) -> None:
    """Trap: an API error is reported as subtype success with is_error true."""
    assert '"subtype": "success"' in recording(name).stdout
    result = replay(name)
    assert (result.problem, result.summary) == (problem, "")
    assert words in (result.error or "")


def test_a_usage_limit_tells_when_it_ends() -> None:
    result = replay("claude-usage_limit")
    assert (result.problem, result.resets_at) == (AgentProblem.QUOTA, datetime(2026, 11, 16, 12, tzinfo=UTC))


def test_a_usage_limit_in_words_alone_tells_when_it_ends() -> None:
    ended = recording("claude-usage_limit")
    lines = [line for line in ended.stdout.splitlines() if '"rate_limit_event"' not in line]
    result = read("claude", replace(ended, stdout="\n".join(lines)))
    assert result.resets_at == datetime(2026, 11, 16, 12, tzinfo=UTC)


def test_turns_and_money_used_up_are_said_in_the_words_of_the_file() -> None:
    turns, money = replay("claude-max_turns", max_turns=2), replay("claude-max_usd", max_usd=0.01)
    assert (turns.problem, turns.error) == (AgentProblem.AGENT_ERROR, "claude stopped at max_turns (2)")
    assert (money.problem, money.error) == (AgentProblem.AGENT_ERROR, "claude stopped at max_usd (0.01)")
    assert (money.usd, money.tokens_in) == (0.011, 2600)


def test_an_unknown_session_is_a_failure() -> None:
    result = replay("claude-no_session")
    assert result.problem is AgentProblem.AGENT_ERROR
    assert "No conversation found" in (result.error or "")


def test_an_interrupt_is_a_failure_although_it_exits_with_0() -> None:
    """Trap: SIGINT exits 0."""
    assert recording("claude-interrupted").exit_code == 0
    assert replay("claude-interrupted").problem is AgentProblem.AGENT_ERROR


def test_an_interrupt_without_a_result_line_is_a_failure_although_it_exits_with_0() -> None:
    """Trap: SIGINT exits 0, sometimes without a result line."""
    ended = recording("claude-interrupted")
    begun = ended.stdout.splitlines()[0]
    result = read("claude", replace(ended, stdout=begun))
    assert (result.problem, result.error) == (AgentProblem.AGENT_ERROR, "claude ended without a result")
    assert (result.tokens_in, result.usd) == (None, None)
    assert result.session_id


def test_a_process_that_was_stopped_says_so() -> None:
    result = read("claude", replace(recording("claude-terminated"), stopped=True))
    assert (result.problem, result.error) == (AgentProblem.AGENT_ERROR, "claude was stopped")


def test_a_bad_exit_code_after_a_result_is_a_failure() -> None:
    result = read("claude", replace(recording("claude-success"), exit_code=1))
    assert (result.problem, result.error) == (AgentProblem.AGENT_ERROR, "claude ended with exit code 1")


def test_words_on_standard_error_tell_why_there_is_no_result() -> None:
    ended = replace(recording("claude-terminated"), stdout="", stderr="Error: unknown option '--tools'\n", exit_code=1)
    result = read("claude", ended)
    assert result.error == "claude ended with exit code 1: Error: unknown option '--tools'"


def test_what_the_model_wrote_never_passes_for_a_refusal() -> None:
    text = {"type": "assistant", "message": {"content": [{"type": "text", "text": "usage limit reached, 401"}]}}
    result = read("claude", replace(recording("claude-terminated"), stdout=json.dumps(text)))
    assert result.problem is AgentProblem.AGENT_ERROR


@pytest.mark.parametrize("name", ["claude-success", "claude-max_turns", "claude-usage_limit"])
def test_a_stream_cut_anywhere_is_read_without_an_error_of_ours(name: str) -> None:
    ended = recording(name)
    for length in range(0, len(ended.stdout), 97):
        cut = read("claude", replace(ended, stdout=ended.stdout[:length]))
        assert cut.problem is not None or cut.summary == "stub answer"


def test_further_options_folders_and_a_system_prompt_are_words_of_their_own() -> None:
    task = AgentTask(
        prompt="look", args=("--effort=high",), add_dirs=("/srv/a", "/srv/b"), system_prompt="-p is no option"
    )
    argv = invoke(task).argv
    assert {"--effort=high", "--add-dir=/srv/a", "--add-dir=/srv/b"} <= set(argv)
    assert "--append-system-prompt=-p is no option" in argv


def test_a_further_server_starts_and_only_its_named_tools_are_allowed() -> None:
    servers = (
        McpServer("docs", ("npx", "docs"), tools=("search",)),
        McpServer("web", url="https://x/mcp", tools=("a",)),
    )
    argv = invoke(AgentTask(prompt="look", mcp_servers=servers)).argv
    assert json.loads(argv[argv.index("--mcp-config") + 1])["mcpServers"] == {
        "docs": {"command": "npx", "args": ["docs"]},
        "web": {"type": "http", "url": "https://x/mcp"},
    }
    assert argv[argv.index("--allowedTools") + 1] == "Read,Grep,Glob,mcp__docs__search,mcp__web__a"
    assert "--strict-mcp-config" in argv


def test_with_the_access_ask_each_further_tool_needs_permission() -> None:
    task = AgentTask("x", access=Access.ASK, tools_server=("env", "ROTA_PERMISSIONS=only", "rota", "mcp"))
    invocation = invoke(task)
    words = list(invocation.argv)
    assert value_of(words, "--permission-prompt-tool") == "mcp__rota__permission"
    assert value_of(words, "--permission-mode") == "default"
    assert value_of(words, "--allowedTools") == "Read,Grep,Glob,mcp__rota"
    assert "Bash" in value_of(words, "--tools").split(",")
    assert int(invocation.env["MCP_TOOL_TIMEOUT"]) > 600_000


def test_a_call_that_a_person_denied_is_a_denied_tool() -> None:
    """The program does not count it among its own denials."""
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    answer = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "not permitted: deny, by anna"}
    events = [
        {"type": "assistant", "message": {"id": "m", "content": [use]}},
        {"type": "user", "message": {"content": [answer]}},
        {"type": "result", "subtype": "success", "is_error": False, "result": "done", "permission_denials": []},
    ]
    ended = ProcessEnd(0, "\n".join(map(json.dumps, events)))
    assert read("claude", ended).denied_tools == ("Bash",)
