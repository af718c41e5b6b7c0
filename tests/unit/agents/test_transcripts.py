"""Transcripts from the recorded streams of agent programs."""

import json
from pathlib import Path

import pytest

from rota.operations.agents.transcripts import (
    ToolCall,
    Transcript,
    Turn,
    last_turns,
    lines_of,
    read_transcript,
    transcript_lines,
)

RECORDED = Path(__file__).with_name("recorded")


def of(name: str, **options: object) -> Transcript:
    """Return the transcript of a recording."""
    lines = (RECORDED / f"{name}.jsonl").read_text().splitlines()[1:]
    return read_transcript(name.partition("-")[0], lines, prompt="Do it.", limit=1000, **options)  # type: ignore[arg-type]


def outline(turns: tuple[Turn, ...]) -> list[tuple[str, list[tuple[str, bool | None]]]]:
    return [(turn.text, [(call.tool, call.failed) for call in turn.calls]) for turn in turns]


@pytest.mark.parametrize(
    ("name", "tool", "failed"),
    [
        ("claude-edit", "Write", False),
        ("claude-tool_left_out", "Bash", True),
        ("codex-command", "shell", False),
        ("gemini-tool_left_out", "run_shell_command", True),
        ("opencode-tool_denied", "bash", True),
    ],
)
def test_a_recorded_run_has_two_turns(name: str, tool: str, failed: bool) -> None:
    found = of(name)
    assert outline(found.turns) == [("", [(tool, failed)]), ("stub answer", [])]
    [call] = found.turns[0].calls
    assert json.loads(call.arguments)
    assert call.result
    assert found.prompt == "Do it."


def test_costs_are_told_by_turn_where_the_program_tells_them_so_and_in_all() -> None:
    [first, last] = of("opencode-tool_denied").turns
    assert (first.usd, first.tokens_in, first.tokens_out, last.usd) == (0.00254, 1200, 34, 0.00254)
    assert of("opencode-tool_denied").usd == pytest.approx(0.00508)
    assert of("claude-edit").usd == 0.011
    assert [turn.tokens_in for turn in of("claude-edit").turns] == [1300, 1300]
    assert of("codex-command").usd is None


def test_the_prompt_in_a_stream_serves_where_none_is_stored() -> None:
    lines = (RECORDED / "gemini-success.jsonl").read_text().splitlines()[1:]
    assert read_transcript("gemini", lines, limit=1000).prompt.startswith("Look at the notes.")


def test_a_program_without_events_has_one_turn_with_its_output() -> None:
    assert read_transcript("custom", ["one", "two"], prompt="p", limit=1000).turns == (Turn(1, "one\ntwo"),)
    assert read_transcript("custom", [], limit=1000) == Transcript()


def test_long_texts_are_cut_and_say_so() -> None:
    found = read_transcript("custom", ["x" * 30], limit=10)
    assert found.turns[0].text == "x" * 10 + "\n… 20 more characters …"


def test_the_last_turns_are_kept_and_the_others_counted() -> None:
    turns = [Turn(number, "x" * 10) for number in range(1, 6)]
    found = last_turns(Transcript(turns=tuple(turns)), size=25)
    assert ([turn.number for turn in found.turns], found.left_out) == ([4, 5], 3)
    large = Turn(1, "x", [ToolCall("a", "y" * 20), ToolCall("b", "y" * 20)])
    [kept] = last_turns(Transcript(turns=(large,)), size=30).turns
    assert [call.tool for call in kept.calls] == ["b"]


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.jsonl")), ids=lambda path: path.stem)
def test_every_recording_can_be_read_and_printed(path: Path) -> None:
    found = of(path.stem)
    assert list(transcript_lines(found))


def test_printed_results_are_folded() -> None:
    call = ToolCall("Bash", '{"command": "ls"}', "\n".join(map(str, range(30))), failed=False)
    lines = list(transcript_lines(Transcript("p", (Turn(1, "hi", [call]),), usd=0.5), result_lines=2))
    assert lines == [
        *("prompt", "  p", "", "turn 1", "  hi", '  → Bash {"command": "ls"}'),
        *("    0", "    1", "    … 28 more lines …", "", "in all $0.5000"),
    ]


def test_lines_may_be_cut_anywhere() -> None:
    data = "één\r\ntwo\n\nlast".encode()
    assert list(lines_of(data[at : at + 1] for at in range(len(data)))) == ["één", "two", "", "last"]
