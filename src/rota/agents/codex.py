"""Codex: `codex exec --json`, prompt on standard input, events as JSON lines."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.agents import adapter
from rota.agents.windows import codex_windows
from rota.model.agents import (
    Access,
    AgentInvocation,
    AgentResult,
    AgentTask,
    Capabilities,
    McpServer,
    Probe,
    ProcessEnd,
)

SANDBOXES = {Access.READ: "read-only", Access.WRITE: "workspace-write", Access.FULL: "danger-full-access"}
PROFILE = "rota-run"
"""The permission profile of a run; it replaces a sandbox and overrides the user's settings."""
PLACES = {Access.READ: {":root": "read"}, Access.WRITE: {":root": "read", ":tmpdir": "write", ":slash_tmp": "write"}}
"""The permissions of these sandboxes; an extended `:workspace` would leave empty folders in the project."""
TALK = ("agent_message", "reasoning", "error", "todo_list")
"""Items that are no work; warnings have the type `error`."""
SANDBOXED = ("Read-only file system", "Operation not permitted")
SESSION = re.compile(r"[0-9A-Za-z-]{8,64}")
EXIT = re.compile(r"exited with code (-?\d+)")
SESSION_TAIL_BYTES = 16_000_000


def invoke(task: AgentTask) -> AgentInvocation:
    """Return the process of a task; `--skip-git-repo-check` permits a folder outside git."""
    argv = ["codex", "exec", "--json", "--skip-git-repo-check", *_permissions(task)]
    argv += ["-c", 'approval_policy="never"']
    argv += _distrust(task)
    argv += _servers(task)
    argv += [f"--profile={task.profile}"] if task.profile else []
    argv += [f"--model={task.model}", *task.args] if task.model else task.args
    argv += ["fork" if task.fork else "resume", task.session_id] if task.session_id else []
    return AgentInvocation((*argv, "-"), stdin=task.prompt)


def attach(task: AgentTask) -> AgentInvocation:
    """Return the process with which a person opens a session."""
    return AgentInvocation(("codex", *_distrust(task), "resume", task.session_id or ""))


def _distrust(task: AgentTask) -> Iterator[str]:
    """Mark the folder as untrusted; else a run that may write makes it trusted and starts its servers."""
    if not task.trust_project and task.cwd:
        folders = (task.cwd, *map(str, Path(task.cwd).parents))
        yield from ("-c", f"projects={_table({folder: {'trust_level': 'untrusted'} for folder in folders})}")


def _permissions(task: AgentTask) -> Iterator[str]:
    """Yield the sandbox: rota's files are read-only in it, its state folder is hidden.

    Only existing paths: for others the sandbox leaves an empty file or folder behind.
    """
    if task.access is Access.FULL or not task.state:
        yield from ("-s", SANDBOXES[task.access])
        return
    access = {task.cwd: "write" if task.access is Access.WRITE else "read"}
    access |= dict.fromkeys(task.add_dirs, "write" if task.access is Access.WRITE else "read")
    # Nothing below a denied folder can be read, so a run inside the state folder has only the rest denied.
    hidden = adapter.hidden_from(task) if f"{task.cwd}/".startswith(f"{task.state}/") else [task.state]
    rules = (("read", task.protected), ("deny", hidden))
    access |= {path: level for level, paths in rules for path in paths if os.path.lexists(path)}
    yield from ("-c", f"default_permissions={json.dumps(PROFILE)}")
    yield from ("-c", f"permissions.{PROFILE}.filesystem={_table(PLACES[task.access] | access)}")


def _table(values: Mapping[str, Any]) -> str:
    """Return an inline table of TOML; its strings have the syntax of JSON."""
    pairs = (
        f"{json.dumps(key)}={_table(value) if isinstance(value, Mapping) else json.dumps(value)}"
        for key, value in values.items()
    )
    return "{" + ",".join(pairs) + "}"


def _servers(task: AgentTask) -> Iterator[str]:
    if task.tools_server:
        yield from _server(McpServer(adapter.SERVER, command=task.tools_server))
    for server in task.mcp_servers:
        yield from _server(server)


