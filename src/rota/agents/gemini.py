"""Gemini: `gemini -o stream-json`, prompt on standard input, events as JSON lines."""

import json
import os
import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from rota.agents import adapter
from rota.model import agents

APPROVALS = {agents.Access.READ: "default", agents.Access.WRITE: "auto_edit", agents.Access.FULL: "yolo"}
POLICY = "policy.toml"
NAMED = r'"[a-z_]*(?:path|dir|include|pattern)[a-z_]*":\[?"'
CHANGES = ("write_file", "replace")
LOOKS = ("read_file", "read_many_files", "list_directory", "glob", "grep_search", "search_file_content")
NO_LOGIN = 41
"""The exit code for a missing login. Codes above 128 are HTTP statuses cut to a byte (401 is 145), not signals."""
REFUSALS = ("tool_not_registered", "policy_violation", "permission_denied")


def invoke(task: agents.AgentTask) -> agents.AgentInvocation:
    """Return the process of a task; without a terminal Gemini omits the tools that need a confirmation."""
    argv = ["gemini", "-o", "stream-json", "--skip-trust", "--approval-mode", APPROVALS[task.access]]
    argv += [f"--model={task.model}"] if task.model else []
    argv += [f"--resume={task.session_id}"] if task.session_id else []
    argv += [*(f"--include-directories={folder}" for folder in task.add_dirs), *task.args]
    policy = _policy(task)
    argv += [f"--policy={os.path.join(task.folder, POLICY)}"] if policy else []
    files = {POLICY: policy} if policy else {}
    return agents.AgentInvocation(tuple(argv), env=_trust(task), stdin=task.prompt, files=files)


def attach(task: agents.AgentTask) -> agents.AgentInvocation:
    """Return the process with which a person opens a session."""
    return agents.AgentInvocation(("gemini", f"--resume={task.session_id}"), env=_trust(task))


def _trust(task: agents.AgentTask) -> dict[str, str]:
    """Return the variable that decides about settings of the folder; `--skip-trust` has no effect on them."""
    return {"GEMINI_CLI_TRUST_WORKSPACE": "true" if task.trust_project else "false"}


def _policy(task: agents.AgentTask) -> str:
    """Return the rules that deny rota's files; they match the arguments of a tool as JSON."""
    rules: list[tuple[Sequence[str], str]]
    rules = [(CHANGES, f"{NAMED}{name}") for path in task.protected for name in _spellings(path, task.cwd)]
    if task.state:
        own = "".join(f'(?!{re.escape(path)}[/"])' for path in (task.folder, task.cwd) if _below(path, task.state))
        rules += [((*CHANGES, *LOOKS), f"{NAMED}{own}{name}") for name in _spellings(task.state, task.cwd)]
    return "\n".join(_rule(tools, f'{pattern}[/"]') for tools, pattern in rules)


def _spellings(path: str, cwd: str) -> Iterator[str]:
    """Yield patterns for a path: absolute, relative, and by way of `.`, `..` or `//`.

    Gemini ignores a pattern with repeated groups as unsafe, so each spelling is a rule.
    """
    yield re.escape(path)
    relative = re.escape(os.path.relpath(path, cwd) if cwd and _below(path, cwd) else os.path.basename(path))
    if cwd and _below(path, cwd):
        yield relative
    yield from (rf'[^"]*[./]/{relative}', rf'[^"]*[./]/[^"]*/{relative}')


