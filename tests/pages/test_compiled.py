"""Templates are kept compiled, and are never older than their text."""

import sys
from pathlib import Path

import pytest
from jinja2 import Environment, FileSystemLoader

from rota.http.pages.components import Compiled


def rendered(folder: Path) -> str:
    """Return a template as a new process would fill it."""
    made = Environment(loader=FileSystemLoader(folder), bytecode_cache=Compiled(str(folder)), autoescape=True)
    return made.get_template("page.html").render(name="<b>")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a template."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "page.html").write_text("hello {{ name }}")
    return tmp_path


def kept(folder: Path) -> list[Path]:
    return list((folder / "__pycache__").glob("*"))


def test_a_template_is_kept_compiled_and_read_again(folder: Path) -> None:
    assert rendered(folder) == "hello &lt;b&gt;"
    (place,) = kept(folder)
    written = place.stat().st_mtime_ns
    assert rendered(folder) == "hello &lt;b&gt;"
    assert [(one, one.stat().st_mtime_ns) for one in kept(folder)] == [(place, written)]


def test_a_template_that_was_changed_is_compiled_anew(folder: Path) -> None:
    rendered(folder)
    (folder / "page.html").write_text("good morning {{ name }}")
    assert rendered(folder) == "good morning &lt;b&gt;"


def test_what_was_kept_and_is_spoiled_is_compiled_anew(folder: Path) -> None:
    rendered(folder)
    (place,) = kept(folder)
    place.write_bytes(place.read_bytes()[:-20])
    assert rendered(folder) == "hello &lt;b&gt;"


def test_where_nothing_can_be_written_a_page_comes_all_the_same(folder: Path) -> None:
    (folder / "__pycache__").write_text("no folder")
    assert rendered(folder) == "hello &lt;b&gt;"


def test_who_wishes_no_compiled_files_gets_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert rendered(folder) == "hello &lt;b&gt;"
    assert kept(folder) == []
