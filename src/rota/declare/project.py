"""A project's declaration as a whole: from files or from Python values."""

import os
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from datetime import date, datetime, timedelta
from enum import Enum
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.declare import entries, references
from rota.declare.include import NOT_EDITED, Included, find_included, join_parts, patterns_of
from rota.declare.merge import FileRead, Gathered, Host, LeftOut, Shared, gather, in_project, pattern_notes
from rota.declare.readers.agents import Agent, own_pools
from rota.declare.readers.calendar import Calendars
from rota.declare.readers.chats import unknown_commands
from rota.declare.readers.function_agents import with_registered
from rota.declare.readers.limits import counting_notes, unused_subscriptions
from rota.declare.readers.people import people_notes
from rota.declare.registry import FunctionFinder
from rota.declare.sections import (
    POLL,
    FileOrigin,
    need_problems,
    read_job_defaults,
    read_sections,
    read_settings,
    with_need,
    with_shared,
)
from rota.declare.yaml import KEY_HINT, TEXT_HINT, UNUSABLE, Document, load, parse
from rota.model.clock import write_duration
from rota.model.errors import FileProblems, JobProblems, KeyPath, Problem
from rota.model.spec import JobSpec, Kind
from rota.settings import FILE_NAME, Settings, Stamp, home_of

NOWHERE = (0, 0)
"""The place of every key: problems are told without one."""


def document_of(data: Mapping[str, Any]) -> Document:
    """Return values as if they were the content of a file; durations, instants and paths may be Python's own."""
    spoilt: dict[KeyPath, Problem] = {}
    values = usable(plain(data), (), spoilt=spoilt)
    keys = dict.fromkeys(_paths(values, ()), NOWHERE)
    return Document("", values, keys, tuple(spoilt.values()), frozenset(spoilt))


def usable(value: Any, path: KeyPath, *, spoilt: dict[KeyPath, Problem]) -> Any:
    """Return a value without the texts and keys that no program can be given; those are told in `spoilt`, as a file's.

    >>> usable({"command": ["a\\0b"]}, (), spoilt={})
    {'command': ['']}
    """
    if isinstance(value, str) and (match := UNUSABLE.search(value)):
        message = f"holds the character U+{ord(match[0]):04X}"
        spoilt[path] = Problem(message, "yaml_character", at=path, hint=TEXT_HINT)
        return ""
    if isinstance(value, dict):
        keyed = [(_key(key, path, spoilt=spoilt), below) for key, below in value.items()]
        return {key: usable(below, (*path, key), spoilt=spoilt) for key, below in keyed}
    if isinstance(value, list):
        return [usable(below, (*path, number), spoilt=spoilt) for number, below in enumerate(value)]
    return value


def _key(key: str, path: KeyPath, *, spoilt: dict[KeyPath, Problem]) -> str:
    match = UNUSABLE.search(key)
    if match is None:
        return key
    whole = UNUSABLE.sub("\ufffd", key)
    message = f"a key holds the character U+{ord(match[0]):04X}"
    spoilt[(*path, whole)] = Problem(message, "yaml_character", at=path, hint=KEY_HINT)
    return whole


def plain(value: Any) -> Any:
    """Return a value as YAML would have it.

    >>> plain({"timeout": timedelta(minutes=5), "labels": ("a", "b")})
    {'timeout': '5m', 'labels': ['a', 'b']}
    """
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {str(key): plain(below) for key, below in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(below) for below in value]
    if isinstance(value, timedelta):
        return write_duration(value)
    if isinstance(value, date):  # also a datetime
        return value.isoformat()
    return fspath(value) if isinstance(value, PathLike) else value


def _paths(value: Any, path: KeyPath) -> Iterator[KeyPath]:
    yield path
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in below:
        yield from _paths(inner, (*path, key))


class _Content(Struct, frozen=True):
    """The sections of a file, before names in them are resolved."""

    settings: Settings
    shared: Shared
    agents: tuple[Agent, ...]
    jobs: tuple[JobSpec, ...]


def read_file(
    options: references.ReadOptions,
    one: Included,
    document: Document,
    *,
    state: Path | None = None,
    host: Host | None = None,
) -> FileRead:
    """Return one file with its parts, as far as it is right; `host` where it is an included project."""
    patterns = patterns_of(document)
    include_matches = find_included(
        patterns, one.path, home=home_of(options.environment), base=host.folder if host else None
    )
    findings = references.Findings(join_parts(document, include_matches.parts, edited=options.edited))
    content = _read_content(findings, FileOrigin(one.folder, options.environment, host), options, state=state)
    known = references.look_up(findings, content.settings, options)
    options.modules.update(dict.fromkeys(references.modules_of(findings.mentions, content.settings, content.agents)))
    findings.tell((), [*include_matches.problems, *known.problems])
    jobs = with_need(references.with_replaced(content.jobs, known.names), known.names)
    findings.tell((), _unpolled(jobs, findings.document, names=known.names, host=host))
    findings.tell((), [*references.left_problems(jobs, known.names), *references.result_problems(jobs)])
    return FileRead(
        included=one,
        document=findings.document,
        settings=content.settings,
        found=include_matches,
        jobs=jobs,
        shared=content.shared,
        notes=tuple(pattern_notes(include_matches, patterns)),
        problems=tuple(findings.problems),
        agents=content.agents,
    )


