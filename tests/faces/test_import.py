"""`rota import`: a rota.yaml on stdout that passes the check, the report on stderr."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from ruamel.yaml import YAML

from rota.cli.invocation import Invocation
from rota.cli.main import cli
from tests.faces.conftest import Project

CRONTAB = """\
MAILTO=ops@example.net
# the dump
15 2 * * * pg_dump app > /backup/app
*/5 * * * * /opt/ops/disk-check.sh >/dev/null 2>&1
"""


def imported(project: Project, *arguments: str, stdin: str = "", zone: str = "Europe/Berlin") -> Result:
    environment = {"TZ": zone, "HOME": str(project.folder)}
    invocation = Invocation(environment, project.folder, project.clock)
    return CliRunner().invoke(cli, ["import", *arguments], obj=invocation, input=stdin)


def answer(project: Project, *arguments: str, stdin: str) -> Any:
    return json.loads(imported(project, *arguments, "--json", stdin=stdin).stdout)


def test_a_crontab_from_a_pipe_becomes_a_file_that_passes_the_check(project: Project) -> None:
    result = imported(project, "crontab", "-", stdin=CRONTAB)
    assert result.exit_code == 0
    project.write(result.stdout)
    assert project.json("check")["ok"]
    assert [job["name"] for job in project.json("check")["jobs"]] == ["pg-dump", "disk-check"]


def test_the_report_tells_what_keeps_the_meaning_and_what_changed(project: Project) -> None:
    report = imported(project, "crontab", stdin=CRONTAB).stderr
    assert report.startswith("2 lines read, 2 jobs written, 0 left out\n")
    for text in (
        "timezone: Europe/Berlin",
        "timeout: never",
        "misfire: skip",
        "checked: the next 200 fires of each job are the same instants as cron's",
        "line 1   MAILTO=ops@example.net",
        "line 4   `>/dev/null 2>&1` dropped from disk-check",
        "take it out with `crontab -r`",
    ):
        assert text in report, text


def test_a_file_is_named_in_the_report(project: Project) -> None:
    (project.folder / "tab").write_text(CRONTAB)
    assert "or in tab where cron reads that file" in imported(project, "crontab", "tab").stderr


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["-"], "put a `#` before its lines in the file that they are from, such as /etc/crontab"),
        (["tab"], "put a `#` before its lines in tab"),
    ],
)
def test_a_system_crontab_is_never_taken_out_with_a_user_s_own(
    project: Project, arguments: list[str], advice: str
) -> None:
    text = "17 * * * * root run-parts /etc/cron.hourly\n"
    (project.folder / "tab").write_text(text)
    report = imported(project, "crontab", "--system", *arguments, stdin=text).stderr
    assert report.splitlines()[-1] == f"double runs: the crontab is still active; once rota serves, {advice}"
    assert "crontab -r" not in report


def test_lines_that_stay_with_cron_are_not_deleted(project: Project) -> None:
    report = imported(project, "crontab", "-", stdin=f"{CRONTAB}CRON_TZ=Mars/Base\n@daily x\n").stderr
    assert report.startswith("3 lines read, 2 jobs written, 1 left out\n")
    assert "crontab -r" not in report
    assert "run `crontab -e` and put a `#` before the lines that became jobs" in report


def test_bad_lines_are_told_and_the_others_are_written(project: Project) -> None:
    (project.folder / "tab").write_text("@daily fine\n61 * * * * x\nnonsense\n@daily echo '{{ scheduled_for }}'\n")
    result = imported(project, "crontab", "tab")
    assert result.exit_code == 0
    project.write(result.stdout)
    assert [job["name"] for job in project.json("check")["jobs"]] == ["fine"]
    left_out = result.stderr.partition("cannot be mapped:\n")[2].splitlines()
    assert [line.split()[:2] for line in left_out[:3]] == [["line", "2"], ["line", "3"], ["line", "4"]]
    assert "`{{ scheduled_for }}` is not filled in `shell`" in left_out[2]


def test_where_no_line_can_be_read_nothing_is_written(project: Project) -> None:
    (project.folder / "tab").write_text("61 * * * * x\nnonsense\n")
    result = imported(project, "crontab", "tab")
    assert (result.exit_code, result.stdout) == (65, "")
    assert [line.split(" ")[0] for line in result.stderr.splitlines()[:2]] == ["tab:1:1:", "tab:2:1:"]


def test_what_rota_refuses_is_told_at_the_line_of_the_crontab(project: Project) -> None:
    result = imported(project, "crontab", "-", stdin="\n@daily echo '{{ scheduled_for }}'\n")
    assert (result.exit_code, result.stdout) == (65, "")
    assert result.stderr.startswith("crontab:2:1: jobs.echo.shell: `{{ scheduled_for }}` is not filled in")


def test_a_difference_from_cron_is_told(project: Project) -> None:
    """Lord Howe's clocks move by half an hour, which cronsim's own reading gets wrong."""
    project.clock.advance(datetime(2027, 10, 1, tzinfo=UTC) - project.clock.now())
    result = imported(project, "crontab", stdin="30 * * * * x\n", zone="Australia/Lord_Howe")
    assert result.exit_code == 0
    assert "for 0 of 1 job" in result.stderr
    assert "line 1   x fires at 2027-10-02T15:30:00Z, cron at 2027-10-02T16:30:00Z" in result.stderr


def test_json_has_the_file_and_the_whole_report(project: Project) -> None:
    found = answer(project, "crontab", stdin=CRONTAB)
    assert found["yaml"].startswith("# not mapped: MAILTO=ops@example.net\n")
    assert found["jobs"] == [{"name": "pg-dump", "line": 3}, {"name": "disk-check", "line": 4}]
    assert (found["read"], found["compared"], found["differences"], found["left_out"]) == (2, 2, [], [])


def test_a_system_crontab_is_read_with_its_users(project: Project) -> None:
    found = answer(project, "crontab", "--system", stdin="17 * * * * root run-parts /etc/cron.hourly\n")
    assert [job["name"] for job in found["jobs"]] == ["cron-hourly"]


def test_a_file_that_is_not_there_is_named(project: Project) -> None:
    result = imported(project, "crontab", "missing")
    assert (result.exit_code, result.stdout) == (65, "")
    assert result.stderr.startswith("missing: cannot be read: No such file")


@pytest.mark.parametrize("arguments", [["jobs", "--system", "-"], ["fcron"], []])
def test_a_wrong_use_is_told(project: Project, arguments: list[str]) -> None:
    assert imported(project, *arguments).exit_code == 2


def test_control_characters_of_a_crontab_never_reach_the_terminal(project: Project) -> None:
    result = imported(project, "crontab", "-", stdin="# \x1b[31mred\x85x: y\nMAILTO=\x1b]0;x\x07\n@daily x\n")
    assert result.exit_code == 0
    assert not {"\x1b", "\x07", "\x85"} & set(result.stdout + result.stderr)


def test_a_jobs_file_becomes_a_file_that_passes_the_check(project: Project) -> None:
    text = "jobs:\n  tidy: {interval: 10, type: script, run: 'textwrap:dedent', group: local}\n"
    (project.folder / "jobs.yaml").write_text(text)
    result = imported(project, "jobs", "jobs.yaml")
    assert result.exit_code == 0
    assert result.stderr.startswith("1 job read, 1 job written, 0 left out\n")
    project.write(result.stdout)
    assert [job["schedule"] for job in project.json("check")["jobs"]] == ["every 10 s after it finishes"]


def test_the_page_on_migrating_shows_what_is_printed(project: Project) -> None:
    page = (Path(__file__).parents[2] / "docs" / "migrating-from-cron.md").read_text()
    result = imported(project, "crontab", stdin=CRONTAB)
    assert f"```yaml\n{result.stdout}```" in page
    assert f"> rota.yaml\n{result.stderr}```" in page


def test_a_folder_of_crontabs_is_one_project_and_no_variable_reaches_another_file(project: Project) -> None:
    folder = project.folder / "cron.d"
    folder.mkdir()
    (folder / "a").write_text("# of a\nFOO=1\n0 1 * * * root /opt/one.sh\n")
    (folder / "b").write_text("# of b\nSHELL=/bin/bash\n0 2 * * * root /opt/two.sh\nbad\n")
    (folder / "c.dpkg-old").write_text("0 3 * * * root /opt/old.sh\n")
    (folder / "d").write_bytes(b"\xff")
    result = imported(project, "crontab", "--system", "cron.d")
    assert "cannot be mapped:\n  cron.d/b:4  is not an entry" in result.stderr
    assert "  cron.d/d:1  byte 0xff is not UTF-8" in result.stderr
    project.write(result.stdout)
    jobs = YAML(typ="safe").load(result.stdout)["jobs"]
    assert {name: (job.get("env", {}).get("FOO"), "shell_with" in job) for name, job in jobs.items()} == {
        "one": ("1", False),
        "two": (None, True),
    }
    assert "# of b" in result.stdout
    assert project.json("check")["ok"]
