"""The parts that all adapters of agent programs share: the record, events, transcripts, endings and provider errors."""

import json
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from rota.model.agents import (
    Access,
    AgentInvocation,
    AgentProblem,
    AgentResult,
    AgentTask,
    Capabilities,
    Probe,
    ProcessEnd,
)

STATE_FILES = (
    *("rota.db", "rota.db-wal", "rota.db-shm", "secrets", "secrets.env", "secrets.env.new"),
    *("token", "token.new"),
)
"""Files of the state folder that are hidden even before they exist."""


def unknown_options(options: Mapping[str, Any], known: Sequence[str] = ()) -> tuple[str, ...]:
    """Return a complaint about each option that is not known."""
    return tuple(f"{name}: unknown option" for name in options if name not in known)


def hidden_from(task: AgentTask) -> list[str]:
    """Return the paths in the state folder that an agent must not see: all that do not lead to its own folders."""
    if not task.state:
        return []
    names = {*STATE_FILES, *(os.listdir(task.state) if os.path.isdir(task.state) else ())}
    paths = [os.path.join(task.state, name) for name in sorted(names)]
    return [path for path in paths if not any(f"{own}/".startswith(f"{path}/") for own in (task.folder, task.cwd))]


GUARDED = re.compile(
    r"danger|permission|sandbox|approv|yolo|bypass|allow|trust|config|setting|mcp|plugin|hook|extension|tool|dir|file"
    r"|profile|polic|agent|resume|continue|session|fork|format|output|json|print|prompt|model|turn|budget|worktree"
    r"|cwd|^cd$|help|version|enable|disable|remote|port|attach|share|command|skip|auto|unsafe|admin|feature|^set"
    r"|rule|access|background|^bg$|cloud|environment|desktop|tmux|chrome|^ide$|frompr|ephemeral|acp|^last$|^all$"
)
"""Options that rota sets itself, or that could widen the access of a run."""


def option_words(args: Sequence[str]) -> list[str]:
    """Return arguments with each option and its value as one word, so that no value is read as an option or a prompt.

    >>> option_words(["--effort", "high", "--thinking"])
    ['--effort=high', '--thinking']
    """
    words: list[str] = []
    for word in args:
        if word.startswith("--") or not words:
            words.append(word)
        else:
            words[-1] = f"{words[-1]}={word}"
    return words


def refused_arguments(args: Sequence[str]) -> list[str]:
    """Return a complaint about each argument that is no long option with at most one value, or that rota guards.

    >>> refused_arguments(["--effort", "high"]), refused_arguments(["-c", "x"])
    ([], ["'-c=x' is no long option"])
    """
    complaints = []
    for word in option_words(args):
        name, _, value = word.removeprefix("--").partition("=")
        plain = re.sub(r"[^a-z0-9]", "", name.lower())
        if not word.startswith("--") or not plain or value.startswith("-") or word.count("=") > 1 or "\n" in word:
            complaints.append(f"{word!r} is no long option")
        elif GUARDED.search(plain):
            complaints.append(f"--{name} could widen the access, or is set by rota")
    return complaints


class Adapter(Struct, frozen=True):
    """One kind of agent: `invoke` and `read` for a process, `run` for a call in this process.

    The adapter of a Python function has none of them; the engine calls the function.
    """

    name: str
    provider: str
    """The provider that is held when it refuses; empty: the first part of the model's name."""
    capabilities: Capabilities
    executable: str = ""
    probe: Probe | None = None
    invoke: Callable[[AgentTask], AgentInvocation] | None = None
    read: Callable[[ProcessEnd, AgentTask], AgentResult] | None = None
    run: Callable[[AgentTask], Awaitable[AgentResult]] | None = None
    reach: Callable[[Mapping[str, str], Mapping[str, Any]], tuple[str, str, str | None]] | None = None
    """Return the address of `run` with these variables and options, the version that answers, or the problem."""
    attach: Callable[[AgentTask], AgentInvocation] | None = None
    """Return the process with which a person opens the session of a task in a terminal."""
    tell: Callable[[dict[str, Any]], Iterable[str]] | None = None
    """Yield the lines of an event for a person; None: the output is text."""
    sessions: Callable[[Mapping[str, str]], str] | None = None
    """Return the folder of the sessions that `read` uses."""
    login_problem: Callable[[str], str | None] | None = None
    """Return the login problem in the report of the probe; None: the provider needs no login."""
    home: str = ""
    """The variable that names the folder of logins and settings; empty: there is none."""
    sign_in: str = ""
    """The command with which a person logs in."""
    needs_model: bool = False
    beyond: Callable[[Access, Sequence[str]], tuple[str, ...]] = lambda _access, _tools: ()
    """Return the `allowed_tools` that exceed an access; such a job is refused at load."""
    complaints: Callable[[Mapping[str, Any]], tuple[str, ...]] = unknown_options
    """Return the problems of the options in the file, each as `key: text`."""

    def provider_for(self, model: str | None) -> str:
        """Return the provider of this model."""
        first, slash, _ = (model or "").partition("/")
        return self.provider or (first if slash and first else self.name)


