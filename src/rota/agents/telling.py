"""What an agent's events say to a person who watches it: its words, its tools, and what went wrong with them."""

import json
from collections.abc import Mapping
from typing import Any

from rota.agents.adapter import Adapter
from rota.agents.events import parse

LONGEST = 160
TELLING = (
    *("command", "cmd", "file_path", "filePath", "path", "pattern", "query", "url"),
    *("name", "prompt", "description"),
)
"""Arguments that say best what a tool is used for, the best first."""


class Piece(str):
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
        if not isinstance(text, Piece):
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
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
