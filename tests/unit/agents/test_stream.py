"""The streams of agent programs as entries, and the guard against loops."""

import json
from pathlib import Path

import pytest

from rota.agents.registry import FIXED
from rota.agents.stream import CALL, READERS, RESULT, TEXT, Entry, StreamGuard, entries

RECORDED = Path(__file__).with_name("recorded")


def of(name: str) -> list[Entry]:
    """Return the entries of a recording."""
    lines = (RECORDED / f"{name}.jsonl").read_text().splitlines()[1:]
    return [entry for line in lines for entry in entries(name.partition("-")[0], line)]


def test_the_programs_with_readers_are_those_whose_calls_can_be_counted() -> None:
    assert {name for name, each in FIXED.items() if each.capabilities.loop_guard} == set(READERS)


@pytest.mark.parametrize(
    ("name", "tool", "arguments"),
    [
        ("claude-edit", "Write", {"file_path": "new.txt", "content": "new"}),
        ("codex-command", "shell", {"command": "/bin/bash -lc 'cat notes.txt'"}),
        ("gemini-tool_left_out", "run_shell_command", {"command": "ls"}),
        ("opencode-tool_denied", "bash", {"command": "ls", "description": "look"}),
    ],
)
def test_a_recorded_call_has_its_arguments_and_its_result(name: str, tool: str, arguments: object) -> None:
    found = of(name)
    calls = {entry.call: entry for entry in found if entry.kind == CALL}
    (call,) = calls.values()
    (result,) = (entry for entry in found if entry.kind == RESULT)
    assert (call.tool, call.arguments) == (tool, arguments)
    assert result.call == call.call
    assert result.text
    assert result.failed is ("denied" in name or "left_out" in name)
    assert [entry.text for entry in found if entry.kind == TEXT] == ["stub answer"]


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.jsonl")), ids=lambda path: path.stem)
def test_damaged_output_raises_nothing(path: Path) -> None:
    name = path.stem.partition("-")[0]
    for line in path.read_text().splitlines()[1:] if name in READERS else ():
        event = json.loads(line)
        for key in event:
            for wrong in (None, 5, [1], {"type": []}, "x"):
                assert isinstance(entries(name, json.dumps({**event, key: wrong})), list)
        assert entries(name, line[:-1]) == []


def call(number: int, **arguments: object) -> bytes:
    block = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": arguments}
    return json.dumps({"type": "assistant", "message": {"content": [block]}}).encode() + b"\n"


def fed(guard: StreamGuard, *parts: bytes) -> list[str | None]:
    return [stop and stop.error for stop in map(guard.feed, parts)]


def test_equal_calls_in_a_row_reach_the_limit() -> None:
    said = fed(StreamGuard("claude", 3), *(call(number, command="make", timeout=1) for number in range(3)))
    assert said == [None, None, 'the agent called Bash {"command": "make", "timeout": 1} 3 times in a row']


def test_another_call_begins_the_count_anew_and_text_does_not() -> None:
    guard = StreamGuard("claude", 3)
    text = json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": "hm"}]}}).encode() + b"\n"
    assert fed(guard, call(1, a=1), call(2, a=1), call(3, a=2), call(4, a=1), text, call(5, a=1)) == [None] * 6
    assert guard.feed(call(6, a=1)) is not None


def test_several_events_about_one_call_count_once() -> None:
    guard = StreamGuard("codex", 2)
    item = {"id": "item_1", "type": "command_execution", "command": "ls", "status": "completed"}
    lines = [json.dumps({"type": f"item.{kind}", "item": item}).encode() + b"\n" for kind in ("started", "completed")]
    assert fed(guard, *lines) == [None, None]
    assert guard.feed(lines[0].replace(b"item_1", b"item_2")) is not None


def test_events_may_come_in_pieces_and_among_other_lines() -> None:
    guard = StreamGuard("claude", 2)
    data = b"warning: {\n" + call(1, a=1) + b"{broken\n\n" + call(2, a=1)
    said = [guard.feed(data[at : at + 7]) for at in range(0, len(data), 7)]
    assert [one.error for one in said if one] == ['the agent called Bash {"a": 1} 2 times in a row']


def test_a_line_without_an_end_is_not_kept() -> None:
    guard = StreamGuard("claude", 2)
    assert fed(guard, *[b"x" * 1_000_000] * 5, b"\n", call(1, a=1)) == [None] * 7
    assert guard.feed(call(2, a=1)) is not None


def step(usd: float = 0.0, tokens: int = 5) -> bytes:
    start = {"type": "step_start", "part": {"messageID": "m"}}
    finish = {"type": "step_finish", "part": {"cost": usd, "tokens": {"input": 1, "output": tokens}}}
    return b"".join(json.dumps(event).encode() + b"\n" for event in (start, finish))


def test_a_program_is_stopped_at_the_turn_after_the_last_one() -> None:
    guard = StreamGuard("opencode", None, max_turns=2)
    assert [guard.feed(step()) for _ in range(3)] == [
        None,
        None,
        ("limited", "opencode was stopped at max_turns (2)"),
    ]


def test_a_program_is_stopped_when_its_steps_have_cost_that_much() -> None:
    guard = StreamGuard("opencode", None, max_usd=0.5)
    assert [guard.feed(step(0.2)) for _ in range(3)] == [
        None,
        None,
        ("limited", "opencode was stopped at max_usd (0.5)"),
    ]


def test_a_price_that_is_not_known_cannot_keep_a_limit_of_dollars() -> None:
    stop = StreamGuard("opencode", None, max_usd=0.5).feed(step())
    assert stop is not None
    assert "does not know the price" in stop.error


def test_a_call_that_several_events_tell_of_is_one_turn() -> None:
    guard = StreamGuard("codex", None, max_turns=1)

    def item(kind: str, identifier: str) -> bytes:
        told = {"type": kind, "item": {"id": identifier, "type": "command_execution", "command": "ls"}}
        return json.dumps(told).encode() + b"\n"

    assert guard.feed(item("item.started", "1") + item("item.completed", "1")) is None
    assert guard.feed(item("item.started", "2")) == ("limited", "codex was stopped at max_turns (1)")
