"""`rota backfill`, typed in a project without a scheduler (R-05)."""

from datetime import timedelta

import pytest

from rota.model.records import Outcome
from rota.model.states import Status
from tests.faces.conftest import Project

FILE = """
timezone: Europe/Madrid
defaults: {retry: false}
jobs:
  report: {command: [./report], cron: "30 2 * * *"}
  watch: {command: [./watch], interval: 5m}
  extract: {command: [./extract]}
  load: {command: [./load]}
groups:
  nightly: {cron: "0 1 * * *", members: [extract, load]}
"""


@pytest.fixture
def filled(project: Project) -> Project:
    """A project, at noon of 15 November 2026."""
    return project.applied(FILE)


def test_a_dry_run_tells_how_many_for_when_and_creates_nothing(filled: Project) -> None:
    told = filled.ok("backfill", "report", "--from", "2026-11-01", "--to", "2026-11-07", "--dry-run")
    assert told.splitlines() == [
        "7 runs, one run at a time. Nothing was created.",
        "for Sun 1 Nov 02:30, Mon 2 Nov 02:30, Tue 3 Nov 02:30 … Sat 7 Nov 02:30 (Europe/Madrid)",
    ]
    assert filled.json("history", "report") == []


def test_a_date_includes_its_day_and_a_time_is_not_included(filled: Project) -> None:
    whole = filled.json("backfill", "report", "--from", "2026-11-01", "--to", "2026-11-02", "--dry-run")
    assert [run["scheduled_for"] for run in whole["runs"]] == ["2026-11-01T01:30:00Z", "2026-11-02T01:30:00Z"]
    until = filled.json("backfill", "report", "--from", "2026-11-01", "--to", "2026-11-02T02:30", "--dry-run")
    assert until["count"] == 1


def test_the_range_may_end_today_and_then_ends_now(filled: Project) -> None:
    answer = filled.json("backfill", "report", "--from", "2d", "--to", "2026-11-15", "--dry-run")
    assert [run["scheduled_for"] for run in answer["runs"]] == ["2026-11-14T01:30:00Z", "2026-11-15T01:30:00Z"]


def test_the_runs_are_made_in_order_and_those_of_an_earlier_backfill_left_out_r_05(filled: Project) -> None:
    """R-05: unique (job, scheduled_for)."""
    assert "Queued as report:1 … report:2." in filled.ok(
        "backfill", "report", "--from", "2026-11-01", "--to", "2026-11-02"
    )
    told = filled.ok("backfill", "report", "--from", "2026-11-01", "--to", "2026-11-03")
    assert told.splitlines()[0] == "1 run, one run at a time. Queued as report:3."
    assert told.splitlines()[-1] == "skipped: 2 instants with a run of an earlier backfill"
    again = filled.ok("backfill", "report", "--from", "2026-11-01", "--to", "2026-11-03")
    assert again.splitlines()[0] == "no instant to backfill."
    view = filled.json("queue")
    assert [run["run"] for run in view["ready"]] == ["report:1"]
    assert [(run["run"], run["predecessor"]) for run in view["waiting"]] == [
        ("report:2", "report:1"),
        ("report:3", "report:2"),
    ]


def test_the_estimate_is_the_median_of_what_runs_took(filled: Project) -> None:
    filled.ok("trigger", "report")
    filled.carry_out([Outcome(Status.COMPLETED)], took=timedelta(minutes=30))
    told = filled.ok("backfill", "report", "--from", "2026-11-01", "--to", "2026-11-04", "--dry-run")
    assert told.splitlines()[0] == "4 runs, one run at a time, about 2 h (median of the last 30). Nothing was created."
    told = filled.ok("backfill", "report", "--from", "2026-11-01", "--to", "2026-11-04", "--dry-run", "--parallel")
    assert "all at once, about 30 min each (median of the last 30)" in told


def test_groups_are_counted_with_their_members_r_15(filled: Project) -> None:
    """R-15."""
    told = filled.ok("backfill", "nightly", "--from", "2026-11-01", "--to", "2026-11-07", "--dry-run")
    assert told.splitlines()[0] == "7 groups, 14 runs, one group at a time. Nothing was created."
    assert "Queued as nightly:1 … nightly:2." in filled.ok(
        "backfill", "nightly", "--from", "2026-11-01", "--to", "2026-11-02"
    )
    assert "clean" in filled.ok("verify")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["watch", "--from", "2d", "--to", "now"], "depend on its runs (`anchor: completion`)"),
        (["extract", "--from", "2d", "--to", "now"], "job 'extract' has no schedule"),
        (["report", "--from", "2d", "--to", "2026-12-01T00:00"], "is in the future"),
        (["report", "--from", "1d", "--to", "2d"], "is empty"),
        (["nobody", "--from", "1d", "--to", "now"], "no job is named 'nobody'"),
    ],
)
def test_what_cannot_be_filled_is_refused_with_the_reason(filled: Project, arguments: list[str], message: str) -> None:
    refused = filled.rota("backfill", *arguments)
    assert refused.exit_code == 2
    assert message in refused.stderr


def test_a_backfilled_run_is_shown_and_explained(filled: Project) -> None:
    filled.ok("backfill", "report", "--from", "2026-11-01", "--to", "2026-11-02")
    assert filled.json("show", "report:1")["trigger"] == "backfill"
    told = filled.ok("explain", "report:2")
    assert "not applied to a backfill" in told
    assert "for report:1 to finish" in told
