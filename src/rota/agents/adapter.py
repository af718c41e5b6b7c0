"""What every adapter of an agent program has: its protocol, events, transcript, endings and errors of providers."""

import json
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

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


def _no_tools(_access: Access, _tools: Sequence[str]) -> tuple[str, ...]:
    return ()


def _no_options(options: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{name}: unknown option" for name in options)


STATE_FILES = ("rota.db", "rota.db-wal", "rota.db-shm", "secrets", "secrets.env", "token", "token.new")
"""What is hidden in the state folder also before it exists."""


def hidden_from(task: AgentTask) -> list[str]:
    """Return the paths in the state folder that an agent must not see: all but those that lead to its own folders."""
    if not task.state:
        return []
    names = {*STATE_FILES, *(os.listdir(task.state) if os.path.isdir(task.state) else ())}
    paths = [os.path.join(task.state, name) for name in sorted(names)]
    return [path for path in paths if not any(f"{own}/".startswith(f"{path}/") for own in (task.folder, task.cwd))]


@dataclass(frozen=True, slots=True)
class Adapter:
    """One kind of agent. It has either `invoke` and `read` (a process) or `run` (a call in this process).

    That of a Python function has none of them: whoever runs it knows the function.
    """

    name: str
    provider: str
    """Who answers, and is held when it refuses; empty: the first part of the model's name says it."""
    capabilities: Capabilities
    executable: str = ""
    probe: Probe | None = None
    invoke: Callable[[AgentTask], AgentInvocation] | None = None
    read: Callable[[ProcessEnd, AgentTask], AgentResult] | None = None
    run: Callable[[AgentTask], Awaitable[AgentResult]] | None = None
    reach: Callable[[Mapping[str, str], Mapping[str, Any]], tuple[str, str, str | None]] | None = None
    """Where `run` asks with these variables and options, what version answers, the problem when none does."""
    tell: Callable[[dict[str, Any]], Iterable[str]] | None = None
    """What an event of its output says to a person who watches; None: its output is text."""
    sessions: Callable[[Mapping[str, str]], str] | None = None
    """Where a run with these variables keeps its sessions, where `read` looks into them."""
    login_problem: Callable[[str], str | None] | None = None
    """What keeps the program from its provider, by the report of its probe; None: nothing, it needs no login."""
    needs_model: bool = False
    """Whether it can do nothing without being told which model to use."""
    beyond: Callable[[Access, Sequence[str]], tuple[str, ...]] = _no_tools
    """Which of some `allowed_tools` go beyond an access; such a job is refused at load."""
    complaints: Callable[[Mapping[str, Any]], tuple[str, ...]] = _no_options
    """What is wrong with the options of the file, each as `key: text`."""

    def provider_for(self, model: str | None) -> str:
        """Return who answers when this model is asked."""
        first, slash, _ = (model or "").partition("/")
        return self.provider or (first if slash and first else self.name)


AUTH = re.compile(
    r"not logged in|log in again|please run /login|invalid (?:x-)?api[- ]?key|incorrect api key|api key not valid"
    r"|no api key|missing api key|api key is missing|missing environment variable: `\w*(?:key|token)"
    r"|invalid auth method|authenticat|unauthori[sz]ed|oauth token|\b401\b|status:? 403\b|permission_denied",
    re.IGNORECASE,
)
QUOTA = re.compile(
    r"usage limit|rate[- _]?limit|spend limit|session limit|weekly limit|hit your .*limit|reached your .*limit"
    r"|limit reached|out of usage|credit balance|quota|resource.exhausted|too many requests|billing|\b429\b",
    re.IGNORECASE,
)
OUTAGE = re.compile(
    r"overloaded|high demand|internal server error|service(?: is)?(?: temporarily)? unavailable|bad gateway"
    r"|gateway time-?out|stream disconnected before completion|status:? 5\d\d\b|\"code\": ?5\d\d\b"
    r"|error sending request for url"
    r"|api error: .*(?:fetch failed|connection (?:refused|error|reset)|enotfound|etimedout)",
    re.IGNORECASE,
)
"""A provider that fails or cannot be reached, in the words of the programs."""
TOO_LONG = re.compile(
    r"context[_ ]length[_ ]exceeded|context window|prompt is too long|input is too long|maximum context length"
    r"|exceeds the maximum number of tokens|contextoverflow",
    re.IGNORECASE,
)
AUTH_STATUS = (401, 403)
QUOTA_STATUS = (402, 429)


def problem_of(text: str, status: int | None = None) -> AgentProblem:
    """Return the class of an error; words count only where the status says nothing of it."""
    if status in AUTH_STATUS:
        return AgentProblem.AUTH
    if status in QUOTA_STATUS:
        return AgentProblem.QUOTA
    if status is not None and 500 <= status <= 599:
        return AgentProblem.OUTAGE
    if is_too_long(text):
        return AgentProblem.AGENT_ERROR
    if QUOTA.search(text):
        return AgentProblem.QUOTA
    if AUTH.search(text):
        return AgentProblem.AUTH
    return AgentProblem.OUTAGE if OUTAGE.search(text) else AgentProblem.AGENT_ERROR


def is_too_long(text: str) -> bool:
    """Tell whether a provider refused a prompt because session and prompt do not fit into the model's context."""
    return TOO_LONG.search(text) is not None


# when it takes work again

EPOCH = re.compile(r"(?<![\d.-])([12]\d{9})(?:\d{3})?(?![\d.])")
INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)")
SOON = re.compile(
    r"(?:resets?|try again|retry|available)\s+(?:again\s+)?(?:in|after)\s+((?:\d+(?:\.\d+)?\s*[a-z]+[\s,]*)+)", re.I
)
AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|d|h|m|s)[a-z]*", re.IGNORECASE)
CLOCK = re.compile(
    r"(?:resets?|try again)\s+(?:(?:at|on)\s+)?"
    r"(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s+"
    r"(?:(?P<year>\d{4}),?\s+)?(?:at\s+)?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>[ap]\.?m)?(?:\s*\((?P<zone>[A-Za-z_+\-/0-9]+)\))?",
    re.IGNORECASE,
)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
JUST_PAST = timedelta(minutes=15)
"""A time of day that passed so recently is today's: programs cut seconds off, and a reset may come late."""


