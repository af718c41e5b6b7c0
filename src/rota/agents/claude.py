"""Claude Code: `claude -p`, prompt on standard input, events as JSON lines."""

import json
import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from rota.agents import adapter
from rota.agents.windows import claude_windows
from rota.model import agents

READING = ("Read", "Grep", "Glob")
EDITING = ("Edit", "Write", "NotebookEdit")
WRITING = (*READING, *EDITING)
"""No command, not even git: its options, aliases, filters and hooks can start any program."""
# As root Claude Code refuses to skip permissions, so full access names every tool.
EVERYTHING = (
    *(*READING, *EDITING, "Bash", "Task", "Skill"),
    *("WebFetch", "WebSearch", "Monitor", "TaskStop", "ToolSearch"),
)
TOOLS = {
    agents.Access.READ: READING,
    agents.Access.ASK: READING,
    agents.Access.WRITE: WRITING,
    agents.Access.FULL: EVERYTHING,
}
OWN_TIMETABLE = ("CronCreate", "CronDelete", "ScheduleWakeup")
"""Tools that schedule inside Claude Code, invisible to rota."""
ENV = {"CLAUDE_CODE_MAX_RETRIES": "2", "DISABLE_AUTOUPDATER": "1"}
"""With its default of ten retries a bad key takes minutes."""
PERSON_PATIENCE = "900000"
"""Milliseconds in which a tool may answer: longer than a person has to permit a call."""
SENT = (
    *("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"),
    *("usage.input_tokens", "usage.cache_read_input_tokens", "usage.cache_creation_input_tokens"),
)
CACHED = ("cacheReadInputTokens", "usage.cache_read_input_tokens")
WRITTEN = ("outputTokens", "usage.output_tokens")
UNAVAILABLE = "No such tool available: "


def invoke(task: agents.AgentTask) -> agents.AgentInvocation:
    """Return the process of a task."""
    argv = ["claude", "-p", "--output-format", "stream-json", "--verbose"]
    argv += _option("--model", task.model) + _option("--max-turns", task.max_turns)
    argv += _option("--max-budget-usd", task.max_usd) + _option("--resume", task.session_id)
    argv += ["--fork-session"] if task.fork and task.session_id else []
    argv += [] if task.trust_project else ["--setting-sources=user"]
    argv += [f"--add-dir={folder}" for folder in task.add_dirs] + _option(
        "--append-system-prompt", task.system_prompt or None
    )
    argv += [*_permissions(task), *_denials(task), *_servers(task), *task.args]
    served = task.tools_server or task.mcp_servers
    env = ENV | ({"MCP_TIMEOUT": str(adapter.PATIENCE * 1000)} if served else {})
    env |= {"MCP_TOOL_TIMEOUT": PERSON_PATIENCE} if task.access is agents.Access.ASK else {}
    return agents.AgentInvocation(tuple(argv), env=env, stdin=task.prompt)


def attach(task: agents.AgentTask) -> agents.AgentInvocation:
    """Return the process with which a person opens a session; without trust, settings of the folder are ignored."""
    own = [] if task.trust_project else ["--setting-sources=user"]
    return agents.AgentInvocation(("claude", *_option("--resume", task.session_id), *own))


def beyond(access: agents.Access, tools: Sequence[str]) -> tuple[str, ...]:
    """Return the tools that change files although the access is `read`."""
    if access is not agents.Access.READ:
        return ()
    return tuple(tool for tool in tools if _plain(tool) in (*EDITING, "MultiEdit", "Bash"))


def _option(name: str, value: object) -> list[str]:
    return [] if value is None else [f"{name}={value}"]  # one word: a value may look like an option


def _permissions(task: agents.AgentTask) -> list[str]:
    refused = beyond(task.access, task.allowed_tools)
    tools = [tool for tool in task.allowed_tools if tool not in refused] or TOOLS[task.access]
    edits = task.access is agents.Access.WRITE and not {*EDITING}.isdisjoint(tools)
    # An editing tool that is named may edit everywhere; `acceptEdits` lets it edit in the workspace alone.
    allowed = [tool for tool in tools if not (edits and tool in EDITING)]
    own = [f"mcp__{adapter.SERVER}"] if task.tools_server else []
    own += [f"mcp__{server.name}__{tool}" for server in task.mcp_servers for tool in server.tools]
    own += [f"mcp__{server.name}" for server in task.mcp_servers if not server.tools]
    if task.access is agents.Access.ASK:
        return _asking(tools, own)
    argv = ["--permission-mode", "acceptEdits" if edits else "dontAsk", "--allowedTools", ",".join([*allowed, *own])]
    if task.allowed_tools or task.access is not agents.Access.FULL:
        # Without this, commands that only look would run although Bash is not among the tools.
        argv += ["--tools", ",".join(adapter.distinct(_plain(tool) for tool in tools if not tool.startswith("mcp__")))]
    return [*argv, "--disallowedTools", ",".join(OWN_TIMETABLE)]


