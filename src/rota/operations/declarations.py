"""What one scheduler's Python code declares: its functions, conditions, agents and jobs, by the rules of a file."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Protocol, TypeVar, overload

from rota.declare.files import write_path
from rota.declare.given import plain
from rota.declare.registry import RegisteredFinder, Registry, refuse_second
from rota.declare.validate import Declared, read_given
from rota.engine.functions import FunctionTable
from rota.model.errors import JobProblems, Problem, UnknownJob
from rota.model.making import Maker
from rota.model.spec import Isolate, JobSpec
from rota.operations.loading import interpreter_finder, source_classes

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)

YET_TO_COME = frozenset({"condition_missing", "function_missing", "unknown_agent"})
"""Problems that the rest of the code may still solve, until the scheduler starts."""
SPELLINGS = {"except_": "except"}
"""Keys that Python cannot write as they are."""


class Live(Protocol):
    """A scheduler at work, which stores at once what is declared from now on."""

    def put(self, spec: JobSpec, *, keep: bool) -> None:
        """Store a job."""
        ...

    def retire(self, name: str) -> None:
        """Retire a job."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """A job as it was written; `keep`: it outlives the code that added it."""

    keys: Mapping[str, Any]
    keep: bool


class Declarations:
    """All that the code has said, safe from any thread. `live` is the scheduler at work, None before and after."""

    def __init__(self, sections: Mapping[str, Any], *, folder: Path, state: Path, environ: Mapping[str, str]) -> None:
        self.registry = Registry(owner="scheduler")
        self.sections = {key: value for key, value in sections.items() if value is not None}
        self.entries: dict[str, Entry] = {}
        self.changing = threading.RLock()
        self.live: Live | None = None
        self._folder = folder
        self._state = state
        self._environ = environ
        self._check({})

    @property
    def kept(self) -> frozenset[str]:
        """The jobs that outlive the code that added them."""
        return frozenset(name for name, entry in self.entries.items() if entry.keep)

    @property
    def table(self) -> FunctionTable:
        """What is called in this process, as it is registered at any time."""
        registry = self.registry
        return FunctionTable(
            registry.functions, registry.conditions, sources=registry.sources, agents=registry.agent_functions
        )

    def everything(self) -> Declared:
        """Return all that is declared, complete and checked; raise JobProblems with every problem."""
        bodies = {name: entry.keys for name, entry in self.entries.items()}
        return self._read(bodies, groups=self.sections.get("groups"))

    def add(self, name: str, keys: Mapping[str, Any], *, keep: bool | None) -> None:
        """Add a job, or change the one of this name; it is stored at once where the scheduler is at work."""
        body = plain({SPELLINGS.get(key, key): value for key, value in keys.items()})
        with self.changing:
            spec = self._checked(name, body)
            entry = Entry(body, self._keeps(name) if keep is None else keep)
            if self.live is not None and spec is not None:
                self.live.put(spec, keep=entry.keep)
            self.entries[name] = entry

    def _keeps(self, name: str) -> bool:
        """Tell whether a job stays that does not say: one that is new while the scheduler is at work does."""
        known = self.entries.get(name)
        return self.live is not None if known is None else known.keep

    def add_function(self, function: Function, name: str, *, keys: Mapping[str, Any], keep: bool | None) -> None:
        """Add a job that runs this function; where it is refused, the name keeps the function that it had."""
        with self.changing:
            functions = self.registry.functions
            before = functions.get(name)
            functions[name] = function
            try:
                self.add(name, {**keys, "run": name}, keep=keep)
            except BaseException:
                del functions[name]
                functions.update({} if before is None else {name: before})
                raise

    def add_agent(self, function: Function, name: str, *, keys: Mapping[str, Any]) -> None:
        """Make a function an agent; where what is said of it is refused, it is none."""
        with self.changing:
            registry = self.registry
            refuse_second(registry.agent_functions, name, function=function, kind="agent")
            agents, functions = dict(registry.agents), dict(registry.agent_functions)
            registry.agent(name, **keys)(function)
            try:
                self._put_schedules(name, self._check({}))
            except BaseException:
                _put_back(registry.agents, agents)
                _put_back(registry.agent_functions, functions)
                raise

    def _put_schedules(self, agent: str, declared: Declared | None) -> None:
        """Store the jobs of an agent's own schedules where the scheduler is at work; before, the start does."""
        live = self.live
        for spec in declared.jobs if declared is not None else ():
            if live is not None and spec.name.startswith(f"{agent}/"):
                live.put(spec, keep=False)

    def remove(self, name: str) -> None:
        """Take a job away, and retire it where the scheduler is at work."""
        with self.changing:
            if self.live is not None:
                self.live.retire(name)
            elif name not in self.entries:
                raise UnknownJob(name, get_close_matches(name, self.entries, n=1))
            self.entries.pop(name, None)

    def go_live(self, live: Live, *, since: Mapping[str, Entry]) -> None:
        """Store from now on what is declared, and at once what was while the scheduler started on `since`."""
        with self.changing:
            self.live = live
            for name, entry in self.entries.items():
                spec = None if since.get(name) is entry else self._checked(name, entry.keys)
                if spec is not None:
                    live.put(spec, keep=entry.keep)
            for name in since.keys() - self.entries.keys():
                live.retire(name)

    def take_from(self, other: "Declarations") -> None:
        """Declare all that another scheduler declares."""
        mine, theirs = self.registry, other.registry
        with self.changing, other.changing:
            mine.functions |= theirs.functions
            mine.conditions |= theirs.conditions
            mine.sources |= theirs.sources
            mine.needing_poll |= theirs.needing_poll
            mine.agents |= theirs.agents
            mine.agent_functions |= theirs.agent_functions
            self.entries |= other.entries
            self.sections = {**other.sections, **self.sections}

    def declare_made(self, name: str, keys: Mapping[str, Any], _maker: Maker) -> JobSpec:
        """Return a job that is made with the tools, by the same sections as those of the code."""
        with self.changing:
            declared = self._read({name: plain(keys)})
        return next(spec for spec in declared.jobs if spec.name == name)

    def _checked(self, name: str, body: Mapping[str, Any]) -> JobSpec | None:
        """Return the job; None where it names what the code has yet to register."""
        declared = self._check({name: body})
        return None if declared is None else next(spec for spec in declared.jobs if spec.name == name)

    def _check(self, bodies: Mapping[str, Any]) -> Declared | None:
        """Return what these jobs and the sections declare; None where they name what has yet to be registered."""
        try:
            return self._read(bodies)
        except JobProblems as error:
            told = [one for one in error.problems if self.live is not None or one.code not in YET_TO_COME]
            if told:
                raise JobProblems(told) from None
            return None

    def _read(self, bodies: Mapping[str, Any], *, groups: Mapping[str, Any] | None = None) -> Declared:
        sections = {key: value for key, value in self.sections.items() if key != "groups"}
        declared = read_given(
            {**sections, **({"groups": groups} if groups else {}), "jobs": bodies},
            self._folder,
            environment=self._environ,
            functions=RegisteredFinder(self.registry),
            interpreter=interpreter_finder,
            state=self._state,
        )
        problems = [problem for spec in declared.jobs if (problem := _elsewhere(spec) or _served(spec))]
        if problems:
            raise JobProblems(problems)
        self.registry.functions |= {
            spec.work.function: self.registry.resolve(spec.work.function)
            for spec in declared.jobs
            if spec.work.in_process and ":" in spec.work.function
        }
        self.registry.sources |= {name: self.registry.resolve_source(name) for name in source_classes(declared.jobs)}
        self.registry.agent_functions |= {
            spec.work.agent.function: self.registry.resolve_agent(spec.work.agent.function)
            for spec in declared.jobs
            if spec.work.agent is not None and ":" in spec.work.agent.function
        }
        return declared


