"""The SQL files: each is used, holds one statement, and gets exactly the parameters that it names."""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import apsw

import rota
from rota.store.queries import load_migrations, load_queries

SOURCE = Path(rota.__file__).parent
QUERIES = load_queries("sqlite")
METHODS = {"rows", "row", "execute", "records"}
NAME = re.compile(r"[a-z]+(_[a-z]+)*")
PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
TEXT_OR_COMMENT = re.compile(r"'[^']*'|--[^\n]*")


@dataclass(frozen=True)
class Use:
    """A call in the source that names a query."""

    query: str
    place: str
    params: frozenset[str]
    complete: bool


def uses_in(file: Path) -> list[Use]:
    found = []
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS):
            continue
        first = node.args[0] if node.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str) and NAME.fullmatch(first.value):
            names = [keyword.arg for keyword in node.keywords]
            place = f"{file.relative_to(SOURCE)}:{node.lineno}"
            found.append(Use(first.value, place, frozenset(filter(None, names)), None not in names))
    return found


@cache
def uses() -> list[Use]:
    return [use for file in sorted(SOURCE.rglob("*.py")) for use in uses_in(file)]


def parameters(statement: str) -> set[str]:
    return set(PARAMETER.findall(TEXT_OR_COMMENT.sub("", statement)))


def test_every_query_that_the_source_names_has_its_file():
    assert {f"{use.place} {use.query}" for use in uses() if use.query not in QUERIES} == set()


def test_every_query_file_is_used():
    assert set(QUERIES) - {use.query for use in uses()} == set()


def test_every_use_passes_the_parameters_that_the_query_names():
    for use in uses():
        named = parameters(QUERIES[use.query])
        if use.complete:
            assert use.params == named, f"{use.place} {use.query}"
        else:
            assert use.params <= named, f"{use.place} {use.query}"


def test_every_query_file_holds_one_statement():
    for name, text in QUERIES.items():
        statement = TEXT_OR_COMMENT.sub("", text)
        assert ";" not in statement, name
        assert statement.split()[0] in ("SELECT", "INSERT", "UPDATE", "DELETE"), name


def test_every_query_fits_the_schema():
    connection = apsw.Connection(":memory:")
    for _, _, script in load_migrations("sqlite"):
        connection.execute(script).fetchall()
    refused = {}
    for name, text in QUERIES.items():
        try:
            connection.execute(f"EXPLAIN {text}", dict.fromkeys(parameters(text), 1)).fetchall()
        except apsw.Error as error:
            refused[name] = str(error)
    assert refused == {}


def test_migrations_are_numbered_without_a_gap():
    assert [number for number, _, _ in load_migrations("sqlite")] == list(range(1, len(load_migrations("sqlite")) + 1))
