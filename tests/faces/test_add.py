"""`rota add`: a job from flags into rota.yaml, checked before it is written."""

import os
import stat

import pytest

from rota.model.errors import InvalidValue
from rota.operations.project.edit import read_settings, replace_file
from tests.faces.conftest import Project

FILE = "# mine\ntimezone: Europe/Berlin\njobs:\n  a:   # first\n    command: [x]\n"


@pytest.fixture
def filled(project: Project) -> Project:
    project.write(FILE)
    return project


def text(project: Project) -> str:
    return (project.folder / "rota.yaml").read_text()


def test_a_job_is_added_and_the_rest_stays(filled: Project) -> None:
    said = filled.ok("add", "digest", "--cron", "0 8 * * *", "--set", "timeout=5m", "--", "./digest.sh", "--short")
    lines = '  digest:\n    cron: "0 8 * * *"\n    command: [./digest.sh, --short]\n    timeout: 5m\n'
    assert text(filled) == FILE + lines
    assert said.startswith("added digest at line 6 of rota.yaml: at 08:00 every day (Europe/Berlin), next ")
    assert "rota apply" in said


def test_the_text_of_a_shell_is_added_by_an_option_of_its_own(filled: Project) -> None:
    filled.ok("add", "piped", "--shell", "a | b")
    assert text(filled) == FILE + "  piped:\n    shell: a | b\n"


def test_what_check_would_note_is_told_after_what_was_added(filled: Project) -> None:
    said = filled.ok("add", "lost", "--", "./lost.sh").splitlines()
    assert said[1].startswith("note: lost: its runs fail: there is no program")


@pytest.mark.parametrize(
    ("arguments", "schedule"),
    [
        (["--interval", "5m"], "every 5 min after it finishes"),
        (["--at", "2026-12-24 18:00", "--timezone", "Asia/Tokyo"], "once at 2026-12-24 18:00 (Asia/Tokyo)"),
        (["--cron", "0 8 * * *", "--cron", "0 20 * * *"], "at 08:00 every day, and at 20:00 every day (Europe/Berlin)"),
        ([], "by hand"),
    ],
)
def test_each_schedule_can_be_added(filled: Project, arguments: list[str], schedule: str) -> None:
    assert filled.json("add", "new", *arguments, "--set", "shell=echo hi")["schedule"] == schedule
    assert {job["name"]: job["schedule"] for job in filled.json("check")["jobs"]}["new"] == schedule


def test_a_dry_run_shows_the_lines_and_changes_nothing(filled: Project) -> None:
    said = filled.ok("add", "digest", "--interval", "5m", "--dry-run", "--", "./digest.sh")
    assert "  digest:\n    interval: 5m\n    command: [./digest.sh]\n" in said
    assert text(filled) == FILE


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["a", "--", "x"], 6, "rota.yaml already has a job 'a'"),
        (["b", "--cron", "61 * * * *", "--", "x"], 65, "rota add: jobs.b.cron: cron minute '61' is outside 0-59"),
        (["b"], 65, "rota add: jobs.b: has no work"),
        (["b c", "--", "x"], 65, "cannot be a job's name"),
        (["b", "--set", "timout=5m", "--", "x"], 65, 'rota add: jobs.b.timout: unknown key; did you mean "timeout"?'),
        (["b", "--set", "timeout", "--", "x"], 2, "'timeout' sets nothing"),
        (["b", "--cron", "@daily", "--set", "cron=@hourly", "--", "x"], 2, "cron is given twice"),
        (["b", "--cron", "@daily", "--interval", "5m", "--", "x"], 65, "a job has one schedule"),
    ],
)
def test_what_cannot_be_added_is_told_and_nothing_changes(
    filled: Project, arguments: list[str], code: int, told: str
) -> None:
    result = filled.rota("add", *arguments)
    assert (result.exit_code, text(filled)) == (code, FILE)
    assert told in result.stderr


def test_a_broken_file_is_told_with_its_own_lines(filled: Project) -> None:
    filled.write(FILE + "  b:\n    every: 5m\n")
    result = filled.rota("add", "c", "--", "x")
    assert result.exit_code == 65
    assert result.stderr.startswith("rota.yaml:7:5: jobs.b.every")


def test_the_mode_of_the_file_and_a_link_to_it_stay(filled: Project) -> None:
    file, real = filled.folder / "rota.yaml", filled.folder / "real.yaml"
    file.rename(real)
    file.symlink_to(real.name)
    real.chmod(0o640)
    filled.ok("add", "b", "--", "x")
    assert file.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(os.listdir(filled.folder)) == ["real.yaml", "rota.yaml"]


def test_a_file_that_was_changed_meanwhile_is_not_overwritten(filled: Project) -> None:
    with pytest.raises(InvalidValue):
        replace_file(filled.folder / "rota.yaml", b"new", before=b"what was read")
    assert text(filled) == FILE
    assert os.listdir(filled.folder) == ["rota.yaml"]


def test_settings_are_read_as_the_file_reads_them() -> None:
    given = [
        "priority=5",
        "enabled=false",
        "env.A=1 2",
        "env.B={secret: X}",
        "labels=[a, b]",
        "shell=*/5: #x",
        "description=",
    ]
    assert read_settings(given) == {
        "priority": 5,
        "enabled": False,
        "env": {"A": "1 2", "B": {"secret": "X"}},
        "labels": ["a", "b"],
        "shell": "*/5: #x",
        "description": "",
    }


@pytest.mark.parametrize("given", [["a=1", "a=2"], ["a=1", "a.b=2"], ["=1"], ["a..b=1"]])
def test_a_setting_that_contradicts_another_is_refused(given: list[str]) -> None:
    with pytest.raises(InvalidValue):
        read_settings(given)
