"""`rota touch`, and the mode and the poll in `rota status` (R-16, R-18)."""

from datetime import timedelta

import pytest

from rota.model.records import Outcome
from rota.model.states import Reason, Status
from tests.faces.conftest import Project

MODES = "jobs:\n  watch: {interval: {active: 15s, idle: 1m, dormant: never}, command: [a]}\n"
POLL = "poll: {url: 'https://octo.example/api', interval: {active: 15s, idle: 1m, dormant: never}}\n"
REMOTE = "jobs:\n  remote: {command: [a], needs_poll: true}\n"
MINUTE = timedelta(minutes=1)


def line(project: Project, word: str) -> str:
    """Return what `rota status` tells after a word; it exits 1, since no scheduler runs."""
    found = [text for text in project.rota("status").stdout.splitlines() if text.startswith(f"{word} ")]
    return found[0].removeprefix(word).strip() if found else ""


def dormant(text: str, project: Project) -> Project:
    """Apply a file, and let an hour pass in which nothing happens."""
    project.applied(text)
    project.clock.advance(timedelta(hours=2))
    return project


def polled(project: Project, outcome: Outcome) -> None:
    assert project.rota("run", "rota/poll").stdout.startswith("queued as rota/poll:1")
    project.carry_out([outcome])


def test_a_touch_makes_it_active(project: Project) -> None:
    """R-18."""
    dormant(MODES, project)
    assert project.ok("touch") == "mode dormant → active\n"
    assert project.ok("touch") == "mode stays active\n"


def test_a_dry_touch_changes_nothing(project: Project) -> None:
    dormant(MODES, project)
    assert project.ok("touch", "--dry-run") == (
        "mode is dormant; a touch makes it active, outside of quiet hours. Nothing was changed.\n"
    )
    assert project.ok("touch") == "mode dormant → active\n"


def test_a_touch_answers_in_json(project: Project) -> None:
    dormant(MODES, project)
    assert project.json("touch", "--dry-run") == {"before": "dormant", "mode": "dormant", "dry_run": True}
    assert project.json("touch") == {"before": "dormant", "mode": "active", "dry_run": False}


def test_a_touch_needs_a_project(project: Project) -> None:
    assert project.rota("touch").exit_code != 0


@pytest.mark.parametrize(
    ("passed", "said"),
    [
        (timedelta(), "active (last activity 0 s ago: touch)"),
        (9 * MINUTE, "active (last activity 9 min ago: touch)"),
        (11 * MINUTE, "idle (last activity 11 min ago: touch)"),
        (61 * MINUTE, "dormant (last activity 1 h 1 min ago: touch)"),
    ],
)
def test_status_tells_the_mode_and_what_made_it(project: Project, passed: timedelta, said: str) -> None:
    """R-18: active within 10 min, idle within 1 h."""
    project.applied(MODES)
    project.ok("touch")
    project.clock.advance(passed)
    assert line(project, "mode") == said


def test_status_tells_that_quiet_hours_keep_it_dormant(project: Project) -> None:
    """R-17, R-18: quiet hours are dormant whatever happened."""
    project.applied('quiet_hours: ["11:00-13:30"]\n' + POLL + REMOTE)
    assert project.ok("touch") == "mode stays dormant, as it is in quiet hours\n"
    assert line(project, "mode") == "dormant (quiet hours until 13:30, last activity 0 s ago: touch)"


QUIET = 'quiet_hours: ["11:00-13:30"]\n'
OWN = '  own: {interval: {active: 15s, dormant: 5m}, command: [a], quiet_hours: ["11:00-13:30"]}\n'


@pytest.mark.parametrize(
    "file",
    [
        QUIET + MODES,
        QUIET + MODES + "  always: {interval: {active: 15s, dormant: 5m}, command: [a], quiet_hours: ignore}\n",
        QUIET + "jobs:\n  plain: {interval: 1m, command: [a]}\n",
        "jobs:\n" + OWN,
    ],
    ids=["of the file", "one job ignores them", "no job goes by the mode", "of every job that goes by the mode"],
)
def test_the_mode_of_quiet_hours_is_the_same_in_every_view(project: Project, file: str) -> None:
    """R-17, R-18: quiet hours are dormant whatever happened, with a poll or without."""
    project.applied(file)
    assert project.ok("touch") == "mode stays dormant, as it is in quiet hours\n"
    assert project.json("status")["mode"] == "dormant"
    assert project.json("status", "--poll")["mode"] == "dormant"
    project.clock.advance(timedelta(hours=2))
    assert project.ok("touch") == "mode dormant → active\n"


