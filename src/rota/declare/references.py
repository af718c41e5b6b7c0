"""References between jobs, pools, agents and targets of a file."""

import os
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from rota.declare.include import NOT_EDITED
from rota.declare.jobs import JobDefaults, interpreter_of
from rota.declare.module_source import SourceFinder
from rota.declare.problems import shown
from rota.declare.readers.agents import Agent
from rota.declare.readers.values import NAME_LIMIT
from rota.declare.registry import BUILTIN_CONDITIONS, FunctionFinder, ImportingFinder, RegisteredAgent, RegisteredFinder
from rota.declare.yaml import Document
from rota.model.errors import KeyPath, Problem, RotaError, did_you_mean
from rota.model.spec import JobSpec, Names, SourceKind
from rota.rules.power import condition_name
from rota.rules.prompts import result_jobs
from rota.settings import Settings, Stamp

FinderOf = Callable[[str, Settings], FunctionFinder]
"""Makes a finder for another interpreter from its path and the project."""
LEFT = "budget_left"
NamesOf = Mapping[str | None, Names]
"""The registered names of each interpreter; None: this one."""


class Mention(Struct, frozen=True):
    """A name in the file that must exist, and the interpreter that must know it (None: this one)."""

    path: KeyPath
    name: str
    condition: bool
    python: str | None
    source: bool = False
    """Whether it is the class of a work source."""


def mentions_of(
    name: str, raw: Mapping[str, Any], *, own: Mapping[str, Any], project: JobDefaults, at: KeyPath
) -> list[Mention]:
    """Return the names that one job mentions, also beside mistakes; its conditions run where its function does."""
    python = interpreter_of(own, project) if "run" in own else project.python
    mentions = [Mention(("jobs", name, "run"), own["run"], condition=False, python=python)] if "run" in own else []
    source = own.get("work_source", project.defaults.get("work_source"))
    if source is not None and source.kind is SourceKind.RUN and project.python is None:
        path = (*at, "work_source", "run") if "work_source" in own else ("defaults", "work_source", "run")
        mentions.append(Mention(path, source.place, condition=False, python=None, source=True))
    return mentions + [
        Mention(path, condition, condition=True, python=python)
        for path, condition in _conditions(name, raw, project)
        if condition not in BUILTIN_CONDITIONS
    ]


def _conditions(name: str, raw: Mapping[str, Any], project: JobDefaults) -> list[tuple[KeyPath, str]]:
    if "conditions" not in raw:
        defaults = enumerate(project.defaults.get("conditions", ()))
        return [(("defaults", "conditions", index), gate.name) for index, gate in defaults if gate.name]
    items = raw["conditions"] if isinstance(raw["conditions"], list) else []
    written = [item.get("name") if isinstance(item, dict) and "command" not in item else item for item in items]
    return [
        (("jobs", name, "conditions", index), condition_name(text))
        for index, text in enumerate(written)
        if isinstance(text, str) and 0 < len(text.strip()) <= NAME_LIMIT
    ]


def modules_of(mentions: Sequence[Mention], settings: Settings, agents: Sequence[Agent]) -> list[str]:
    """Return the Python modules that a file names: in `imports`, and before the colon of a function."""
    functions = [*(mention.name for mention in mentions), *(agent.function for agent in agents)]
    return [*settings.imports, *(name.partition(":")[0] for name in functions if ":" in name)]


class LookedUp(Struct, frozen=True):
    """The resolved names of a file: problems with their paths, and the names of each interpreter."""

    problems: tuple[Problem, ...] = ()
    names: NamesOf = field(default_factory=dict)


class ReadOptions(Struct, frozen=True):
    """The facts with which all files of a project are read.

    Without `imports` no module is run: names are looked up in their source. `modules` gets the modules that a file
    names, `calendars` the calendar files. `edited` files are read in place of those on the disk.
    """

    environment: Mapping[str, str]
    functions: FunctionFinder | None = None
    """Is asked for all names; where there is an `interpreter` too, only for those of this process."""
    interpreter: FinderOf | None = None
    calendars: MutableMapping[Path, Stamp | None] = field(default_factory=dict)
    imports: bool = True
    modules: MutableMapping[str, None] = field(default_factory=dict)
    edited: Mapping[Path, bytes] = NOT_EDITED


def known_agents(settings: Settings, options: ReadOptions) -> Mapping[str, RegisteredAgent] | None:
    """Return the Python functions of this process that are agents; None where a module fails.

    Functions of another interpreter cannot be called from here.
    """
    if options.functions is None and settings.python is None:
        finder = ImportingFinder if options.imports else SourceFinder
        return finder(settings.folder, settings.imports).agents()
    return options.functions.agents() if isinstance(options.functions, RegisteredFinder) else {}


def look_up(findings: "Findings", settings: Settings, options: ReadOptions) -> LookedUp:
    """Look up each name; return a problem for each module that cannot be imported and each unknown name.

    An interpreter that is not there is not asked.
    """
    if settings.python in findings.lost:
        return LookedUp()
    mentions = [mention for mention in findings.mentions if mention.python not in findings.lost]
    problems: list[Problem] = []
    names: dict[str | None, Names] = {}
    for python in dict.fromkeys((settings.python, *(mention.python for mention in mentions))):
        theirs = [mention for mention in mentions if mention.python == python]
        finder = _finder(python, settings, options)
        if finder is not None and (theirs or settings.imports or python is None):
            names[python], wrong = _ask(finder, theirs, settings=settings)
            problems += wrong
    return LookedUp(tuple(dict.fromkeys(problems)), names)


