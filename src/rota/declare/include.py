"""The files that a project's file includes: which patterns it names, what they match, and their parts joined into one.

A file named rota.yaml is a project of its own; any other one below the including file's folder is a part of it.
"""

import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from rota.model.errors import FileProblems, KeyPath, Problem
from rota.settings import FILE_NAME

if TYPE_CHECKING:
    from rota.declare.yaml import Document

KEY = "include"
CODE = "include"
JOB_CODE = "job_in_file"
PART_SECTIONS = ("jobs", "groups", "pools")
"""Sections of a part; the others stand once, in the file of the project."""
PROJECT_NAME = r"(?a)[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_MAGIC = r"[*?\[]"
_HEAD = r"([\"']?)include\1[ \t]*:"
_BELONGS = r"[ \t]|-[ \t\r\n]|#|[\]}]|\r?\n|$"
_FLOW = r"\s*(?:#.*\n\s*|---\s*\n)*\{"


class Included(Struct, frozen=True):
    """An included file: a project, whose jobs are named after its folder, or a part of the including one (no name)."""

    path: Path
    file: str
    """The path as messages show it."""
    name: str = ""

    @property
    def folder(self) -> Path:
        """The folder in which the file is."""
        return self.path.parent


class IncludeMatches(Struct, frozen=True):
    """The files that the patterns of one file match."""

    files: tuple[Included, ...] = ()
    problems: tuple[Problem, ...] = ()
    empty: tuple[int, ...] = ()
    """The patterns with wildcards that match nothing."""

    @property
    def parts(self) -> tuple[Included, ...]:
        """The parts of the including project."""
        return tuple(one for one in self.files if not one.name)

    @property
    def projects(self) -> tuple[Included, ...]:
        """The included projects."""
        return tuple(one for one in self.files if one.name)


def project_label(name: str) -> str:
    """Return the label that every job of an included project carries.

    >>> project_label("api")
    'project=api'
    """
    return f"project={name}"


def written_patterns(file: Path) -> tuple[str, ...]:
    """Return the patterns of a file without reading the rest of it; none where they cannot be read."""
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ()
    block = _block(text)
    if not block and not (re.match(_FLOW, text) and KEY in text):
        return ()
    from rota.declare.yaml import parse

    for content in (block or text, text):
        try:
            return patterns_of(parse(content.encode()))
        except FileProblems:
            continue
    return ()


def _block(text: str) -> str:
    """Return the lines of the section `include`, empty where there is none at the left margin."""
    lines = text.splitlines(keepends=True)
    start = next((index for index, line in enumerate(lines) if re.match(_HEAD, line)), len(lines))
    below = takewhile(partial(re.match, _BELONGS), lines[start + 1 :])
    return "".join([*lines[start : start + 1], *below])


def patterns_of(document: "Document") -> tuple[str, ...]:
    """Return the patterns of a document that are texts; other items are reported when the section is read."""
    written = document.data.get(KEY)
    return tuple(item if isinstance(item, str) else "" for item in written) if isinstance(written, list) else ()


def find_included(patterns: Sequence[str], file: Path, *, home: str, base: Path | None = None) -> IncludeMatches:
    """Return what the patterns of `file` match, each file once.

    `base` is the folder of the file that includes this one: such a file may have parts, but include no projects.
    """
    search = _Search(Path(os.path.abspath(file)), home, base)
    for index, pattern in enumerate(patterns):
        search.look(index, pattern)
    return IncludeMatches(tuple(search.files), tuple(search.problems), tuple(search.empty))


def files_of(file: Path, *, home: str) -> list[Path]:
    """Return a project's file, those that it includes, and their parts."""
    found = find_included(written_patterns(file), file, home=home)
    inner = (find_included(written_patterns(one.path), one.path, home=home, base=file.parent) for one in found.projects)
    return [file, *(one.path for one in found.files), *(part.path for one in inner for part in one.parts)]


def sources_of(folder: Path, imports: Sequence[str]) -> list[Path]:
    """Return the files of the modules that a project imports from its own folder."""
    modules = [folder / name.replace(".", "/") for name in imports]
    files = [module.with_name(f"{module.name}.py") for module in modules]
    packages = [source for module in modules if module.is_dir() for source in sorted(module.rglob("*.py"))]
    return [path for path in (*files, *packages) if path.is_file()]


class _Search(Struct):
    file: Path
    home: str
    base: Path | None
    files: list[Included] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    empty: list[int] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.seen.add(os.path.realpath(self.file))

    def look(self, index: int, pattern: str) -> None:
        """Note what one pattern matches; a pattern that its reader refuses matches nothing."""
        if not pattern.strip() or "**" in pattern:
            return
        from glob import glob

        found = sorted(glob(self._absolute(pattern)))
        if not found and re.search(_MAGIC, pattern):
            self.empty.append(index)
        elif not found:
            hint = "correct the path, which is relative to this file"
            self._refuse(index, f"there is no file {pattern!r}", hint)
        for match in found:
            self._take(index, Path(os.path.normpath(match)))

    def _absolute(self, pattern: str) -> str:
        from glob import escape

        if pattern == "~" or pattern.startswith("~/"):
            return escape(self.home) + pattern[1:]
        return os.path.join(escape(str(self.file.parent)), os.path.expanduser(pattern))

    def _take(self, index: int, path: Path) -> None:
        real = os.path.realpath(path)
        if real in self.seen:
            return
        self.seen.add(real)
        shown = show_path(path, self.base or self.file.parent, home=self.home)
        project = path.name == FILE_NAME
        one = Included(path, shown, path.parent.name if project else "")
        if refusal := self._refusal(one):
            self._refuse(index, *refusal)
        else:
            self.files.append(one)

    def _refuse(self, index: int, message: str, hint: str) -> None:
        self.problems.append(Problem(message, CODE, at=(KEY, index), hint=hint))

    def _refusal(self, one: Included) -> tuple[str, str] | None:
        if not one.path.is_file() and not one.path.is_dir():
            return f"{one.file} is not a file", "remove it, or write a pattern that leaves it out"
        if one.path.is_dir():
            return f"{one.file} is a folder", f"name the files in it: {one.file}/*.yaml, or its {FILE_NAME}"
        if not one.name:
            if one.path.is_relative_to(self.file.parent):
                return None
            hint = f"only a {FILE_NAME} is a project of its own; move this file below the folder of the including one"
            return f"{one.file} is outside this folder and not a {FILE_NAME}", hint
        if self.base is not None:
            hint = "include it from the file that includes this one"
            return f"{one.file} is a project, and an included project cannot include others", hint
        return self._bad_name(one)

    def _bad_name(self, one: Included) -> tuple[str, str] | None:
        remedy = "rename the folder, or link it under another name"
        if one.name.casefold() == "rota":
            return f"{one.file} would name its jobs rota/…", f"these names are reserved; {remedy}"
        if not re.fullmatch(PROJECT_NAME, one.name):
            shape = "letters, digits and . _ -, the first a letter or digit"
            return f"{one.file} is in a folder that cannot name its jobs", f"a name has {shape}; {remedy}"
        other = next((known for known in self.files if known.name.casefold() == one.name.casefold()), None)
        if other is None:
            return None
        return f"{other.file} and {one.file} would give their jobs the same names", remedy


def show_path(path: Path, folder: Path, *, home: str) -> str:
    """Return a path as messages show it: relative below `folder`, with `~` below the home folder, else whole.

    >>> show_path(Path("/srv/a/jobs.d/x.yaml"), Path("/srv/a"), home="/home/x")
    'jobs.d/x.yaml'
    >>> show_path(Path("/home/x/api/rota.yaml"), Path("/srv/a"), home="/home/x")
    '~/api/rota.yaml'
    """
    if path.is_relative_to(folder) and path != folder:
        return str(path.relative_to(folder))
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) and str(path) != home else str(path)


