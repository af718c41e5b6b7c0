"""Loading a project's file with its functions: what `check`, `apply` and `serve` share."""

import contextlib
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rota.declare.agents import Agent
from rota.declare.files import Stamp
from rota.declare.registry import BUILTIN_CONDITIONS, Function, Registry, default
from rota.declare.validate import Declared, read_project
from rota.engine.functions import FunctionTable
from rota.model.errors import FileProblems, FunctionMissing
from rota.model.spec import JobSpec, SourceKind
from rota.operations.trust import is_trusted
from rota.runners.interpreter import InterpreterFinder
from rota.settings import Settings


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checked file and the functions it names."""

    declared: Declared
    table: FunctionTable
    trust_note: str | None = None
    """What to tell where modules were read and not imported, as the folder is not trusted; the table is empty then."""


def load_project(
    folder: Path,
    environ: Mapping[str, str],
    *,
    now: datetime,
    state: Path | None = None,
    content: bytes | None = None,
    inner: Path | None = None,
    lenient: bool = False,
    calendars: MutableMapping[Path, Stamp | None] | None = None,
    acts: bool = False,
) -> Loaded:
    """Read and check a project's file, or `content` in its place or in that of `inner`; raise FileProblems with all.

    A `lenient` load leaves out included projects that have problems; `calendars` gets the calendar files it looked at.
    Modules are imported where the caller `acts`, as `rota serve` does, and in a trusted folder. Elsewhere only their
    source is read.
    """
    modules: dict[str, None] = {}
    imports = acts or is_trusted(folder, environ)
    try:
        declared = read_project(
            folder,
            environment=environ,
            interpreter=interpreter_finder,
            state=state,
            now=now,
            content=content,
            inner=inner,
            lenient=lenient,
            calendars=calendars,
            imports=imports,
            modules=modules,
        )
    except FileProblems as error:
        if modules and not imports:
            error.effect = f"{error.effect}; {_trust_note(modules)}"
        raise
    if modules and not imports:
        return Loaded(declared, FunctionTable(), _trust_note(modules))
    return Loaded(declared, function_table(declared.jobs, default, declared.agents))


def _trust_note(modules: Iterable[str]) -> str:
    return f"the source of {', '.join(modules)} was read, not run: this folder is not trusted (`rota trust`)"


def interpreter_finder(python: str, settings: Settings) -> InterpreterFinder:
    """Return who knows the functions of another interpreter."""
    return InterpreterFinder(python, settings.folder, settings.imports)


def function_table(jobs: tuple[JobSpec, ...], registry: Registry, agents: Sequence[Agent] = ()) -> FunctionTable:
    """Return the functions and conditions that these jobs run inside the scheduler's process."""
    functions = {job.work.function for job in jobs if job.work.in_process and job.work.function}
    conditions = {
        condition.name
        for job in jobs
        for condition in job.gates.conditions
        if condition.name and job.work.python is None and condition.name not in _built_in(registry)
    }
    return FunctionTable(
        {name: registry.resolve(name) for name in functions},
        {name: registry.resolve_condition(name) for name in conditions},
        sources={name: registry.resolve_source(name) for name in source_classes(jobs)},
        agents=_agent_functions(jobs, agents, registry),
    )


def _agent_functions(jobs: Sequence[JobSpec], agents: Sequence[Agent], registry: Registry) -> dict[str, Function]:
    """Return the functions that are agents; one that no job of the file uses may be broken."""
    used = {job.work.agent.function for job in jobs if job.work.agent is not None and job.work.agent.function}
    found = {name: registry.resolve_agent(name) for name in used}
    for name in {agent.function for agent in agents if agent.function} - used:
        with contextlib.suppress(FunctionMissing):
            found[name] = registry.resolve_agent(name)
    return found


def source_classes(jobs: Sequence[JobSpec]) -> set[str]:
    """Return the Python classes that these jobs get their items from."""
    sources = [job.work.agent.source for job in jobs if job.work.agent is not None]
    return {source.place for source in sources if source is not None and source.kind is SourceKind.RUN}


def _built_in(registry: Registry) -> set[str]:
    """Return the built-in conditions that no registered one replaces (R-09)."""
    return set(BUILTIN_CONDITIONS) - set(registry.conditions)
