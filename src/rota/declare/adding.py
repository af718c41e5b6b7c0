"""A job put into the text of a rota.yaml: lines are inserted, and every other byte stays as it was."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rota.declare.files import Document, parse
from rota.declare.writing import INDENT, write_job
from rota.model.errors import FileProblems, InvalidValue, NameTaken
from rota.settings import FILE_NAME

_LINE = re.compile("[^\n\r\x85\u2028\u2029]*(?:\r\n|[\n\r\x85\u2028\u2029]|$)")
_EMPTY_MAP = re.compile(r"(:[ \t]*)\{[ \t]*\}")
_BRACE = re.compile(r"[^#\"']*:[ \t]*\{")


@dataclass(frozen=True, slots=True)
class Insertion:
    """The new text of a file, and the lines that are new in it."""

    content: bytes
    added: str
    line: int


def insert_job(content: bytes, name: str, keys: Mapping[str, Any]) -> Insertion:
    """Return the file with one more job; refuse where that cannot be done without touching anything else."""
    document = parse(content)
    if document.problems:
        raise FileProblems(document.problems)
    jobs = document.data.get("jobs")
    if isinstance(jobs, dict) and name in jobs:
        hint = "choose another name, or change the job in the file"
        raise NameTaken(f"there is a job {name!r} in {FILE_NAME} already", hint=hint)
    text = content.decode("utf-8")
    wanted = _wanted(document.data, name, keys)
    for insertion in _candidates(text, document, name=name, keys=keys):
        if _reads_as(insertion.content, wanted):
            return insertion
    lines = "\n".join(write_job(name, keys))
    raise InvalidValue(
        f"{FILE_NAME} is written in a way that a job cannot be put into by itself",
        hint=f"add these lines by hand, under `jobs:`:\n{lines}",
    )


def _wanted(data: Mapping[str, Any], name: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    alone = parse(("\n".join(["jobs:", *write_job(name, keys)]) + "\n").encode()).data["jobs"]
    return {**data, "jobs": {**(data.get("jobs") or {}), **alone}}


def _reads_as(content: bytes, wanted: Mapping[str, Any]) -> bool:
    try:
        document = parse(content)
    except FileProblems:
        return False
    return not document.problems and document.data == wanted and _order(document.data) == _order(wanted)


def _order(data: Mapping[str, Any]) -> list[str]:
    return list(data["jobs"])


def _candidates(text: str, document: Document, *, name: str, keys: Mapping[str, Any]) -> Iterator[Insertion]:
    lines = [line for line in _LINE.findall(text) if line]
    newline = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    if "jobs" not in document.data:
        gap = [""] if lines else []
        yield _inserted(lines, [*gap, "jobs:", *write_job(name, keys)], at=len(lines), newline=newline)
        return
    start = document.position(("jobs",))[0]
    jobs = document.data["jobs"] or {}
    if not jobs:
        head = _EMPTY_MAP.sub(lambda found: found[1].rstrip(), lines[start - 1], count=1)
        emptied = [*lines[: start - 1], head, *lines[start:]]
        yield _inserted(emptied, write_job(name, keys), at=start, newline=newline)
        return
    if _BRACE.match(lines[start - 1]):
        return
    margin, last = _layout(document)
    added = _indented(write_job(name, keys), margin)
    spaced = any(not line.strip() for line in lines[start : last - 1])
    for at in _ends(lines, last, margin=margin):
        yield _inserted(lines, [*([""] if spaced else []), *added], at=at, newline=newline)


def _layout(document: Document) -> tuple[int, int]:
    """Return how far the jobs of a file are indented, and the line of the last one."""
    places = [document.position(("jobs", name)) for name in document.data["jobs"]]
    return places[0][1] - 1, max(line for line, _ in places)


def _indented(lines: list[str], margin: int) -> list[str]:
    return [" " * margin + line[INDENT:] if line else "" for line in lines]


def _ends(lines: list[str], last: int, *, margin: int) -> Iterator[int]:
    """Yield where the last job may end: after its last line, or after the blank lines that a text may keep."""
    end = after = last
    for index in range(last, len(lines)):
        line = lines[index]
        if not line.strip():
            after = index + 1
            continue
        if len(line) - len(line.lstrip(" ")) <= margin:
            break
        end = after = index + 1
    yield end
    if after != end:
        yield after


def _inserted(lines: list[str], added: list[str], *, at: int, newline: str) -> Insertion:
    before, after = "".join(lines[:at]), "".join(lines[at:])
    if before and not before.endswith(("\n", "\r", "\x85", "\u2028", "\u2029")):
        before += newline
    block = newline.join(added) + newline
    return Insertion((before + block + after).encode(), block, at + 1)
