"""OpenCode: `opencode run --format json`, prompt on standard input, events as JSON lines."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

from msgspec.structs import replace

from rota.agents import adapter
from rota.agents.windows import header_windows
from rota.model.agents import Access, AgentInvocation, AgentResult, AgentTask, Capabilities, Probe, ProcessEnd

AGENT = "build"
LOOKING = ("read", "grep", "glob", "list", "skill", "task", "todowrite", "todoread", "invalid", f"{adapter.SERVER}_*")
READING = {"*": "deny", **dict.fromkeys(LOOKING, "allow")}
PERMISSIONS = {Access.READ: READING, Access.WRITE: {**READING, "edit": "allow"}, Access.FULL: {"*": "allow"}}
RULED_OUT = ("which prevents you from using", "rejected permission", "unavailable tool")


def invoke(task: AgentTask) -> AgentInvocation:
    """Return the process of a task; the variable with its permissions overrides all files."""
    argv = ["opencode", "run", "--format", "json", "--agent", AGENT]
    argv += [f"--model={task.model}"] if task.model else []
    argv += [f"--session={task.session_id}"] if task.session_id else []
    argv += ["--fork"] if task.fork and task.session_id else []
    argv += task.args
    config: dict[str, Any] = {}
    rules: dict[str, dict[str, Any]] = {"permission": {**PERMISSIONS[task.access], **_denials(task)}}
    servers = {adapter.SERVER: {"type": "local", "command": list(task.tools_server)}} if task.tools_server else {}
    for mcp_server in task.mcp_servers:
        local = {"type": "local", "command": list(mcp_server.command)}
        servers[mcp_server.name] = local if mcp_server.command else {"type": "remote", "url": mcp_server.url}
        rules["permission"] |= {f"{mcp_server.name}_{tool}": "allow" for tool in mcp_server.tools or ("*",)}
    if servers:
        further = {"enabled": True, "timeout": adapter.PATIENCE * 1000}
        config["mcp"] = {name: server | further for name, server in servers.items()}
    config |= {**rules, "agent": {AGENT: rules}}
    env = {"OPENCODE_CONFIG_CONTENT": json.dumps(config), "OPENCODE_DISABLE_AUTOUPDATE": "1"}
    return AgentInvocation(tuple(argv), env=env | _distrust(task), stdin=task.prompt)


def attach(task: AgentTask) -> AgentInvocation:
    """Return the process with which a person opens a session."""
    return AgentInvocation(("opencode", f"--session={task.session_id}"), env=_distrust(task))


def _distrust(task: AgentTask) -> dict[str, str]:
    return {} if task.trust_project else {"OPENCODE_DISABLE_PROJECT_CONFIG": "1"}


def _denials(task: AgentTask) -> dict[str, dict[str, str]]:
    """Return the rules for rota's files; the last rule that matches a path applies."""
    state = [task.state] if task.state else []
    own = [path for path in (task.folder, task.cwd) if state and f"{path}/".startswith(f"{task.state}/")]
    editing = "deny" if task.access is Access.READ else "allow"
    rules: dict[str, list[tuple[Sequence[str], str]]] = {
        "edit": [(["*"], editing), (state, "deny"), (own, editing), (task.protected, "deny")],
        "read": [(["*"], "allow"), (state, "deny"), (own, "allow")],
    }
    needed = {"edit": bool(state or task.protected), "read": bool(state)}
    return {tool: _by_spelling(rules[tool], task.cwd) for tool in rules if needed[tool]}


def _by_spelling(rules: Sequence[tuple[Sequence[str], str]], cwd: str) -> dict[str, str]:
    decisions: dict[str, str] = {}
    for paths, decision in rules:
        for name in (name for path in paths for name in _spellings(path, cwd)):
            decisions.pop(name, None)  # a key keeps the position of its first entry
            decisions[name] = decision
    return decisions


def _spellings(path: str, cwd: str) -> Iterator[str]:
    """Yield the patterns of a path and its content: absolute, and relative to the run's folder and its parents."""
    bases = (cwd, *map(str, PurePath(cwd).parents)) if os.path.isabs(cwd) and os.path.isabs(path) else ()
    for name in dict.fromkeys((path, *(os.path.relpath(path, base) for base in bases))):
        yield from (name,) if name == "*" else (name, f"{name}/*")


