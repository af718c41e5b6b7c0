"""The examples in docstrings are true."""

import doctest
import importlib
from pathlib import Path

import pytest

import rota

SOURCE = Path(rota.__file__).parent
WITH_EXAMPLES = [path for path in sorted(SOURCE.rglob("*.py")) if ">>> " in path.read_text("utf-8")]


def test_there_are_examples() -> None:
    assert len(WITH_EXAMPLES) > 20


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_the_examples_of_a_module_are_true(path: Path) -> None:
    name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    assert doctest.testmod(importlib.import_module(name)).failed == 0
