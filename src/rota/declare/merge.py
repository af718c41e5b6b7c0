"""An included project made one with the including one: names, folders, what both share, and what does not apply."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.declare.applicability import Keys
from rota.declare.include import CODE, Included, IncludeMatches, project_label, written_place
from rota.declare.readers.agents import Agent, in_a_project, own_pools
from rota.declare.yaml import Document
from rota.model.errors import Problem
from rota.model.spec import Draw, Isolate, JobSpec
from rota.settings import Settings

HOLDS = frozenset({"timezone", "defaults", "imports", "python", "agents", "quiet_hours", "include", "jobs", "groups"})
"""Sections of an included file that mean there what they mean alone."""
SHARED = ("pools", "budgets", "prices", "notify", "secrets")
"""Sections whose names mean the same in all files; where they differ, the including file is right."""
IGNORED: Mapping[str, frozenset[str]] = {
    "state": frozenset(),
    "store": frozenset(),
    "poll": frozenset(),
    "http": frozenset(),
    "agent_policy": frozenset(),
    "scheduler": frozenset(
        {
            "concurrency",
            "tick",
            "shutdown_grace",
            "agent_shutdown_grace",
            "crash_guard",
            "aging",
            "log_format",
            "keep_awake",
            "ping_url",
        }
    ),
    "retention": frozenset({"output_total"}),
}
"""Sections, or keys of them, that are the scheduler's: those of an included file do not apply, which is told."""

Shared = Mapping[str, Mapping[str, Any]]
"""The shared sections by name, each with its entries by name."""


class Host(Struct, frozen=True):
    """Values that an included project gets from the including one."""

    folder: Path
    shared: Shared
    polls: bool = False
    python: str = sys.executable
    """Functions of an included project run as processes, where its modules do not meet those of others."""


class FileRead(Struct, frozen=True):
    """A project's file and its parts, read as far as they are right."""

    included: Included
    document: Document
    settings: Settings
    found: IncludeMatches
    jobs: tuple[JobSpec, ...]
    shared: Shared
    """The shared sections as the file writes them."""
    notes: tuple[str, ...]
    problems: tuple[Problem, ...]
    agents: tuple[Agent, ...] = ()

    @property
    def folder(self) -> Path:
        """The project's folder."""
        return self.included.folder


class LeftOut(Struct, frozen=True):
    """An included project that cannot be used as it is; what is stored of it is to stay."""

    included: Included
    problems: tuple[Problem, ...]


class Gathered(Struct, frozen=True):
    """The merged content of the including file and the included ones."""

    jobs: tuple[JobSpec, ...]
    shared: Shared
    notes: tuple[str, ...]
    included: tuple[Included, ...]
    left_out: tuple[LeftOut, ...]
    problems: tuple[Problem, ...]
    agents: tuple[Agent, ...] = ()


def gather(main: FileRead, others: Sequence[FileRead | LeftOut], *, lenient: bool) -> Gathered:
    """Put the files together; a `lenient` one leaves out the projects that have problems."""
    readable = [one for one in others if isinstance(one, FileRead)]
    shared = share(main, readable)
    left_out = tuple(found for one in others if (found := _left_out(one, shared)))
    reads = [file_read for file_read in readable if not any(out.included == file_read.included for out in left_out)]
    problems = [] if lenient else [problem for one in left_out for problem in one.problems]
    return Gathered(
        jobs=(*main.jobs, *(spec for file_read in reads for spec in file_read.jobs)),
        shared=shared.sections,
        notes=(*main.notes, *(note for file_read in reads for note in file_read.notes), *shared.notes),
        included=(
            *main.found.parts,
            *(file for file_read in reads for file in (file_read.included, *file_read.found.parts)),
        ),
        left_out=left_out,
        problems=tuple(in_file_order([*main.problems, *problems])),
        agents=(*main.agents, *(agent for file_read in reads for agent in file_read.agents)),
    )


def _left_out(one: FileRead | LeftOut, shared: "SharedSections") -> LeftOut | None:
    problems = (*one.problems, *shared.problems.get(one.included.name, ()))
    return LeftOut(one.included, tuple(in_file_order(problems))) if problems else None


def in_file_order(problems: Sequence[Problem]) -> list[Problem]:
    """Return problems by their files, in the order in which these come, then by place."""
    files = list(dict.fromkeys(problem.file for problem in problems))
    return sorted(problems, key=lambda problem: (files.index(problem.file), problem.line, problem.column))


