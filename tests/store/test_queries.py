"""The SQL: each query is used, is one statement, gets exactly the parameters that it names, fits its database."""

import ast
import re
from functools import cache
from pathlib import Path

import apsw
import pytest
from msgspec import Struct

import rota
from rota.store.migrate import HISTORY
from rota.store.queries import load_migrations, load_queries, split_queries

pytestmark = pytest.mark.xdist_group("queries")  # all of them look at the whole source: one process reads it once

SOURCE = Path(rota.__file__).parent
SQL = SOURCE / "store" / "sql"
QUERIES = load_queries("sqlite")
LOCKING = load_queries("postgres", writing=True)
BACKENDS = ("sqlite", "postgres")
METHODS = {"rows", "row", "execute", "records", "defer", "prefetch"}
FUNCTIONS = {"value_of", "instant_of"}
NAME = re.compile(r"[a-z]+(_[a-z]+)*")
PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
STATUS_CHANGE = re.compile(
    r"\bINSERT INTO (?:live|ended)\b|\bUPDATE live\b(?:(?!\bWHERE\b).)*\bSET\b(?:(?!\bWHERE\b).)*\bstate = ",
    re.DOTALL,
)
TEXT_OR_COMMENT = re.compile(r"'[^']*'|--[^\n]*")


class Use(Struct, frozen=True):
    """A call in the source that names a query."""

    query: str
    place: str
    params: frozenset[str]
    complete: bool


@cache
def calls() -> list[tuple[Path, ast.Call]]:
    """Return the calls in the source, each with its file."""
    trees = [(file, ast.parse(file.read_text("utf-8"))) for file in sorted(SOURCE.rglob("*.py"))]
    return [(file, node) for file, tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]


@cache
def uses() -> list[Use]:
    found = []
    for file, node in calls():
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            first = node.args[0] if node.args else None
        elif isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
            first = node.args[1] if len(node.args) > 1 else None
        else:
            continue
        if isinstance(first, ast.Constant) and isinstance(first.value, str) and NAME.fullmatch(first.value):
            names = [keyword.arg for keyword in node.keywords]
            place = f"{file.relative_to(SOURCE)}:{node.lineno}"
            found.append(Use(first.value, place, frozenset(filter(None, names)), None not in names))
    return found


def texts_passed_on() -> set[str]:
    """Return the texts that the source passes to functions: some of them run the query of that name."""
    return {str(arg.value) for _, call in calls() for arg in call.args if isinstance(arg, ast.Constant)}


def parameters(statement: str) -> set[str]:
    return set(PARAMETER.findall(bare(statement)))


def bare(statement: str) -> str:
    """Return a statement without comments and texts: nothing where there is nothing to do."""
    return TEXT_OR_COMMENT.sub("", statement).strip()


def queries_in(folder: Path) -> dict[str, str]:
    """Return name -> statement of the files in one folder; no name stands twice."""
    found = [one for file in folder.glob("*.sql") for one in split_queries(file.read_text("utf-8")).items()]
    assert len(found) == len(dict(found))
    return dict(found)


def test_every_query_that_the_source_names_is_there():
    assert {f"{use.place} {use.query}" for use in uses() if use.query not in QUERIES} == set()


def test_every_query_is_used():
    assert set(QUERIES) - {use.query for use in uses()} - texts_passed_on() == set()


def test_every_use_passes_the_parameters_that_the_query_names():
    for use in uses():
        named = parameters(QUERIES[use.query]) | parameters(LOCKING[use.query])
        if use.complete:
            assert use.params == named, f"{use.place} {use.query}"
        else:
            assert use.params <= named, f"{use.place} {use.query}"


def test_every_query_is_one_statement():
    for name, text in [*QUERIES.items(), *load_queries("postgres").items(), *LOCKING.items()]:
        statement = bare(text)
        assert ";" not in statement, name
        assert not statement or statement.split()[0] in ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "LOCK"), name


def test_a_statement_that_differs_stands_in_the_same_file_for_both_databases():
    ours, theirs = (
        {(file.name, name) for file in (SQL / backend).glob("*.sql") for name in split_queries(file.read_text("utf-8"))}
        for backend in BACKENDS
    )
    assert ours == theirs


def test_a_statement_that_both_databases_take_is_written_once():
    assert queries_in(SQL).keys() & queries_in(SQL / "sqlite").keys() == set()


def test_nothing_stands_before_the_first_name_of_a_file():
    assert [file.name for file in SQL.rglob("*.sql") if not is_migration(file) and not starts_with_name(file)] == []


def is_migration(file: Path) -> bool:
    return file.parent.name == "migrations"


def starts_with_name(file: Path) -> bool:
    return file.read_text("utf-8").startswith("-- name: ")


def test_the_status_of_a_run_changes_in_one_file_alone():
    changing = {
        file.name
        for file in SQL.rglob("*.sql")
        if not is_migration(file)
        and any(STATUS_CHANGE.search(bare(text)) for text in split_queries(file.read_text("utf-8")).values())
    }
    assert changing == {"run_states.sql"}


def test_the_statements_of_both_databases_name_the_same_parameters():
    for name in queries_in(SQL / "sqlite"):
        ours, theirs = (queries_in(SQL / backend)[name] for backend in BACKENDS)
        if bare(ours) and bare(theirs):
            assert parameters(ours) == parameters(theirs), name


def test_what_is_said_for_writing_is_said_to_postgresql_alone_and_only_then():
    assert LOCKING["group_by_id"].endswith("WHERE id = :id\nFOR NO KEY UPDATE\n")
    for texts in (load_queries("postgres"), load_queries("sqlite"), load_queries("sqlite", writing=True)):
        assert bare(texts["group_by_id"]).endswith("WHERE id = :id")


def test_every_subselect_has_a_name_since_postgresql_14_wants_one():
    nameless = {name for name, text in load_queries("postgres").items() if has_nameless_subselect(bare(text))}
    assert nameless == set()


def has_nameless_subselect(statement: str) -> bool:
    """Return whether some `FROM (...)` or `JOIN (...)` is not followed by a name."""
    for found in re.finditer(r"\b(?:FROM|JOIN|LATERAL)\s*\(", statement):
        depth, end = 1, found.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(statement[end], 0)
            end += 1
        if not re.match(r"\s+(AS\s+)?(?!WHERE|GROUP|ORDER|LIMIT|ON|JOIN|UNION)[a-z]", statement[end:]):
            return True
    return False


def test_every_query_fits_the_schema():
    connection = apsw.Connection(":memory:")
    connection.execute(HISTORY).fetchall()
    for _, _, script in load_migrations("sqlite"):
        connection.execute(script).fetchall()
    refused = {}
    for name, text in QUERIES.items():
        try:
            connection.execute(f"EXPLAIN {text}" if bare(text) else text, dict.fromkeys(parameters(text), 1)).fetchall()
        except apsw.Error as error:
            refused[name] = str(error)
    assert refused == {}


def test_migrations_are_numbered_without_a_gap():
    assert [number for number, _, _ in load_migrations("sqlite")] == list(range(1, len(load_migrations("sqlite")) + 1))