AUTH = (
    r"(?i)not logged in|log in again|please run /login|invalid (?:x-)?api[- ]?key|incorrect api key|api key not valid"
    r"|no api key|missing api key|api key is missing|missing environment variable: `\w*(?:key|token)"
    r"|invalid auth method|authenticat|unauthori[sz]ed|oauth token|\b401\b|status:? 403\b|permission_denied"
)
QUOTA = (
    r"(?i)usage limit|rate[- _]?limit|spend limit|session limit|weekly limit|hit your .*limit|reached your .*limit"
    r"|limit reached|out of usage|credit balance|quota|resource.exhausted|too many requests|billing|\b429\b"
)
OUTAGE = (
    r"(?i)overloaded|high demand|internal server error|service(?: is)?(?: temporarily)? unavailable|bad gateway"
    r"|gateway time-?out|stream disconnected before completion|status:? 5\d\d\b|\"code\": ?5\d\d\b"
    r"|error sending request for url"
    r"|api error: .*(?:fetch failed|connection (?:refused|error|reset)|enotfound|etimedout)"
)
TOO_LONG = (
    r"(?i)context[_ ]length[_ ]exceeded|context window|prompt is too long|input is too long|maximum context length"
    r"|exceeds the maximum number of tokens|contextoverflow"
)
AUTH_STATUS = (401, 403)
QUOTA_STATUS = (402, 429)


def problem_of(text: str, status: int | None = None) -> AgentProblem:
    """Return the class of an error: by its HTTP status, else by its words."""
    if status in AUTH_STATUS:
        return AgentProblem.AUTH
    if status in QUOTA_STATUS:
        return AgentProblem.QUOTA
    if status is not None and 500 <= status <= 599:
        return AgentProblem.OUTAGE
    if re.search(TOO_LONG, text):
        return AgentProblem.AGENT_ERROR
    if re.search(QUOTA, text):
        return AgentProblem.QUOTA
    if re.search(AUTH, text):
        return AgentProblem.AUTH
    return AgentProblem.OUTAGE if re.search(OUTAGE, text) else AgentProblem.AGENT_ERROR


# reset times

EPOCH = r"(?<![\d.-])([12]\d{9})(?:\d{3})?(?![\d.])"
INSTANT = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)"
SOON = r"(?i)(?:resets?|try again|retry|available)\s+(?:again\s+)?(?:in|after)\s+((?:\d+(?:\.\d+)?\s*[a-z]+[\s,]*)+)"
AMOUNT = r"(?i)(\d+(?:\.\d+)?)\s*(ms|d|h|m|s)[a-z]*"
CLOCK = (
    r"(?i)(?:resets?|try again)\s+(?:(?:at|on)\s+)?"
    r"(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s+"
    r"(?:(?P<year>\d{4}),?\s+)?(?:at\s+)?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>[ap]\.?m)?(?:\s*\((?P<zone>[A-Za-z_+\-/0-9]+)\))?"
)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
JUST_PAST = timedelta(minutes=15)
"""A time of day that passed so recently is today's: programs cut off seconds, and a reset may be late."""


def reset_told(text: str, at: datetime | None) -> datetime | None:
    """Return the reset time in the words of a provider.

    A time of day is the next one after `at`, unless it has just passed: then that instant is returned.
    """
    return _instant(text) or (at and (_soon(text, at) or _clock(text, at))) or None