def _asking(tools: Sequence[str], own: Sequence[str]) -> list[str]:
    """Return the options with which each tool call beyond `tools` needs the permission of a person."""
    argv = ["--permission-mode", "default", "--permission-prompt-tool", f"mcp__{adapter.SERVER}__{adapter.PERMISSION}"]
    argv += ["--allowedTools", ",".join([*tools, *own])]
    return [*argv, "--tools", ",".join(EVERYTHING), "--disallowedTools", ",".join(OWN_TIMETABLE)]


def _denials(task: agents.AgentTask) -> list[str]:
    # Denials win over all rules that allow, so no rule may name a parent of the run's folders.
    hidden = adapter.hidden_from(task)
    denied = (("Edit", (*task.protected, *hidden)), ("Read", hidden))
    rules = [f"{verb}({_pattern(path)}{below})" for verb, paths in denied for path in paths for below in ("", "/**")]
    return ["--settings", json.dumps({"permissions": {"deny": rules}})] if rules else []


def _pattern(path: str) -> str:
    return "/" + re.sub(r"([\\*?\[\]!#])", r"\\\1", path)


def _plain(tool: str) -> str:
    return tool.partition("(")[0].strip()


def _servers(task: agents.AgentTask) -> list[str]:
    """Configure rota's server and those of the task; servers of the user's settings start only if it may use them."""
    argv = ["--mcp-config", json.dumps(adapter.mcp_config(task))] if task.tools_server or task.mcp_servers else []
    others = task.access is agents.Access.FULL or any(tool.startswith("mcp__") for tool in task.allowed_tools)
    return argv if others else [*argv, "--strict-mcp-config"]


# output


def read(ended: agents.ProcessEnd, task: agents.AgentTask) -> agents.AgentResult:
    """Return the result of a process; success needs exit code 0, a result event and no error."""
    events = adapter.read_events(ended.stdout)
    result = adapter.last_of(events, "result")
    outcome = _figures(events, result or {})
    if result is not None and (result.get("is_error") or result.get("subtype") != "success"):
        return _with_error(outcome, result, events=events, ended=ended, task=task)
    if result is None or ended.exit_code != 0:
        return adapter.failed_end("claude", outcome, ended)
    blocks = (block for event in events for block in adapter.items_at(event, "message.content"))
    used = {adapter.text_at(block, "name") for block in blocks if adapter.text_at(block, "type") == "tool_use"}
    return adapter.succeeded(outcome, worked=bool(used - set(outcome.denied_tools)))


def _figures(events: list[adapter.Event], result: adapter.Event) -> agents.AgentResult:
    started = next((event for event in events if event.get("subtype") == "init"), {})
    # By model, because `usage` omits subagents and the last request of a spent budget. A run without a result has its
    # usage in the messages.
    used = (list(adapter.part(result, "modelUsage").values()) or [result]) if result else _messages(events)
    turns = adapter.count_at(result, "num_turns")
    return agents.AgentResult(
        summary=adapter.text_at(result, "result") or "",
        tokens_in=adapter.total(adapter.count_at(each, kind) for each in used for kind in SENT),
        tokens_cached=adapter.total(adapter.count_at(each, kind) for each in used for kind in CACHED),
        tokens_out=adapter.total(adapter.count_at(each, kind) for each in used for kind in WRITTEN),
        usd=adapter.number(result.get("total_cost_usd")),
        model=adapter.text_at(started, "model"),
        # The result without a turn also names a session that was not outcome.
        session_id=adapter.text_at(started, "session_id") or (adapter.text_at(result, "session_id") if turns else None),
        denied_tools=_denied(events, result),
        turns=turns,
        usd_is_total=True,
        tokens_are_total=bool(result),
        windows=claude_windows(events),
    )


def _messages(events: list[adapter.Event]) -> list[adapter.Event]:
    """Return each answer of the model once; an answer of several parts has several events."""
    answers = (adapter.part(event, "message") for event in events if event.get("type") == "assistant")
    return list(
        {adapter.text_at(answer, "id") or str(number): answer for number, answer in enumerate(answers)}.values()
    )


