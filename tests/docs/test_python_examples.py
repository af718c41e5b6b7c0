"""The Python of the pages is true: it compiles, and what calls itself a test passes."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mypy import api

from tests.docs.pages import blocks

PYTHON = dict(blocks("python"))
TESTS = [place for place, text in PYTHON.items() if "\ndef test_" in text]


@pytest.mark.parametrize("place", PYTHON)
def test_an_example_compiles(place: str) -> None:
    compile(PYTHON[place], place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("place", TESTS)
def test_an_example_that_is_a_test_passes(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(PYTHON[place], place, "exec"), names)
    called: list[Callable[[], None]] = [value for name, value in names.items() if name.startswith("test_")]
    for example in called:
        example()
    assert called


def test_the_first_program_that_embeds_rota_passes_strict_type_checks(tmp_path: Path) -> None:
    first = next(text for place, text in PYTHON.items() if place.startswith("embedding.md"))
    assert "async with scheduler" in first
    (tmp_path / "first.py").write_text(first)
    told = api.run(["--strict", "--config-file=", f"--cache-dir={tmp_path / 'cache'}", str(tmp_path / "first.py")])
    assert told == ("Success: no issues found in 1 source file\n", "", 0)


def test_there_are_examples_that_are_tests() -> None:
    assert {place.partition(":")[0] for place in TESTS} == {"embedding.md", "testing-agents.md"}
