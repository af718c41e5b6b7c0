"""`rota ack`: what needs somebody is kept acknowledged until something new happens, in every face."""

from datetime import timedelta

import pytest

from rota.model.records import Outcome
from rota.model.states import Reason, Status
from tests.faces.conftest import Project
from tests.faces.test_made_by_agents import FILE as AGENTS
from tests.faces.test_made_by_agents import Acting, refused

FILE = """
defaults: {retry: false}
jobs:
  backup: {command: "true"}
  report: {command: "true"}
"""
FAILED = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3, error="exit 3: no such table")


def fail(project: Project, *jobs: str) -> None:
    for job in jobs:
        project.ok("trigger", job)
    project.carry_out([FAILED] * len(jobs))


@pytest.fixture
def failing(project: Project) -> Project:
    """A project in which two jobs fail."""
    project.applied(FILE)
    fail(project, "backup", "report")
    return project


def names(project: Project) -> list[str]:
    return [one["name"] for one in project.json("status")["attention"]]


def test_what_is_acknowledged_leaves_the_attention_of_status_and_is_told_beside_it(failing: Project) -> None:
    said = failing.ok("ack", "report")
    assert said == (
        "report is acknowledged until something new happens (failing: FAILED exit_code: exit 3: no such table)\n"
    )
    assert names(failing) == ["backup"]
    assert [one["name"] for one in failing.json("status")["acknowledged"]] == ["report"]
    shown = failing.rota("status").stdout
    assert "seen      1 acknowledged: report   rota ack" in shown
    assert "report  FAILED" not in shown


def test_something_new_is_told_again(failing: Project) -> None:
    failing.ok("ack", "report")
    failing.clock.advance(timedelta(minutes=1))
    fail(failing, "report")
    assert sorted(names(failing)) == ["backup", "report"]


@pytest.mark.parametrize("what", ["report", "report:1", "failing:report"])
def test_a_thing_is_named_by_job_run_or_topic(failing: Project, what: str) -> None:
    assert [one["name"] for one in failing.json("ack", what)["items"]] == ["report"]


def test_everything_is_acknowledged_at_once_and_shown_again(failing: Project) -> None:
    assert len(failing.json("ack", "--all")["items"]) == 2
    assert names(failing) == []
    assert failing.ok("ack", "--all") == "nothing to change: all were already acknowledged\n"
    assert "backup is shown again" in failing.ok("ack", "--undo", "backup")
    assert names(failing) == ["backup"]
    assert failing.ok("ack", "--undo", "backup") == "nothing to change: none was acknowledged\n"


def test_without_a_name_the_list_tells_what_was_acknowledged_and_by_whom(failing: Project) -> None:
    failing.ok("ack", "report")
    backup, report = failing.json("ack")
    assert (backup["name"], backup["acknowledged"], backup["about"]) == ("backup", None, "backup:1")
    assert (report["kind"], set(report["acknowledged"])) == ("failing", {"by", "at"})
    assert "ACKNOWLEDGED" in failing.ok("ack")


def test_where_all_is_well_the_list_says_so(project: Project) -> None:
    project.applied(FILE)
    assert project.ok("ack") == "nothing needs attention\n"


def test_a_dry_run_changes_nothing(failing: Project) -> None:
    assert "report would be acknowledged" in failing.ok("ack", "report", "--dry-run")
    assert sorted(names(failing)) == ["backup", "report"]


def test_what_needs_nobody_cannot_be_acknowledged(failing: Project) -> None:
    result = failing.rota("ack", "reprot")
    assert result.exit_code == 2
    assert "nothing about 'reprot' needs attention" in result.stderr
    assert "did you mean 'report'?" in result.stderr


@pytest.mark.parametrize("arguments", [("report", "--all"), ("--undo",)])
def test_what_is_meant_must_be_clear(failing: Project, arguments: tuple[str, ...]) -> None:
    assert failing.rota("ack", *arguments).exit_code == 2


def test_an_acknowledgement_is_in_the_audit(failing: Project) -> None:
    failing.ok("ack", "report")
    newest = failing.json("audit")[0]
    assert (newest["face"], newest["action"], newest["target"]) == ("command", "ack", "report")


def test_an_agent_reads_the_list_and_acknowledges_nothing(project: Project) -> None:
    acting = Acting(project.applied(AGENTS))
    assert acting.inside("nightly", "ack").exit_code == 0
    assert refused(acting.inside("nightly", "ack", "plain"))
    assert refused(acting.inside("nightly", "ack", "--all"))