def reset_told(text: str, at: datetime | None) -> datetime | None:
    """Return when a provider takes work again, as its words say.

    A time of day is the next one after `at`, unless it has just passed: then that instant is returned.
    """
    return _instant(text) or (at and (_soon(text, at) or _clock(text, at))) or None


def from_epoch(seconds: float | None) -> datetime | None:
    """Return the instant of a Unix time in seconds or milliseconds, None when it is none."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds / 1000 if seconds > 1e11 else seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _instant(text: str) -> datetime | None:
    written = INSTANT.search(text)
    if written:
        try:
            return datetime.fromisoformat(written[0]).astimezone(UTC)
        except ValueError:
            return None
    epoch = EPOCH.search(text)
    return from_epoch(float(epoch[1])) if epoch else None


def _soon(text: str, at: datetime) -> datetime | None:
    told = SOON.search(text)
    amounts = AMOUNT.findall(told[1]) if told else []
    try:
        seconds = sum(float(number) * UNITS[unit.lower()] for number, unit in amounts)
        return (at + timedelta(seconds=seconds)).astimezone(UTC) if amounts else None
    except (ValueError, OverflowError):
        return None


def _clock(text: str, at: datetime) -> datetime | None:
    told = CLOCK.search(text)
    if told is None or (told["minute"] is None and told["half"] is None):
        return None
    try:
        return _next(told, at.astimezone(ZoneInfo(told["zone"])) if told["zone"] else at)
    except (ValueError, KeyError, OSError):
        return None


def _next(told: re.Match[str], at: datetime) -> datetime:
    hour = int(told["hour"])
    if told["half"]:
        hour = hour % 12 + (12 if told["half"].lower().startswith("p") else 0)
    then = at.replace(hour=hour, minute=int(told["minute"] or 0), second=0, microsecond=0)
    if told["month"]:
        month = MONTHS.index(told["month"].lower()) + 1
        year = int(told["year"] or at.year)
        then = then.replace(year=year, month=month, day=int(told["day"]))
        if not told["year"] and at - then > JUST_PAST:
            then = then.replace(year=year + 1)
    elif at - then > JUST_PAST:
        then += timedelta(days=1)
    elif then - at >= timedelta(days=1) - JUST_PAST:
        then -= timedelta(days=1)
    return then.astimezone(UTC)


LONGEST = 1000
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


def failed(
    found: AgentResult, text: str, *, status: int | None = None, at: datetime | None = None, plain: bool = False
) -> AgentResult:
    """Return a result as a failure of the class that its words tell; `plain`: words of ours, which tell none."""
    problem = AgentProblem.AGENT_ERROR if plain else problem_of(text, status)
    resets_at = reset_told(text, at) if problem is AgentProblem.QUOTA else None
    return replace(
        found,
        problem=problem,
        error=ESCAPE.sub("", text)[:LONGEST],
        resets_at=resets_at,
        session_full=problem is AgentProblem.AGENT_ERROR and not plain and is_too_long(text),
    )


def did_nothing(found: AgentResult) -> AgentResult:
    """Return a result as a failure: no answer and no tool used is no success."""
    if found.denied_tools:
        text = f"it did nothing: {', '.join(found.denied_tools)} denied, and no answer came"
        return replace(found, problem=AgentProblem.DENIED, error=text)
    return replace(found, problem=AgentProblem.AGENT_ERROR, error="it did nothing: no answer came and no tool was used")


def end_of(name: str, ended: ProcessEnd) -> str:
    """Return the words for an end without a usable result: how it ended, and the last it said."""
    ending = f"ended with exit code {ended.exit_code}" if ended.exit_code else "ended without a result"
    how = f"{name} {'was stopped' if ended.stopped else ending}"
    said = last_words(ended.stderr)  # never its standard output: what a model wrote must not pass for a refusal
    return f"{how}: {said}" if said else how


def last_words(text: str) -> str:
    """Return the last lines of a text that say something, in one line."""
    lines = [line.strip() for line in ESCAPE.sub("", text[-4 * LONGEST :]).splitlines()]
    return "; ".join([line for line in lines if line][-3:])[-LONGEST // 2 :]


Event = dict[str, Any]
LARGEST = 2**53


def read_events(text: str) -> list[Event]:
    """Return the JSON objects of a stream, one a line; what is none, a diagnostic or half a line, is left out."""
    found = (parse(line) for line in text.split("\n") if line.lstrip().startswith("{"))
    return [event for event in found if isinstance(event, dict)]


def parse(text: str) -> Any:
    """Return the value of a JSON text, None when it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def last_of(events: Iterable[Event], kind: str) -> Event | None:
    """Return the last event of a type."""
    return next((event for event in reversed(list(events)) if event.get("type") == kind), None)


