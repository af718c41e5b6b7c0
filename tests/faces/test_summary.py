"""`rota status --poll`: the summary of document 001 for programs, and for people."""

import pytest

from rota.model.records import Outcome
from rota.model.states import Reason, Status
from tests.faces.conftest import Project

DONE = Outcome(Status.COMPLETED, exit_code=0)
BROKEN = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3)
KEYS = (
    "queue_counts claimable provisional_tasks orchestrator_registered workers state mode next_due_at "
    "suggested_poll_seconds"
)


@pytest.fixture
def polled(project: Project) -> Project:
    """Two runs ended, one waits, nobody serves."""
    project.applied('defaults: {retry: false}\njobs: {disk: {cron: "0 13 * * *", command: [echo, disk]}}\n')
    for outcome in (DONE, BROKEN):
        project.ok("trigger", "disk")
        project.carry_out([outcome])
    project.ok("trigger", "disk")
    return project


def test_the_answer_has_its_fixed_shape(polled: Project) -> None:
    told = polled.json("status", "--poll")
    assert list(told) == KEYS.split()
    assert told["queue_counts"] == {
        "incoming": 1,
        "claimed": 0,
        "done": 1,
        "failed": 1,
        "skipped": 0,
        "cancelled": 0,
        "provisional": 0,
    }
    assert (told["mode"], told["suggested_poll_seconds"]) == ("active", 15)
    assert told["next_due_at"] == "2026-11-15T13:00:00Z"


def test_without_a_scheduler_nothing_is_claimable_and_the_exit_code_says_so(polled: Project) -> None:
    result = polled.rota("status", "--poll", "--worker", "here", "--json")
    assert result.exit_code == 1
    assert '"claimable": false' in result.stdout
    assert '"orchestrator_registered": false' in result.stdout
    assert '"state": "dead"' in result.stdout


def test_people_get_the_same_in_a_few_lines(polled: Project) -> None:
    lines = polled.rota("status", "--poll", "--worker", "me").stdout.splitlines()
    assert lines[0] == (
        "queue     incoming 1 · claimed 0 · provisional 0 · done 1 · failed 1 · skipped 0 · cancelled 0"
    )
    assert lines[1] == "claimable no"
    assert lines[2].startswith("worker    here (")
    assert lines[2].endswith("not registered: claimed 0 · done 1 · failed 1 · skipped 0 · cancelled 0")
    assert lines[3:5] == ["          the worker that you named is not registered", "mode      active"]
    assert lines[5].startswith("next due  13:00:00")
    assert lines[6] == "poll again in 15 s"


@pytest.mark.parametrize("arguments", [("--poll", "--strict"), ("--poll", "--loops"), ("--worker", "here")])
def test_options_that_do_not_go_together_are_refused(polled: Project, arguments: tuple[str, ...]) -> None:
    assert polled.rota("status", *arguments).exit_code == 2
