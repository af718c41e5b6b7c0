"""YAML text from plain values, as a person would write it: what `import`, `export` and `add` put into a file."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rota.declare.composing import WrittenFloat, WrittenInt

INDENT = 2
WIDTH = 100
_PLAIN = re.compile(r"[A-Za-z0-9_./~+-][A-Za-z0-9_./~+@:%=^$()<>;| \"'&*?!\\-]*", re.ASCII)
_FLOW_PLAIN = re.compile(r"[A-Za-z0-9_./+-][A-Za-z0-9_./~+@%=^$-]*", re.ASCII)
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n", "~"})
_NUMBER_LIKE = re.compile(r"(?![0-9]+[smhd]$)[-+.]?[0-9]|[-+]?\.(inf|nan)", re.IGNORECASE)
_MISREAD = re.compile(r":(\s|$)| #|^(-|\?|\.\.\.|---)(\s|$)|\s$")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def write_key(key: str) -> str:
    """Return a key of a map, in quotes where YAML would read something else.

    >>> write_key("backup-db"), write_key("2026")
    ('backup-db', '"2026"')
    """
    return _text(key, _FLOW_PLAIN)


def write_value(value: Any) -> str:
    """Return a value on one line; lists and maps in brackets.

    >>> write_value(["a b", 1, {"secret": "TOKEN"}])
    '["a b", 1, {secret: TOKEN}]'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{write_key(str(key))}: {write_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(write_value(item) for item in value) + "]"
    return _text(value, _FLOW_PLAIN) if isinstance(value, str) else _scalar(value)


def write_entry(key: str, value: Any, *, depth: int = 0) -> list[str]:
    """Return the lines of `key: value` at a depth; long maps and lists of maps over several lines.

    >>> write_entry("shell", "echo one\\necho two\\n", depth=1)
    ['  shell: |', '    echo one', '    echo two']
    """
    margin = " " * (INDENT * depth)
    head = f"{margin}{write_key(key)}:"
    if isinstance(value, str):
        return _write_text(head, value, depth=depth)
    line = f"{head} {write_value(value)}"
    if isinstance(value, Mapping) and value and (len(line) > WIDTH or _holds_lines(value)):
        return [head, *write_map(value, depth=depth + 1)]
    if isinstance(value, list | tuple) and value and (len(line) > WIDTH or any(isinstance(i, Mapping) for i in value)):
        return [head, *(f"{margin}  - {write_value(item)}" for item in value)]
    return [line]


def write_map(values: Mapping[str, Any], *, depth: int = 0) -> list[str]:
    """Return the lines of a map's entries at a depth."""
    return [line for key, value in values.items() for line in write_entry(key, value, depth=depth)]


def write_job(name: str, keys: Mapping[str, Any], *, comments: Sequence[str] = ()) -> list[str]:
    """Return the lines of a job below `jobs:`, its comments above it."""
    head = [write_comment(comment, depth=1) for comment in comments]
    return [*head, f"{' ' * INDENT}{write_key(name)}:", *write_map(keys, depth=2)]


def write_comment(text: str, *, depth: int = 0) -> str:
    """Return a comment of one line; characters that could end the line are shown escaped."""
    plain = "".join(c if c.isprintable() or c == "\t" else f"\\u{ord(c):04x}" for c in text).rstrip()
    return f"{' ' * (INDENT * depth)}# {plain}".rstrip()


def _holds_lines(values: Mapping[str, Any]) -> bool:
    return any(isinstance(item, str) and "\n" in item for item in values.values())


def _write_text(head: str, text: str, *, depth: int) -> list[str]:
    if "\n" not in text or not _fits_a_block(text):
        return [f"{head} {_text(text, _PLAIN)}"]
    body = text[:-1] if text.endswith("\n") else text
    mark = "|" if text.endswith("\n") else "|-"
    margin = " " * (INDENT * (depth + 1))
    return [f"{head} {mark}", *(f"{margin}{line}" if line else "" for line in body.split("\n"))]


def _fits_a_block(text: str) -> bool:
    """Tell whether a block of lines reads back as `text`: nothing invisible, no blank edge that YAML would drop."""
    lines = text.removesuffix("\n").split("\n")
    visible = all(c.isprintable() or c == "\n" for c in text)
    return visible and bool(lines[-1].strip()) and lines[0][:1] not in ("", " ") and lines[0].strip() != ""


def _text(text: str, plain: re.Pattern[str]) -> str:
    misread = text.lower() in _WORDS or _NUMBER_LIKE.match(text) or _MISREAD.search(text)
    if plain.fullmatch(text) and not misread and len(text) < 1000:
        return text
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.written
    return repr(value) if isinstance(value, int | float) else _text(str(value), _FLOW_PLAIN)