def _server(server: McpServer) -> Iterator[str]:
    settings: dict[str, Any] = {"url": server.url}
    if server.command:
        command, *arguments = server.command
        settings = {"command": command, "args": arguments, "env_vars": (*adapter.FORWARDED, *server.env_pass)}
    # Without `required` Codex asks the model before the server has started, and the tools are silently missing.
    settings |= {"required": True, "startup_timeout_sec": adapter.PATIENCE, "default_tools_approval_mode": "approve"}
    settings |= {"enabled_tools": server.tools} if server.tools else {}
    for key, value in settings.items():
        yield from ("-c", f"mcp_servers.{server.name}.{key}={json.dumps(value)}")


def read(ended: ProcessEnd, task: AgentTask) -> AgentResult:
    """Return the result of a process; only `turn.failed` is a failure, an item of type error is a warning."""
    events = adapter.read_events(ended.stdout)
    turn = _last_turn(task, adapter.text_at(adapter.last_of(events, "thread.started"), "thread_id"))
    items = [adapter.part(event, "item") for event in events if event.get("type") == "item.completed"]
    done, broken = adapter.last_of(events, "turn.completed"), adapter.last_of(events, "turn.failed")
    outcome = _figures(events, items, done=done, turn=turn, task=task)
    outcome = replace(outcome, windows=codex_windows(turn.limits or {}, ended.ended_at))
    if broken is not None or done is None or ended.exit_code != 0:
        return adapter.failed_end("codex", outcome, ended, text=adapter.text_at(broken, "error.message"))
    worked = any(item.get("type") not in TALK and not _refused(item, task.access) for item in items)
    worked = worked or any(not refused for _, refused in turn.calls)
    return adapter.succeeded(outcome, worked=worked)


def _figures(
    events: list[adapter.Event],
    items: list[adapter.Event],
    *,
    done: adapter.Event | None,
    turn: "CodexTurn",
    task: AgentTask,
) -> AgentResult:
    messages = [adapter.text_at(item, "text") for item in items if item.get("type") == "agent_message"]
    # The event counts the whole session; the file of the session counts the turn.
    used = turn.usage if done is None else adapter.part(done, "usage")
    denied = [_name(item) for item in items if _refused(item, task.access)]
    return AgentResult(
        summary=(messages[-1] if messages else None) or "",
        tokens_in=adapter.count_at(used, "input_tokens"),
        tokens_cached=adapter.count_at(used, "cached_input_tokens"),
        tokens_out=adapter.count_at(used, "output_tokens"),
        model=task.model or turn.model,
        session_id=adapter.text_at(adapter.last_of(events, "thread.started"), "thread_id") or task.session_id,
        denied_tools=adapter.distinct([*denied, *(name for name, refused in turn.calls if refused)]),
        tokens_are_total=done is not None,
    )


# the session file, which has more than the stream of events


class CodexTurn(Struct, frozen=True):
    """The last turn in the file of a session: its tool calls, and whether each was refused."""

    calls: tuple[tuple[str, bool], ...] = ()
    usage: adapter.Event | None = None
    model: str | None = None
    limits: adapter.Event | None = None
    """The windows of the subscription as last reported."""


def sessions(environ: Mapping[str, str]) -> str:
    """Return the folder of the session files."""
    home = environ.get("CODEX_HOME") or (f"{environ['HOME']}/.codex" if environ.get("HOME") else "")
    return f"{home}/sessions" if home else ""


def _last_turn(task: AgentTask, session_id: str | None) -> CodexTurn:
    """Return the last turn; Codex sends no events for commands that end at once, its file has them."""
    records = _records(task.sessions, session_id or "")
    answers = [record for record in records if str(record.get("type")).endswith("_call_output")]
    outputs = {adapter.text_at(answer, "call_id"): _output(answer.get("output")) for answer in answers}
    calls = [record for record in records if str(record.get("type")).endswith("_call")]
    used = [record["turn_token_usage"] for record in records if isinstance(record.get("turn_token_usage"), dict)]
    limits = [record["rate_limits"] for record in records if isinstance(record.get("rate_limits"), dict)]
    return CodexTurn(
        tuple((_tool(call), _denies(outputs.get(adapter.text_at(call, "call_id"), ""), task.access)) for call in calls),
        used[-1] if used else None,
        next((name for record in reversed(records) if (name := adapter.text_at(record, "model"))), None),
        limits[-1] if limits else None,
    )