def test_status_tells_of_quiet_hours_without_a_poll(project: Project) -> None:
    project.applied(QUIET + MODES).ok("touch")
    assert line(project, "mode") == "dormant (quiet hours until 13:30, last activity 0 s ago: touch)"


def test_status_tells_of_jobs_that_their_own_quiet_hours_keep_dormant(project: Project) -> None:
    project.applied(MODES + OWN).ok("touch")
    assert line(project, "mode") == "active (last activity 0 s ago: touch); 1 job dormant by own quiet hours"


def test_quiet_hours_that_left_the_file_no_longer_make_the_mode(project: Project) -> None:
    project.applied(QUIET + MODES).applied(MODES).ok("touch")
    assert project.json("status")["mode"] == "active"


def test_status_tells_no_mode_where_no_job_goes_by_it(project: Project) -> None:
    project.applied("jobs:\n  plain: {interval: 1m, command: [a]}\n")
    assert (line(project, "mode"), line(project, "poll")) == ("", "")


def test_status_tells_how_often_the_poll_comes(project: Project) -> None:
    """R-16, R-18."""
    dormant(POLL + REMOTE, project)
    assert line(project, "poll") == "only when a run needs it, none yet"
    project.ok("touch")
    assert line(project, "poll") == "every 15 s, none yet"


def test_status_tells_how_the_last_poll_went_and_when(project: Project) -> None:
    """R-16: the result has an age."""
    project.applied(POLL + REMOTE)
    polled(project, Outcome(Status.COMPLETED, summary="200 OK", poll={"n": 1}))
    project.clock.advance(timedelta(seconds=4))
    assert line(project, "poll") == "every 15 s, last 200 OK 4 s ago"
    found = project.json("status")["poll"]
    assert (found["last"]["ok"], found["last"]["age_seconds"], found["interval_seconds"]) == (True, 4.0, 15.0)


def test_status_tells_why_the_last_poll_failed(project: Project) -> None:
    project.applied(POLL + REMOTE)
    polled(project, Outcome(Status.FAILED, Reason.EXCEPTION, error="GET https://octo.example/api: 503 \x1b[31mNo"))
    told = line(project, "poll")
    assert told.startswith("every 15 s, last failed: GET https://octo.example/api: 503")
    assert "\x1b" not in told


def test_status_tells_what_the_server_asked_for(project: Project) -> None:
    """R-16: the server's wish, bounded."""
    project.applied(POLL + REMOTE)
    polled(project, Outcome(Status.COMPLETED, summary="200 OK", poll={}, suggested=40))
    assert line(project, "poll").startswith("every 40 s, ")


def test_a_poll_that_left_the_file_leaves_status_too(project: Project) -> None:
    project.applied(POLL + REMOTE).applied("jobs:\n  remote: {command: [a]}\n")
    assert line(project, "poll") == ""


def test_an_exported_poll_applied_again_changes_nothing(project: Project) -> None:
    """R-16: the section comes back, the job `rota/poll` is in no list of jobs."""
    budget = "budgets: {day: {requests: 10, per: day}}\nretention: {runs: 7d}\n"
    project.applied(budget + POLL.replace("}}", "}, budget: day, headers: {A: {secret: B}}}") + REMOTE)
    text = project.ok("export")
    assert "rota/poll" not in text
    project.write(text)
    assert project.ok("apply", "--dry-run") == "= 2 jobs unchanged\nnothing was changed (--dry-run)\n"


def test_a_job_is_exported_with_the_poll_that_it_needs(project: Project) -> None:
    project.applied(POLL + REMOTE + "  local: {command: [a]}\n")
    assert "poll:" in project.ok("export", "remote")
    assert "poll:" not in project.ok("export", "local")