NOT_EDITED: Mapping[Path, bytes] = MappingProxyType({})


def join_parts(main: "Document", parts: Sequence[Included], *, edited: Mapping[Path, bytes] = NOT_EDITED) -> "Document":
    """Return one document of a file and its parts, some as `edited`; each key keeps the place where it stands."""
    from rota.declare.yaml import load, parse

    document = main
    for part in parts:
        try:
            new = edited.get(part.path)
            document = _joined(document, load(part.path, named=part.file) if new is None else parse(new, part.file))
        except FileProblems as error:
            document = replace(document, problems=(*document.problems, *error.problems))
    return document


def _joined(whole: "Document", part: "Document") -> "Document":
    problems = (*whole.problems, *part.problems, *_foreign(part))
    whole = replace(whole, problems=problems)
    for section in PART_SECTIONS:
        if part.data.get(section) is not None and (section,) not in part.spoilt:
            whole = _with_section(whole, part, section)
    return whole


def _with_section(whole: "Document", part: "Document", section: str) -> "Document":
    here, there = part.data[section], whole.data.get(section) or {}
    if not isinstance(here, dict):
        wrong = _problem(part, (section,), f"is not a map of {section}", code="wrong_type")
        return replace(whole, problems=(*whole.problems, wrong))
    if not isinstance(there, dict):
        return whole  # told where that stands
    new = {name: value for name, value in here.items() if name not in there}
    mine = {path for path in (*part.keys, *part.spoilt) if path[0:1] == (section,) and path[1:2] and path[1] in new}
    return replace(
        whole,
        data={**whole.data, section: {**there, **new}},
        keys={**whole.keys, **{path: place for path, place in part.keys.items() if path in mine}},
        files={**whole.files, **{(section, name): part.file for name in new}},
        spoilt=whole.spoilt | (part.spoilt & mine),
        problems=(*whole.problems, *_twice(whole, part, section)),
    )


