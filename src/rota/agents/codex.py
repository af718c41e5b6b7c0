"""Codex: `codex exec --json`, prompt on standard input, events as JSON lines."""

import json
from collections.abc import Iterator

from rota.agents.adapter import Adapter
from rota.agents.endings import did_nothing, end_of, failed
from rota.agents.events import Event, count_at, distinct, last_of, part, read_events, text_at
from rota.agents.servers import FORWARDED, PATIENCE, SERVER
from rota.agents.telling import say_failure, say_tool
from rota.model.agents import Access, AgentResult, AgentTask, Capabilities, Ended, Invocation, Probe

SANDBOXES = {Access.READ: "read-only", Access.WRITE: "workspace-write", Access.FULL: "danger-full-access"}
TALK = ("agent_message", "reasoning", "error", "todo_list")
"""Items that are no work: words, and warnings, which come as errors."""
SANDBOXED = ("Read-only file system", "Operation not permitted")


def invoke(task: AgentTask) -> Invocation:
    """Return the process of a task; outside a git repository Codex must be told that this is meant."""
    argv = ["codex", "exec", "--json", "--skip-git-repo-check", "-s", SANDBOXES[task.access]]
    argv += ["-c", 'approval_policy="never"', *_server(task)]
    argv += ["-m", task.model] if task.model else []
    argv += ["resume", task.session_id] if task.session_id else []
    return Invocation((*argv, "-"), stdin=task.prompt)


def _server(task: AgentTask) -> Iterator[str]:
    """Name rota's server; its tools pass without approval, since nobody could give it."""
    if not task.tools_server:
        return
    command, *arguments = task.tools_server
    settings = {
        "command": command,
        "args": arguments,
        "env_vars": FORWARDED,
        "default_tools_approval_mode": "approve",
        # Without these it asks the model before the server is there, and the tools are missing without a word.
        "required": True,
        "startup_timeout_sec": PATIENCE,
    }
    for key, value in settings.items():
        yield from ("-c", f"mcp_servers.{SERVER}.{key}={json.dumps(value)}")


def read(ended: Ended, task: AgentTask) -> AgentResult:
    """Return what a process did: `turn.failed` alone is a failure, an item of type error is a warning."""
    events = read_events(ended.stdout)
    items = [part(event, "item") for event in events if event.get("type") == "item.completed"]
    done, broken = last_of(events, "turn.completed"), last_of(events, "turn.failed")
    found = _figures(events, items, done=done, task=task)
    if broken is not None:
        return failed(found, text_at(broken, "error.message") or end_of("codex", ended), at=ended.ended_at)
    if done is None or ended.exit_code != 0:
        return failed(found, end_of("codex", ended), at=ended.ended_at)
    worked = any(item.get("type") not in TALK and not _refused(item, task.access) for item in items)
    return found if found.summary.strip() or worked else did_nothing(found)


def _figures(events: list[Event], items: list[Event], *, done: Event | None, task: AgentTask) -> AgentResult:
    messages = [text_at(item, "text") for item in items if item.get("type") == "agent_message"]
    return AgentResult(
        summary=(messages[-1] if messages else None) or "",
        tokens_in=count_at(done, "usage.input_tokens"),
        tokens_out=count_at(done, "usage.output_tokens"),
        model=task.model,
        session_id=text_at(last_of(events, "thread.started"), "thread_id") or task.session_id,
        denied_tools=distinct(_name(item) for item in items if _refused(item, task.access)),
        tokens_are_total=True,
    )


def _refused(item: Event, access: Access) -> bool:
    """Say whether a tool was refused; the sandbox only lets a command fail, and the system's words tell it."""
    if item.get("status") != "failed":
        return item.get("status") == "declined"
    if item.get("type") == "mcp_tool_call":
        return "requires approval" in (text_at(item, "error.message") or "")
    output = text_at(item, "aggregated_output") or ""
    return access is not Access.FULL and any(words in output for words in SANDBOXED)


def _name(item: Event) -> str:
    if item.get("type") == "mcp_tool_call":
        return f"mcp__{text_at(item, 'server')}__{text_at(item, 'tool')}"
    return "shell" if item.get("type") == "command_execution" else text_at(item, "type") or "?"


def tell(event: Event) -> Iterator[str]:
    """Yield its words, its commands and tools when they begin, and what went wrong."""
    item, kind = part(event, "item"), text_at(event, "item.type")
    if event.get("type") == "item.started":
        command = text_at(item, "command")
        yield say_tool("$", item) if command else say_tool(text_at(item, "tool") or kind, item.get("arguments"))
    elif event.get("type") in ("turn.failed", "error"):
        yield say_failure(text_at(event, "error.message") or text_at(event, "message"))
    elif kind == "agent_message":
        yield text_at(item, "text") or ""
    elif item.get("status") in ("failed", "declined"):
        why = ("error.message", "aggregated_output", "status")
        yield say_failure(next((text for path in why if (text := text_at(item, path))), None))


ADAPTER = Adapter(
    name="codex",
    provider="openai",
    executable="codex",
    capabilities=Capabilities(resume=True, tools_server=True),
    probe=Probe(
        version=("codex", "--version"),
        login=("codex", "login", "status"),
        login_env=("CODEX_API_KEY",),
        headless=("codex", "exec", "--help"),
        options=("--json", "--skip-git-repo-check", "--sandbox"),
    ),
    invoke=invoke,
    read=read,
    tell=tell,
)
