"""Measure the layout of `src/rota` and compare it with its limits.

`python tools/house.py` prints the figures, `--members` what each counts, `--picture` the packages and their imports.
`tests/docs/test_house.py` fails when a figure is over its limit, or when the picture in the docs is old.
"""

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "rota"
SMALL = 40
"""A module of fewer lines needs a reason to stand alone."""
COMMANDS = "cli/commands"
PARTICIPLE = re.compile(r"(?:^|_)(?:\w+(?:ing|ed)|given|made|kept|held|told|known|gone|left|lost|found|born)(?:_|$)")
NOUNS = frozenset({"logging", "string", "feed", "embed"})
"""Names that only look like participles."""
BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
"""The fields of a syntax tree that hold statements."""
Graph = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the house: `limit` is the most it may be, or the least if `at_least`."""

    name: str
    value: int
    limit: int
    at_least: bool = False
    members: tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        """Return whether the figure is within its limit."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def read_modules(source: Path = SOURCE) -> dict[str, ast.Module]:
    """Return the syntax tree of every module by its dotted name."""
    return {_dotted(path, source): ast.parse(path.read_text("utf-8")) for path in sorted(source.rglob("*.py"))}


def import_graph(modules: Mapping[str, ast.Module]) -> Graph:
    """Return which modules each module imports, inside functions too; imports for type checking are left out."""
    return {name: frozenset(_imports(tree, modules)) - {name} for name, tree in modules.items()}


def find_cycles(graph: Graph) -> list[list[str]]:
    """Return the groups of modules that import each other (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    cycles: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                cycles.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for name in graph:
        if name not in index:
            visit(name)
    return cycles


def measure(source: Path = SOURCE) -> list[Figure]:
    """Return all figures of the house."""
    modules = read_modules(source)
    lines = {_dotted(path, source): path.read_text("utf-8").count("\n") for path in source.rglob("*.py")}
    graph = import_graph(modules)
    cycles = find_cycles(graph)
    packages = {_dotted(path, source) for path in source.rglob("__init__.py")}
    single = sorted(_imported_once(graph) - packages)
    small = sorted(name for name, count in lines.items() if count < SMALL and name not in packages)
    classes = Counter(node.name for tree in modules.values() for node in tree.body if isinstance(node, ast.ClassDef))
    twice = sorted(name for name, count in classes.items() if count > 1)
    participles = sorted(name for name in modules if _is_participle(name.rpartition(".")[2]))
    folders = Counter(
        path.parent.relative_to(source).as_posix() for path in source.rglob("*.py") if path.stem[0] != "_"
    )
    folder, largest = max((one for one in folders.items() if one[0] != COMMANDS), key=lambda one: one[1])
    queries = [path for path in source.rglob("*.sql") if not path.stem[:4].isdigit()]
    total = sum(lines.values())
    return [
        Figure("modules", len(modules), 435),
        Figure("lines a module", total // len(modules), 220, at_least=True),
        Figure("lines", total, 106_000),
        Figure("modules imported by exactly one other", len(single), 56, members=tuple(single)),
        Figure(f"modules under {SMALL} lines", len(small), 10, members=tuple(small)),
        Figure("largest folder: CLI commands", folders[COMMANDS], 27),
        Figure(f"largest other folder: {folder}", largest, 23),
        Figure("SQL files without migrations", len(queries), 56),
        Figure("import cycles, lazy imports included", len(cycles), 0, members=tuple(" ".join(one) for one in cycles)),
        Figure("class names used more than once", len(twice), 20, members=tuple(twice)),
        Figure("modules named by a participle", len(participles), 10, members=tuple(participles)),
    ]


def _dotted(path: Path, source: Path) -> str:
    parts = path.relative_to(source.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_participle(name: str) -> bool:
    return name not in NOUNS and PARTICIPLE.search(name) is not None


def _imported_once(graph: Graph) -> set[str]:
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for name, others in graph.items():
        for other in others:
            importers[other].add(name)
    return {name for name, found in importers.items() if len(found) == 1}


def _imports(tree: ast.Module, modules: Mapping[str, ast.Module]) -> Iterator[str]:
    for node in _runtime_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in modules:
                    yield inner
                elif node.module in modules:
                    yield node.module


def _runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Return the statements that run, also inside others; no expression holds an import."""
    for block in BLOCKS:
        for node in getattr(tree, block, ()):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                continue
            yield node
            yield from _runtime_nodes(node)


def picture(source: Path = SOURCE) -> str:
    """Return the packages from the top layer down, and which packages each imports."""
    graph = import_graph(read_modules(source))
    packages: dict[str, set[str]] = {}
    for name, others in graph.items():
        if _package(name) not in ("rota", "__main__"):
            packages.setdefault(_package(name), set()).update({_package(other) for other in others} - {_package(name)})
    width = max(map(len, packages))
    ordered = sorted(packages, key=lambda name: (-_height(name, packages), name))
    return "\n".join(f"{name:<{width}}  {' '.join(sorted(packages[name]))}".rstrip() for name in ordered)


def _package(name: str) -> str:
    return name.split(".")[1] if "." in name else name


def _height(name: str, packages: Mapping[str, set[str]]) -> int:
    return 1 + max((_height(other, packages) for other in packages.get(name, ())), default=0)


def table(figures: Iterable[Figure]) -> str:
    """Return the figures as text, one a line."""
    rows = [
        (one.name, f"{one.value:,}", f"{'≥' if one.at_least else '≤'} {one.limit:,}", "" if one.kept else "over")
        for one in figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}  {d}".rstrip() for a, b, c, d in rows)


def main() -> int:
    """Print the figures or the picture; return 1 if a figure is over its limit."""
    parser = argparse.ArgumentParser(description="Measure the layout of src/rota.")
    parser.add_argument("--members", action="store_true", help="print what each figure counts")
    parser.add_argument("--picture", action="store_true", help="print the packages and their imports")
    wanted = parser.parse_args()
    if wanted.picture:
        print(picture())
        return 0
    figures = measure()
    print(table(figures))
    for figure in figures if wanted.members else ():
        if figure.members:
            print(f"\n{figure.name}:", *figure.members, sep="\n  ")
    return 0 if all(one.kept for one in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
