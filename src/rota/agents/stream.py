"""The streams of agent programs as entries, and the guard against loops. Standard library only: the keeper uses it."""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

TURN, PROMPT, TEXT, CALL, RESULT, ERROR, END = "turn", "prompt", "text", "call", "result", "error", "end"
LINE_LIMIT = 4_000_000
"""A longer line is passed over: the keeper holds it in memory."""
SHOWN_ARGUMENTS = 200

Event = dict[str, Any]


class Entry(NamedTuple):
    """One thing that a program reports. A call and its result have the same `call`."""

    kind: str
    text: str = ""
    call: str = ""
    tool: str = ""
    arguments: Any = None
    failed: bool = False
    piece: bool = False
    """Whether the text continues that of the entry before it."""
    usd: float | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None


def claude(event: Event) -> Iterator[Entry]:
    """Yield the entries of an event of Claude Code."""
    kind, message = event.get("type"), event.get("message")
    if kind == "result":
        yield Entry(END, usd=_number(event.get("total_cost_usd")))
        if event.get("is_error"):
            yield Entry(ERROR, _text(event.get("result") or event.get("subtype")))
    if not isinstance(message, dict):
        return
    if kind == "assistant":
        used = _part(message, "usage")
        sent = [used.get(name) for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")]
        yield Entry(TURN, call=_text(message.get("id")), tokens_in=_total(sent))
    for block in _items(message.get("content")):
        match block.get("type"):
            case "text" if kind == "assistant":
                yield Entry(TEXT, _text(block.get("text")))
            case "tool_use":
                yield Entry(CALL, "", _text(block.get("id")), _text(block.get("name")), block.get("input"))
            case "tool_result":
                failed = bool(block.get("is_error"))
                yield Entry(RESULT, _content(block.get("content")), _text(block.get("tool_use_id")), failed=failed)


_CODEX_CALLS = {"command_execution": "shell", "file_change": "file_change", "web_search": "web_search"}


def codex(event: Event) -> Iterator[Entry]:
    """Yield the entries of an event of Codex, which reports no command that ends at once."""
    item, done = _part(event, "item"), event.get("type") == "item.completed"
    kind, identifier = _text(item.get("type")), _text(item.get("id"))
    if event.get("type") == "turn.started":
        yield Entry(TURN)
    elif event.get("type") == "turn.completed":
        used = _part(event, "usage")
        yield Entry(END, tokens_in=_count(used.get("input_tokens")), tokens_out=_count(used.get("output_tokens")))
    elif event.get("type") in ("turn.failed", "error"):
        yield Entry(ERROR, _text(_part(event, "error").get("message") or event.get("message")))
    elif kind == "agent_message" and done:
        yield Entry(TEXT, _text(item.get("text")))
    elif kind == "error":
        yield Entry(ERROR, _text(item.get("message")))
    elif kind in _CODEX_CALLS or kind == "mcp_tool_call":
        yield Entry(CALL, "", identifier, _codex_tool(item), _codex_arguments(item))
        if done:
            failed = item.get("status") in ("failed", "declined")
            yield Entry(RESULT, _codex_output(item), identifier, failed=failed)


def _codex_tool(item: Event) -> str:
    if item.get("type") == "mcp_tool_call":
        return f"mcp__{_text(item.get('server'))}__{_text(item.get('tool'))}"
    return _CODEX_CALLS[item["type"]]


def _codex_arguments(item: Event) -> Any:
    named = {"command_execution": "command", "file_change": "changes", "web_search": "query"}.get(item["type"])
    return item.get("arguments") if named is None else {named: item.get(named)}


def _codex_output(item: Event) -> str:
    error = _part(item, "error").get("message")
    result = item.get("result")
    said = (
        error or item.get("aggregated_output") or (_content(result.get("content")) if isinstance(result, dict) else "")
    )
    return _text(said)


def gemini(event: Event) -> Iterator[Entry]:
    """Yield the entries of an event of Gemini."""
    match event.get("type"):
        case "message" if event.get("role") == "assistant":
            yield Entry(TEXT, _text(event.get("content")), piece=bool(event.get("delta")))
        case "message":
            yield Entry(PROMPT, _text(event.get("content")))
        case "tool_use":
            identifier, tool = _text(event.get("tool_id")), _text(event.get("tool_name"))
            yield Entry(CALL, "", identifier, tool, event.get("parameters"))
        case "tool_result":
            said = event.get("output") or _part(event, "error").get("message")
            failed = event.get("status") == "error"
            yield Entry(RESULT, _text(said), _text(event.get("tool_id")), failed=failed)
        case "error":
            yield Entry(ERROR, _text(event.get("message") or _part(event, "error").get("message")))
        case "result":
            stats = _part(event, "stats")
            yield Entry(END, tokens_in=_count(stats.get("input_tokens")), tokens_out=_count(stats.get("output_tokens")))
            if event.get("status") == "error":
                yield Entry(ERROR, _text(_part(event, "error").get("message")))


def opencode(event: Event) -> Iterator[Entry]:
    """Yield the entries of an event of OpenCode."""
    part = _part(event, "part")
    match event.get("type"):
        case "step_start":
            yield Entry(TURN, call=_text(part.get("messageID")))
        case "text":
            yield Entry(TEXT, _text(part.get("text")))
        case "tool_use":
            state, identifier = _part(part, "state"), _text(part.get("callID"))
            yield Entry(CALL, "", identifier, _text(part.get("tool")), state.get("input"))
            failed = state.get("status") == "error"
            yield Entry(RESULT, _text(state.get("error") if failed else state.get("output")), identifier, failed=failed)
        case "step_finish":
            tokens = _part(part, "tokens")
            cache = _part(tokens, "cache")
            sent = _total([tokens.get("input"), cache.get("read"), cache.get("write")])
            written = _total([tokens.get("output"), tokens.get("reasoning")])
            yield Entry(END, usd=_number(part.get("cost")) or None, tokens_in=sent, tokens_out=written)
        case "error":
            error = _part(event, "error")
            yield Entry(ERROR, _text(_part(error, "data").get("message") or error.get("name")))


READERS: dict[str, Callable[[Event], Iterator[Entry]]] = {
    "claude": claude,
    "codex": codex,
    "gemini": gemini,
    "opencode": opencode,
}
"""The programs whose streams show their tool calls."""


def entries(name: str, line: bytes | str) -> list[Entry]:
    """Return the entries in a line of a program's stream; a line that is no event has none."""
    if not line.lstrip().startswith(b"{" if isinstance(line, bytes) else "{"):  # type: ignore[arg-type]
        return []
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return []
    return list(READERS[name](event)) if isinstance(event, dict) else []


class Stop(NamedTuple):
    """Why a run is stopped: `looping`, or `limited` by `max_turns` or `max_usd`."""

    why: str
    error: str


UNTOLD_TURNS = ("codex", "gemini")
"""Programs whose streams do not show turns: each tool call counts as one."""


class StreamGuard:
    """Counts equal tool calls in a row, turns and dollars in a stream."""

    def __init__(
        self, name: str, limit: int | None, *, max_turns: int | None = None, max_usd: float | None = None
    ) -> None:
        self._name = name
        self._limit = limit
        self._max_turns = max_turns
        self._max_usd = max_usd
        self._turns = 0
        self._usd = 0.0
        self._rest = b""
        self._passing = False
        self._last: tuple[str, str] | None = None
        self._count = 0
        self._seen: dict[str, None] = {}

    def feed(self, data: bytes) -> Stop | None:
        """Read on; return why the run stops once a limit is reached."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > LINE_LIMIT:
            self._rest, self._passing = b"", True
        for line in lines:
            if self._passing:
                self._passing = False
                continue
            for entry in entries(self._name, line):
                stop = self._judge(entry)
                if stop is not None:
                    return stop
        return None

    def _judge(self, entry: Entry) -> Stop | None:
        new = entry.kind == CALL and self._is_new(entry)
        if new and self._limit is not None and self._counts(entry):
            return Stop("looping", f"the agent called {self._words()} {self._count} times in a row")
        self._turns += new if self._name in UNTOLD_TURNS else entry.kind == TURN
        if self._max_turns is not None and self._turns > self._max_turns:
            return Stop("limited", f"{self._name} was stopped at max_turns ({self._max_turns})")
        return None if self._max_usd is None or entry.kind != END else self._judge_cost(entry, self._max_usd)

    def _judge_cost(self, entry: Entry, most: float) -> Stop | None:
        if entry.usd is None and entry.tokens_out:
            return Stop("limited", f"{self._name} does not know the price of its model, so max_usd cannot be kept")
        self._usd += entry.usd or 0.0
        return Stop("limited", f"{self._name} was stopped at max_usd ({most})") if self._usd >= most else None

    def _is_new(self, entry: Entry) -> bool:
        """Return whether no earlier event told of a call."""
        if not entry.call:
            return True
        if entry.call in self._seen:
            return False
        self._seen[entry.call] = None
        if len(self._seen) > 1000:
            del self._seen[next(iter(self._seen))]
        return True

    def _counts(self, entry: Entry) -> bool:
        """Count a call; return whether the limit of equal ones is reached."""
        call = (entry.tool, json.dumps(entry.arguments, sort_keys=True, default=str))
        self._count = self._count + 1 if call == self._last else 1
        self._last = call
        return self._limit is not None and self._count >= self._limit

    def _words(self) -> str:
        tool, arguments = self._last or ("", "")
        short = arguments if len(arguments) <= SHOWN_ARGUMENTS else arguments[: SHOWN_ARGUMENTS - 1] + "…"
        return f"{tool or '?'} {short}"


def _part(value: Event, key: str) -> Event:
    part = value.get(key)
    return part if isinstance(part, dict) else {}


def _items(value: Any) -> list[Event]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _content(value: Any) -> str:
    """Return the text of a result: a text, or a list of blocks."""
    if not isinstance(value, list):
        return _text(value)
    return "\n".join(_text(item.get("text") or f"[{item.get('type')}]") for item in _items(value))


def _number(value: Any) -> float | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53
    return float(value) if fits else None


def _count(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _total(values: list[Any]) -> int | None:
    counts = [count for value in values if (count := _count(value)) is not None]
    return sum(counts) if counts else None