def _denied(events: list[adapter.Event], result: adapter.Event) -> tuple[str, ...]:
    refused = [adapter.text_at(denial, "tool_name") or "" for denial in adapter.items_at(result, "permission_denials")]
    answers = (adapter.text_at(event, "tool_use_result") or "" for event in events if event.get("type") == "user")
    missing = [answer.partition(UNAVAILABLE)[2].partition(".")[0] for answer in answers if UNAVAILABLE in answer]
    return adapter.distinct([*refused, *missing, *_forbidden(events)])


def _forbidden(events: list[adapter.Event]) -> Iterator[str]:
    """Yield the tools that a person denied, which the program does not count among its denials."""
    names: dict[str | None, str] = {}
    for block in (block for event in events for block in adapter.items_at(event, "message.content")):
        if adapter.text_at(block, "type") == "tool_use":
            names[adapter.text_at(block, "id")] = adapter.text_at(block, "name") or "?"
        elif adapter.look_up(block, "is_error") and adapter.NOT_PERMITTED in json.dumps(block.get("content")):
            yield names.get(adapter.text_at(block, "tool_use_id"), "?")


def _with_error(
    outcome: agents.AgentResult,
    result: adapter.Event,
    *,
    events: list[adapter.Event],
    ended: agents.ProcessEnd,
    task: agents.AgentTask,
) -> agents.AgentResult:
    outcome = replace(outcome, summary="")
    if result.get("subtype") == "error_max_turns":
        return adapter.failed(outcome, f"claude stopped at max_turns ({task.max_turns})", plain=True)
    if result.get("subtype") == "error_max_budget_usd":
        return adapter.failed(outcome, f"claude stopped at max_usd ({task.max_usd})", plain=True)
    errors = [text for text in adapter.items_at(result, "errors") if isinstance(text, str)]
    text, status = adapter.text_at(result, "result") or "; ".join(errors), adapter.count_at(result, "api_error_status")
    failure = adapter.failed_end("claude", outcome, ended, text=text, status=status)
    limit = adapter.last_of(events, "rate_limit_event")
    if failure.problem is agents.AgentProblem.QUOTA and adapter.text_at(limit, "rate_limit_info.status") == "rejected":
        resets_at = adapter.from_epoch(adapter.number(adapter.look_up(limit, "rate_limit_info.resetsAt")))
        return replace(failure, resets_at=resets_at or failure.resets_at)
    return failure


def tell(event: adapter.Event) -> Iterator[str]:
    """Yield text, tool uses and failures."""
    if event.get("subtype") == "api_retry":
        yield adapter.say_failure(f"retrying the provider: {adapter.text_at(event, 'error') or 'no answer'}")
    if event.get("type") == "result" and event.get("is_error"):
        yield adapter.say_failure(adapter.text_at(event, "result") or adapter.text_at(event, "subtype"))
    for block in adapter.items_at(event, "message.content"):
        kind = adapter.text_at(block, "type")
        if kind == "text" and event.get("type") == "assistant":
            yield adapter.text_at(block, "text") or ""
        elif kind == "tool_use":
            yield adapter.say_tool(adapter.text_at(block, "name"), adapter.part(block, "input"))
        elif kind == "tool_result" and adapter.look_up(block, "is_error"):
            yield adapter.say_failure(adapter.text_at(block, "content"))


ADAPTER = adapter.Adapter(
    name="claude",
    provider="anthropic",
    executable="claude",
    home="CLAUDE_CONFIG_DIR",
    sign_in="claude auth login",
    capabilities=agents.Capabilities(
        access=frozenset(agents.Access),
        args=True,
        add_dirs=True,
        mcp_servers=True,
        system_prompt=True,
        allowed_tools=True,
        max_turns=True,
        max_usd=True,
        loop_guard=True,
        resume=True,
        cost=True,
        tools_server=True,
        trust=True,
        fork=True,
        windows=True,
    ),
    probe=agents.Probe(
        version=("claude", "--version"),
        login=("claude", "auth", "status"),
        login_env=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        headless=("claude", "--help"),
        options=(
            *("--print", "--output-format", "--permission-mode", "--allowedTools", "--disallowedTools"),
            *("--tools", "--setting-sources"),
        ),
    ),
    invoke=invoke,
    read=read,
    attach=attach,
    tell=tell,
    beyond=beyond,
)