def _read_content(
    findings: references.Findings, origin: FileOrigin, options: references.ReadOptions, *, state: Path | None
) -> _Content:
    """Read the sections, then what every job is seen against, then the jobs."""
    written = entries.bodies_of("agents", findings)
    sections = read_sections(findings)
    settings, shared = read_settings(sections, origin, findings=findings, state=state)
    registered = references.known_agents(settings, options)
    findings.agents_known = registered is not None
    bodies = with_registered(written, registered or {})
    calendars = Calendars(origin.place, options.calendars)
    defaults = read_job_defaults(sections, settings, origin=origin, calendars=calendars, findings=findings)
    agents = entries.read_agents(bodies, registered=registered, python=settings.python, findings=findings)
    defaults = replace(defaults, agents=agents)
    jobs = entries.read_jobs(defaults, findings)
    scheduled = entries.read_schedules(bodies, defaults, findings=findings)
    poll = entries.read_poll(sections.get("poll"), defaults, findings=findings)
    right = tuple(agent for agent in agents.values() if agent is not None)
    return _Content(replace(settings, quiet=defaults.quiet), shared, right, (*poll, *scheduled, *jobs))


def _unpolled(
    jobs: Sequence[JobSpec], document: Document, *, names: references.NamesOf, host: Host | None
) -> list[Problem]:
    """Return the jobs that need a poll where none is declared; the poll of an included project does not count."""
    polls = "poll" in document.data if host is None else host.polls
    lacking = None if polls else "the file" if host is None else "the including file"
    return need_problems(jobs, document, names=names, lacking=lacking)


class Declared(Struct, frozen=True):
    """The content of a project's file, complete and checked."""

    settings: Settings
    jobs: tuple[JobSpec, ...]
    notes: tuple[str, ...]
    positions: Mapping[str, tuple[int, int]]
    included: tuple[Included, ...] = ()
    """The parts and projects that were included."""
    left_out: tuple[LeftOut, ...] = ()
    agents: tuple[Agent, ...] = ()
    """The entries of `agents:`; those of an included project under its name."""

    @property
    def projects(self) -> tuple[Included, ...]:
        """The included projects, also those that were left out."""
        return (*(one for one in self.included if one.name), *(one.included for one in self.left_out))


def read_project(
    folder: Path,
    *,
    environment: Mapping[str, str],
    functions: FunctionFinder | None = None,
    interpreter: references.FinderOf | None = None,
    state: Path | None = None,
    now: datetime | None = None,
    content: bytes | None = None,
    inner: Path | None = None,
    lenient: bool = False,
    calendars: MutableMapping[Path, Stamp | None] | None = None,
    imports: bool = True,
    modules: MutableMapping[str, None] | None = None,
    edited: Mapping[Path, bytes] = NOT_EDITED,
) -> Declared:
    """Return what the file in `folder` declares; raise FileProblems with every problem, in file order.

    `functions` is asked for every name; without it this process imports the modules, and functions of another
    interpreter are asked of `interpreter`, or not checked where that is None too. `content` is read in the place of
    the file, or of that of the included project in `inner`, as if it were there already. A `lenient` reading leaves
    out included projects that have problems. `calendars` gets the calendar files that were looked at, also where they
    are what is wrong. Without `imports` no module is run, in this process or another one: their source is read.
    `modules` gets the Python modules that the files name, also where something is wrong. `edited` files of the project,
    and of those that it includes, are read in place of those on the disk.
    """
    one = Included(Path(os.path.abspath(folder)) / FILE_NAME, FILE_NAME)
    if content is not None:
        edited = {**edited, (inner / FILE_NAME if inner else one.path): content}
    document = parse(edited[one.path]) if one.path in edited else load(one.path)
    looked_at, named = {} if calendars is None else calendars, {} if modules is None else modules
    options = references.ReadOptions(environment, functions, interpreter, looked_at, imports, named, edited)
    main = read_file(options, one, document, state=state)
    host = _host_of(main)
    projects = [_read_included(found, host, options) for found in main.found.projects]
    whole = gather(main, projects, lenient=lenient)
    problems = [*whole.problems, *_unknown_commands(main, whole)]
    if problems:
        raise FileProblems(problems)
    files = entries.notes_on_files([one.path, *(found.path for found in whole.included)])
    none = () if whole.jobs or whole.left_out else (entries.NO_JOBS,)
    settings = with_shared(main.settings, whole.shared)
    return Declared(
        settings=_with_agents(settings, whole.jobs),
        jobs=whole.jobs,
        notes=(
            *none,
            *files,
            *whole.notes,
            *entries.notes_on(whole.jobs, now=now, environ=environment),
            *counting_notes(whole.jobs),
            *people_notes(settings.http),
            *unused_subscriptions(settings.subscriptions, whole.jobs),
        ),
        positions={spec.name: main.document.position((section_of(spec), spec.name)) for spec in main.jobs},
        included=whole.included,
        left_out=whole.left_out,
        agents=whole.agents,
    )


