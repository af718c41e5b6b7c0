"""Codex: `codex exec --json`, prompt on standard input, events as JSON lines."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.agents.adapter import (
    FORWARDED,
    PATIENCE,
    SERVER,
    Adapter,
    Event,
    count_at,
    did_nothing,
    distinct,
    end_of,
    failed,
    hidden_from,
    last_of,
    look_up,
    parse,
    part,
    read_events,
    say_failure,
    say_tool,
    text_at,
)
from rota.model.agents import Access, AgentInvocation, AgentResult, AgentTask, Capabilities, Probe, ProcessEnd

SANDBOXES = {Access.READ: "read-only", Access.WRITE: "workspace-write", Access.FULL: "danger-full-access"}
PROFILE = "rota-run"
"""The permissions of a run: they stand for a sandbox, and count more than one of the user's file."""
PLACES = {
    Access.READ: {":root": "read"},
    Access.WRITE: {":root": "read", ":tmpdir": "write", ":slash_tmp": "write"},
}
"""What the sandboxes of these names allow; an extended `:workspace` would leave empty folders in the project."""
TALK = ("agent_message", "reasoning", "error", "todo_list")
"""Items that are no work: words, and warnings, which come as errors."""
SANDBOXED = ("Read-only file system", "Operation not permitted")
SESSION = re.compile(r"[0-9A-Za-z-]{8,64}")
EXIT = re.compile(r"exited with code (-?\d+)")
LONGEST_SESSION = 16_000_000
"""So many bytes of a session's file are read, the last ones."""


def invoke(task: AgentTask) -> AgentInvocation:
    """Return the process of a task; outside a git repository Codex must be told that this is meant."""
    argv = ["codex", "exec", "--json", "--skip-git-repo-check", *_permissions(task)]
    argv += ["-c", 'approval_policy="never"', *_trust(task), *_server(task)]
    argv += [f"--model={task.model}"] if task.model else []
    argv += ["resume", task.session_id] if task.session_id else []
    return AgentInvocation((*argv, "-"), stdin=task.prompt)


def _permissions(task: AgentTask) -> Iterator[str]:
    """Name the sandbox; what is rota's own is read-only in it, and its state is not there.

    Only paths that exist: for any other one the sandbox would leave an empty file or folder behind.
    """
    if task.access is Access.FULL or not task.state:
        yield from ("-s", SANDBOXES[task.access])
        return
    access = {task.cwd: "write" if task.access is Access.WRITE else "read"}
    # What is below a denied folder cannot be read again, so a run that works in there has the rest denied.
    hidden = hidden_from(task) if f"{task.cwd}/".startswith(f"{task.state}/") else [task.state]
    rules = (("read", task.protected), ("deny", hidden))
    access |= {path: level for level, paths in rules for path in paths if os.path.lexists(path)}
    yield from ("-c", f"default_permissions={json.dumps(PROFILE)}")
    yield from ("-c", f"permissions.{PROFILE}.filesystem={_table(PLACES[task.access] | access)}")


def _trust(task: AgentTask) -> Iterator[str]:
    """Say that the folder is not trusted: else a run that may write makes it so, and its servers are started."""
    if not task.trust_project and task.cwd:
        folders = (task.cwd, *map(str, Path(task.cwd).parents))
        yield from ("-c", f"projects={_table({folder: {'trust_level': 'untrusted'} for folder in folders})}")


def _table(values: Mapping[str, Any]) -> str:
    """Return an inline table of TOML, whose texts are written as those of JSON are."""
    pairs = (
        f"{json.dumps(key)}={_table(value) if isinstance(value, Mapping) else json.dumps(value)}"
        for key, value in values.items()
    )
    return "{" + ",".join(pairs) + "}"


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


def read(ended: ProcessEnd, task: AgentTask) -> AgentResult:
    """Return what a process did: `turn.failed` alone is a failure, an item of type error is a warning."""
    events = read_events(ended.stdout)
    turn = _last_turn(task, text_at(last_of(events, "thread.started"), "thread_id"))
    items = [part(event, "item") for event in events if event.get("type") == "item.completed"]
    done, broken = last_of(events, "turn.completed"), last_of(events, "turn.failed")
    found = _figures(events, items, done=done, turn=turn, task=task)
    if broken is not None:
        return failed(found, text_at(broken, "error.message") or end_of("codex", ended), at=ended.ended_at)
    if done is None or ended.exit_code != 0:
        return failed(found, end_of("codex", ended), at=ended.ended_at)
    worked = any(item.get("type") not in TALK and not _refused(item, task.access) for item in items)
    worked = worked or any(not call.refused for call in turn.calls)
    return found if found.summary.strip() or worked else did_nothing(found)


