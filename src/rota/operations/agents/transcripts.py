"""The transcript of an agent's run, read from its stored output."""

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TypedDict

from msgspec import Struct, field
from msgspec.structs import replace

from rota.agents import stream
from rota.agents.stream import Entry
from rota.model.errors import InvalidValue
from rota.model.serialize import to_shape
from rota.model.spec import OutputPolicy
from rota.operations.runs import RunView
from rota.runners import output
from rota.text.ansi import clean_for_terminal

PROMPT_FILE = "stdin"
AGENT_OUTPUT = "agent"
"""The folder of the agent's own output, if a step or a check came after it."""
LARGEST = 4_000_000
"""The characters of a transcript; earlier turns are left out."""
TEXT_LIMIT = 20_000
"""The characters of one text, argument or result."""


_MARKED = frozenset({"claude", "opencode"})
"""The programs that say where a turn begins. In other streams a turn begins after the results of tools."""


class ToolCall(Struct):
    """A tool call: its arguments as JSON, and its result. `failed` None: it has no result."""

    tool: str
    arguments: str = ""
    result: str = ""
    failed: bool | None = None


class Turn(Struct):
    """One answer of the model: its texts, its tool calls and its errors. Unknown figures are None."""

    number: int
    text: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    usd: float | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None

    @property
    def size(self) -> int:
        """The number of its characters."""
        calls = sum(len(call.arguments) + len(call.result) for call in self.calls)
        return len(self.text) + calls + sum(map(len, self.errors))


class Transcript(Struct, frozen=True):
    """The turns of a run; `left_out` counts earlier ones that are not shown, `gaps` the gaps in the stored output."""

    prompt: str = ""
    turns: tuple[Turn, ...] = ()
    usd: float | None = None
    left_out: int = 0
    gaps: int = 0


def read_transcript(name: str, lines: Iterable[str], *, prompt: str = "", limit: int) -> Transcript:
    """Return the transcript in the stream of a program; other output is one turn with its text.

    `limit` bounds the characters of each text, argument and result.
    """
    if name not in stream.READERS:
        text = cut("\n".join(lines).strip(), limit)
        return Transcript(cut(prompt, limit), (Turn(1, text),) if text else ())
    reader, gaps = _Reader(marked=name in _MARKED, limit=limit), 0
    for line in lines:
        gaps += line.startswith("… ") and line.endswith(" omitted …")
        for entry in stream.entries(name, line):
            reader.take(entry)
    return Transcript(cut(prompt or reader.prompt, limit), tuple(reader.turns), reader.usd, gaps=gaps)


def last_turns(whole: Transcript, *, size: int) -> Transcript:
    """Return the last turns of a transcript with so many characters together; of a longer turn its last calls."""
    kept, room = 0, size
    for turn in reversed(whole.turns):
        if turn.size > room and kept:
            break
        while turn.size > room and turn.calls:
            del turn.calls[0]
        room -= turn.size
        kept += 1
    left_out = len(whole.turns) - kept
    return replace(whole, turns=whole.turns[left_out:], left_out=whole.left_out + left_out)


def transcript_lines(transcript: Transcript, *, result_lines: int = 20) -> Iterator[str]:
    """Yield a transcript as text: results are folded to their first lines."""
    if transcript.prompt:
        yield from ("prompt", *_indented(transcript.prompt), "")
    if transcript.left_out:
        yield f"… {transcript.left_out} earlier turns omitted …"
    for turn in transcript.turns:
        yield f"turn {turn.number}{_figures(turn)}"
        yield from _indented(turn.text)
        for call in turn.calls:
            yield f"  → {call.tool or '?'} {call.arguments}".rstrip()
            lines = call.result.strip("\n").splitlines()
            yield from (
                f"    {'✗ ' if call.failed and not number else ''}{line}"
                for number, line in _folded(lines, result_lines)
            )
        yield from (f"  ✗ {error}" for error in turn.errors)
        yield ""
    if transcript.gaps:
        yield "the stored output has gaps: turns may be missing"
    if transcript.usd is not None:
        yield f"in all ${transcript.usd:.4f}"


def _folded(lines: list[str], limit: int) -> Iterator[tuple[int, str]]:
    more = len(lines) - limit
    return enumerate(lines if more <= 0 else [*lines[:limit], f"… {more} more lines …"])


def _indented(text: str) -> Iterator[str]:
    return (f"  {line}".rstrip() for line in text.strip("\n").splitlines())


def _figures(turn: Turn) -> str:
    usd = None if turn.usd is None else f"${turn.usd:.4f}"
    sent = None if turn.tokens_in is None else f"{turn.tokens_in:,} tokens in"
    written = None if turn.tokens_out is None else f"{turn.tokens_out:,} out"
    told = ", ".join(part for part in (usd, sent, written) if part)
    return f" ({told})" if told else ""


def cut(text: str, limit: int) -> str:
    """Return a text within the limit, the cut marked."""
    return text if len(text) <= limit else f"{text[:limit]}\n… {len(text) - limit:,} more characters …"


