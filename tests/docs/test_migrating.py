"""The page on jobs.yaml shows what `rota import` prints and the file of the example, and leaves no job or key out."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from rota.cli.invocation import Invocation
from rota.cli.main import cli
from rota.engine.clock import SystemClock
from tests.docs.pages import ROOT, first_cells, page
from tests.jobs_file import DOCUMENT

PAGE = page("migrating-from-jobs-yaml.md")
EXAMPLE = (ROOT / "examples" / "octopoid" / "rota.yaml").read_text()
SCHEMA = ("interval", "type", "run", "prompt", "model", "max_turns", "allowed_tools", "group", "conditions", "enabled")


def test_the_report_is_what_is_printed(tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text(DOCUMENT)
    invocation = Invocation({"TZ": "UTC", "HOME": str(tmp_path)}, tmp_path, SystemClock())
    result = CliRunner().invoke(cli, ["import", "jobs", "jobs.yaml"], obj=invocation)
    assert result.exit_code == 0
    assert f"> rota.yaml\n{result.stderr}```" in PAGE


def test_the_file_is_the_examples() -> None:
    assert f"```yaml\n{EXAMPLE}```" in PAGE


@pytest.mark.parametrize("name", re.findall(r"^  (\w+):$", DOCUMENT, re.MULTILINE))
def test_every_job_of_the_document_has_its_row(name: str) -> None:
    assert name in first_cells(PAGE)
    assert f"  {name}:" in EXAMPLE.replace("# ", "")


def test_every_key_of_the_document_has_its_row() -> None:
    assert set(SCHEMA) <= first_cells(PAGE)