def read(ended: ProcessEnd, task: AgentTask) -> AgentResult:
    """Return the result of a process; no event reports success, so the exit code decides."""
    events = adapter.read_events(ended.stdout)
    steps = [adapter.part(event, "part") for event in events if event.get("type") == "step_finish"]
    tools = [adapter.part(event, "part") for event in events if event.get("type") == "tool_use"]
    outcome = _figures(events, steps, tools=tools, task=task)
    error = adapter.last_of(events, "error")
    if error is not None:
        text = adapter.text_at(error, "error.data.message") or adapter.text_at(error, "error.name")
        status = adapter.count_at(error, "error.data.statusCode")
        headers = adapter.part(error, "error.data.responseHeaders")
        outcome = replace(outcome, windows=header_windows(headers))
        return adapter.failed_end("opencode", outcome, ended, text=text, status=status)
    if ended.exit_code != 0 or not steps:
        return adapter.failed_end("opencode", outcome, ended)
    return adapter.succeeded(outcome, worked=any(not _refused(tool) for tool in tools))


def _figures(
    events: list[adapter.Event], steps: list[adapter.Event], *, tools: list[adapter.Event], task: AgentTask
) -> AgentResult:
    texts = [adapter.text_at(event, "part.text") or "" for event in events if event.get("type") == "text"]
    read_in = ("tokens.input", "tokens.cache.read", "tokens.cache.write")
    written = ("tokens.output", "tokens.reasoning")
    usd = sum(adapter.number(step.get("cost")) or 0.0 for step in steps)
    return AgentResult(
        summary=texts[-1] if texts else "",
        tokens_in=adapter.total(adapter.count_at(step, kind) for step in steps for kind in read_in),
        tokens_cached=adapter.total(adapter.count_at(step, "tokens.cache.read") for step in steps),
        tokens_out=adapter.total(adapter.count_at(step, kind) for step in steps for kind in written),
        usd=usd or None,  # 0 means an unknown price
        model=task.model,
        session_id=next(
            (session for event in events if (session := adapter.text_at(event, "sessionID"))), task.session_id
        ),
        denied_tools=adapter.distinct(_refused(tool) for tool in tools),
        turns=len(steps) or None,
    )


def _refused(tool: adapter.Event) -> str:
    """Return the name of a refused tool, or an empty text."""
    name, error = adapter.text_at(tool, "tool") or "?", adapter.text_at(tool, "state.error") or ""
    if name == "invalid":  # replaces a missing tool
        name, error = adapter.text_at(tool, "state.input.tool") or "?", adapter.text_at(tool, "state.input.error") or ""
    return name if any(words in error for words in RULED_OUT) else ""


def tell(event: adapter.Event) -> Iterator[str]:
    """Yield text, tool uses and failures."""
    if event.get("type") == "text":
        yield adapter.text_at(event, "part.text") or ""
    elif event.get("type") == "tool_use":
        yield adapter.say_tool(adapter.text_at(event, "part.tool"), adapter.part(event, "part.state.input"))
        if adapter.text_at(event, "part.state.status") == "error":
            yield adapter.say_failure(adapter.text_at(event, "part.state.error"))
    elif event.get("type") == "error":
        yield adapter.say_failure(adapter.text_at(event, "error.data.message") or adapter.text_at(event, "error.name"))


ADAPTER = adapter.Adapter(
    name="opencode",
    provider="",
    executable="opencode",
    home="XDG_DATA_HOME",
    sign_in="opencode auth login",
    capabilities=Capabilities(
        args=True,
        mcp_servers=True,
        fork=True,
        max_turns=True,
        max_usd=True,
        counts_turns=True,
        loop_guard=True,
        resume=True,
        cost=True,
        tools_server=True,
        trust=True,
    ),
    probe=Probe(
        version=("opencode", "--version"),
        headless=("opencode", "run", "--help"),
        options=("--format", "--model", "--session"),
    ),
    invoke=invoke,
    read=read,
    attach=attach,
    tell=tell,
)