def _figures(
    events: list[Event], items: list[Event], *, done: Event | None, turn: "CodexTurn", task: AgentTask
) -> AgentResult:
    messages = [text_at(item, "text") for item in items if item.get("type") == "agent_message"]
    # Those of a finished turn are of the whole session; the file of the session has those of the turn alone.
    used = turn.usage if done is None else part(done, "usage")
    denied = [_name(item) for item in items if _refused(item, task.access)]
    return AgentResult(
        summary=(messages[-1] if messages else None) or "",
        tokens_in=count_at(used, "input_tokens"),
        tokens_cached=count_at(used, "cached_input_tokens"),
        tokens_out=count_at(used, "output_tokens"),
        model=task.model or turn.model,
        session_id=text_at(last_of(events, "thread.started"), "thread_id") or task.session_id,
        denied_tools=distinct([*denied, *(call.name for call in turn.calls if call.refused)]),
        tokens_are_total=done is not None,
    )


# the file of its session: it holds what the stream of events leaves out


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that was called, and whether that was refused."""

    name: str
    refused: bool


@dataclass(frozen=True, slots=True)
class CodexTurn:
    """What the file of a session says about its last turn."""

    calls: tuple[ToolCall, ...] = ()
    usage: Event | None = None
    model: str | None = None


def sessions(environ: Mapping[str, str]) -> str:
    """Return the folder in which Codex keeps its sessions, by day."""
    home = environ.get("CODEX_HOME") or (f"{environ['HOME']}/.codex" if environ.get("HOME") else "")
    return f"{home}/sessions" if home else ""


def _last_turn(task: AgentTask, session_id: str | None) -> CodexTurn:
    """Return the last turn of a session: Codex drops events of commands that end at once, its file has them all."""
    records = _records(task.sessions, session_id or "")
    outputs = {
        text_at(one, "call_id"): _output(look_up(one, "output"))
        for one in records
        if str(one.get("type")).endswith("_call_output")
    }
    calls = [one for one in records if str(one.get("type")).endswith("_call")]
    used = [one["turn_token_usage"] for one in records if isinstance(one.get("turn_token_usage"), dict)]
    return CodexTurn(
        tuple(ToolCall(_tool(call), _denies(outputs.get(text_at(call, "call_id"), ""), task.access)) for call in calls),
        used[-1] if used else None,
        next((name for one in reversed(records) if (name := text_at(one, "model"))), None),
    )


def _records(folder: str, session_id: str) -> list[Event]:
    """Return what a session's file notes since its last turn began."""
    if not folder or not SESSION.fullmatch(session_id):
        return []
    files = sorted(Path(folder).glob(f"*/*/*/rollout-*-{session_id}.jsonl"))
    lines = [parse(line) for line in _tail(files[-1]).split("\n")] if files else []
    begun = [number for number, line in enumerate(lines) if text_at(line, "payload.type") == "task_started"]
    return [part(line, "payload") for line in lines[begun[-1] :]] if begun else []


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LONGEST_SESSION))
            return file.read(LONGEST_SESSION).decode("utf-8", "replace")
    except OSError:
        return ""


def _output(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _denies(output: str, access: Access) -> bool:
    if "requires approval" in output or "Rejected(" in output:
        return True
    code = EXIT.search(output)
    failed_there = code is not None and code[1] != "0" and any(words in output for words in SANDBOXED)
    return failed_there and access is not Access.FULL


def _tool(call: Event) -> str:
    name, namespace = text_at(call, "name") or "shell", text_at(call, "namespace")
    if namespace and namespace.startswith("mcp__"):
        return f"{namespace.rstrip('_')}__{name}"
    return "shell" if "exec" in name or "shell" in name else name


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


def login_problem(report: str) -> str | None:
    """Return what keeps Codex from its provider, by `codex doctor --json`: one of the user's own needs no login."""
    check = part(parse(report), "checks").get("auth.credentials")
    details = part(check, "details")
    if details.get("model provider requires OpenAI auth") != "false":
        return "is not logged in"
    return None if text_at(check, "status") == "ok" else f"cannot log in: {text_at(check, 'summary')}"


ADAPTER = Adapter(
    name="codex",
    provider="openai",
    executable="codex",
    capabilities=Capabilities(resume=True, tools_server=True, trust=True),
    probe=Probe(
        version=("codex", "--version"),
        login=("codex", "login", "status"),
        login_env=("CODEX_API_KEY",),
        report=("codex", "doctor", "--json"),
        headless=("codex", "exec", "--help"),
        options=("--json", "--skip-git-repo-check", "--sandbox"),
    ),
    invoke=invoke,
    read=read,
    sessions=sessions,
    login_problem=login_problem,
    tell=tell,
)