def _finder(python: str | None, settings: Settings, options: ReadOptions) -> FunctionFinder | None:
    if options.functions is not None and (python is None or options.interpreter is None):
        return options.functions
    if not options.imports:
        return SourceFinder(settings.folder, settings.imports, elsewhere=python is not None)
    if python is None:
        return ImportingFinder(settings.folder, settings.imports)
    return options.interpreter(python, settings) if options.interpreter else None


def _ask(finder: FunctionFinder, mentions: Sequence[Mention], *, settings: Settings) -> tuple[Names, list[Problem]]:
    sources = dict.fromkeys(mention.name for mention in mentions if mention.source)
    functions = dict.fromkeys(mention.name for mention in mentions if not mention.condition and not mention.source)
    conditions = dict.fromkeys(mention.name for mention in mentions if mention.condition)
    try:
        names = finder.find(list(functions), list(conditions), *([list(sources)] if sources else []))
    except RotaError as error:
        return Names(), [Problem(error.message, error.code, at=("python",), hint=error.hint)]
    return names, _missing(names.missing, mentions, settings=settings)


def _missing(missing: Mapping[str, str], mentions: Sequence[Mention], *, settings: Settings) -> list[Problem]:
    failed = [
        _said(("imports", index), missing[module], "import_failed")
        for index, module in enumerate(settings.imports)
        if module in missing
    ]
    # A module that failed registered nothing: the names it would have brought are no problems of their own.
    return failed or [
        _said(mention.path, missing[mention.name], "condition_missing" if mention.condition else "function_missing")
        for mention in mentions
        if mention.name in missing
    ]


def with_replaced(specs: Sequence[JobSpec], names: NamesOf) -> tuple[JobSpec, ...]:
    """Return the jobs; a condition that another interpreter registers under a built-in one's name is marked."""
    return tuple(_with_replaced(spec, names.get(spec.work.python, Names())) for spec in specs)


def _with_replaced(spec: JobSpec, known: Names) -> JobSpec:
    own = known.conditions & BUILTIN_CONDITIONS.keys() if spec.work.python is not None else frozenset()
    if not any(gate.name in own for gate in spec.gates.conditions):
        return spec
    marked = tuple(replace(gate, replaces=gate.name in own) for gate in spec.gates.conditions)
    return replace(spec, gates=replace(spec.gates, conditions=marked))


def _said(path: KeyPath, message: str, code: str) -> Problem:
    text, _, hint = message.partition("; ")
    return Problem(text, code, at=path, hint=hint)


def left_problems(specs: Sequence[JobSpec], names: NamesOf) -> list[Problem]:
    """Return, with their whole paths, the jobs that ask for room in accounts and have none."""
    message, hint = f"`{LEFT}` needs an account, and the job has no `budget`", "add `budget:`, or remove it"
    return [
        Problem(message, "no_effect", at=("jobs", spec.name, "conditions", index), hint=hint)
        for spec in specs
        for index, condition in enumerate(spec.gates.conditions)
        if condition.name == LEFT and not spec.budgets
        if LEFT not in names.get(spec.work.python, Names()).conditions
    ]


def result_problems(specs: Sequence[JobSpec]) -> list[Problem]:
    """Return, with their whole paths, the prompts that have the result of a job that does not exist."""
    names = [spec.name for spec in specs]
    return [
        Problem(
            f"no job is named {shown(job)}",
            "unknown_job",
            at=("jobs", spec.name, "prompt"),
            hint=did_you_mean(job, names, "`{{ runs.JOB.result }}` names a job of this file"),
        )
        for spec in specs
        if spec.work.agent is not None and spec.work.agent.placeholders
        for job in result_jobs(spec.work.agent.prompt)
        if job not in names
    ]


class Findings:
    """Collects what is found in a document, from its start to its end."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems = list(document.problems)
        self.mentions: list[Mention] = []
        self.lost: set[str] = set()
        """Interpreters that are not there, and so cannot be asked for names."""
        self.agents_known = True
        """Whether it is known which functions are agents: a module that fails may have registered some."""

    def tell(self, base: KeyPath, problems: Sequence[Problem]) -> None:
        """Make problems of problems below `base`, with their places in the file."""
        for problem in problems:
            path = self._written_path((*base, *problem.at))
            if any(path[: len(spoilt)] == spoilt for spoilt in self.document.spoilt):
                continue
            if problem.code == "unknown_agent" and not self.agents_known:
                continue
            file, line, column = self.document.place(path)
            self.problems.append(replace(problem, file=file, line=line, column=column, at=path))

    def told(self, base: KeyPath) -> bool:
        """Return whether a key or a part of it has problems."""
        return any(problem.at[: len(base)] == base for problem in self.problems)

    def check_interpreter(self, path: str, key: KeyPath, *, written: str) -> None:
        """Report an interpreter that does not exist, so that it is not started."""
        if "/" in path and not os.access(path, os.X_OK):
            self.lost.add(path)
            hint = "create the environment, or correct the path"
            self.tell(key, [Problem(f"there is no program {shown(written)}", "python_missing", hint=hint)])

    def _written_path(self, path: KeyPath) -> KeyPath:
        # A command written as one text has words but no items, and a default stands elsewhere than its job.
        while path not in self.document.keys and isinstance(path[-1] if path else None, int):
            path = path[:-1]
        return path
