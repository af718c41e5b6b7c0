"""Names that Python modules register and define, read from their source without running it."""

import ast
import importlib.util
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from rota.declare.registry import ENVIRONMENT_HINT, RegisteredAgent, RegisteredFinder, Registry, import_message
from rota.model.errors import did_you_mean
from rota.model.spec import Names

KINDS = ("job", "condition", "agent", "source")
OPAQUE = frozenset({"exec", "eval", "compile", "__import__", "globals", "setattr", "import_module", "iter_modules"})
"""Calls by which a module may register or define what its source does not show."""
INERT = frozenset(
    {"property", "staticmethod", "classmethod", "dataclass", "wraps", "cache", "lru_cache", "contextmanager"}
)
"""Decorators of the standard library that register nothing."""
MAX_MODULES = 200
"""Upper bound on the number of modules read."""
MAX_SOURCE_BYTES = 1_000_000
"""Bytes of source. A larger module is not read and may define anything."""


class ModuleSource(Struct):
    """One module as its source shows it."""

    defines: dict[str, ast.stmt] = field(default_factory=dict)
    registers: list[tuple[str, str, Mapping[str, Any]]] = field(default_factory=list)
    """Kind, name and keys of what decorators of rota make known."""
    imports: list[str] = field(default_factory=list)
    opaque: bool = False
    """Whether it may register or define more than its source shows."""


class SourceFinder:
    """Looks names up in the source of a project's modules. What the source cannot tell counts as there."""

    def __init__(self, folder: Path, imports: Sequence[str], *, elsewhere: bool = False) -> None:
        self._folder = folder
        self._imports = tuple(imports)
        self._elsewhere = elsewhere
        """Whether another interpreter imports them: only the folder's own modules can be found then."""
        self._read: dict[str, ModuleSource | str | None] = {}

    def find(self, functions: Sequence[str], conditions: Sequence[str], sources: Sequence[str] = ()) -> Names:
        """Return which of the names are missing for certain, and what there is to know of the conditions."""
        registry, failed, opaque = self._registered()
        written = [name for name in (*functions, *sources) if ":" in name]
        missing = {name: message for name in written if (message := self._lacks(name))}
        if not opaque:
            plain = [[name for name in names if ":" not in name] for names in (functions, sources)]
            missing |= RegisteredFinder(registry).find(plain[0], conditions, plain[1]).missing
        return Names({**failed, **missing}, frozenset(registry.conditions), frozenset(registry.needing_poll))

    def agents(self) -> Mapping[str, RegisteredAgent] | None:
        """Return the functions that are agents, as far as the source tells; None where a module cannot be read."""
        registry, failed, _ = self._registered()
        return None if failed else registry.agents

    def _registered(self) -> tuple[Registry, dict[str, str], bool]:
        """Return what the modules register, why some cannot be read, and whether there may be more."""
        registry, failed, opaque = Registry(), {}, False
        for module in self._imports:
            found = self._module(module)
            if isinstance(found, str):
                failed[module] = found
            opaque = opaque or found is None
        for module_source in self._reachable():
            opaque = opaque or module_source.opaque
            for kind, name, keys in module_source.registers:
                _put(registry, kind, name, keys)
        return registry, failed, opaque

    def _reachable(self) -> Iterator[ModuleSource]:
        """Yield the modules that `imports` names, and those of the project that they import in turn."""
        waiting, seen = list(self._imports), set[str]()
        while waiting and len(seen) < MAX_MODULES:
            name = waiting.pop()
            parent = name.rpartition(".")[0]
            if name in seen:
                continue
            seen.add(name)
            waiting += [parent] if parent else []
            found = self._module(name)
            if isinstance(found, ModuleSource):
                yield found
                waiting += [module for module in found.imports if self._is_near(module, name)]

    def _is_near(self, module: str, importer: str) -> bool:
        top = module.partition(".")[0]
        return top == importer.partition(".")[0] or _file_of(self._folder, top) is not None

    def _lacks(self, written: str) -> str | None:
        """Return what is wrong with `module:function`, None where it is there or the source cannot tell."""
        module, _, attribute = written.partition(":")
        found = self._module(module)
        if not isinstance(found, ModuleSource):
            return found
        names: Mapping[str, ast.stmt] = found.defines
        for part in attribute.split("."):
            if part not in names:
                if found.opaque or isinstance(self._module(f"{module}.{part}"), ModuleSource):
                    return None
                guess = did_you_mean(part, list(names), "check the spelling")
                return f'module "{module}" has no "{attribute}"; {guess}'
            definition = names[part]
            if not isinstance(definition, ast.ClassDef):
                return None  # of other values the source does not tell what they have
            names = _defined(definition.body)
            if definition.bases or definition.keywords or definition.decorator_list:
                return None
        return None

    def _module(self, name: str) -> ModuleSource | str | None:
        """Return a module's source; a text says why it cannot be imported, None that nothing can be told."""
        if name not in self._read:
            self._read[name] = self._load(name)
        return self._read[name]

    def _load(self, name: str) -> ModuleSource | str | None:
        file = _file_of(self._folder, name)
        if file is None and self._elsewhere:
            return None
        if file is None:
            place = _installed(name)
            if isinstance(place, str):
                near = [path.stem for path in self._folder.iterdir() if path.suffix == ".py" or path.is_dir()]
                top = place.partition(".")[0]
                hint = did_you_mean(place, near, f"write {top}.py beside rota.yaml, {ENVIRONMENT_HINT}")
                return f'cannot import "{name}" from {sys.prefix}; {hint}'
            file = place
        if file is None or file.suffix != ".py":
            return None
        try:
            if file.stat().st_size > MAX_SOURCE_BYTES:
                return None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(file.read_bytes(), str(file))
        except (SyntaxError, ValueError, OSError, RecursionError, MemoryError) as error:
            return import_message(name, error)
        return read_source(tree, package=name if file.name == "__init__.py" else name.rpartition(".")[0])


