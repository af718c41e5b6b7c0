"""`rota usage`: what runs used, by job, model or day; what is unknown is never nothing."""

from datetime import datetime, timedelta

import pytest

from rota.model.budgets import Usage
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from tests.faces.conftest import Project

JOBS = """timezone: Europe/Madrid
defaults: {retry: false, overlap: allow}
jobs:
  triage: {command: [echo, triage]}
  backup: {command: [echo, backup]}
"""


def used(**amounts: object) -> Outcome:
    return Outcome(Status.COMPLETED, exit_code=0, usage=Usage(**amounts) if amounts else None)  # type: ignore[arg-type]


@pytest.fixture
def spent(project: Project) -> Project:
    """Three runs of triage, one of which does not tell its cost, and one of backup that tells nothing."""
    project.applied(JOBS)
    outcomes = (
        used(requests=2, tokens_in=1000, tokens_out=200, usd=4_100_000, model="haiku"),
        used(requests=1, tokens_in=500, tokens_out=100, model="haiku"),
        Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=1, usage=Usage(tokens_in=7, model="sonnet")),
    )
    for outcome in outcomes:
        project.ok("trigger", "triage")
        project.carry_out([outcome], took=timedelta(minutes=1))
    project.ok("trigger", "backup")
    project.carry_out([used()], took=timedelta(minutes=10))
    return project


def test_what_nobody_tells_is_a_question_mark_and_what_some_tell_is_at_least(spent: Project) -> None:
    lines = spent.ok("usage").splitlines()
    cells = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]
    assert cells == [
        ["JOB", "RUNS", "TIME", "TOKENS IN", "TOKENS OUT", "REQUESTS", "COST"],
        ["backup", "1", "10 min", "?", "?", "?", "?"],
        ["triage", "3", "3 min", "1,507", "≥ 300", "≥ 3", "≥ $4.10"],
        ["total", "4", "13 min", "≥ 1,507", "≥ 300", "≥ 3", "≥ $4.10"],
    ]


def test_columns_that_nobody_can_fill_are_left_out(project: Project) -> None:
    project.applied(JOBS)
    project.ok("trigger", "backup")
    project.carry_out([used()])
    assert [line.split() for line in project.ok("usage").splitlines()] == [
        ["JOB", "RUNS", "TIME"],
        ["backup", "1", "2", "s"],
    ]


def test_by_model_those_without_one_stand_alone(spent: Project) -> None:
    told = spent.json("usage", "--by", "model")
    assert [(row["model"], row["runs"], row["tokens_in"]) for row in told["rows"]] == [
        (None, 1, None),
        ("haiku", 2, 1500),
        ("sonnet", 1, 7),
    ]
    assert "(unknown)" in spent.ok("usage", "--by", "model")


def test_days_begin_at_midnight_in_the_projects_zone(project: Project) -> None:
    project.applied(JOBS)
    for at in ("2026-11-15T22:59:59+00:00", "2026-11-15T23:00:00+00:00"):
        project.clock.advance(datetime.fromisoformat(at) - project.clock.now())
        project.ok("trigger", "backup")
        project.carry_out([used()], took=timedelta(0))
    rows = project.json("usage", "--by", "day")["rows"]
    assert [(row["day"], row["runs"]) for row in rows] == [("2026-11-15", 1), ("2026-11-16", 1)]


def test_since_and_job_narrow_it(spent: Project) -> None:
    assert [row["job"] for row in spent.json("usage", "--since", "10m")["rows"]] == ["backup"]
    assert [row["job"] for row in spent.json("usage", "--job", "triage")["rows"]] == ["triage"]
    assert spent.rota("usage", "--job", "trige").exit_code != 0


def test_json_says_how_many_runs_did_not_tell(spent: Project) -> None:
    told = spent.json("usage")
    assert (told["by"], told["since"]) == ("job", "2026-10-16T12:13:00Z")
    assert told["rows"][1] == {
        "job": "triage",
        "runs": 3,
        "seconds": 180.0,
        "tokens_in": 1507,
        "tokens_in_unknown_runs": 0,
        "tokens_out": 300,
        "tokens_out_unknown_runs": 1,
        "requests": 3,
        "requests_unknown_runs": 1,
        "usd_millionths": 4_100_000,
        "usd_millionths_unknown_runs": 2,
    }


def test_csv_leaves_the_unknown_empty(spent: Project) -> None:
    lines = spent.ok("usage", "--csv").splitlines()
    assert lines[0].startswith("job,runs,seconds,tokens_in,tokens_in_unknown_runs,")
    assert lines[1] == "backup,1,600.0,,1,,1,,1,,1"
    assert len(lines) == 3
    assert spent.rota("usage", "--csv", "--json").exit_code == 2


def test_nothing_used_is_said(project: Project) -> None:
    project.applied(JOBS)
    assert project.ok("usage", "--since", "2d") == "nothing ran since Fri 13 Nov 13:00 (Europe/Madrid)\n"
