"""The lines of one job in a file: found by its position, and replaced without a change of any other line."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rota.declare.yaml import Document, parse
from rota.model.errors import FileProblems, InvalidValue, KeyPath, Problem

_LINE = re.compile("[^\n\r\x85\u2028\u2029]*(?:\r\n|[\n\r\x85\u2028\u2029]|$)")
ENDS = ("\n", "\r", "\x85", "\u2028", "\u2029")


def split_lines(text: str) -> list[str]:
    """Return the lines of a file as YAML counts them, each with its end."""
    return [line for line in _LINE.findall(text) if line]


class JobLines(Struct, frozen=True):
    """The lines of a job: their first number, their indentation, and their text without it."""

    path: KeyPath
    line: int
    count: int
    margin: int
    text: str


def find_lines(content: bytes, path: KeyPath, *, file: str) -> JobLines:
    """Return the lines of the job at `path`; refuse a job that shares its lines with others."""
    document = parse(content, file)
    if document.problems:
        raise FileProblems(document.problems)
    if path not in document.keys:
        raise InvalidValue(f"{file} no longer declares {path[-1]!r}", hint="load the page of the job again")
    line, column = document.keys[path]
    lines, margin = split_lines(content.decode("utf-8")), column - 1
    if lines[line - 1][:margin].lstrip("\ufeff").strip():
        raise InvalidValue(
            f"{file}:{line}: the job shares its line with others, so it cannot be edited alone",
            hint="edit the file, or give the job lines of its own",
        )
    end = _end(document, lines, path, start=line, column=column)
    text = "".join(_dedented(each, margin) for each in lines[line - 1 : end])
    return JobLines(path, line, end - line + 1, margin, text)


def _end(document: Document, lines: list[str], path: KeyPath, *, start: int, column: int) -> int:
    """Return the number of the last line: before the next key outside, without its comments and blank lines."""
    outside = (
        place[0]
        for other, place in document.keys.items()
        if place[0] > start and place[1] <= column and other[: len(path)] != path
    )
    end = min(outside, default=len(lines) + 1) - 1
    inside = max((place[0] for other, place in document.keys.items() if other[: len(path)] == path), default=start)
    while end > inside and _is_between(lines[end - 1], column - 1):
        end -= 1
    return end


def _is_between(line: str, margin: int) -> bool:
    """Return whether a line at the end may belong to the next job: it is blank, or a comment at the margin."""
    words = line.strip()
    return not words or (words.startswith("#") and len(line) - len(line.lstrip(" ")) <= margin)


def _dedented(line: str, margin: int) -> str:
    spaces = len(line) - len(line.lstrip(" "))
    return f"{line.rstrip(''.join(ENDS))[min(spaces, margin) :]}\n"


def replace_lines(content: bytes, old: JobLines, text: str, *, file: str) -> bytes:
    """Return the file with other lines for a job; refuse lines that are not this job alone, or change another key."""
    name = str(old.path[-1])
    alone = parse(text.encode("utf-8", "surrogatepass"), file)
    if alone.problems:
        raise FileProblems([_placed(problem, old) for problem in alone.problems])
    if list(alone.data) != [name]:
        hint = "a job keeps its history under its name; rename or add jobs in the file"
        raise InvalidValue(f"the lines must declare {name!r} and nothing else", hint=hint)
    lines = split_lines(content.decode("utf-8"))
    newline = "\r\n" if lines[old.line - 1].endswith("\r\n") else "\n"
    written = text.replace("\r\n", "\n").rstrip().split("\n")
    block = "".join(f"{' ' * old.margin + line if line else ''}{newline}" for line in written)
    before, after = "".join(lines[: old.line - 1]), "".join(lines[old.line - 1 + old.count :])
    if not after and not lines[-1].endswith(ENDS):
        block = block.removesuffix(newline)
    new = f"{before}{block}{after}".encode()
    document = parse(new, file)
    if document.problems:
        raise FileProblems(document.problems)
    if document.data != _with_value(parse(content, file).data, old.path, alone.data[name]):
        raise InvalidValue("the lines would change another part of the file", hint="check their indentation")
    return new


def _placed(problem: Problem, old: JobLines) -> Problem:
    """Return a problem of the lines with its line in the file."""
    return Problem(
        problem.message,
        problem.code,
        problem.file,
        problem.line + old.line - 1 if problem.line else 0,
        problem.column + old.margin if problem.column else 0,
        at=problem.at,
        hint=problem.hint,
    )


def _with_value(data: Mapping[str, Any], path: KeyPath, value: Any) -> dict[str, Any]:
    key = str(path[0])
    below = value if len(path) == 1 else _with_value(data[key], path[1:], value)
    return {**data, key: below}
