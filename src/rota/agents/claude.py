"""Claude Code: `claude -p`, prompt on standard input, events as JSON lines."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rota.agents.adapter import (
    PATIENCE,
    SERVER,
    Adapter,
    Event,
    count_at,
    did_nothing,
    distinct,
    end_of,
    failed,
    from_epoch,
    hidden_from,
    items_at,
    last_of,
    look_up,
    mcp_config,
    money_at,
    number,
    part,
    read_events,
    say_failure,
    say_tool,
    text_at,
    total,
)
from rota.model import agents

READING = ("Read", "Grep", "Glob")
EDITING = ("Edit", "Write", "NotebookEdit")
WRITING = (*READING, *EDITING)
"""No command, not even git: its options, aliases, filters and hooks start any other program."""
# As root Claude Code refuses to skip permissions, so full access names every tool instead; that works for everybody.
EVERYTHING = (
    *(*READING, *EDITING, "Bash", "Task", "Skill"),
    *("WebFetch", "WebSearch", "Monitor", "TaskStop", "ToolSearch"),
)
TOOLS = {agents.Access.READ: READING, agents.Access.WRITE: WRITING, agents.Access.FULL: EVERYTHING}
OWN_TIMETABLE = ("CronCreate", "CronDelete", "ScheduleWakeup")
"""Tools that schedule inside Claude Code, where nothing of rota sees it."""
ENV = {"CLAUDE_CODE_MAX_RETRIES": "2", "DISABLE_AUTOUPDATER": "1"}
"""Its own ten retries keep a bad key busy for minutes."""
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
    argv += [] if task.trust_project else ["--setting-sources=user"]
    argv += _permissions(task) + _denials(task) + _servers(task)
    env = ENV | ({"MCP_TIMEOUT": str(PATIENCE * 1000)} if task.tools_server else {})
    return agents.AgentInvocation(tuple(argv), env=env, stdin=task.prompt)


def beyond(access: agents.Access, tools: Sequence[str]) -> tuple[str, ...]:
    """Return the tools that change something although the access is to read."""
    if access is not agents.Access.READ:
        return ()
    return tuple(tool for tool in tools if _plain(tool) in (*EDITING, "MultiEdit", "Bash"))


def _option(name: str, value: object) -> list[str]:
    """Return an option and its value in one word: a value of its own may look like another option."""
    return [] if value is None else [f"{name}={value}"]


def _permissions(task: agents.AgentTask) -> list[str]:
    """Name what is allowed; everything else is denied without asking."""
    refused = beyond(task.access, task.allowed_tools)
    tools = [tool for tool in task.allowed_tools if tool not in refused] or TOOLS[task.access]
    edits = task.access is agents.Access.WRITE and not {*EDITING}.isdisjoint(tools)
    # An editing tool that is named may edit everywhere; `acceptEdits` lets it edit in the workspace alone.
    allowed = [tool for tool in tools if not (edits and tool in EDITING)]
    own = [f"mcp__{SERVER}"] if task.tools_server else []
    argv = ["--permission-mode", "acceptEdits" if edits else "dontAsk", "--allowedTools", ",".join([*allowed, *own])]
    if task.allowed_tools or task.access is not agents.Access.FULL:
        # Without this, commands that only look would run although Bash is not among the tools.
        argv += ["--tools", ",".join(distinct(_plain(tool) for tool in tools if not tool.startswith("mcp__")))]
    return [*argv, "--disallowedTools", ",".join(OWN_TIMETABLE)]


def _denials(task: agents.AgentTask) -> list[str]:
    """Deny what is rota's own by rules of a settings text: they win over every rule that allows."""
    # No rule allows again what another one denies, so the folders of the run stay out of them.
    hidden = hidden_from(task)
    rules = [f"Edit({_pattern(path)}{below})" for path in (*task.protected, *hidden) for below in ("", "/**")]
    rules += [f"Read({_pattern(path)}{below})" for path in hidden for below in ("", "/**")]
    return ["--settings", json.dumps({"permissions": {"deny": rules}})] if rules else []


def _pattern(path: str) -> str:
    """Return a path of the whole file system as a rule names it, each character as it is."""
    return "/" + re.sub(r"([\\*?\[\]!#])", r"\\\1", path)


def _plain(tool: str) -> str:
    return tool.partition("(")[0].strip()


def _servers(task: agents.AgentTask) -> list[str]:
    """Start rota's server; those of the user's own settings only for who may use them."""
    argv = ["--mcp-config", json.dumps(mcp_config(task))] if task.tools_server else []
    others = task.access is agents.Access.FULL or any(tool.startswith("mcp__") for tool in task.allowed_tools)
    return argv if others else [*argv, "--strict-mcp-config"]


# what it said


def read(ended: agents.ProcessEnd, task: agents.AgentTask) -> agents.AgentResult:
    """Return what a process did: a success is exit code 0, a result event and no error, all three."""
    events = read_events(ended.stdout)
    result = last_of(events, "result")
    found = _figures(events, result or {})
    if result is None:
        return failed(found, end_of("claude", ended), at=ended.ended_at)
    if result.get("is_error") or result.get("subtype") != "success":
        return _with_error(found, result, events=events, ended=ended, task=task)
    if ended.exit_code != 0:
        return failed(found, end_of("claude", ended), at=ended.ended_at)
    return found if found.summary.strip() or _used(events, found) else did_nothing(found)