def _unknown_commands(main: FileRead, whole: Gathered) -> list[Problem]:
    """Return the jobs in `commands` of chats that no file declares."""
    if whole.problems:
        return []
    known = {spec.name for spec in whole.jobs}
    findings = references.Findings(replace(main.document, problems=()))
    findings.tell((), unknown_commands(whole.shared["notify"], known, partly=bool(whole.left_out)))
    return findings.problems


def _host_of(main: FileRead) -> Host:
    return Host(main.folder, main.shared, polls="poll" in main.document.data)


def read_given(
    data: Mapping[str, Any],
    folder: Path,
    *,
    environment: Mapping[str, str],
    functions: FunctionFinder,
    interpreter: references.FinderOf | None = None,
    state: Path | None = None,
) -> Declared:
    """Return what values in the shape of a file declare, as if it lay in `folder`; raise JobProblems with all problems.

    `functions` is asked for the names of this process, `interpreter` for those of others.
    """
    one = Included(folder / FILE_NAME, FILE_NAME)
    file_read = read_file(
        references.ReadOptions(environment, functions, interpreter), one, document_of(data), state=state
    )
    if file_read.problems:
        raise JobProblems(file_read.problems)
    settings = _with_agents(file_read.settings, file_read.jobs)
    return Declared(settings, file_read.jobs, notes=(), positions={}, agents=file_read.agents)


def read_further(
    folder: Path,
    name: str,
    keys: Mapping[str, Any],
    *,
    environment: Mapping[str, str],
    interpreter: references.FinderOf | None = None,
    inner: Path | None = None,
    imports: bool = True,
) -> JobSpec:
    """Return one more job as the file in `folder` would declare it, or that of the included project in `inner`.

    The file's other jobs are not looked at; raise JobProblems with all problems of this one and of the sections.
    """
    one = Included(Path(os.path.abspath(folder)) / FILE_NAME, FILE_NAME)
    options = references.ReadOptions(environment, interpreter=interpreter, imports=imports)
    jobs = {name: dict(keys)}
    file_read = read_file(options, one, _with_jobs(load(one.path), {} if inner else jobs))
    if inner is not None:
        host, wanted = _host_of(file_read), os.path.realpath(inner)
        project = next((part for part in file_read.found.projects if os.path.realpath(part.folder) == wanted), None)
        if project is None:
            raise JobProblems([Problem(f"{inner} is no longer included", "include", one.file)])
        file_read = in_project(
            read_file(options, project, _with_jobs(load(project.path, named=project.file), jobs), host=host)
        )
    if file_read.problems:
        raise JobProblems(file_read.problems)
    return next(spec for spec in file_read.jobs if spec.name.rpartition("/")[2] == name)


def _with_jobs(document: Document, jobs: Mapping[str, Any]) -> Document:
    kept = {key: value for key, value in document.data.items() if key not in ("jobs", "groups")}
    spoilt: dict[KeyPath, Problem] = {}
    data = {**kept, "jobs": usable(plain(jobs), ("jobs",), spoilt=spoilt)}
    problems = (*document.problems, *spoilt.values())
    return replace(document, data=data, problems=problems, spoilt=document.spoilt | frozenset(spoilt))


def _with_agents(settings: Settings, jobs: Sequence[JobSpec]) -> Settings:
    working = [own_pools(spec.work.agent) for spec in jobs if spec.work.agent is not None]
    return replace(settings, pools={**settings.pools, **{pool: size for one in working for pool, size in one.items()}})


def _read_included(one: Included, host: Host, options: references.ReadOptions) -> FileRead | LeftOut:
    content = options.edited.get(one.path)
    try:
        document = load(one.path, named=one.file) if content is None else parse(content, one.file)
        return in_project(read_file(options, one, document, host=host))
    except FileProblems as error:
        return LeftOut(one, error.problems)


def section_of(spec: JobSpec) -> str:
    """Return the section of the file in which a job or group stands."""
    return "groups" if spec.work.kind is Kind.GROUP else "jobs" if spec.name != POLL else "poll"
