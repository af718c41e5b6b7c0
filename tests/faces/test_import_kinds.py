"""Each kind of import, with a source of every feature: the new file and the report are those of the golden files.

After a change that is meant, `python -m tests.faces.test_import_kinds` writes the golden files anew.
"""

import json
import re
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rota.cli.commands.transfer import KINDS
from rota.cli.invocation import Invocation
from rota.cli.main import cli
from rota.engine.clock import SystemClock

FOLDER = Path(__file__).parents[1] / "unit" / "declare" / "imports"
NOW = datetime(2026, 11, 18, 20, 30, tzinfo=UTC)
SOURCES = {
    "crontab": "crontab",
    "anacron": "anacron",
    "systemd": "systemd",
    "launchd": "launchd.plist",
    "github": "github.yml",
    "claude": "claude.json",
    "openclaw": "openclaw.json",
    "hermes": "hermes.json",
    "herdctl": "herdctl/herdctl.yaml",
    "jobs": "jobs.yml",
}


class Clock(SystemClock):
    """A clock that stands still."""

    def now(self) -> datetime:
        return NOW


def typed(home: Path, *arguments: str, folder: Path = FOLDER, zone: str = "Europe/Berlin", stdin: str = "") -> Result:
    invocation = Invocation({"TZ": zone, "HOME": str(home)}, folder, Clock())
    return CliRunner().invoke(cli, arguments, obj=invocation, input=stdin)


def test_each_kind_has_a_golden_file() -> None:
    assert set(SOURCES) == set(KINDS)


@pytest.mark.parametrize("kind", SOURCES)
def test_the_new_file_and_the_report_are_the_golden_ones(kind: str, tmp_path: Path) -> None:
    result = typed(tmp_path, "import", kind, SOURCES[kind])
    assert result.exit_code == 0, result.output
    assert result.stdout == (FOLDER / f"{kind}.golden.yaml").read_text()
    assert result.stderr == (FOLDER / f"{kind}.golden.txt").read_text()


@pytest.mark.parametrize("kind", SOURCES)
def test_the_new_file_passes_the_check(kind: str, tmp_path: Path) -> None:
    text = (FOLDER / f"{kind}.golden.yaml").read_text()
    if kind == "jobs":  # the modules of its functions are not in such a file: the report asks for them
        functions = re.findall(r"run: (\w+)", text)
        registered = "".join(f"@rota.job({name!r})\ndef {name}():\n    pass\n" for name in functions)
        (tmp_path / "registry.py").write_text(f"import rota\n{registered}")
        text = f"imports: [registry]\n{text}"
    (tmp_path / "rota.yaml").write_text(text)
    result = typed(tmp_path, "check", "--json", folder=tmp_path)
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)["jobs"]) > 0


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_in_other_zones_only_clock_changes_make_a_difference(kind: str, zone: str, tmp_path: Path) -> None:
    found = json.loads(typed(tmp_path, "import", kind, SOURCES[kind], "--json", zone=zone).stdout)
    assert found["compared"] > 0
    assert found["differences"] == [] or zone != "UTC"


@pytest.mark.parametrize("kind", sorted(set(SOURCES) - {"crontab", "anacron", "systemd"}))
@pytest.mark.parametrize("content", ["", "{", "[1]", "- x\n- y\n", "\x00", "jobs: 1\n", '{"jobs": [1, null, {}]}'])
def test_another_file_is_refused_with_its_place(kind: str, content: str, tmp_path: Path) -> None:
    result = typed(tmp_path, "import", kind, "-", stdin=content)
    assert (result.exit_code, result.stdout) == (65, "")
    assert result.stderr.startswith(f"{kind}:") or " " in result.stderr.split(":")[0]


def test_several_files_are_one_project_and_remarks_name_their_file(tmp_path: Path) -> None:
    for name, hour in (("a", "1"), ("b", "2")):
        text = (FOLDER / "launchd.plist").read_text().replace("<integer>7</integer>", f"<integer>{hour}</integer>")
        (tmp_path / f"{name}.plist").write_text(text)
    result = typed(tmp_path, "import", "launchd", ".", folder=tmp_path)
    assert "  brew-update:\n" in result.stdout
    assert "  brew-update-2:\n" in result.stdout
    assert "  b.plist:13  Nice has no counterpart\n" in result.stderr


def test_one_file_only_where_a_kind_has_one(tmp_path: Path) -> None:
    assert typed(tmp_path, "import", "hermes", "hermes.json", "hermes.json").exit_code == 2


def test_what_systemctl_cat_prints_is_read(tmp_path: Path) -> None:
    text = "".join(
        f"# /etc/systemd/system/{name}\n{(FOLDER / 'systemd' / name).read_text()}\n"
        for name in ("backup.timer", "backup.service")
    )
    result = typed(tmp_path, "import", "systemd", stdin=text)
    assert result.exit_code == 0
    assert "  backup:\n" in result.stdout


def test_a_task_of_claude_in_a_file_of_its_own_has_no_times(tmp_path: Path) -> None:
    text = "---\nname: morning-briefing\ndescription: News\n---\nRead the news.\n"
    result = typed(tmp_path, "import", "claude", stdin=text)
    assert "  morning-briefing:\n    prompt: Read the news.\n    description: News\n" in result.stdout
    assert "write `cron:` into the job" in result.stderr


def write_golden_files() -> None:
    """Write what is printed now."""
    with tempfile.TemporaryDirectory() as home:
        for kind, source in SOURCES.items():
            result = typed(Path(home), "import", kind, source)
            (FOLDER / f"{kind}.golden.yaml").write_text(result.stdout)
            (FOLDER / f"{kind}.golden.txt").write_text(result.stderr)


if __name__ == "__main__":
    write_golden_files()