def _figures(events: list[Event], result: Event) -> agents.AgentResult:
    started = next((event for event in events if event.get("subtype") == "init"), {})
    # By model, because `usage` leaves out what subagents and the last request of a spent budget used. A run that did
    # not come to its result has told its usage message by message.
    used = (list(part(result, "modelUsage").values()) or [result]) if result else _messages(events)
    turns = count_at(result, "num_turns")
    return agents.AgentResult(
        summary=text_at(result, "result") or "",
        tokens_in=total(count_at(each, kind) for each in used for kind in SENT),
        tokens_cached=total(count_at(each, kind) for each in used for kind in CACHED),
        tokens_out=total(count_at(each, kind) for each in used for kind in WRITTEN),
        usd=money_at(result, "total_cost_usd"),
        model=text_at(started, "model"),
        # A session that it does not find it names too, in a result without a beginning and without a turn.
        session_id=text_at(started, "session_id") or (text_at(result, "session_id") if turns else None),
        denied_tools=_denied(events, result),
        turns=turns,
        usd_is_total=True,
        tokens_are_total=bool(result),
    )


def _messages(events: list[Event]) -> list[Event]:
    """Return the answers of the model, each once: one of several parts comes as several events."""
    answers = (part(event, "message") for event in events if event.get("type") == "assistant")
    return list({text_at(answer, "id") or str(number): answer for number, answer in enumerate(answers)}.values())


def _denied(events: list[Event], result: Event) -> tuple[str, ...]:
    refused = [text_at(denial, "tool_name") or "" for denial in items_at(result, "permission_denials")]
    answers = (text_at(event, "tool_use_result") or "" for event in events if event.get("type") == "user")
    missing = [answer.partition(UNAVAILABLE)[2].partition(".")[0] for answer in answers if UNAVAILABLE in answer]
    return distinct([*refused, *missing])


def _used(events: list[Event], found: agents.AgentResult) -> bool:
    """Say whether a tool was used that was not denied."""
    blocks = (block for event in events for block in items_at(event, "message.content"))
    used = {text_at(block, "name") for block in blocks if text_at(block, "type") == "tool_use"}
    return bool(used - set(found.denied_tools))


def _with_error(
    found: agents.AgentResult, result: Event, *, events: list[Event], ended: agents.ProcessEnd, task: agents.AgentTask
) -> agents.AgentResult:
    found = replace(found, summary="")
    if result.get("subtype") == "error_max_turns":
        return failed(found, f"claude stopped at max_turns ({task.max_turns})", plain=True)
    if result.get("subtype") == "error_max_budget_usd":
        return failed(found, f"claude stopped at max_usd ({task.max_usd})", plain=True)
    told = [text for text in items_at(result, "errors") if isinstance(text, str)]
    text = text_at(result, "result") or "; ".join(told) or end_of("claude", ended)
    failure = failed(found, text, status=count_at(result, "api_error_status"), at=ended.ended_at)
    limit = last_of(events, "rate_limit_event")
    if failure.problem is agents.AgentProblem.QUOTA and text_at(limit, "rate_limit_info.status") == "rejected":
        resets_at = from_epoch(number(look_up(limit, "rate_limit_info.resetsAt")))
        return replace(failure, resets_at=resets_at or failure.resets_at)
    return failure


# what a person who watches it sees


def tell(event: Event) -> Iterator[str]:
    """Yield its words, the tools that it uses, and what went wrong."""
    if event.get("subtype") == "api_retry":
        yield say_failure(f"the provider is asked again: {text_at(event, 'error') or 'no answer'}")
    if event.get("type") == "result" and event.get("is_error"):
        yield say_failure(text_at(event, "result") or text_at(event, "subtype"))
    for block in items_at(event, "message.content"):
        kind = text_at(block, "type")
        if kind == "text" and event.get("type") == "assistant":
            yield text_at(block, "text") or ""
        elif kind == "tool_use":
            yield say_tool(text_at(block, "name"), part(block, "input"))
        elif kind == "tool_result" and look_up(block, "is_error"):
            yield say_failure(text_at(block, "content"))


ADAPTER = Adapter(
    name="claude",
    provider="anthropic",
    executable="claude",
    capabilities=agents.Capabilities(
        allowed_tools=True, max_turns=True, max_usd=True, resume=True, cost=True, tools_server=True, trust=True
    ),
    probe=agents.Probe(
        version=("claude", "--version"),
        login=("claude", "auth", "status"),
        login_env=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        headless=("claude", "--help"),
        options=(
            "--print",
            "--output-format",
            "--permission-mode",
            "--allowedTools",
            "--disallowedTools",
            "--tools",
            "--setting-sources",
        ),
    ),
    invoke=invoke,
    read=read,
    tell=tell,
    beyond=beyond,
)
