"""Going on after an unquoted `*` or `@` as if it had been quoted, so that the rest of the file is checked too."""

import re
from dataclasses import dataclass

from rota.declare.composing import Mark, Stopped

SPECIAL = "*@`%"
_STARTS = re.compile(r"(?:^|(?<=[:\-])\s|[,\[{])\s*(\*)")
QUOTE_HINTS = {
    "yaml_alias": "put the expression in quotes: {key}",
    "yaml_quotes": "put it in quotes: {key}",
}


@dataclass(frozen=True, slots=True)
class Mend:
    """A text in which one value was put in quotes."""

    text: str
    mark: Mark
    message: str
    code: str
    quoted: str


def mend(text: str, stopped: Stopped) -> Mend | None:
    """Return `text` with the value at which reading stopped in quotes, or None when that is not what is wrong."""
    line, column = stopped.flaw.mark
    lines = text.split("\n")
    if stopped.flaw.code not in ("yaml_alias", "yaml_syntax") or line > len(lines):
        return None
    row = lines[line - 1]
    start = _start(row, column - 1)
    if start is None:
        return None
    rest = row[start:]
    value = rest[: _end(rest, flow=stopped.flow or _opens_flow(row[:start]))].rstrip()
    lines[line - 1] = row[:start] + "'" + value.replace("'", "''") + "'" + rest[len(value) :]
    message = f"`{rest[0]}` starts a YAML alias here" if rest[0] == "*" else f"`{rest[0]}` cannot start a value in YAML"
    code = "yaml_alias" if rest[0] == "*" else "yaml_quotes"
    return Mend("\n".join(lines), (line, start + 1), message, code, _in_quotes(value))


def _start(row: str, index: int) -> int | None:
    if row[index : index + 1] and row[index] in SPECIAL:
        return index
    # The parser trips one character after the `*` of `* * * * *`, or at the second one of a list's item.
    before = [found.start(1) for found in _STARTS.finditer(row) if found.start(1) < index]
    return before[-1] if before else None


def _opens_flow(before: str) -> bool:
    opened = before.count("{") + before.count("[")
    return opened > before.count("}") + before.count("]")


def _end(rest: str, *, flow: bool) -> int:
    ends = [rest.find(" #")]
    if flow:
        ends += [rest.find(mark) for mark in (",", "}", "]")]
    return min((end for end in ends if end >= 0), default=len(rest))


def _in_quotes(value: str) -> str:
    shown = value if len(value) <= 80 else value[:79] + "…"
    return f"'{shown}'" if '"' in shown or "\\" in shown else f'"{shown}"'