class Declaring:
    """The decorators and `add_job` of a scheduler; nothing here is global."""

    def __init__(self, declarations: Declarations) -> None:
        self.declarations = declarations

    @overload
    def job(self, name: F, /) -> F: ...
    @overload
    def job(self, name: str | None = None, /, *, keep: bool | None = None, **keys: Any) -> Callable[[F], F]: ...
    def job(self, name: Any = None, /, *, keep: bool | None = None, **keys: Any) -> Any:
        """Declare a job that runs this function, under its own name or the one given; `keys` are those of a file."""

        def declare(function: F) -> F:
            title = function.__name__ if name is None or callable(name) else name
            refuse_second(self.declarations.registry.functions, title, function=function, kind="function")
            self.declarations.add_function(function, title, keys=keys, keep=keep)
            return function

        return declare(name) if callable(name) else declare

    @overload
    def condition(self, name: F, /) -> F: ...
    @overload
    def condition(self, name: str | None = None, /, *, needs_poll: bool = False) -> Callable[[F], F]: ...
    def condition(self, name: Any = None, /, *, needs_poll: bool = False) -> Any:
        """Make a function known to `conditions`; with `needs_poll` it looks at what the shared poll brought (R-16)."""
        return self.declarations.registry.condition(name, needs_poll=needs_poll)

    @overload
    def agent(self, name: F, /) -> F: ...
    @overload
    def agent(self, name: str | None = None, /, **keys: Any) -> Callable[[F], F]: ...
    def agent(self, name: Any = None, /, **keys: Any) -> Any:
        """Make a function an agent: `async (AgentTask) -> AgentResult`; `keys` are those of `agents`.

        A limit that it names is one that the function keeps: `max_turns=True`, or with a value `max_turns=20`.
        """

        def declare(function: F) -> F:
            title = function.__name__ if name is None or callable(name) else name
            self.declarations.add_agent(function, title, keys=keys)
            return function

        return declare(name) if callable(name) else declare

    @overload
    def source(self, name: F, /) -> F: ...
    @overload
    def source(self, name: str | None = None, /) -> Callable[[F], F]: ...
    def source(self, name: Any = None, /) -> Any:
        """Make a class known to `work_source: {run: name}`, under its own name or the one given."""
        return self.declarations.registry.source(name)

    def add_job(self, name: str, /, *, keep: bool | None = None, **keys: Any) -> None:
        """Add a job, or change the one of this name; `keys` are those of a file, and `run` may be a function.

        What is added before the start is like a file: when the code starts without it, it is retired. What is added
        later, or to `keep`, stays until `remove_job`.
        """
        if callable(keys.get("run")):
            self.declarations.add_function(keys["run"], name, keys=keys, keep=keep)
        else:
            self.declarations.add(name, keys, keep=keep)

    def remove_job(self, name: str) -> None:
        """Take a job away: no more fires, its runs go on, and its history stays; adding it again revives it."""
        self.declarations.remove(name)


def _put_back(names: dict[str, Any], before: Mapping[str, Any]) -> None:
    """Make a table of names what it was; others look at this very one."""
    names.clear()
    names.update(before)


def _served(spec: JobSpec) -> Problem | None:
    """Return what is wrong with an agent that is to get tools from a project which is not on disk."""
    if spec.work.agent is None or not spec.work.agent.rota_tools:
        return None
    hint = "hand your agents `rota.tools(scheduler, made_by=…)` in your own code"
    message = "rota serves its tools to agents of a project with a rota.yaml"
    return Problem(message, "conflict", path=write_path(("jobs", spec.name, "rota_tools")), hint=hint)


def _elsewhere(spec: JobSpec) -> Problem | None:
    """Return what is wrong with a function of this process that is to run in another one."""
    work = spec.work
    if not work.function or ":" in work.function or work.isolate is not Isolate.PROCESS or work.python is not None:
        return None
    message = "a function that is registered here is not known in a process of its own"
    path = write_path(("jobs", spec.name, "isolate"))
    return Problem(message, "conflict", path=path, hint='name it as run="module:function"')
