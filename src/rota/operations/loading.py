"""Loading a project's file with its functions: what `check`, `apply` and `serve` share."""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rota.declare.files import Stamp
from rota.declare.registry import BUILTIN_CONDITIONS, Registry, default
from rota.declare.validate import Declared, read_project
from rota.engine.functions import FunctionTable
from rota.model.spec import JobSpec
from rota.runners.interpreter import InterpreterFinder
from rota.settings import Settings


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checked file and the functions it names."""

    declared: Declared
    table: FunctionTable


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
) -> Loaded:
    """Read and check a project's file, or `content` in its place or in that of `inner`; raise FileProblems with all.

    A `lenient` load leaves out included projects that have problems; `calendars` gets the calendar files it looked at.
    """
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
    )
    return Loaded(declared, function_table(declared.jobs, default))


def interpreter_finder(python: str, settings: Settings) -> InterpreterFinder:
    """Return who knows the functions of another interpreter."""
    return InterpreterFinder(python, settings.folder, settings.imports)


def function_table(jobs: tuple[JobSpec, ...], registry: Registry) -> FunctionTable:
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
    )


def _built_in(registry: Registry) -> set[str]:
    """Return the built-in conditions that no registered one replaces (R-09)."""
    return set(BUILTIN_CONDITIONS) - set(registry.conditions)
