"""What a module registers and defines is read from its source; nothing of it runs."""

from pathlib import Path

import pytest

from rota.declare.module_source import MAX_SOURCE_BYTES, SourceFinder

BOMB = "raise AssertionError('this code ran')\n"
CHORES = f"""
import rota
from rota import condition as gate

@rota.job("sweep")
def clean(ctx): ...

@rota.job
async def dust(ctx): ...

@gate("open", needs_poll=True)
def is_open(ctx): ...

@rota.agent("clerk", max_concurrent=2)
async def ask(task): ...

@rota.source("board")
class Board:
    def peek(self): ...

class Broom:
    def sweep(self): ...

{BOMB}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "chores.py").write_text(CHORES)
    return tmp_path


def finder(folder: Path, *imports: str, elsewhere: bool = False) -> SourceFinder:
    return SourceFinder(folder, imports, elsewhere=elsewhere)


def test_the_names_of_decorators_are_found_without_running_the_module(folder: Path) -> None:
    found = finder(folder, "chores").find(["sweep", "dust"], ["open"], ["board"])
    assert found.missing == {}
    assert found.needing_poll == {"open"}
    agents = finder(folder, "chores").agents()
    assert agents is not None
    assert agents["clerk"].keys == {"max_concurrent": 2}


def test_a_name_that_the_source_does_not_register_is_missing_with_the_nearest_one(folder: Path) -> None:
    missing = finder(folder, "chores").find(["swep"], ["opn"]).missing
    assert 'no function is named "swep"' in missing["swep"]
    assert "sweep" in missing["swep"]
    assert "open" in missing["opn"]


@pytest.mark.parametrize(
    ("written", "missing"),
    [
        ("chores:clean", False),
        ("chores:Broom.sweep", False),
        ("chores:cleen", True),
        ("chores:Broom.swep", True),
        ("chores:Board.look", False),
        ("nothing_here:clean", True),
        ("os.path:join", False),
        ("os:gone_from_here", False),
    ],
)
def test_a_function_of_a_module_is_looked_for_in_its_source(folder: Path, written: str, missing: bool) -> None:
    """What the source cannot tell counts as there: `os` and decorated classes define more when they run."""
    assert (written in finder(folder).find([written], []).missing) is missing


def test_a_module_that_is_not_there_or_is_no_python_is_told_as_an_import_would(folder: Path) -> None:
    (folder / "wrong.py").write_text("def (:\n")
    missing = finder(folder, "chore", "wrong").find([], []).missing
    assert 'cannot import "chore"' in missing["chore"]
    assert "chores" in missing["chore"]
    assert 'cannot import "wrong": SyntaxError' in missing["wrong"]
    assert finder(folder, "wrong").agents() is None


def test_modules_that_a_module_imports_are_read_too(folder: Path) -> None:
    package = folder / "work"
    package.mkdir()
    (package / "__init__.py").write_text("from . import inner\nimport chores\n" + BOMB)
    (package / "inner.py").write_text("import rota\n@rota.job\ndef deep(): ...\n")
    assert finder(folder, "work").find(["deep", "sweep", "work:inner.deep"], []).missing == {}


@pytest.mark.parametrize(
    "line",
    [
        "from somewhere import *",
        "exec('x = 1')",
        "register_all()",
        "for name in ('a', 'b'): rota.job(name)(print)",
        "@company.job\ndef f(): ...",
        "NAME = 'a'\n@rota.job(NAME)\ndef f(): ...",
        "def __getattr__(name): ...",
    ],
)
def test_where_the_source_does_not_tell_every_name_none_is_called_missing(folder: Path, line: str) -> None:
    (folder / "clever.py").write_text(f"import rota\nimport company\n{line}\n")
    assert finder(folder, "clever").find(["anything", "clever:anything"], ["any"]).missing == {}
    assert finder(folder, "clever").agents() == {}


def test_a_script_below_its_main_line_is_no_part_of_the_module(folder: Path) -> None:
    (folder / "script.py").write_text("def go(): ...\nif __name__ == '__main__':\n    go()\n")
    assert "script:gone" in finder(folder).find(["script:gone"], []).missing


def test_a_module_too_large_to_read_may_define_anything(folder: Path) -> None:
    (folder / "large.py").write_text("#" * (MAX_SOURCE_BYTES + 1))
    assert finder(folder, "large").find(["anything", "large:anything"], []).missing == {}


def test_modules_of_another_interpreter_that_are_not_in_the_folder_are_not_called_missing(folder: Path) -> None:
    found = finder(folder, "only_there", elsewhere=True).find(["only_there:f", "chores:cleen"], [])
    assert set(found.missing) == {"chores:cleen"}
