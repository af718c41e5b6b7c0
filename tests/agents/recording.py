"""Recording what the real agents print, small enough to keep: `python -m tests.agents.recording [NAME…]`."""

import json
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from rota.agents.stub import serving
from rota.model.agents import Access, AgentTask, ProcessEnd
from tests.agents.driving import PROGRAMS, Place, drive, make_place, prompt, start, task_of

RECORDED = Path(__file__).parents[1] / "unit" / "agents" / "recorded"
LONGEST_TEXT = 240
KEPT_AT_START = (
    *("type", "subtype", "session_id", "tools", "model", "permissionMode", "mcp_servers", "claude_code_version"),
)
SPENT = "1794830400"
DELAY = "You exceeded your current quota. Please retry in 20.5s."
LIMIT_HEADERS = {
    "anthropic-ratelimit-unified-status": "rejected",
    "anthropic-ratelimit-unified-reset": SPENT,
    "anthropic-ratelimit-unified-representative-claim": "five_hour",
}


class Case(Struct, frozen=True):
    """One recording: the order for the stub, and what the task and the environment say beyond the usual."""

    agent: str
    name: str
    order: dict[str, Any] = field(default_factory=dict)
    task: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    signal: int | None = None
    resumes: bool = False


def _tool(name: str, **given: Any) -> dict[str, Any]:
    return {"tool": name, "input": given}


