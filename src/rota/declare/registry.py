"""Names for Python functions: the decorators, and finding what a file names. Never fed from stored data."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, overload

from msgspec import Struct
from msgspec.structs import replace

from rota.model.errors import FunctionMissing, InvalidValue, did_you_mean
from rota.model.spec import Condition, Names
from rota.rules.power import BATTERY

BUILTIN_CONDITIONS: Mapping[str, bool] = {
    "network_up": False,
    "no_agents_running": False,
    "budget_left": False,
    "on_ac_power": False,
    BATTERY: False,
    "has_open_prs": True,
}
"""The built-in conditions, and whether they look at what the shared poll brought."""
ENVIRONMENT_HINT = (
    "set python: .venv/bin/python in rota.yaml, or start rota from the project's environment (uv run rota serve)"
)

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)


def asked_elsewhere(condition: Condition, python: str | None) -> bool:
    """Return whether a condition is a process: a command, or a function of another interpreter."""
    if condition.command:
        return True
    return python is not None and (condition.replaces or condition.name not in BUILTIN_CONDITIONS)


class FunctionFinder(Protocol):
    """Looks up functions and conditions, in this interpreter or in another one."""

    def find(self, functions: Sequence[str], conditions: Sequence[str], sources: Sequence[str] = ()) -> Names:
        """Return which of the names are missing, and what there is to know of the conditions."""
        ...


class RegisteredAgent(Struct, frozen=True):
    """A Python function that is an agent: `async (AgentTask) -> AgentResult`, and its keys of `agents:`."""

    function: Function
    keys: Mapping[str, Any]


class Registry:
    """Functions, conditions and agents by name; `owner` is whose decorators messages name."""

    def __init__(self, owner: str = "rota") -> None:
        self.owner = owner
        self.functions: dict[str, Function] = {}
        self.conditions: dict[str, Function] = {}
        self.agents: dict[str, RegisteredAgent] = {}
        self.agent_functions: dict[str, Function] = {}
        """The functions of agents, by the name or the `module:function` by which jobs know them."""
        self.sources: dict[str, Function] = {}
        self.needing_poll: set[str] = set()

    @overload
    def job(self, name: F, /) -> F: ...
    @overload
    def job(self, name: str | None = None, /) -> Callable[[F], F]: ...
    def job(self, name: Any = None, /) -> Any:
        """Make a function known to `run:`, under its own name or the one given."""
        return _decorator(self.functions, name, kind="function")

    @overload
    def condition(self, name: F, /) -> F: ...
    @overload
    def condition(self, name: str | None = None, /, *, needs_poll: bool = False) -> Callable[[F], F]: ...
    def condition(self, name: Any = None, /, *, needs_poll: bool = False) -> Any:
        """Make a function known to `conditions:`, under its own name or the one given.

        With `needs_poll` every job that has it waits for the shared poll, whose data is `ctx.poll_data`.
        """
        if callable(name):
            return self._condition(name, name.__name__, needs_poll=needs_poll)
        return lambda function: self._condition(function, name or function.__name__, needs_poll=needs_poll)

    def _condition(self, function: F, name: str, *, needs_poll: bool) -> F:
        registered = _register(self.conditions, name, function=function, kind="condition")
        if needs_poll:
            self.needing_poll.add(name)
        else:
            self.needing_poll.discard(name)
        return registered

    @overload
    def agent(self, name: F, /) -> F: ...
    @overload
    def agent(self, name: str | None = None, /, **keys: Any) -> Callable[[F], F]: ...
    def agent(self, name: Any = None, /, **keys: Any) -> Any:
        """Make a function an agent: `async (AgentTask) -> AgentResult`, under its own name or the one given.

        `keys` are those of an entry of `agents:`, such as `max_concurrent`, and what the function keeps or reports:
        `max_turns=True`, or with a value for its jobs `max_turns=20`; `provider` is that whose limits it shares.
        """

        def register(function: F) -> F:
            title = function.__name__ if name is None or callable(name) else name
            refuse_second(self.agent_functions, title, function=function, kind="agent")
            self.agents[title] = RegisteredAgent(function, dict(keys))
            self.agent_functions[title] = function
            return function

        return register(name) if callable(name) else register

    @overload
    def source(self, name: F, /) -> F: ...
    @overload
    def source(self, name: str | None = None, /) -> Callable[[F], F]: ...
    def source(self, name: Any = None, /) -> Any:
        """Make a class known to `work_source: {run: name}`, under its own name or the one given."""
        return _decorator(self.sources, name, kind="work source")

    def resolve_source(self, name: str) -> Function:
        """Return the class that `work_source: {run: name}` means: a registered one, or `module:Class`."""
        return self._resolve(name, self.sources, kind="work source")

    def resolve(self, name: str) -> Function:
        """Return the function that `run: name` means: a registered one, or `module:function`."""
        return self._resolve(name, self.functions, kind="function")

    def resolve_agent(self, name: str) -> Function:
        """Return the function of an agent: a registered one, or `module:function`."""
        return self._resolve(name, self.agent_functions, kind="agent")

    def _resolve(self, name: str, functions: Mapping[str, Function], *, kind: str) -> Function:
        if ":" in name:
            return _imported(name)
        if name in functions:
            return functions[name]
        raise FunctionMissing(f'no {kind} is named "{name}"', hint=self._guess(name, functions, _WORDS[kind]))

    def resolve_condition(self, name: str) -> Function:
        """Return the registered condition of that name; the built-in ones are not here."""
        if name in self.conditions:
            return self.conditions[name]
        known = (*self.conditions, *BUILTIN_CONDITIONS)
        raise FunctionMissing(f'no condition is named "{name}"', hint=self._guess(name, known, "condition"))

    def _guess(self, name: str, known: Sequence[str] | Mapping[str, Function], decorator: str) -> str:
        where = " in a module that `imports:` names" if self.owner == "rota" else ""
        return did_you_mean(name, known, f'register it with @{self.owner}.{decorator}("{name}"){where}')


default = Registry()
"""The registry that `@rota.job`, `@rota.condition` and `@rota.agent` fill."""


def _decorator(names: dict[str, Function], name: Any, *, kind: str) -> Any:
    if callable(name):
        return _register(names, name.__name__, function=name, kind=kind)
    return lambda function: _register(names, name or function.__name__, function=function, kind=kind)


def _register(names: dict[str, Function], name: str, *, function: F, kind: str) -> F:
    refuse_second(names, name, function=function, kind=kind)
    names[name] = function
    return function


def refuse_second(names: Mapping[str, Function], name: str, *, function: Function, kind: str) -> None:
    """Refuse another function under a name that is taken; the same one may be registered again."""
    known = names.get(name)
    if known is not None and _place(known) != _place(function):
        message = f'two functions are registered as {kind} "{name}": {_place(known)} and {_place(function)}'
        raise InvalidValue(message, hint=f'give one of them another name: @rota.{_WORDS[kind]}("other")')


_WORDS = {"function": "job", "condition": "condition", "agent": "agent", "work source": "source"}


def _place(function: Function) -> str:
    return f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', repr(function))}"


def _imported(name: str) -> Function:
    module, _, attribute = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # importing runs the module, which may raise anything
        raise FunctionMissing(import_message(module, error)) from error
    for part in attribute.split("."):
        inside = found
        found = getattr(inside, part, None)
        if found is None:
            hint = did_you_mean(part, dir(inside), "check the spelling")
            raise FunctionMissing(f'module "{module}" has no "{attribute}"', hint=hint)
    if not callable(found):
        raise FunctionMissing(f'"{name}" is not a function')
    function: Function = found
    return function


def import_message(module: str, error: BaseException) -> str:
    """Return why `module` cannot be imported, and what to do when it, or what it needs, is not there at all."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return f'cannot import "{module}": {type(error).__name__}: {error}'
    if not f"{module}.".startswith(f"{error.name}."):
        return f'cannot import "{module}", which needs "{error.name}", from {sys.prefix}; {ENVIRONMENT_HINT}'
    absent = f"write {error.name.partition('.')[0]}.py beside rota.yaml, {ENVIRONMENT_HINT}"
    hint = did_you_mean(error.name, _modules_here(), absent)
    return f'cannot import "{module}" from {sys.prefix}; {hint}'


