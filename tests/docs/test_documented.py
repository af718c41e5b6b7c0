"""Every command, option, key, reason and code is explained on its page."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import click
import pytest

import rota
from rota.agents.registry import adapter, names
from rota.cli.main import COMMANDS, cli
from rota.declare.problems import PROBLEM_CODES
from rota.declare.schema import json_schema
from rota.model.errors import RotaError
from rota.model.states import REASONS, Held, Status, WaitingFor
from rota.operations.project.edit import AGENTS
from tests.docs.pages import COMMAND_PAGES, PAGES, first_cells, page, pages, words


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


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_and_its_options_are_documented(name: str) -> None:
    section = re.search(rf"^### `rota {name}`$(.*?)(?=^##|\Z)", page(*COMMAND_PAGES), re.MULTILINE | re.DOTALL)
    assert section, f"docs/commands*.md have no section on rota {name}"
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
    told = words(page(*pages("configuration*.md"), *pages("*-keys.md")))
    assert {key for key in found - told if not any(f"{{{key}: " in word for word in told)} == set()


def test_every_status_reason_and_wait_is_explained() -> None:
    reasons = {reason.value for listed in REASONS.values() for reason in listed}
    needed = reasons | {*map(str, Status), *map(str, WaitingFor), *map(str, Held)}
    assert needed - first_cells(page("reasons.md", "waiting.md")) == set()


def test_every_error_code_is_explained() -> None:
    for module in pkgutil.walk_packages(rota.__path__, "rota."):
        if module.name.startswith(("rota.model", "rota.operations", "rota.store")):
            importlib.import_module(module.name)
    codes = {kind.code for kind in errors() if kind.__module__.startswith("rota.")} | set(PROBLEM_CODES)
    assert len(codes) > 50
    assert (
        codes
        - first_cells(page("errors.md", "errors-agents.md", "errors-system.md", "http-errors.md", "file-problems.md"))
        == set()
    )


def test_the_tables_of_adapters_name_the_adapters_that_they_are_about() -> None:
    tables = re.findall(r"^\| adapter \|.*\n((?:\|.*\n)+)", page("adapters.md"), re.MULTILINE)
    programs_and_custom = {name for name in names() if adapter(name).run is None}
    trusting = {name for name in names() if adapter(name).capabilities.trust}
    every = set(names())
    assert [first_cells(table) for table in tables] == [every, every, programs_and_custom, trusting, every]


def test_init_and_the_configuration_page_name_the_same_adapters() -> None:
    assert tuple(name for name in names() if adapter(name).executable) == AGENTS
    rows = [line for line in page("configuration-agents.md").splitlines() if line.startswith("| `adapter` |")]
    assert set(names()) <= words(rows[0])