def from_epoch(seconds: float | None) -> datetime | None:
    """Return the instant of a Unix time in seconds or milliseconds, None for an impossible one."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds / 1000 if seconds > 1e11 else seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _instant(text: str) -> datetime | None:
    written = re.search(INSTANT, text)
    if written:
        try:
            return datetime.fromisoformat(written[0]).astimezone(UTC)
        except ValueError:
            return None
    epoch = re.search(EPOCH, text)
    return from_epoch(float(epoch[1])) if epoch else None


def _soon(text: str, at: datetime) -> datetime | None:
    match = re.search(SOON, text)
    amounts = re.findall(AMOUNT, match[1]) if match else []
    try:
        seconds = sum(float(number) * UNITS[unit.lower()] for number, unit in amounts)
        return (at + timedelta(seconds=seconds)).astimezone(UTC) if amounts else None
    except (ValueError, OverflowError):
        return None


def _clock(text: str, at: datetime) -> datetime | None:
    match = re.search(CLOCK, text)
    if match is None or (match["minute"] is None and match["half"] is None):
        return None
    try:
        return _next(match, at.astimezone(ZoneInfo(match["zone"])) if match["zone"] else at)
    except (ValueError, KeyError, OSError):
        return None


def _next(match: re.Match[str], at: datetime) -> datetime:
    hour = int(match["hour"])
    if match["half"]:
        hour = hour % 12 + (12 if match["half"].lower().startswith("p") else 0)
    then = at.replace(hour=hour, minute=int(match["minute"] or 0), second=0, microsecond=0)
    if match["month"]:
        month = MONTHS.index(match["month"].lower()) + 1
        year = int(match["year"] or at.year)
        then = then.replace(year=year, month=month, day=int(match["day"]))
        if not match["year"] and at - then > JUST_PAST:
            then = then.replace(year=year + 1)
    elif at - then > JUST_PAST:
        then += timedelta(days=1)
    elif then - at >= timedelta(days=1) - JUST_PAST:
        then -= timedelta(days=1)
    return then.astimezone(UTC)


ERROR_LIMIT = 1000
ESCAPE = r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]"


def failed(
    result: AgentResult, text: str, *, status: int | None = None, at: datetime | None = None, plain: bool = False
) -> AgentResult:
    """Return a result as a failure of the class of `text`; `plain`: a text of ours, which has no class."""
    problem = AgentProblem.AGENT_ERROR if plain else problem_of(text, status)
    return replace(
        result,
        problem=problem,
        error=re.sub(ESCAPE, "", text)[:ERROR_LIMIT],
        resets_at=reset_told(text, at) if problem is AgentProblem.QUOTA else None,
        session_full=problem is AgentProblem.AGENT_ERROR and not plain and re.search(TOO_LONG, text) is not None,
    )


def succeeded(result: AgentResult, *, worked: bool = False) -> AgentResult:
    """Return the result of a program that reported success; without an answer and a used tool it is a failure."""
    if result.summary.strip() or worked:
        return result
    if result.denied_tools:
        text = f"the agent did nothing: {', '.join(result.denied_tools)} denied, and no answer"
        return replace(result, problem=AgentProblem.DENIED, error=text)
    text = "the agent did nothing: no answer, and no tool used"
    return replace(result, problem=AgentProblem.AGENT_ERROR, error=text)


def failed_end(
    name: str, result: AgentResult, ended: ProcessEnd, *, text: str | None = None, status: int | None = None
) -> AgentResult:
    """Return a result as a failure by `text`, else by the end of the process and its last words."""
    ending = f"ended with exit code {ended.exit_code}" if ended.exit_code else "ended without a result"
    how = f"{name} {'was stopped' if ended.stopped else ending}"
    last = last_words(ended.stderr)  # not the standard output: a model's words must not pass for a refusal
    return failed(result, text or (f"{how}: {last}" if last else how), status=status, at=ended.ended_at)


def last_words(text: str) -> str:
    """Return the last lines that are not empty as one line."""
    lines = [line.strip() for line in re.sub(ESCAPE, "", text[-4 * ERROR_LIMIT :]).splitlines()]
    return "; ".join([line for line in lines if line][-3:])[-ERROR_LIMIT // 2 :]


Event = dict[str, Any]
LARGEST_NUMBER = 2**53


def read_events(text: str) -> list[Event]:
    """Return the JSON objects of a stream, one a line, without diagnostics and broken lines."""
    events = (parse(line) for line in text.split("\n") if line.lstrip().startswith("{"))
    return [event for event in events if isinstance(event, dict)]


def parse(text: str) -> Any:
    """Return the value of a JSON text, None for other text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def last_of(events: Iterable[Event], kind: str) -> Event | None:
    """Return the last event of a type."""
    return next((event for event in reversed(list(events)) if event.get("type") == kind), None)


def look_up(value: Any, path: str) -> Any:
    """Return the value at a dotted path, or None.

    >>> look_up({"choices": [{"text": "hello"}]}, "choices.0.text")
    'hello'
    """
    for key in path.split("."):
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.lstrip("-").isdigit() and -len(value) <= int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value