def _records(folder: str, session_id: str) -> list[adapter.Event]:
    if not folder or not SESSION.fullmatch(session_id):
        return []
    files = sorted(Path(folder).glob(f"*/*/*/rollout-*-{session_id}.jsonl"))
    lines = [adapter.parse(line) for line in _tail(files[-1]).split("\n")] if files else []
    starts = [number for number, line in enumerate(lines) if adapter.text_at(line, "payload.type") == "task_started"]
    return [adapter.part(line, "payload") for line in lines[starts[-1] :]] if starts else []


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - SESSION_TAIL_BYTES))
            return file.read(SESSION_TAIL_BYTES).decode("utf-8", "replace")
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


def _tool(call: adapter.Event) -> str:
    name, namespace = adapter.text_at(call, "name") or "shell", adapter.text_at(call, "namespace")
    if namespace and namespace.startswith("mcp__"):
        return f"{namespace.rstrip('_')}__{name}"
    return "shell" if "exec" in name or "shell" in name else name


def _refused(item: adapter.Event, access: Access) -> bool:
    """Return whether a tool was refused; a refusal by the sandbox is only visible in the output of the command."""
    if item.get("status") != "failed":
        return item.get("status") == "declined"
    if item.get("type") == "mcp_tool_call":
        return "requires approval" in (adapter.text_at(item, "error.message") or "")
    output = adapter.text_at(item, "aggregated_output") or ""
    return access is not Access.FULL and any(words in output for words in SANDBOXED)


def _name(item: adapter.Event) -> str:
    if item.get("type") == "mcp_tool_call":
        return f"mcp__{adapter.text_at(item, 'server')}__{adapter.text_at(item, 'tool')}"
    return "shell" if item.get("type") == "command_execution" else adapter.text_at(item, "type") or "?"


def tell(event: adapter.Event) -> Iterator[str]:
    """Yield text, starts of commands and tools, and failures."""
    item, kind = adapter.part(event, "item"), adapter.text_at(event, "item.type")
    if event.get("type") == "item.started":
        command = adapter.text_at(item, "command")
        yield (
            adapter.say_tool("$", item)
            if command
            else adapter.say_tool(adapter.text_at(item, "tool") or kind, item.get("arguments"))
        )
    elif event.get("type") in ("turn.failed", "error"):
        yield adapter.say_failure(adapter.text_at(event, "error.message") or adapter.text_at(event, "message"))
    elif kind == "agent_message":
        yield adapter.text_at(item, "text") or ""
    elif item.get("status") in ("failed", "declined"):
        why = ("error.message", "aggregated_output", "status")
        yield adapter.say_failure(next((text for path in why if (text := adapter.text_at(item, path))), None))


def login_problem(report: str) -> str | None:
    """Return the login problem in `codex doctor --json`; a provider of the user's own needs no login."""
    check = adapter.part(adapter.parse(report), "checks").get("auth.credentials")
    details = adapter.part(check, "details")
    if details.get("model provider requires OpenAI auth") != "false":
        return "is not logged in"
    return None if adapter.text_at(check, "status") == "ok" else f"cannot log in: {adapter.text_at(check, 'summary')}"


ADAPTER = adapter.Adapter(
    name="codex",
    provider="openai",
    executable="codex",
    home="CODEX_HOME",
    sign_in="codex login",
    capabilities=Capabilities(
        args=True,
        add_dirs=True,
        mcp_servers=True,
        profile=True,
        max_turns=True,
        counts_turns=True,
        loop_guard=True,
        resume=True,
        fork=True,
        tools_server=True,
        trust=True,
        windows=True,
    ),
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
    attach=attach,
    sessions=sessions,
    login_problem=login_problem,
    tell=tell,
)
