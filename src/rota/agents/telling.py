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


def told(adapter: Adapter, line: str) -> list[str]:
    """Return a line of output for people: none for an event that says nothing, the line itself where it is no event."""
    event = parse(line) if adapter.tell is not None and line.lstrip().startswith("{") else None
    if adapter.tell is None or not isinstance(event, dict):
        return [line]
    return [part for text in adapter.tell(event) for part in text.strip().splitlines()]


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
