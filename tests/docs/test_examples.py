"""The examples of the pages are true: files pass the real check, previews are what rota prints."""

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from rota.cli.main import cli
from rota.declare.project import read_project
from rota.model.errors import FileProblems
from rota.model.spec import Names
from tests.docs.pages import blocks

YAML = dict(blocks("yaml"))
PREVIEWS = {
    f"{place} {line}": (line, answer)
    for place, text in blocks("text")
    for line, answer in re.findall(r"^\$ (rota next --\S.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)
}


class EveryName:
    """Knows every function, condition and work source: the examples name those of their readers."""

    def find(self, functions: Sequence[str], conditions: Sequence[str], sources: Sequence[str] = ()) -> Names:
        return Names()


def check(folder: Path, text: str) -> int:
    (folder / "rota.yaml").write_text(text, "utf-8")
    return len(read_project(folder, environment={}, functions=EveryName()).jobs)


@pytest.mark.parametrize("place", YAML)
def test_an_example_file_passes_the_real_check(place: str, tmp_path: Path) -> None:
    assert check(tmp_path, YAML[place]) > 0


def test_a_wrong_example_would_be_found(tmp_path: Path) -> None:
    assert len(YAML) > 8
    with pytest.raises(FileProblems):
        check(tmp_path, YAML[next(iter(YAML))].replace("cron:", "every:"))


@pytest.mark.parametrize("place", PREVIEWS)
def test_a_preview_is_what_rota_prints(place: str) -> None:
    line, answer = PREVIEWS[place]
    printed = CliRunner().invoke(cli, shlex.split(line)[1:]).output
    if "--json" in line:
        assert json.loads(printed) == json.loads(answer)
    else:
        assert printed == answer


def test_there_are_previews_to_compare() -> None:
    assert len(PREVIEWS) >= 2