def part(event: Any, path: str) -> Event:
    """Return the object at a path, or an empty one."""
    value = look_up(event, path)
    return value if isinstance(value, dict) else {}


def items_at(value: Any, path: str) -> list[Any]:
    """Return the list at a path, or an empty one."""
    items = look_up(value, path)
    return items if isinstance(items, list) else []


def text_at(value: Any, path: str) -> str | None:
    """Return the text at a path; a number becomes a text."""
    text = look_up(value, path)
    return text if isinstance(text, str) else None if number(text) is None else str(text)


def count_at(value: Any, path: str) -> int | None:
    """Return the count at a path."""
    count = number(look_up(value, path))
    return None if count is None else int(count)


def number(value: Any) -> float | None:
    """Return an amount: finite, not negative, and within the limit of the database; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value <= LARGEST_NUMBER else None


def total(counts: Iterable[int | None]) -> int | None:
    """Return the sum of the known counts, None without any."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Return names without repetitions and empty ones, in order."""
    return tuple(dict.fromkeys(name for name in names if name))


TRANSCRIPT_LINE_LIMIT = 160
TELLING = (
    *("command", "cmd", "file_path", "filePath", "path", "pattern", "query", "url"),
    *("name", "prompt", "description"),
)
"""The arguments that best describe the use of a tool, the best first."""


class TranscriptPiece(str):
    """A text that continues the piece before it."""

    __slots__ = ()


class Teller:
    """Turns the output of an agent into lines for people; pieces of a text are joined."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._begun = ""

    def __call__(self, line: str) -> list[str]:
        """Return the lines for a line of output: none for most events, the line itself if it is no event."""
        tell = self._adapter.tell
        event = parse(line) if tell is not None and line.lstrip().startswith("{") else None
        if tell is None or not isinstance(event, dict):
            return [*self.rest(), line]
        return [shown for text in tell(event) for shown in self._say(text)]

    def rest(self) -> list[str]:
        """Return the text that is not ended yet."""
        begun, self._begun = self._begun, ""
        return begun.strip("\n").rstrip().splitlines()

    def _say(self, text: str) -> list[str]:
        if not isinstance(text, TranscriptPiece):
            return [*self.rest(), *text.strip().splitlines()]
        whole, _, self._begun = (self._begun + text).rpartition("\n")
        return whole.strip("\n").splitlines()


def say_tool(name: str | None, arguments: Any) -> str:
    """Return the use of a tool on one line.

    >>> say_tool("Bash", {"command": "git log", "description": "look"})
    '→ Bash git log'
    """
    text = ""
    if isinstance(arguments, Mapping) and arguments:
        best = next((arguments[key] for key in TELLING if isinstance(arguments.get(key), str)), None)
        text = " ".join((json.dumps(arguments, ensure_ascii=False) if best is None else best).split())
    return _short(f"→ {name or '?'} {text}".rstrip())


def say_failure(text: str | None) -> str:
    """Return why a tool or a request failed on one line."""
    return _short(f"✗ {' '.join((text or 'it failed').split())}")


def _short(text: str) -> str:
    return text if len(text) <= TRANSCRIPT_LINE_LIMIT else f"{text[: TRANSCRIPT_LINE_LIMIT - 1]}…"


SERVER = "rota"
NOT_PERMITTED = "not permitted: "
"""The beginning of the answer to a tool call that a person denied."""
PERMISSION = "permission"
"""The tool that decides about a tool call of an agent with the access `ask`."""
PATIENCE = 60
"""Seconds that the server may take to start: the limits of the programs are too short for a busy machine."""
FORWARDED = ("ROTA_RUN_ID", "ROTA_RUN", "ROTA_JOB", "ROTA_PROJECT_DIR", "ROTA_SCHEDULER_DIR", "ROTA_STATE_DIR")
"""The variables that name the run; some agents pass no other variables to their servers."""


def mcp_config(task: AgentTask) -> dict[str, Any]:
    """Return the configuration of rota's tools and of further servers, in the shape that most agents read."""
    servers: dict[str, Any] = {}
    if task.tools_server:
        command, *arguments = task.tools_server
        servers[SERVER] = {"command": command, "args": arguments}
    for server in task.mcp_servers:
        local = {"command": server.command[0], "args": list(server.command[1:])} if server.command else {}
        servers[server.name] = local or {"type": "http", "url": server.url}
    return {"mcpServers": servers}
