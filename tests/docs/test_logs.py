"""The page of log messages lists exactly the messages at WARNING and above."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import rota
from tests.docs.pages import page, pages

SOURCE = Path(rota.__file__).parent
LEVELS = {"warning", "error", "exception", "critical"}


def messages(nodes: list[ast.AST], everywhere: dict[str, list[ast.expr]]) -> Iterator[str]:
    """Yield the messages that a module logs; a name stands for every text that is assigned to it."""
    aliases = {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.IfExp) and logs(node.value.body)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        if isinstance(node, ast.Call) and (
            logs(node.func) or (isinstance(node.func, ast.Name) and node.func.id in aliases)
        ):
            yield from texts(node.args[0], everywhere)


def logs(node: ast.expr) -> bool:
    named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "log"
    return named and isinstance(node, ast.Attribute) and node.attr in LEVELS


def texts(node: ast.expr, everywhere: dict[str, list[ast.expr]]) -> Iterator[str]:
    if isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    elif isinstance(node, ast.IfExp):
        yield from texts(node.body, everywhere)
        yield from texts(node.orelse, everywhere)
    else:
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        assert everywhere.get(name), f"{ast.unparse(node)} is no text that can be read off the source"
        for value in everywhere[name]:
            yield from texts(value, everywhere)


def assignments(nodes: list[ast.AST]) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            value = node.value  # type: ignore[union-attr]
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant | ast.JoinedStr | ast.IfExp):
                found.setdefault(target.id, []).append(value)
    return found


def logged() -> set[str]:
    modules = [list(ast.walk(ast.parse(path.read_text("utf-8")))) for path in sorted(SOURCE.rglob("*.py"))]
    assigned = [assignments(nodes) for nodes in modules]
    attributes: dict[str, list[ast.expr]] = {}
    for found in assigned:
        for name, values in found.items():
            if name.startswith("_"):
                attributes.setdefault(name, []).extend(values)
    both = zip(modules, assigned, strict=True)
    return {text for nodes, found in both for text in messages(nodes, found | attributes)}


def documented_messages() -> set[str]:
    """Return the first cells of the tables of the pages, as Markdown reads them."""
    cells = re.findall(r"^\| (`.+?`) \| [A-Z]+ \|", page(*pages("logs*.md")), re.MULTILINE)
    return {
        cell.removeprefix("`` ").removesuffix(" ``") if cell.startswith("``") else cell.strip("`") for cell in cells
    }


def test_a_message_that_is_not_on_the_page_is_found() -> None:
    text = 'TEXT = "a new failure"\nlog.warning(TEXT, job=1)\nlog.info("not this one")\nlog.error(f"{1} left")'
    nodes = list(ast.walk(ast.parse(text)))
    assert set(messages(nodes, assignments(nodes))) == {"a new failure", "… left"}


def test_every_warning_and_error_of_the_log_is_documented_and_no_other() -> None:
    documented = set(documented_messages())
    assert len(documented) > 30
    assert documented == logged()
