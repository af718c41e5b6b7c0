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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

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


def test_a_fleet_of_fleets_is_read_each_path_from_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "api" / "agents").mkdir(parents=True)
    (tmp_path / "top.yaml").write_text(
        "defaults: {model: sonnet}\nfleets: [{path: api/fleet.yaml}, {path: none.yaml}]\n"
    )
    (tmp_path / "api" / "fleet.yaml").write_text(
        "fleet: {name: api}\nagents: [{path: agents/a.yaml}]\nfleets: [{path: ../top.yaml}]\n"
    )
    (tmp_path / "api" / "agents" / "a.yaml").write_text(
        "name: fixer\nidentity: {name: Bo}\npermissions: {allowed_tools: [Read]}\n"
        "schedules: {often: {type: interval, interval: 1h}, night: {type: cron, cron: 30 2 * * *}}\n"
    )
    result = typed(tmp_path, "import", "herdctl", "top.yaml", folder=tmp_path)
    made = YAML(typ="safe").load(result.stdout)
    assert sorted(made["jobs"]) == ["api-fixer-night", "api-fixer-often"]
    agent = made["agents"]["api-fixer"]
    assert (agent["model"], agent["allowed_tools"], agent["system_prompt"]) == ("sonnet", ["Read"], "Your name: Bo.")
    assert "the fleet none.yaml cannot be read" in result.stderr
    assert "api/fleet.yaml:3  the fleet top.yaml contains itself" in result.stderr
    assert "api/agents/a.yaml:4  api-fixer-night fires at 2027-03-28T01:00:00Z, herdctl at" in result.stderr


def test_each_step_of_a_workflow_has_a_shell_of_its_own(tmp_path: Path) -> None:
    text = (
        "on: {schedule: [{cron: 0 5 * * *}]}\ndefaults: {run: {working-directory: my app}}\njobs:\n  a:\n"
        "    runs-on: x\n    concurrency: one\n    steps: [{run: cd sub; exit 0}, {run: ls}]\n"
    )
    result = typed(tmp_path, "import", "github", stdin=text)
    assert YAML(typ="safe").load(result.stdout)["jobs"]["a"]["shell"] == (
        "(\ncd 'my app'\ncd sub; exit 0\n)\n(\ncd 'my app'\nls\n)\n"
    )
    assert "a: `concurrency` is not mapped" in result.stderr


def test_a_command_of_systemd_means_the_same_in_a_shell(tmp_path: Path) -> None:
    (tmp_path / "x.timer").write_text("[Unit]\nConditionACPower=true\n[Timer]\nOnCalendar=hourly\n")
    (tmp_path / "x.service").write_text(
        "[Service]\nExecStart=/bin/sh -c \"echo ${A} $$ %h\"\nExecStart=@/bin/echo zero 'a b' ; :/bin/p $B\n"
        "ExecStart=-/usr/bin/awk '{print $$1}' $OPTS\n"
    )
    result = typed(tmp_path, "import", "systemd", "x.timer", folder=tmp_path)
    assert YAML(typ="safe").load(result.stdout)["jobs"]["x"]["shell"].splitlines() == [
        """/bin/sh -c 'echo '"${A}"' $ '"${HOME}\"""",
        "/bin/echo 'a b'",
        "/bin/p '$B'",
        "/usr/bin/awk '{print $1}' $OPTS || true",
    ]
    assert "ConditionACPower=true has no counterpart" in result.stderr


def test_a_difference_without_a_change_of_clocks_does_not_blame_them(tmp_path: Path) -> None:
    job = '{"name": "a", "schedule": {"everyMs": 90500}, "payload": {"kind": "agentTurn", "message": "x"}}'
    result = typed(tmp_path, "import", "openclaw", stdin=f"[{job}]")
    assert "a: everyMs 90500 is written as 90s: an interval has whole seconds" in result.stderr
    assert "a fires at 2026-11-18T20:31:30Z, OpenClaw at 2026-11-18T20:31:30.500Z\n" in result.stderr


RUBBISH = {
    "openclaw": '{"jobs": [{"name": "a", "schedule": {"kind": "every", "everyMs": 1e999}}, {"name": "b", "schedule":'
    ' {"kind": "at", "at": 1e18}}, {"name": "c", "schedule": {"kind": "at", "at": 10000000000000000000000}}, GOOD]}',
    "hermes": '{"jobs": [7, {"schedule": []}, {"schedule": {"kind": "interval", "minutes": true}}, GOOD]}',
    "claude": '{"tasks": [{"cron": 5}, {"cron": "* * * * *", "prompt": "x", "recurring": 1, "createdAt": 1e30}, GOOD]}',
}
GOOD = {
    "openclaw": '{"name": "good", "schedule": {"kind": "cron", "expr": "0 5 * * *"},'
    ' "payload": {"kind": "agentTurn", "message": "x"}}',
    "hermes": '{"name": "good", "prompt": "x", "schedule": {"kind": "cron", "expr": "0 5 * * *"}}',
    "claude": '{"cron": "0 5 * * *", "prompt": "good", "createdAt": 1000000000000000000000000}',
}


@pytest.mark.parametrize("kind", RUBBISH)
def test_values_of_no_kind_cost_their_own_entry_alone(kind: str, tmp_path: Path) -> None:
    text = RUBBISH[kind].replace("GOOD", GOOD[kind])
    result = typed(tmp_path, "import", kind, stdin=text)
    assert result.exit_code == 0, result.output
    assert "  good:\n" in result.stdout


@pytest.mark.parametrize("kind", SOURCES)
@settings(max_examples=8, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_content_crashes_an_import(kind: str, data: st.DataObject, tmp_path: Path) -> None:
    source = FOLDER / SOURCES[kind]
    lines = b"".join(_headed(file) for file in sorted(source.iterdir())) if source.is_dir() else source.read_bytes()
    words = lines.split(b" ")
    for _ in range(data.draw(st.integers(1, 4))):
        piece = data.draw(st.sampled_from(PIECES) | st.binary(max_size=4))
        words[data.draw(st.integers(0, len(words) - 1))] = piece
    result = CliRunner().invoke(
        cli, ["import", kind, "-"], obj=Invocation({"TZ": "UTC"}, tmp_path, Clock()), input=b" ".join(words)
    )
    assert result.exit_code in (0, 65), result.output


PIECES = tuple(
    text.encode()
    for text in (
        "",
        "{}",
        "[]",
        "null",
        "1e999",
        "-1",
        "9" * 30,
        "*",
        "* * * * *",
        "@reboot",
        '"',
        "'",
        "\\",
        "a:",
        "\n",
        "\0",
        "%",
        "=",
    )
)


def _headed(file: Path) -> bytes:
    """Return a unit as `systemctl cat` prints it."""
    return f"# /etc/systemd/system/{file.name}\n".encode() + file.read_bytes()


def write_golden_files() -> None:
    """Write what is printed now."""
    with tempfile.TemporaryDirectory() as home:
        for kind, source in SOURCES.items():
            result = typed(Path(home), "import", kind, source)
            (FOLDER / f"{kind}.golden.yaml").write_text(result.stdout)
            (FOLDER / f"{kind}.golden.txt").write_text(result.stderr)


if __name__ == "__main__":
    write_golden_files()
