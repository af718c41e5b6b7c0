"""Reading the JSON that agents print: lines of events, and values in them."""

import json
from collections.abc import Iterable
from typing import Any

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
