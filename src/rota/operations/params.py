"""The values of params as people type them, and as they are shown to be typed again."""

import json
from typing import Any


def read_value(text: str) -> Any:
    """Return the value that a person typed: JSON where it is a plain value of JSON, else the text itself.

    >>> read_value("3"), read_value("true"), read_value("mon-fri")
    (3, True, 'mon-fri')
    """
    try:
        value = json.loads(text)
    except (RecursionError, ValueError):
        return text
    finite = not isinstance(value, float) or value - value == 0
    return value if isinstance(value, bool | int | float | str | None) and finite else text


def write_value(value: Any) -> str:
    """Return a value as a person would type it: what `read_value` reads as the same.

    >>> write_value(3), write_value("3"), write_value("mon-fri")
    ('3', '"3"', 'mon-fri')
    """
    if isinstance(value, str) and read_value(value) == value and value == value.strip():
        return value
    return json.dumps(value, ensure_ascii=False)