WRITE = {"access": Access.WRITE}
FAST = {"model": "gemini-2.5-pro"}
MODEL = {"model": "stub/m"}
CASES = (
    Case("claude", "success"),
    Case("claude", "tool_left_out", _tool("Bash", command="git status", description="look")),
    Case("claude", "tool_denied", _tool("Bash", command="curl -s localhost", description="look"), WRITE),
    Case("claude", "edit", _tool("Write", file_path="new.txt", content="new"), WRITE),
    Case("claude", "nothing", {"say": ""}),
    Case("claude", "bad_key", {"status": 401, "message": "invalid x-api-key"}),
    Case("claude", "no_login", env={"ANTHROPIC_API_KEY": ""}),
    Case("claude", "rate_limit", {"status": 429, "message": "slow down"}),
    Case(
        "claude",
        "usage_limit",
        {"status": 429, "message": "limit", "headers": LIMIT_HEADERS},
        env={"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "stub"},
    ),
    Case("claude", "overloaded", {"status": 529, "message": "Overloaded"}),
    Case("claude", "max_turns", {**_tool("Glob", pattern="*"), "again": True}, {"max_turns": 2}),
    Case("claude", "max_usd", {**_tool("Glob", pattern="*"), "again": True}, {"max_usd": 0.01}),
    Case("claude", "resumed", resumes=True),
    Case("claude", "no_session", task={"session_id": "00000000-0000-4000-8000-000000000000"}),
    Case("claude", "interrupted", {"hang": True}, signal=signal.SIGINT),
    Case("claude", "terminated", {"hang": True}, signal=signal.SIGTERM),
    Case("codex", "success"),
    Case("codex", "command", _tool("exec_command", cmd="cat notes.txt")),
    Case("codex", "sandboxed", _tool("exec_command", cmd="sleep 1; touch /usr/rota"), WRITE),
    Case("codex", "nothing", {"say": ""}),
    Case("codex", "bad_key", {"status": 401, "message": "no such key"}),
    Case("codex", "quota", {"status": 429, "message": "too many"}),
    Case("codex", "no_access", {"status": 403, "message": "no access to this model"}),
    Case("codex", "overloaded", {"status": 500, "message": "an error of the server"}),
    Case("codex", "unavailable", {"status": 503, "message": "not available"}),
    Case("codex", "too_long", {"status": 400, "message": "too long", "code": "context_length_exceeded"}),
    Case("codex", "resumed", resumes=True),
    Case("codex", "no_session", task={"session_id": "00000000-0000-7000-8000-000000000000"}),
    Case("codex", "terminated", {"hang": True}, signal=signal.SIGTERM),
    Case("gemini", "success", task=FAST),
    Case("gemini", "tool_left_out", _tool("run_shell_command", command="ls"), FAST),
    Case("gemini", "bad_key", {"status": 401, "message": "no such key"}, FAST),
    Case("gemini", "no_access", {"status": 403, "message": "no access to this model"}, FAST),
    Case("gemini", "unavailable", {"status": 503, "message": "not available"}, FAST),
    Case("gemini", "delay", {"status": 429, "message": DELAY}, FAST),
    Case("gemini", "no_login", task=FAST, env={"GEMINI_API_KEY": ""}),
    Case("gemini", "quota", {"status": 429, "message": "no more today"}, FAST),
    Case("opencode", "success", task=MODEL),
    Case("opencode", "tool_left_out", _tool("bash", command="ls", description="look"), MODEL),
    Case("opencode", "tool_denied", _tool("bash", command="ls", description="look"), {**MODEL, **WRITE}),
    Case("opencode", "nothing", {"say": ""}, MODEL),
    Case("opencode", "bad_key", {"status": 401, "message": "no such key"}, MODEL),
    Case("opencode", "quota", {"status": 429, "message": "too many"}, MODEL),
    Case("opencode", "no_session", task={**MODEL, "session_id": "ses_none"}),
)


def record(case: Case, place: Place) -> ProcessEnd:
    """Run a case and return how it ended."""
    task = task_of(place, prompt=prompt(**case.order), **case.task)
    if case.signal is not None:
        return _interrupted(case, task, place)
    if case.resumes:
        first = drive(case.agent, task, place)
        task = task_of(place, session_id=first.result.session_id)
    return drive(case.agent, task, place, **case.env).ended


def _interrupted(case: Case, task: AgentTask, place: Place) -> ProcessEnd:
    invocation, environ = start(case.agent, task, place)
    process = subprocess.Popen(
        [str(PROGRAMS / invocation.argv[0]), *invocation.argv[1:]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
        cwd=task.cwd,
    )
    assert process.stdin is not None
    process.stdin.write(invocation.stdin or "")
    process.stdin.close()
    process.stdin = None
    assert place.stub.waiting.wait(120)
    process.send_signal(case.signal or signal.SIGTERM)
    stdout, stderr = process.communicate(timeout=120)
    return ProcessEnd(process.returncode, stdout, stderr)


def small(ended: ProcessEnd, place: Place) -> str:
    """Return a recording: a line on its end, then its output, without what only this machine has."""
    lines = [_line(line) for line in ended.stdout.splitlines() if line.strip()]
    stderr = "\n".join(line for line in ended.stderr.splitlines() if not line.startswith(("    at ", "WARNING:")))
    head = json.dumps({"exit_code": ended.exit_code, "stderr": stderr[-2 * LONGEST_TEXT :]}, ensure_ascii=False)
    text = "\n".join([head, *lines]) + "\n"
    text = text.replace(str(place.folder), "/place").replace(place.stub.url, "http://stub")
    return re.sub(re.escape(str(PROGRAMS.parent)) + r"[^\s\"']*", "/program", text)


def _line(line: str) -> str:
    try:
        event = json.loads(line)
    except ValueError:
        return line[:LONGEST_TEXT]
    if event.get("subtype") == "init":
        event = {key: value for key, value in event.items() if key in KEPT_AT_START}
    return json.dumps(_cut(event), ensure_ascii=False)


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value[:LONGEST_TEXT]
    if isinstance(value, list):
        return [_cut(each) for each in value]
    return {key: _cut(each) for key, each in value.items()} if isinstance(value, dict) else value


def main(wanted: list[str]) -> None:
    """Record all cases, or those whose file's name begins as one of these."""
    RECORDED.mkdir(exist_ok=True)
    for case in CASES:
        name = f"{case.agent}-{case.name}.jsonl"
        if wanted and not name.startswith(tuple(wanted)):
            continue
        with serving() as stub, tempfile.TemporaryDirectory() as folder:
            place = make_place(Path(folder), stub)
            ended = record(case, place)
            (RECORDED / name).write_text(small(ended, place))
        sys.stdout.write(f"{name}: exit code {ended.exit_code}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
