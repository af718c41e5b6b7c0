"""The transcript of an agent's run, read from its stored output."""

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from rota.model.errors import InvalidValue
from rota.model.serialize import to_shape
from rota.model.spec import OutputPolicy
from rota.operations.runs import RunView
from rota.runners import output
from rota.text.ansi import clean_for_terminal

if TYPE_CHECKING:
    from rota.agents.transcript import Transcript

PROMPT_FILE = "stdin"
AGENT_OUTPUT = "agent"
"""The folder of the agent's own output, if a step or a check came after it."""
LARGEST = 4_000_000
"""The characters of a transcript; earlier turns are left out."""
TEXT_LIMIT = 20_000
"""The characters of one text, argument or result."""


def transcript_of(state: Path, view: RunView, *, size: int = LARGEST, limit: int = TEXT_LIMIT) -> "Transcript":
    """Return the transcript of a run; a run that is not of an agent has none. `limit` bounds each text."""
    from rota.agents.transcript import Transcript, last_turns, lines_of, read_transcript

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


def transcript_json(view: RunView, found: "Transcript", note: str | None) -> TranscriptJson:
    """Return a transcript as JSON; `note` says why there is no output."""
    turns = [
        to_shape(TurnJson, turn, calls=[to_shape(ToolCallJson, call) for call in turn.calls]) for turn in found.turns
    ]
    return to_shape(TranscriptJson, found, run=view.run.handle, turns=turns, note=note)


def shown_lines(found: "Transcript") -> list[str]:
    """Return a transcript as lines for a terminal."""
    from rota.agents.transcript import transcript_lines

    return [clean_for_terminal(line) for line in transcript_lines(found)]