def look_up(value: Any, path: str) -> Any:
    """Return what a dotted path leads to, None when it leads nowhere.

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
    """Return the object that a path leads to, an empty one when there is none."""
    found = look_up(event, path)
    return found if isinstance(found, dict) else {}


def items_at(value: Any, path: str) -> list[Any]:
    """Return the list that a path leads to, an empty one when there is none."""
    found = look_up(value, path)
    return found if isinstance(found, list) else []


def text_at(value: Any, path: str) -> str | None:
    """Return the text that a path leads to, a number as text."""
    found = look_up(value, path)
    if isinstance(found, str):
        return found
    return None if number(found) is None else str(found)


def count_at(value: Any, path: str) -> int | None:
    """Return the count that a path leads to."""
    found = number(look_up(value, path))
    return None if found is None else int(found)


def money_at(value: Any, path: str) -> float | None:
    """Return the amount that a path leads to."""
    found = number(look_up(value, path))
    return None if found is None else float(found)


def number(value: Any) -> float | None:
    """Return a number that can be an amount: finite, not negative, no larger than the database takes."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value <= LARGEST else None


def total(counts: Iterable[int | None]) -> int | None:
    """Return the sum of what is known, None when nothing is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Return names without repetitions and empty ones, in order."""
    return tuple(dict.fromkeys(name for name in names if name))


LONGEST_TRANSCRIPT = 160
TELLING = (
    *("command", "cmd", "file_path", "filePath", "path", "pattern", "query", "url"),
    *("name", "prompt", "description"),
)
"""Arguments that say best what a tool is used for, the best first."""


class TranscriptPiece(str):
    """Words that go on where the piece before them ended."""

    __slots__ = ()


class Teller:
    """Makes lines for people of an agent's output, line by line; words that come in pieces are joined."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._begun = ""

    def __call__(self, line: str) -> list[str]:
        """Return what a line of output says: nothing for most events, the line itself where it is no event."""
        tell = self._adapter.tell
        event = parse(line) if tell is not None and line.lstrip().startswith("{") else None
        if tell is None or not isinstance(event, dict):
            return [*self.rest(), line]
        return [shown for text in tell(event) for shown in self._say(text)]

    def rest(self) -> list[str]:
        """Return the words that nothing followed yet."""
        begun, self._begun = self._begun, ""
        return begun.strip("\n").rstrip().splitlines()

    def _say(self, text: str) -> list[str]:
        if not isinstance(text, TranscriptPiece):
            return [*self.rest(), *text.strip().splitlines()]
        whole, _, self._begun = (self._begun + text).rpartition("\n")
        return whole.strip("\n").splitlines()


def say_tool(name: str | None, given: Any) -> str:
    """Return the use of a tool on one line.

    >>> say_tool("Bash", {"command": "git log", "description": "look"})
    '→ Bash git log'
    """
    return _short(f"→ {name or '?'} {_argument(given)}".rstrip())


def say_failure(text: str | None) -> str:
    """Return why a tool or a request failed on one line."""
    return _short(f"✗ {' '.join((text or 'it failed').split())}")


def _argument(given: Any) -> str:
    if not isinstance(given, Mapping):
        return ""
    best = next((given[name] for name in TELLING if isinstance(given.get(name), str)), None)
    text = best if best is not None else json.dumps(given, ensure_ascii=False) if given else ""
    return " ".join(text.split())


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TRANSCRIPT else f"{text[: LONGEST_TRANSCRIPT - 1]}…"


SERVER = "rota"
PATIENCE = 60
"""So many seconds may the server take to start: a machine may be busy, and the programs' own limits are short."""
FORWARDED = ("ROTA_RUN_ID", "ROTA_RUN", "ROTA_JOB", "ROTA_PROJECT_DIR", "ROTA_SCHEDULER_DIR", "ROTA_STATE_DIR")
"""What the server knows its run by; some agents give their servers no other variable of theirs."""


def mcp_config(task: AgentTask) -> dict[str, Any]:
    """Return the configuration that starts rota's tools for a task, in the shape that most agents read."""
    command, *arguments = task.tools_server
    return {"mcpServers": {SERVER: {"command": command, "args": arguments}}}