def _below(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")


def _rule(tools: Sequence[str], pattern: str) -> str:
    rule = {"toolName": list(tools), "argsPattern": pattern, "decision": "deny", "priority": 999}
    return "\n".join(["[[rule]]", *(f"{key} = {json.dumps(value)}" for key, value in rule.items()), ""])


def read(ended: agents.ProcessEnd, task: agents.AgentTask) -> agents.AgentResult:
    """Return the result of a process; success needs exit code 0 and a result event with success."""
    events = adapter.read_events(ended.stdout)
    result = adapter.last_of(events, "result")
    outcome = _figures(events, result, task=task)
    if ended.exit_code == NO_LOGIN:
        return replace(adapter.failed_end("gemini", outcome, ended), problem=agents.AgentProblem.AUTH)
    if adapter.text_at(result, "status") == "error":
        text, status = adapter.text_at(result, "error.message"), _status(ended.exit_code)
        return adapter.failed_end("gemini", outcome, ended, text=text, status=status)
    if result is None or ended.exit_code != 0:
        return adapter.failed_end("gemini", outcome, ended)
    worked = any(event.get("type") == "tool_result" and not _refused(event) for event in events)
    return adapter.succeeded(outcome, worked=worked)


def _status(exit_code: int | None) -> int | None:
    """Return the HTTP status that an exit code was cut from.

    >>> _status(147), _status(247), _status(1), _status(143)
    (403, 503, None, None)
    """
    return exit_code + 256 if exit_code is not None and 144 <= exit_code <= 255 else None


def _figures(
    events: list[adapter.Event], result: adapter.Event | None, *, task: agents.AgentTask
) -> agents.AgentResult:
    started, models = adapter.last_of(events, "init"), list(adapter.part(result, "stats.models"))
    uses = (event for event in events if event.get("type") == "tool_use")
    tools = {adapter.text_at(event, "tool_id"): adapter.text_at(event, "tool_name") or "?" for event in uses}
    denied = [tools.get(adapter.text_at(event, "tool_id"), "?") for event in events if _refused(event)]
    return agents.AgentResult(
        summary=_answer(events),
        tokens_in=adapter.count_at(result, "stats.input_tokens"),
        tokens_cached=adapter.count_at(result, "stats.cached"),
        tokens_out=adapter.count_at(result, "stats.output_tokens"),
        model=models[0] if len(models) == 1 else adapter.text_at(started, "model") or task.model,
        session_id=adapter.text_at(started, "session_id") or task.session_id,
        denied_tools=adapter.distinct(denied),
    )


def _answer(events: list[adapter.Event]) -> str:
    """Return the text after the last tool, joined from its pieces."""
    pieces: list[str] = []
    for event in events:
        if event.get("type") in ("tool_use", "tool_result"):
            pieces.clear()
        elif event.get("type") == "message" and event.get("role") == "assistant":
            pieces.append(adapter.text_at(event, "content") or "")
    return "".join(pieces)


def _refused(event: adapter.Event) -> bool:
    return event.get("type") == "tool_result" and adapter.text_at(event, "error.type") in REFUSALS


def tell(event: adapter.Event) -> Iterator[str]:
    """Yield pieces of text, tool uses and failures."""
    if event.get("type") == "message" and event.get("role") == "assistant":
        yield adapter.TranscriptPiece(adapter.text_at(event, "content") or "")
    elif event.get("type") == "tool_use":
        yield adapter.say_tool(adapter.text_at(event, "tool_name"), adapter.part(event, "parameters"))
    elif event.get("type") == "tool_result" and event.get("status") == "error":
        yield adapter.say_failure(adapter.text_at(event, "error.message") or adapter.text_at(event, "output"))
    elif event.get("type") == "error" or adapter.text_at(event, "error.message"):
        yield adapter.say_failure(adapter.text_at(event, "error.message") or adapter.text_at(event, "message"))


ADAPTER = adapter.Adapter(
    name="gemini",
    provider="google",
    executable="gemini",
    home="GEMINI_CLI_HOME",
    sign_in="gemini",
    capabilities=agents.Capabilities(args=True, add_dirs=True, loop_guard=True, resume=True, trust=True),
    probe=agents.Probe(
        version=("gemini", "--version"),
        login_env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        headless=("gemini", "--help"),
        options=("--output-format", "--approval-mode", "--skip-trust", "--policy"),
    ),
    invoke=invoke,
    read=read,
    attach=attach,
    tell=tell,
)
