"""OpenCode: `opencode run --format json`, prompt on standard input, events as JSON lines."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

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
    last_of,
    money_at,
    part,
    read_events,
    say_failure,
    say_tool,
    text_at,
    total,
)
from rota.model.agents import Access, AgentInvocation, AgentResult, AgentTask, Capabilities, Probe, ProcessEnd

AGENT = "build"
LOOKING = ("read", "grep", "glob", "list", "skill", "task", "todowrite", "todoread", "invalid", f"{SERVER}_*")
READING = {"*": "deny", **dict.fromkeys(LOOKING, "allow")}
PERMISSIONS = {
    Access.READ: READING,
    Access.WRITE: {**READING, "edit": "allow"},
    Access.FULL: {"*": "allow"},
}
RULED_OUT = ("which prevents you from using", "rejected permission", "unavailable tool")


def invoke(task: AgentTask) -> AgentInvocation:
    """Return the process of a task; its permissions go in by a variable, which counts more than any file."""
    argv = ["opencode", "run", "--format", "json", "--agent", AGENT]
    argv += [f"--model={task.model}"] if task.model else []
    argv += [f"--session={task.session_id}"] if task.session_id else []
    rules = {"permission": {**PERMISSIONS[task.access], **_denials(task)}}
    config: dict[str, Any] = {**rules, "agent": {AGENT: rules}}
    if task.tools_server:
        server = {"type": "local", "command": list(task.tools_server), "enabled": True, "timeout": PATIENCE * 1000}
        config["mcp"] = {SERVER: server}
    env = {"OPENCODE_CONFIG_CONTENT": json.dumps(config), "OPENCODE_DISABLE_AUTOUPDATE": "1"}
    env |= {} if task.trust_project else {"OPENCODE_DISABLE_PROJECT_CONFIG": "1"}
    return AgentInvocation(tuple(argv), env=env, stdin=task.prompt)


def _denials(task: AgentTask) -> dict[str, dict[str, str]]:
    """Return the rules for what is rota's own; of those that match a path the last one counts."""
    state = [task.state] if task.state else []
    own = [path for path in (task.folder, task.cwd) if state and f"{path}/".startswith(f"{task.state}/")]
    editing = "deny" if task.access is Access.READ else "allow"
    rules: dict[str, list[tuple[Sequence[str], str]]] = {
        "edit": [(["*"], editing), (state, "deny"), (own, editing), (task.protected, "deny")],
        "read": [(["*"], "allow"), (state, "deny"), (own, "allow")],
    }
    kinds = {"edit": bool(state or task.protected), "read": bool(state)}
    return {tool: _by_spelling(each, task.cwd) for tool, each in rules.items() if kinds[tool]}


def _by_spelling(rules: Sequence[tuple[Sequence[str], str]], cwd: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for paths, decision in rules:
        for name in (name for path in paths for name in _spellings(path, cwd)):
            found.pop(name, None)  # the order of a map is that of its first entries
            found[name] = decision
    return found


def _spellings(path: str, cwd: str) -> Iterator[str]:
    """Yield how a path and what is below it may be named: whole, and from the run's folder or one above it."""
    bases = (cwd, *map(str, PurePath(cwd).parents)) if os.path.isabs(cwd) and os.path.isabs(path) else ()
    for name in dict.fromkeys((path, *(os.path.relpath(path, base) for base in bases))):
        yield from (name,) if name == "*" else (name, f"{name}/*")


def read(ended: ProcessEnd, task: AgentTask) -> AgentResult:
    """Return what a process did: no event says that it is done, so its exit code does."""
    events = read_events(ended.stdout)
    steps = [part(event, "part") for event in events if event.get("type") == "step_finish"]
    tools = [part(event, "part") for event in events if event.get("type") == "tool_use"]
    found = _figures(events, steps, tools=tools, task=task)
    error = last_of(events, "error")
    if error is not None:
        text = text_at(error, "error.data.message") or text_at(error, "error.name") or end_of("opencode", ended)
        return failed(found, text, status=count_at(error, "error.data.statusCode"), at=ended.ended_at)
    if ended.exit_code != 0 or not steps:
        return failed(found, end_of("opencode", ended), at=ended.ended_at)
    worked = any(not _refused(tool) for tool in tools)
    return found if found.summary.strip() or worked else did_nothing(found)


def _figures(events: list[Event], steps: list[Event], *, tools: list[Event], task: AgentTask) -> AgentResult:
    texts = [text_at(event, "part.text") or "" for event in events if event.get("type") == "text"]
    read_in = ("tokens.input", "tokens.cache.read", "tokens.cache.write")
    written = ("tokens.output", "tokens.reasoning")
    usd = sum(money_at(step, "cost") or 0.0 for step in steps)
    return AgentResult(
        summary=texts[-1] if texts else "",
        tokens_in=total(count_at(step, kind) for step in steps for kind in read_in),
        tokens_cached=total(count_at(step, "tokens.cache.read") for step in steps),
        tokens_out=total(count_at(step, kind) for step in steps for kind in written),
        usd=usd or None,  # it says 0 for a model whose price it does not know
        model=task.model,
        session_id=next((found for event in events if (found := text_at(event, "sessionID"))), task.session_id),
        denied_tools=distinct(_refused(tool) for tool in tools),
        turns=len(steps) or None,
    )


def _refused(tool: Event) -> str:
    """Return the name of a tool that was refused, an empty one when it was not."""
    name, error = text_at(tool, "tool") or "?", text_at(tool, "state.error") or ""
    if name == "invalid":  # stands in for a tool that is not there
        name, error = text_at(tool, "state.input.tool") or "?", text_at(tool, "state.input.error") or ""
    return name if any(words in error for words in RULED_OUT) else ""


def tell(event: Event) -> Iterator[str]:
    """Yield its words, the tools that it has used, and what went wrong."""
    if event.get("type") == "text":
        yield text_at(event, "part.text") or ""
    elif event.get("type") == "tool_use":
        yield say_tool(text_at(event, "part.tool"), part(event, "part.state.input"))
        if text_at(event, "part.state.status") == "error":
            yield say_failure(text_at(event, "part.state.error"))
    elif event.get("type") == "error":
        yield say_failure(text_at(event, "error.data.message") or text_at(event, "error.name"))


ADAPTER = Adapter(
    name="opencode",
    provider="",
    executable="opencode",
    capabilities=Capabilities(resume=True, cost=True, tools_server=True, trust=True),
    probe=Probe(
        version=("opencode", "--version"),
        headless=("opencode", "run", "--help"),
        options=("--format", "--model", "--session"),
    ),
    invoke=invoke,
    read=read,
    tell=tell,
)
