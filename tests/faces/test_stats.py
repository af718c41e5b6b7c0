"""`rota stats`: how things went, as a table and as JSON."""

import json
from datetime import timedelta

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
PAID = Outcome(Status.COMPLETED, exit_code=0, usage=Usage(tokens_in=900, tokens_out=100, usd=2_500_000, model="haiku"))
BROKEN = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=1)


@pytest.fixture
def worked(project: Project) -> Project:
    """Three completed runs of triage with a cost, a failed one, and a longer run of backup."""
    project.applied(JOBS)
    for outcome in (PAID, PAID, PAID, BROKEN):
        project.ok("trigger", "triage")
        project.carry_out([outcome], took=timedelta(minutes=1))
    project.ok("trigger", "backup")
    project.carry_out([Outcome(Status.COMPLETED, exit_code=0)], took=timedelta(minutes=30))
    return project


def test_the_total_names_rates_and_costs(worked: Project) -> None:
    told = worked.ok("stats")
    for words in (
        "runs         5",
        "failed       1",
        "success      80.0 %",
        "cost         $7.50",
        "tokens       3,000",
    ):
        assert words in told


def test_each_job_has_a_line_and_failures_come_first(worked: Project) -> None:
    _, title, first, second = worked.ok("stats", "--by", "job").splitlines()
    assert title.split()[:4] == ["JOB", "RUNS", "FAILED", "SUCCESS"]
    assert first.split()[:5] == ["triage", "4", "1", "75.0", "%"]
    assert second.split()[:3] == ["backup", "1", "0"]


def test_json_has_the_numbers_of_the_table(worked: Project) -> None:
    figures = worked.json("stats", "triage")["figures"]
    assert (figures["runs"], figures["failed"], figures["usd_millionths"]) == (4, 1, 7_500_000)
    assert 55_000 < figures["duration_p50_ms"] < 66_000


def test_costs_are_divided_by_model_and_name_the_most_expensive_runs(worked: Project) -> None:
    costs = worked.json("stats", "--by", "model")
    assert [(part["name"], part["total"]) for part in costs["parts"]] == [("haiku", 7_500_000)]
    assert {run["run"] for run in costs["most_expensive"]} == {"triage:1", "triage:2", "triage:3"}
    assert costs["usd_per_completed_run"] is None  # backup reports no usage
    assert worked.json("stats", "triage", "--by", "model")["usd_per_completed_run"] == 2_500_000
    assert "haiku  $7.50  100%" in worked.ok("stats", "--by", "model")
    assert "triage  $7.50" in worked.ok("stats", "--by", "cost")


def test_hours_add_up_to_the_total(worked: Project) -> None:
    told = worked.json("stats", "--since", "3h")
    assert sum(point["figures"]["runs"] for point in told["points"]) == told["figures"]["runs"] == 5
    assert worked.ok("stats", "--since", "3h", "--by", "time").count("\n") >= 3


def test_days_of_a_longer_time_begin_at_midnight_in_the_zone_of_the_project(worked: Project) -> None:
    told = worked.json("stats", "--since", "7d", "--by", "time")
    assert told["range"]["step"] == "day"
    assert all(point["at"].endswith(("T23:00:00Z", "T22:00:00Z")) for point in told["points"])
    assert sum(point["figures"]["completed"] for point in told["points"]) == 4


def test_the_queue_tells_what_waits(worked: Project) -> None:
    worked.ok("trigger", "triage")
    told = json.loads(worked.ok("stats", "--by", "queue", "--json"))
    assert (told["queued"], told["running"]) == (1, 0)
    assert "1 queued, 0 running now" in worked.ok("stats", "--by", "queue")


def test_a_range_that_ends_before_it_begins_is_refused(worked: Project) -> None:
    assert worked.rota("stats", "--since", "1h", "--until", "2h").exit_code != 0
    assert worked.rota("stats", "backup", "--by", "queue").exit_code == 2
