"""Errors at the door: one or two lines on stderr, the right exit code, never a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faces.conftest import Project

JOBS = 'jobs:\n  backup: {cron: "30 2 * * *", command: [echo, hi]}\n'


def test_an_unknown_command_is_answered_with_the_nearest_one(project: Project) -> None:
    result = project.rota("histroy")
    assert result.exit_code == 2
    assert result.stderr == (
        "rota: there is no command 'histroy'; did you mean `rota history`?\n      see `rota help`\n"
    )


def test_a_missing_argument_is_a_usage_error(project: Project) -> None:
    result = project.rota("run")
    assert result.exit_code == 2
    assert "missing argument 'JOB'" in result.stderr
    assert "see `rota run --help`" in result.stderr


def test_no_project_is_66_and_says_what_to_do(project: Project) -> None:
    result = project.rota("list")
    assert result.exit_code == 66
    assert "rota init" in result.stderr
    assert result.stdout == ""


def test_a_project_without_applied_jobs_is_66_and_names_apply(project: Project) -> None:
    project.write(JOBS)
    result = project.rota("list")
    assert result.exit_code == 66
    assert "rota apply" in result.stderr


def test_with_json_an_error_is_json_on_stderr_with_the_same_exit_code(project: Project) -> None:
    result = project.rota("list", "--json")
    assert result.exit_code == 66
    assert result.stdout == ""
    assert json.loads(result.stderr)["error"].keys() == {"code", "message", "hint", "problems"}
    assert json.loads(result.stderr)["error"]["code"] == "no_project"


def test_a_usage_error_is_json_too(project: Project) -> None:
    result = project.rota("run", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stderr)["error"]["code"] == "usage"


def test_an_unknown_job_is_answered_with_the_nearest_name(project: Project) -> None:
    result = project.applied(JOBS).rota("show", "bakcup")
    assert result.exit_code == 2
    assert "did you mean 'backup'?" in result.stderr


@pytest.mark.parametrize(
    ("typed", "meant"), [(("show", "BACKUP"), "'backup'"), (("List",), "`rota list`"), (("show", "Bakcup"), "'backup'")]
)
def test_a_name_in_another_case_is_answered_with_the_one_that_is_there(
    project: Project, typed: tuple[str, ...], meant: str
) -> None:
    assert f"did you mean {meant}?" in project.applied(JOBS).rota(*typed).stderr


def test_a_job_that_is_only_in_the_file_is_told_to_need_apply(project: Project) -> None:
    project.applied(JOBS)
    project.write(JOBS + "  fresh: {command: [echo, hi]}\n")
    result = project.rota("run", "fresh")
    assert result.exit_code == 2
    assert "it is in rota.yaml but not applied yet: `rota apply`" in result.stderr


@pytest.mark.parametrize("arguments", [["history", "--status", "nonsense"], ["history", "--since", "someday"]])
def test_a_filter_that_means_nothing_is_refused(project: Project, arguments: list[str]) -> None:
    result = project.applied(JOBS).rota(*arguments)
    assert result.exit_code == 2
    assert arguments[-1] in result.stderr


def test_a_foreign_database_is_78_and_left_alone(project: Project) -> None:
    project.write(JOBS)
    project.state.mkdir()
    (project.state / "rota.db").write_text("this is no database, but long enough to look like one" * 20)
    result = project.rota("list")
    assert result.exit_code == 78
    assert "rota.db" in result.stderr
    assert (project.state / "rota.db").read_text().startswith("this is no database")


def test_a_reader_that_goes_away_is_no_traceback(project: Project) -> None:
    project.write(JOBS)
    ran = subprocess.run(
        f"{sys.executable} -m rota --dir {project.folder} schema | head -c 10",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(("command", "code"), [("nonsense", 2), ("status", 66)])
def test_an_error_whose_reader_went_away_keeps_its_exit_code(project: Project, command: str, code: int) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    arguments = [sys.executable, "-m", "rota", "--dir", str(project.folder), command]
    ended = subprocess.run(arguments, stdout=subprocess.DEVNULL, stderr=writer, check=False)
    os.close(writer)
    assert ended.returncode == code


def typed(project: Project, *arguments: str, shell: str) -> subprocess.CompletedProcess[str]:
    """Type a command whose streams a shell arranges."""
    line = ["sh", "-c", f'exec "$@" {shell}', "sh", sys.executable, "-m", "rota", "--dir", str(project.folder)]
    return subprocess.run([*line, *arguments], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_output_that_cannot_be_written_is_74_and_says_so(project: Project) -> None:
    result = typed(project.applied(JOBS), "list", shell="> /dev/full")
    assert result.returncode == 74
    assert result.stderr.splitlines()[0] == "rota: the output cannot be written: No space left on device"
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("shell", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_command_whose_streams_are_closed_works(project: Project, shell: str) -> None:
    assert typed(project.applied(JOBS), "list", shell=shell).returncode == 0


def test_a_secret_from_a_closed_stdin_is_refused_without_a_traceback(project: Project) -> None:
    result = typed(project.applied(JOBS), "secrets", "set", "TOKEN", shell="<&-")
    assert result.returncode == 2
    assert "the value is empty" in result.stderr


def test_ctrl_c_while_the_command_is_being_loaded_is_130_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    line = [sys.executable, "-m", "rota", "list"]
    result = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60, env=environ)
    assert (result.returncode, result.stderr) == (130, "")


def test_an_option_that_is_no_number_is_told_in_plain_words(project: Project) -> None:
    assert "'x' is not a number" in project.rota("simulate", "--days", "x").stderr
    assert "'x' is not a whole number" in project.rota("history", "-n", "x").stderr