def _modules_here() -> list[str]:
    """Return the modules that lie in the folder which is looked at first: the project's own."""
    try:
        return [path.stem for path in Path(sys.path[0] or ".").iterdir() if path.suffix == ".py" or path.is_dir()]
    except OSError:
        return []


class RegisteredFinder:
    """Looks names up in a registry; `module:function` is imported as this process does, whose path stays as it is."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def find(self, functions: Sequence[str], conditions: Sequence[str], sources: Sequence[str] = ()) -> Names:
        """Return which of the names are missing, and what there is to know of the conditions."""
        registry = self._registry
        asked = [(name, registry.resolve) for name in functions]
        asked += [(name, registry.resolve_condition) for name in conditions if name not in BUILTIN_CONDITIONS]
        asked += [(name, registry.resolve_source) for name in sources]
        missing = {name: message for name, resolve in asked if (message := _unresolved(resolve, name))}
        return Names(missing, frozenset(registry.conditions), frozenset(registry.needing_poll))

    def agents(self) -> Mapping[str, RegisteredAgent]:
        """Return the functions that are agents."""
        return self._registry.agents


class ImportingFinder:
    """Imports the modules of a project into this process and looks names up in a registry."""

    def __init__(self, folder: Path, imports: Sequence[str], registry: Registry = default) -> None:
        self._folder = str(folder)
        self._imports = tuple(imports)
        self._registry = registry

    def find(self, functions: Sequence[str], conditions: Sequence[str], sources: Sequence[str] = ()) -> Names:
        """Return which of the names are missing, and what there is to know of the conditions."""
        if self._imports or any(":" in name for name in (*functions, *sources)):
            self._put_folder_first()
        failed = {module: message for module in self._imports if (message := _fails(module))}
        names = RegisteredFinder(self._registry).find(functions, conditions, sources)
        return replace(names, missing={**failed, **names.missing})

    def agents(self) -> Mapping[str, RegisteredAgent] | None:
        """Return the functions that are agents; None where a module fails, since it may have registered more."""
        if self._imports:
            self._put_folder_first()
        failed = [module for module in self._imports if _fails(module)]
        return None if failed else self._registry.agents

    def _put_folder_first(self) -> None:
        if sys.path[:1] != [self._folder]:
            sys.path.insert(0, self._folder)
            importlib.invalidate_caches()


def _fails(module: str) -> str | None:
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as error:  # importing runs the module, which may raise anything
        return import_message(module, error)
    return None


def _unresolved(resolve: Callable[[str], Function], name: str) -> str | None:
    try:
        resolve(name)
    except FunctionMissing as error:
        return str(error)
    return None
