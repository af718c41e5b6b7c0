"""What a person sees of an agent's output: its words, its tools, what went wrong; and nothing of the rest."""

import json

import pytest
from tests.agents.replaying import recording

from rota.agents.adapter import TRANSCRIPT_LINE_LIMIT, Adapter, Teller
from rota.agents.registry import adapter


def seen(name: str) -> list[str]:
    kind = adapter(name.partition("-")[0])
    return whole(kind, recording(name).stdout.splitlines())


def whole(kind: Adapter, lines: list[str]) -> list[str]:
    """Return what a person sees of all these lines."""
    tell = Teller(kind)
    return [text for line in lines for text in tell(line)] + tell.rest()


def told(kind: Adapter, line: str) -> list[str]:
    return whole(kind, [line])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude-success", ["stub answer"]),
        ("claude-edit", ["→ Write new.txt", "stub answer"]),
        ("codex-success", ["stub answer"]),
        ("codex-command", ["→ $ /bin/bash -lc 'cat notes.txt'", "stub answer"]),
        ("gemini-success", ["stub answer"]),
        ("opencode-success", ["stub answer"]),
    ],
)
def test_words_and_tools_are_seen_and_nothing_else(name: str, expected: list[str]) -> None:
    assert seen(name) == expected


@pytest.mark.parametrize(
    ("name", "use", "refusal"),
    [
        ("claude-tool_left_out", "→ Bash git status", "✗ <tool_use_error>Error: No such tool available"),
        ("codex-sandboxed", "→ $ /bin/bash -lc", "✗ touch: cannot touch"),
        ("gemini-tool_left_out", "→ run_shell_command ls", '✗ Tool "run_shell_command" not found'),
        ("opencode-tool_denied", "→ bash ls", "✗ The user has specified a rule"),
    ],
)
def test_a_tool_that_was_refused_is_seen_as_such(name: str, use: str, refusal: str) -> None:
    lines = seen(name)
    assert lines[0].startswith(use)
    assert lines[1].startswith(refusal)
    assert lines[-1] == "stub answer"


@pytest.mark.parametrize("name", ["codex-quota", "opencode-quota", "claude-rate_limit", "gemini-quota"])
def test_a_provider_that_refuses_is_seen(name: str) -> None:
    assert any(line.startswith("✗ ") or "limit" in line for line in seen(name)), seen(name)


@pytest.mark.parametrize("line", ["plain words", '{"half": ', "[1, 2]", '"text"', ""])
def test_what_is_no_event_is_shown_as_it_is(line: str) -> None:
    assert told(adapter("claude"), line) == [line]


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode"])
@pytest.mark.parametrize(
    "event", [{}, {"type": 1}, {"type": "assistant", "message": {"content": "x"}}, {"item": [], "part": 3, "error": []}]
)
def test_strange_events_are_no_failure(event: dict[str, object], name: str) -> None:
    assert isinstance(told(adapter(name), json.dumps(event)), list)


def test_a_long_use_of_a_tool_is_cut() -> None:
    block = {"type": "tool_use", "name": "Bash", "input": {"command": "x" * 1000}}
    (line,) = told(adapter("claude"), json.dumps({"type": "assistant", "message": {"content": [block]}}))
    assert len(line) == TRANSCRIPT_LINE_LIMIT
    assert line.endswith("…")


def test_text_of_a_custom_agent_is_left_alone() -> None:
    assert told(adapter("custom", {"argv": ["x"]}), '{"a": 1}') == ['{"a": 1}']


def said(text: str) -> str:
    return json.dumps({"type": "message", "role": "assistant", "content": text, "delta": True})


def test_words_that_come_in_pieces_are_joined_until_something_else_comes() -> None:
    use = json.dumps({"type": "tool_use", "tool_name": "read_file", "parameters": {"path": "a"}})
    lines = [said("I look"), said(" at the no"), said("tes.\nThen I"), said(" write.\n"), use, said("Do"), said("ne.")]
    assert whole(adapter("gemini"), lines) == ["I look at the notes.", "Then I write.", "→ read_file a", "Done."]


def test_a_whole_line_of_pieces_is_seen_before_the_next_begins() -> None:
    tell = Teller(adapter("gemini"))
    assert tell(said("one")) == []
    assert tell(said(" line\n\n  - ind")) == ["one line"]
    assert tell(said("ented")) == []
    assert tell("a warning") == ["  - indented", "a warning"]