def in_project(read: FileRead) -> FileRead:
    """Return an included project as the including one knows it: its jobs' new names, and which keys do not apply."""
    jobs = tuple(_renamed(spec, read) for spec in read.jobs)
    agents = tuple(replace(agent, name=f"{read.included.name}/{agent.name}") for agent in read.agents)
    data, file = read.document.data, read.included.file
    notes = (*read.notes, *_key_notes(data, file), *_thread_notes(data, file))
    return replace(read, jobs=jobs, agents=agents, notes=notes)


def _renamed(spec: JobSpec, read: FileRead) -> JobSpec:
    """Return a job named after its folder, labelled so, and at home there."""
    project = read.included
    work = replace(
        spec.work,
        members=tuple(replace(member, job=f"{project.name}/{member.job}") for member in spec.work.members),
        project=str(project.folder),
        imports=read.settings.imports if spec.work.python is not None else (),
    )
    pools = spec.pools
    if work.agent is not None:
        agent = in_a_project(work.agent, project.name)
        renamed = dict(zip(own_pools(work.agent), own_pools(agent), strict=True))
        pools = _renamed_draws(pools, renamed)
        choices = tuple(replace(choice, pools=_renamed_draws(choice.pools, renamed)) for choice in agent.choices)
        work = replace(work, agent=replace(agent, choices=choices))
    labels = tuple(dict.fromkeys((*spec.labels, project_label(project.name))))
    enabled = spec.enabled and read.settings.scheduler.enabled
    return replace(spec, name=f"{project.name}/{spec.name}", work=work, pools=pools, labels=labels, enabled=enabled)


def _renamed_draws(draws: Sequence[Draw], renamed: Mapping[str, str]) -> tuple[Draw, ...]:
    found = (replace(one, pool=renamed.get(one.pool, one.pool)) for one in draws)
    return tuple(sorted(found, key=lambda draw: draw.pool))


def out_of_process(keys: Keys) -> dict[str, Any]:
    """Return a job's keys without the wish to run inside the scheduler's process."""
    return {key: value for key, value in keys.items() if (key, value) != ("isolate", Isolate.THREAD)}


def pattern_notes(found: IncludeMatches, patterns: Sequence[str]) -> list[str]:
    """Return which patterns match nothing."""
    return [f"include: {patterns[index]!r} matches no file" for index in found.empty]


def _key_notes(data: Mapping[str, Any], file: str) -> list[str]:
    notes = [f"{key} of {file} does not apply: the including file sets it" for key in _ignored(data)]
    scheduler = data.get("scheduler")
    if isinstance(scheduler, dict) and scheduler.get("enabled") is False:
        notes.append(f"scheduler.enabled of {file} is false: its jobs are disabled here")
    return notes


def _thread_notes(data: Mapping[str, Any], file: str) -> list[str]:
    written = data.get("jobs")
    bodies = written.items() if isinstance(written, dict) else ()
    names = [name for name, body in bodies if isinstance(body, dict) and body.get("isolate") == Isolate.THREAD]
    return [f"isolate of {name} in {file} does not apply: included functions run as processes" for name in names]


def _ignored(data: Mapping[str, Any]) -> Iterator[str]:
    for section, keys in IGNORED.items():
        if section in data and not keys:
            yield section
        written = data.get(section)
        yield from (f"{section}.{key}" for key in (written if isinstance(written, dict) else {}) if key in keys)


class SharedSections(Struct, frozen=True):
    """The shared sections of all files together; problems by the name of the project that they are about."""

    sections: Shared
    notes: tuple[str, ...]
    problems: Mapping[str, tuple[Problem, ...]]


def share(main: FileRead, projects: Sequence[FileRead]) -> SharedSections:
    """Return what is shared of all files: the including one is right, and no two of the others may differ."""
    sections = {section: dict(main.shared[section]) for section in SHARED}
    first: dict[tuple[str, str], FileRead] = {}
    notes: list[str] = []
    problems: dict[str, tuple[Problem, ...]] = {}
    for project in projects:
        file, title = project.included.file, project.included.name
        for section, name, value in ((one, *entry) for one in SHARED for entry in project.shared[one].items()):
            known = sections[section].setdefault(name, value)
            other = first.setdefault((section, name), project)
            if known == value:
                continue
            if name in main.shared[section]:
                notes.append(f"{section}.{name} of {file} differs from the one here, which applies")
            else:
                problems[title] = (*problems.get(title, ()), _clash(project, (section, name), other))
    return SharedSections(sections, tuple(notes), problems)


def _clash(project: FileRead, path: tuple[str, str], other: FileRead) -> Problem:
    section, name = path
    message = f"differs from {written_place(other.document, path)}"
    hint = f"make them equal, or set it in the including file: `{section}: {{{name}: …}}`"
    return Problem(message, CODE, *project.document.place(path), at=path, hint=hint)