def _foreign(part: "Document") -> list[Problem]:
    hint = "it applies to the whole project: write it in its rota.yaml; a part has jobs, groups and pools"
    return [
        _problem(part, (key,), "is not allowed in a part of a project", hint=hint)
        for key in part.data
        if key not in PART_SECTIONS
    ]


def _twice(whole: "Document", part: "Document", section: str) -> list[Problem]:
    there = whole.data.get(section) or {}
    return [
        _problem(
            part,
            (section, name),
            f"a {section[:-1]} of this name already exists, in {written_place(whole, (section, name))}",
            code="job_name" if section != "pools" else CODE,
            hint="choose another name" if section != "pools" else "keep one of them",
        )
        for name in part.data[section]
        if name in there
    ]


def written_place(document: "Document", path: KeyPath) -> str:
    """Return where a key stands as messages show it: `rota.yaml:12:3`."""
    return ":".join(map(str, document.place(path)))


def locate_job(file: Path, name: str, *, home: str, base: Path | None = None) -> Problem | None:
    """Return the place where a project's file, a part of it or a project that it includes declares a job.

    None where none of them does any more, or where they cannot be read.
    """
    from rota.declare.yaml import load_again

    try:
        document = load_again(file)
    except FileProblems:
        return None
    include_matches = find_included(patterns_of(document), file, home=home, base=base)
    whole = join_parts(document, include_matches.parts)
    first, _, rest = name.partition("/")
    paths: tuple[KeyPath, ...] = (("jobs", name), ("groups", name), ("agents", first, "schedules", rest))
    path = next((path for path in paths if path in whole.keys), None)
    if path is None:
        project = next((one for one in include_matches.projects if one.name == first), None)
        return locate_job(project.path, rest, home=home, base=file.parent) if project else None
    files = {part.file: str(part.path) for part in include_matches.parts}
    shown, line, column = whole.place(path)
    return Problem("is declared here", JOB_CODE, files.get(shown, str(file)), line, column, at=path)


def _problem(document: "Document", path: KeyPath, message: str, *, code: str = CODE, hint: str = "") -> Problem:
    return Problem(message, code, *document.place(path), at=path, hint=hint)
