"""Errors at the door: one or two lines on stderr, the right exit code, never a traceback."""

import json
import subprocess
import sys

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
