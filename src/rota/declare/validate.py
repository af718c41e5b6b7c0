"""A project's file to its settings and specs: everything is checked, and all problems are told at once."""

import os
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from rota.declare.agents import Agent, own_pools
from rota.declare.budgets import counting_notes
from rota.declare.files import Document, KeyPath, Stamp, load, parse
from rota.declare.given import document_of, plain, usable
from rota.declare.including import Included
from rota.declare.joining import FileRead, Host, LeftOut, gather, in_project
from rota.declare.mentions import FinderOf
from rota.declare.notes import NO_JOBS, notes_on, notes_on_files
from rota.declare.one_file import read_file
from rota.declare.polling import POLL
from rota.declare.registry import FunctionFinder
from rota.declare.sections import with_shared
from rota.model.errors import FileProblems, JobProblems, Problem
from rota.model.spec import JobSpec, Kind
from rota.settings import FILE_NAME, Settings


@dataclass(frozen=True, slots=True)
class Declared:
    """What a project's file says, complete and checked."""

    settings: Settings
    jobs: tuple[JobSpec, ...]
    notes: tuple[str, ...]
    positions: Mapping[str, tuple[int, int]]
    text_digest: str
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
    interpreter: FinderOf | None = None,
    state: Path | None = None,
    now: datetime | None = None,
    content: bytes | None = None,
    inner: Path | None = None,
    lenient: bool = False,
    calendars: MutableMapping[Path, Stamp | None] | None = None,
    imports: bool = True,
    modules: MutableMapping[str, None] | None = None,
) -> Declared:
    """Return what the file in `folder` declares; raise FileProblems with every problem, in file order.

    `functions` is asked for every name; without it this process imports the modules, and functions of another
    interpreter are asked of `interpreter`, or not checked where that is None too. `content` is read in the place of
    the file, or of that of the included project in `inner`, as if it were there already. A `lenient` reading leaves
    out included projects that have problems. `calendars` gets the calendar files that were looked at, also where they
    are what is wrong. Without `imports` no module is run, in this process or another one: their source is read.
    `modules` gets the Python modules that the files name, also where something is wrong.
    """
    one = Included(Path(os.path.abspath(folder)) / FILE_NAME, FILE_NAME)
    document = load(one.path) if content is None or inner else parse(content)
    given = {inner: content} if inner and content is not None else {}
    looked_at = {} if calendars is None else calendars
    read = partial(
        read_file,
        environment=environment,
        functions=functions,
        interpreter=interpreter,
        calendars=looked_at,
        imports=imports,
        modules=modules,
    )
    main = read(one, document, state=state)
    host = Host(main.folder, main.shared, polls="poll" in main.document.data)
    projects = [_read_included(found, host, read, content=given.get(found.folder)) for found in main.found.projects]
    whole = gather(main, projects, lenient=lenient)
    if whole.problems:
        raise FileProblems(whole.problems)
    files = notes_on_files([one.path, *(found.path for found in whole.included)])
    none = () if whole.jobs or whole.left_out else (NO_JOBS,)
    return Declared(
        settings=_with_agents(with_shared(main.settings, whole.shared), whole.jobs),
        jobs=whole.jobs,
        notes=(
            *none,
            *files,
            *whole.notes,
            *notes_on(whole.jobs, now=now, environ=environment),
            *counting_notes(whole.jobs),
        ),
        positions={spec.name: main.document.position((section_of(spec), spec.name)) for spec in main.jobs},
        text_digest=main.document.digest,
        included=whole.included,
        left_out=whole.left_out,
        agents=whole.agents,
    )


def read_given(
    data: Mapping[str, Any],
    folder: Path,
    *,
    environment: Mapping[str, str],
    functions: FunctionFinder,
    interpreter: FinderOf | None = None,
    state: Path | None = None,
) -> Declared:
    """Return what values in the shape of a file declare, as if it lay in `folder`; raise JobProblems with all problems.

    `functions` is asked for the names of this process, `interpreter` for those of others.
    """
    one = Included(folder / FILE_NAME, FILE_NAME)
    read = partial(read_file, environment=environment, functions=functions, interpreter=interpreter, calendars={})
    found = read(one, document_of(data), state=state)
    if found.problems:
        raise JobProblems(found.problems)
    settings = _with_agents(found.settings, found.jobs)
    return Declared(settings, found.jobs, notes=(), positions={}, text_digest="", agents=found.agents)


def read_further(
    folder: Path,
    name: str,
    keys: Mapping[str, Any],
    *,
    environment: Mapping[str, str],
    interpreter: FinderOf | None = None,
    inner: Path | None = None,
    imports: bool = True,
) -> JobSpec:
    """Return one more job as the file in `folder` would declare it, or that of the included project in `inner`.

    The file's other jobs are not looked at; raise JobProblems with all problems of this one and of the sections.
    """
    one = Included(Path(os.path.abspath(folder)) / FILE_NAME, FILE_NAME)
    read = partial(
        read_file, environment=environment, functions=None, interpreter=interpreter, calendars={}, imports=imports
    )
    jobs = {name: dict(keys)}
    found = read(one, _with_jobs(load(one.path), {} if inner else jobs))
    if inner is not None:
        host = Host(found.folder, found.shared, polls="poll" in found.document.data)
        wanted = os.path.realpath(inner)
        project = next((part for part in found.found.projects if os.path.realpath(part.folder) == wanted), None)
        if project is None:
            raise JobProblems([Problem(f"{inner} is no longer included", "include", one.file)])
        found = in_project(read(project, _with_jobs(load(project.path, named=project.file), jobs), host=host))
    if found.problems:
        raise JobProblems(found.problems)
    return next(spec for spec in found.jobs if spec.name.rpartition("/")[2] == name)


def _with_jobs(document: Document, jobs: Mapping[str, Any]) -> Document:
    """Return a file as if it had these jobs, and no others."""
    kept = {key: value for key, value in document.data.items() if key not in ("jobs", "groups")}
    spoilt: dict[KeyPath, Problem] = {}
    data = {**kept, "jobs": usable(plain(jobs), ("jobs",), spoilt=spoilt)}
    problems = (*document.problems, *spoilt.values())
    return replace(document, data=data, problems=problems, spoilt=document.spoilt | frozenset(spoilt))


def _with_agents(settings: Settings, jobs: Sequence[JobSpec]) -> Settings:
    """Return the settings with the pools of each agent that has a job, and of its provider (R-04)."""
    working = [own_pools(spec.work.agent) for spec in jobs if spec.work.agent is not None]
    return replace(settings, pools={**settings.pools, **{pool: size for one in working for pool, size in one.items()}})


def _read_included(
    one: Included, host: Host, read: Callable[..., FileRead], *, content: bytes | None
) -> FileRead | LeftOut:
    try:
        document = load(one.path, named=one.file) if content is None else parse(content, one.file)
        return in_project(read(one, document, host=host))
    except FileProblems as error:
        return LeftOut(one, error.problems)


def section_of(spec: JobSpec) -> str:
    """Return the section of the file in which a job or group stands."""
    return "groups" if spec.work.kind is Kind.GROUP else "jobs" if spec.name != POLL else "poll"
