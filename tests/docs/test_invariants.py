"""The page of invariants is complete, and every test that it names exists and says what it proves."""

import ast
import re
from functools import cache

import pytest

from tests.docs.pages import ROOT, page

QUEUE = (
    *(f"INV-{number:03}" for number in range(1, 7)),
    *(f"DEC-{number:03}" for number in range(1, 13)),
    *(f"CON-{number:03}" for number in range(1, 5)),
    *(f"RISK-{number}" for number in range(1, 6)),
)
RULINGS = tuple(f"R-{number:02}" for number in range(1, 32))
PARTS = ("Unit", "Integration", "Error case")
UNPROVED = ("Overruled", "Not there yet")
NAMED = re.compile(r"\b(?:INV|DEC|CON)-\d{3}\b|\bRISK-\d\b|\bR-\d\d\b")
PROOF = re.compile(r"`([\w/]+\.py)::(\w+)`")


def sections() -> dict[str, str]:
    """Return the text of each section by its identifier, or its first word."""
    parts = re.split(r"^### ", page("internals/invariants.md"), flags=re.MULTILINE)[1:]
    return {part.split()[0]: re.split(r"^## ", part, flags=re.MULTILINE)[0] for part in parts}


def built() -> list[str]:
    """Return the identifiers whose sections must name proofs."""
    return [name for name, text in sections().items() if not any(f"{name} {word}" in text for word in UNPROVED)]


@cache
def told_by(file: str) -> dict[str, str]:
    """Return name -> name and docstrings of every test in a file, that of the file included."""
    path = ROOT / "tests" / file
    tree = ast.parse(path.read_text("utf-8")) if path.exists() else ast.Module([], [])
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    file_says = ast.get_docstring(tree) or ""
    return {node.name: f"{node.name} {ast.get_docstring(node) or ''} {file_says}" for node in found}


def cites(text: str, name: str) -> bool:
    """Return whether a test says that it is about this identifier: `INV-003` in words, `_inv_003` or `r03` in a name.

    A range names what lies in it.
    """
    kind, number = name.split("-")
    spelt = re.search(rf"\b{name}\b|(?:\b|_){kind.lower()}_?{number}(?:\b|_)", text)
    ranges = re.findall(rf"\b{kind}-(\d+) to {kind}-(\d+)\b", text)
    return spelt is not None or any(int(first) <= int(number) <= int(last) for first, last in ranges)


def test_every_identifier_has_its_section() -> None:
    coming = set(NAMED.findall(page("internals/invariants.md").partition("## Not there yet")[2]))
    assert set(QUEUE) - set(sections()) == set()
    assert set(RULINGS) - set(sections()) == coming


def test_every_identifier_that_a_test_names_has_its_section() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py") if path.parent.name != "docs"]
    named = {name for text in texts for name in NAMED.findall(text)}
    assert len(named) > 40
    assert named - set(sections()) == set()


@pytest.mark.parametrize("name", QUEUE)
def test_what_the_queue_promises_has_a_unit_test_an_integration_test_and_an_error_case(name: str) -> None:
    if name not in built():
        assert name in ("DEC-003", "DEC-009", "CON-004", "RISK-5")
        return
    lines = re.split(r"^- ", sections()[name], flags=re.MULTILINE)
    parts = {line.partition(":")[0]: line for line in lines}
    assert "Enforced by" in parts
    assert [part for part in PARTS if not PROOF.search(parts.get(part, ""))] == []


def test_everything_that_is_built_names_a_proof() -> None:
    assert [name for name in built() if not PROOF.search(sections()[name])] == []


def test_every_proof_is_a_test_that_exists() -> None:
    proofs = PROOF.findall(page("internals/invariants.md"))
    assert len(proofs) > 100
    assert [f"{file}::{test}" for file, test in proofs if test not in told_by(file)] == []


def test_every_proof_says_what_it_proves() -> None:
    silent = [
        f"{file}::{test} does not name {name}"
        for name, text in sections().items()
        if NAMED.fullmatch(name)
        for file, test in PROOF.findall(text)
        if not cites(told_by(file).get(test, ""), name)
    ]
    assert silent == []


def test_every_file_that_enforces_something_exists() -> None:
    lines = re.findall(r"^- Enforced by:.*?(?=^- |^#|\Z)", page("internals/invariants.md"), re.MULTILINE | re.DOTALL)
    files = {name for line in lines for name in re.findall(r"`([\w/]+\.py)`", line)}
    queries = {name for line in lines for name in re.findall(r"`(\w+\.sql)`", line)}
    assert len(files) > 40
    source = ROOT / "src" / "rota"
    assert [name for name in sorted(files) if not (source / name).exists()] == []
    known = {file.name for file in (source / "store" / "sql").rglob("*.sql")}
    assert sorted(queries - known) == []
