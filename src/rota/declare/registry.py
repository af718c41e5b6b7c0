"""Names for Python functions: the decorators, and finding what a file names. Never fed from stored data."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Protocol, TypeVar, overload

from rota.model.errors import FunctionMissing, InvalidValue

BUILTIN_CONDITIONS = ("network_up",)
ENVIRONMENT_HINT = (
    "set python: .venv/bin/python in rota.yaml, or start rota from the project's environment (uv run rota serve)"
)

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)


class FunctionFinder(Protocol):
    """Who knows which functions and conditions exist, in this interpreter or in another one."""

    def find(self, functions: Sequence[str], conditions: Sequence[str]) -> Mapping[str, str]:
        """Return a message for each name that is missing, and for each module of `imports:` that fails."""
        ...


class Registry:
    """Functions and conditions by name."""

    def __init__(self) -> None:
        self.functions: dict[str, Function] = {}
        self.conditions: dict[str, Function] = {}

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
    def condition(self, name: str | None = None, /) -> Callable[[F], F]: ...
    def condition(self, name: Any = None, /) -> Any:
        """Make a function known to `conditions:`, under its own name or the one given."""
        return _decorator(self.conditions, name, kind="condition")

    def resolve(self, name: str) -> Function:
        """Return the function that `run: name` means: a registered one, or `module:function`."""
        if ":" in name:
            return _imported(name)
        if name in self.functions:
            return self.functions[name]
        raise FunctionMissing(f'no function is named "{name}"', hint=_guess(name, self.functions, "job"))

    def resolve_condition(self, name: str) -> Function:
        """Return the registered condition of that name; the built-in ones are not here."""
        if name in self.conditions:
            return self.conditions[name]
        known = (*self.conditions, *BUILTIN_CONDITIONS)
        raise FunctionMissing(f'no condition is named "{name}"', hint=_guess(name, known, "condition"))


default = Registry()
"""What `@rota.job` and `@rota.condition` fill."""


def _decorator(names: dict[str, Function], name: Any, *, kind: str) -> Any:
    if callable(name):
        return _register(names, name.__name__, function=name, kind=kind)
    return lambda function: _register(names, name or function.__name__, function=function, kind=kind)


def _register(names: dict[str, Function], name: str, *, function: F, kind: str) -> F:
    known = names.get(name)
    if known is not None and _place(known) != _place(function):
        message = f'two functions are registered as {kind} "{name}": {_place(known)} and {_place(function)}'
        raise InvalidValue(message, hint=f'give one of them another name: @rota.{_WORDS[kind]}("other")')
    names[name] = function
    return function


_WORDS = {"function": "job", "condition": "condition"}


def _place(function: Function) -> str:
    return f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', repr(function))}"


def _guess(name: str, known: Sequence[str] | Mapping[str, Function], decorator: str) -> str:
    near = get_close_matches(name, list(known), n=1, cutoff=0.6)
    if near:
        return f'did you mean "{near[0]}"?'
    return f'register it with @rota.{decorator}("{name}") in a module that `imports:` names'


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
            near = get_close_matches(part, dir(inside), n=1, cutoff=0.6)
            hint = f'did you mean "{near[0]}"?' if near else "check the spelling"
            raise FunctionMissing(f'module "{module}" has no "{attribute}"', hint=hint)
    if not callable(found):
        raise FunctionMissing(f'"{name}" is not a function')
    function: Function = found
    return function


def import_message(module: str, error: BaseException) -> str:
    """Return why `module` cannot be imported, and what to do when it is not there at all."""
    if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
        return f'cannot import "{module}" from {sys.prefix}; {ENVIRONMENT_HINT}'
    return f'cannot import "{module}": {type(error).__name__}: {error}'


class ImportingFinder:
    """Imports the modules of a project into this process and looks names up in a registry."""

    def __init__(self, folder: Path, imports: Sequence[str], registry: Registry = default) -> None:
        self._folder = str(folder)
        self._imports = tuple(imports)
        self._registry = registry

    def find(self, functions: Sequence[str], conditions: Sequence[str]) -> Mapping[str, str]:
        """Return a message for each name that is missing, and for each module of `imports:` that fails."""
        if self._imports or any(":" in name for name in functions):
            self._put_folder_first()
        missing = {module: message for module in self._imports if (message := _fails(module))}
        for name in functions:
            if message := _unresolved(self._registry.resolve, name):
                missing[name] = message
        for name in conditions:
            if name not in BUILTIN_CONDITIONS and (message := _unresolved(self._registry.resolve_condition, name)):
                missing[name] = message
        return missing

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
