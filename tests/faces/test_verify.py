"""`rota verify` at the command line: what it checked, what it found, its exit code."""

import json

import apsw

from rota.model.records import Outcome
from rota.model.states import Status
from tests.faces.conftest import Project

DAILY = """
jobs:
  nightly: {cron: "0 2 * * *", command: [echo, hi]}
  sync: {interval: 10m, command: [echo, hi]}
"""


def worked(project: Project) -> Project:
    project.applied(DAILY)
    project.ok("trigger", "nightly")
    project.carry_out([Outcome(Status.COMPLETED, exit_code=0)])
    return project


def break_number(project: Project) -> None:
    connection = apsw.Connection(str(project.state / "rota.db"))
    connection.execute("UPDATE job SET run_number = 0 WHERE name = 'nightly'")
    connection.close()


def test_a_clean_database_says_what_was_checked(project: Project) -> None:
    told = worked(project).ok("verify")
    assert told.splitlines()[0] == "checked 2 jobs, 2 spans, 0 instants, 1 row"
    assert told.splitlines()[-1].startswith("clean")


def test_a_violation_is_grouped_named_and_exits_1(project: Project) -> None:
    break_number(worked(project))
    result = project.rota("verify")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[1:3] == ["number", "  nightly  it has counted 0 runs, but there is run 1"]
    assert lines[-1] == "1 violation"


def test_json_has_a_fixed_shape(project: Project) -> None:
    break_number(worked(project))
    told = project.json("verify", "--quick")
    assert set(told) == {"clean", "checked", "violations", "notes"}
    assert set(told["checked"]) == {"jobs", "spans", "spans_left_out", "instants", "rows", "processes"}
    assert told["clean"] is False
    text = "it has counted 0 runs, but there is run 1"
    assert told["violations"] == [{"check": "number", "job": "nightly", "run": None, "text": text}]


def test_only_the_named_jobs_are_audited(project: Project) -> None:
    break_number(worked(project))
    assert project.json("verify", "sync")["checked"]["jobs"] == 1
    assert project.rota("verify", "sync").exit_code == 0
    assert project.rota("verify", "nightly").exit_code == 1


def test_an_unknown_job_is_answered_with_the_nearest(project: Project) -> None:
    result = worked(project).rota("verify", "nightli", "--json")
    assert result.exit_code == 2
    assert "'nightly'" in json.loads(result.stderr)["error"]["hint"]