def _file_of(folder: Path, name: str) -> Path | None:
    """Return the file of a module below a folder; a package without a file of its own is its folder."""
    place = folder.joinpath(*name.split("."))
    for file in (place / "__init__.py", place.with_name(f"{place.name}.py")):
        if file.is_file():
            return file
    return place if place.is_dir() and any(place.glob("*.py")) else None


def _installed(name: str) -> Path | str | None:
    """Return the file of an installed module, None where it has no source, or the part of its name that is missing.

    Only the package at the top is asked for, which imports nothing; what lies below it is looked for in its folders.
    """
    top, *below = name.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return top
    if not below:
        return Path(spec.origin) if spec.has_location and spec.origin else None
    folders = [Path(place) for place in spec.submodule_search_locations or ()]
    paths = [file for folder in folders if (file := _file_of(folder, ".".join(below)))]
    return paths[0] if paths else None


def read_source(tree: ast.Module, *, package: str = "") -> ModuleSource:
    """Return what the source of a module shows; `package` is what its relative imports are relative to."""
    module_source = ModuleSource(defines=_defined(tree.body))
    rota, direct = _names_of_rota(tree)
    used_as_decorator = _read_statements(module_source, tree, rota, direct)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            module_source.imports += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            _follow(module_source, node, package)
        elif isinstance(node, ast.Global):
            module_source.defines |= {name: node for name in node.names if name not in module_source.defines}
        elif isinstance(node, ast.Call) and _name_of(node.func) in OPAQUE:
            module_source.opaque = True
        elif isinstance(node, ast.Attribute | ast.Name) and id(node) not in used_as_decorator:
            module_source.opaque = module_source.opaque or _kind_of(node, rota, direct) is not None
    module_source.opaque = module_source.opaque or "__getattr__" in module_source.defines
    return module_source


def _read_statements(found: ModuleSource, tree: ast.Module, rota: set[str], direct: Mapping[str, str]) -> set[int]:
    """Note what the decorators of a module register; return the nodes of those that are rota's."""
    used: set[int] = set()
    for statement in _statements(tree.body):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in statement.decorator_list:
                target = decorator.func if isinstance(decorator, ast.Call) else decorator
                kind = _kind_of(target, rota, direct)
                if kind is not None:
                    used.add(id(target))
                    _note(found, kind, decorator, statement.name)
                elif _name_of(target) not in INERT:
                    found.opaque = True
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            found.opaque = True  # its calls may register more
    return used


def _note(found: ModuleSource, kind: str, decorator: ast.expr, name: str) -> None:
    """Note what one decorator makes known; where it is worked out when the module runs, the module is opaque."""
    keys: dict[str, Any] = {}
    if isinstance(decorator, ast.Call):
        try:
            given = [ast.literal_eval(one) for one in decorator.args]
            keys = {keyword.arg or "": ast.literal_eval(keyword.value) for keyword in decorator.keywords}
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            found.opaque = True
            return
        name = given[0] if given and isinstance(given[0], str) else name
    if "" in keys:
        found.opaque = True
        return
    found.registers.append((kind, name, keys))


def _put(registry: Registry, kind: str, name: str, keys: Mapping[str, Any]) -> None:
    if kind == "job":
        registry.functions[name] = _unread
    elif kind == "source":
        registry.sources[name] = _unread
    elif kind == "agent":
        registry.agents[name] = RegisteredAgent(_unread, dict(keys))
        registry.agent_functions[name] = _unread
    else:
        registry.conditions[name] = _unread
        if keys.get("needs_poll"):
            registry.needing_poll.add(name)


def _unread(*_: Any, **__: Any) -> Any:
    """Stand for a function that was read and not imported."""
    raise AssertionError("it was only read, never imported")


def _follow(found: ModuleSource, node: ast.ImportFrom, package: str) -> None:
    parts = package.split(".") if package else []
    above = parts[: len(parts) - node.level + 1] if node.level else []
    base = ".".join([*above, *([node.module] if node.module else [])])
    found.imports += [base] if base else []
    for alias in node.names:
        if alias.name == "*":
            found.opaque = True
        elif base:
            found.imports.append(f"{base}.{alias.name}")


def _names_of_rota(tree: ast.Module) -> tuple[set[str], dict[str, str]]:
    rota: set[str] = set()
    direct: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            rota |= {alias.asname or "rota" for alias in node.names if alias.name == "rota"}
        elif isinstance(node, ast.ImportFrom) and node.module == "rota" and not node.level:
            direct |= {alias.asname or alias.name: alias.name for alias in node.names if alias.name in KINDS}
    return rota, direct


def _kind_of(node: ast.expr, rota: set[str], direct: Mapping[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return direct.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in rota:
        return node.attr if node.attr in KINDS else None
    return None


def _name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, also those in its `if`, `try`, `with`, `match` and loops."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If) and ast.unparse(statement.test).startswith("__name__ =="):
            continue  # a script, not a module
        for part in ("body", "orelse", "finalbody"):
            if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from _statements(getattr(statement, part, ()))
        for branch in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from _statements(branch.body)


def _defined(body: Sequence[ast.stmt]) -> dict[str, ast.stmt]:
    found: dict[str, ast.stmt] = {}
    for statement in _statements(body):
        for name in _bound(statement):
            found[name] = statement
    return found


def _bound(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in statement.names)
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.For | ast.With):
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
