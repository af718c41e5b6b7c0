"""Every command, option, key, reason, code and ruling is explained on its page."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import click
import pytest

import rota
from rota.cli.root import COMMANDS, cli
from rota.declare.codes import PROBLEM_CODES
from rota.declare.schema import json_schema
from rota.model.errors import RotaError
from rota.model.states import REASONS, Held, Status, WaitingFor
from tests.docs.pages import PAGES, ROOT, first_cells, page, words

RULING = re.compile(r"(?:\bR-|_r_?)(\d\d)(?!\d)")
INVARIANT = re.compile(r"\binv[-_](\d{3})\b|_inv_(\d{3})", re.IGNORECASE)
PROOF = re.compile(r"`([\w/]+\.py)::(\w+)`")


def keys(schema: Any) -> Iterator[str]:
    """Yield every key that the schema of the file names, at any depth."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for below in schema.values():
            yield from keys(below)
    elif isinstance(schema, list):
        for below in schema:
            yield from keys(below)


def errors(kind: type[RotaError] = RotaError) -> Iterator[type[RotaError]]:
    for below in kind.__subclasses__():
        yield below
        yield from errors(below)


def named_by_tests(pattern: re.Pattern[str]) -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("*.py"):
        if path.parent.name != "docs":
            found |= {next(filter(None, match)) for match in map(re.Match.groups, pattern.finditer(path.read_text()))}
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_and_its_options_are_documented(name: str) -> None:
    section = re.search(rf"^### `rota {name}`$(.*?)(?=^##|\Z)", page("commands.md"), re.MULTILINE | re.DOTALL)
    assert section, f"docs/commands.md has no section on rota {name}"
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    shared = {"--json", "--dir"}
    options = {option for param in command.params for option in param.opts if option.startswith("-")}
    missing = {option for option in options - shared if not re.search(rf"{option}(?![\w-])", section[1])}
    assert missing == set()


def test_no_page_names_a_command_that_is_not_there() -> None:
    texts = {path.name: path.read_text("utf-8") for path in PAGES}
    named = {
        (name, word)
        for name, text in texts.items()
        for word in re.findall(r"(?:`|^\$ )rota ([a-z]+)", text, re.MULTILINE)
    }
    assert len(named) > 30
    assert {(name, word) for name, word in named if word not in COMMANDS} == set()


def test_every_key_of_the_file_is_documented() -> None:
    found = set(keys(json_schema()))
    assert {"timezone", "cron", "concurrency", "skipped_count"} <= found
    told = words(page("configuration.md"))
    assert {key for key in found - told if not any(f"{{{key}: " in word for word in told)} == set()


def test_every_status_reason_and_wait_is_explained() -> None:
    reasons = {reason.value for listed in REASONS.values() for reason in listed}
    needed = reasons | {*map(str, Status), *map(str, WaitingFor), *map(str, Held)}
    assert needed - first_cells(page("reasons.md")) == set()


def test_every_error_code_is_explained() -> None:
    for module in pkgutil.walk_packages(rota.__path__, "rota."):
        if module.name.startswith(("rota.model", "rota.operations", "rota.store")):
            importlib.import_module(module.name)
    codes = {kind.code for kind in errors() if kind.__module__.startswith("rota.")} | set(PROBLEM_CODES)
    assert len(codes) > 50
    assert codes - first_cells(page("reasons.md")) == set()


def test_every_ruling_and_invariant_that_tests_name_has_its_section() -> None:
    rulings, invariants = named_by_tests(RULING), named_by_tests(INVARIANT)
    assert len(rulings) > 20
    assert len(invariants) == 6
    sections = set(re.findall(r"^### (R-\d\d|INV-\d{3}) ", page("invariants.md"), re.MULTILINE))
    named = {f"R-{number}" for number in rulings} | {f"INV-{number}" for number in invariants}
    assert named - sections == set()


def test_every_ruling_of_the_page_names_a_proof() -> None:
    sections = re.split(r"^### ", page("invariants.md"), flags=re.MULTILINE)[1:]
    assert [section.split("\n")[0] for section in sections if not PROOF.search(section)] == []


def test_every_proof_is_a_test_that_exists() -> None:
    proofs = PROOF.findall(page("invariants.md"))
    assert len(proofs) > 50
    missing = []
    for file, test in proofs:
        path = ROOT / "tests" / file
        if not path.exists() or not re.search(rf"def {test}\(", path.read_text()):
            missing.append(f"{file}::{test}")
    assert missing == []


def test_every_file_that_enforces_something_exists() -> None:
    lines = re.findall(r"^- Enforced by:.*?(?=^- )", page("invariants.md"), re.MULTILINE | re.DOTALL)
    files = {name for line in lines for name in re.findall(r"`([\w/]+\.py)`", line)}
    assert len(files) > 15
    assert [name for name in sorted(files) if not (ROOT / "src" / "rota" / name).exists()] == []