class _Reader:
    """Collects entries into turns."""

    def __init__(self, *, marked: bool, limit: int) -> None:
        self.turns: list[Turn] = []
        self.usd: float | None = None
        self.prompt = ""
        self._marked = marked
        self._limit = limit
        self._turn_id = ""
        self._answered = False
        self._pieces = False
        self._calls: dict[str, ToolCall] = {}

    def take(self, entry: Entry) -> None:
        """Take the next entry."""
        if entry.kind == stream.PROMPT:
            self.prompt = self.prompt or entry.text
        elif entry.kind == stream.TURN:
            self._mark(entry)
        elif entry.kind == stream.END:
            self._end(entry)
        else:
            self._add(entry)
        self._pieces = entry.piece

    def _mark(self, entry: Entry) -> None:
        if self._marked and (not self.turns or entry.call != self._turn_id):
            self._begin()
            self.turns[-1].tokens_in = entry.tokens_in
        self._turn_id = entry.call

    def _begin(self) -> None:
        self.turns.append(Turn(len(self.turns) + 1))
        self._answered = False

    def _end(self, entry: Entry) -> None:
        """Take figures: of a turn where the program tells them so, else of the whole run."""
        if entry.usd is not None:
            self.usd = (self.usd or 0.0) + entry.usd
        if self.turns and (entry.tokens_in is not None or entry.tokens_out is not None):
            self.turns[-1].usd = entry.usd
            self.turns[-1].tokens_in, self.turns[-1].tokens_out = entry.tokens_in, entry.tokens_out

    def _add(self, entry: Entry) -> None:
        new = entry.kind in (stream.TEXT, stream.CALL) and entry.call not in self._calls
        if not self.turns or (new and self._answered and not self._marked):
            self._begin()
        turn = self.turns[-1]
        match entry.kind:
            case stream.TEXT if entry.text:
                joint = "" if entry.piece and self._pieces else "\n" if turn.text else ""
                turn.text = cut(turn.text + joint + entry.text, self._limit)
            case stream.CALL if new or not entry.call:
                call = ToolCall(entry.tool, "" if entry.arguments is None else _arguments(entry.arguments, self._limit))
                self._calls[entry.call] = call
                turn.calls.append(call)
            case stream.RESULT:
                self._answer(turn, entry)
            case stream.ERROR if entry.text:
                turn.errors.append(cut(entry.text, self._limit))

    def _answer(self, turn: Turn, entry: Entry) -> None:
        call = self._calls.get(entry.call)
        if call is None:
            call = self._calls[entry.call] = ToolCall("")
            turn.calls.append(call)
        call.result, call.failed = cut(entry.text, self._limit), entry.failed
        self._answered = True


def _arguments(value: object, limit: int) -> str:
    return cut(json.dumps(value, ensure_ascii=False), limit)


def lines_of(pieces: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of an output; the bytes may be cut anywhere."""
    rest = b""
    for piece in chain(pieces, (b"",)):
        *whole, rest = (rest + piece).split(b"\n") if piece else (rest, b"")
        for line in whole:
            yield line.decode("utf-8", "replace").removesuffix("\r")


def transcript_of(state: Path, view: RunView, *, size: int = LARGEST, limit: int = TEXT_LIMIT) -> Transcript:
    """Return the transcript of a run; a run that is not of an agent has none. `limit` bounds each text."""
    work = view.spec.work.agent
    if work is None:
        hint = f"`rota logs {view.run.handle}` prints its output"
        raise InvalidValue(f"{view.run.handle} is not a run of an agent and has no transcript", hint=hint)
    if view.spec.work.output is OutputPolicy.NONE:
        return Transcript()
    folder = output.folder_of(state, view.run.id)
    own = folder / AGENT_OUTPUT
    lines = lines_of(output.read_output(own if own.is_dir() else folder))
    return last_turns(read_transcript(work.adapter, lines, prompt=read_prompt(state, view), limit=limit), size=size)


def read_prompt(state: Path, view: RunView) -> str:
    """Return the prompt as the program got it; a program that got it otherwise leaves none."""
    try:
        return (output.folder_of(state, view.run.id) / PROMPT_FILE).read_text("utf-8", "replace")
    except OSError:
        return ""


class ToolCallJson(TypedDict):
    """A tool call of a transcript; `failed` null: it has no result."""

    tool: str
    arguments: str
    result: str
    failed: bool | None


class TurnJson(TypedDict):
    """A turn of a transcript; unknown figures are null."""

    number: int
    text: str
    calls: list[ToolCallJson]
    errors: list[str]
    usd: float | None
    tokens_in: int | None
    tokens_out: int | None


class TranscriptJson(TypedDict):
    """The transcript of a run, as `rota logs RUN --transcript --json` tells it."""

    run: str
    prompt: str
    turns: list[TurnJson]
    usd: float | None
    left_out: int
    gaps: int
    note: str | None


def transcript_json(view: RunView, found: Transcript, note: str | None) -> TranscriptJson:
    """Return a transcript as JSON; `note` says why there is no output."""
    turns = [
        to_shape(TurnJson, turn, calls=[to_shape(ToolCallJson, call) for call in turn.calls]) for turn in found.turns
    ]
    return to_shape(TranscriptJson, found, run=view.run.handle, turns=turns, note=note)


def shown_lines(found: Transcript) -> list[str]:
    """Return a transcript as lines for a terminal."""
    return [clean_for_terminal(line) for line in transcript_lines(found)]
