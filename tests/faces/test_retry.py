"""`rota retry`, and how attempts and chains are shown."""

from datetime import timedelta

import pytest

from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.operations.project.locate import open_state
from rota.store.tables import run_queries
from tests.faces.conftest import Project

COMPLETED = Outcome(Status.COMPLETED, exit_code=0)
FAILED = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3, error="no such table")
JOBS = """timezone: UTC
jobs:
  transform: {command: [transform], params: {day: 1, full: true}, retry: {max_attempts: 3, backoff: 20s}}
  load: {command: [load], retry: false}
  many: {command: [many], retry: false, overlap: queue}
"""


@pytest.fixture
def loads(project: Project) -> Project:
    """A project in which load:1 failed for good."""
    project.applied(JOBS).ok("trigger", "load")
    project.carry_out([FAILED])
    return project


@pytest.fixture
def transforms(project: Project) -> Project:
    """A project in which transform:1 failed, and transform:2 waits for its backoff."""
    project.applied(JOBS).ok("trigger", "transform", "--param", "day=7")
    project.carry_out([FAILED])
    return project


def test_a_failed_run_is_run_again_as_a_new_one_that_points_at_it(loads: Project) -> None:
    said = loads.ok("retry", "load:1")
    assert "load:1  retried as load:2" in said
    old, new = loads.json("show", "load:1"), loads.json("show", "load:2")
    assert (old["status"], new["status"], new["trigger"], new["attempt"]) == ("FAILED", "QUEUED", "manual", 1)
    assert (new["retry_of"], new["chain"]) == (old["id"], ["load:2"])


def test_a_retry_by_hand_takes_the_params_of_the_run_and_the_definition_of_now(transforms: Project) -> None:
    """R-14: the person wants the fix to apply."""
    transforms.ok("cancel", "transform:2")
    transforms.applied(JOBS.replace("[transform]", "[transform, --fixed]"))
    transforms.ok("retry", "transform:1", "--param", "full=false")
    new = transforms.json("show", "transform:3")
    assert (new["params"], new["version"]) == ({"day": 7, "full": False}, 2)


def test_several_runs_are_run_again_and_one_that_cannot_be_does_not_keep_the_others(project: Project) -> None:
    project.applied(JOBS).ok("trigger", "load")
    project.carry_out([FAILED])
    project.ok("trigger", "many")
    project.carry_out([COMPLETED])
    found = project.rota("retry", "many:1", "load:1")
    assert found.exit_code == 6
    assert "retried as load:2" in found.stdout
    assert "many:1 is COMPLETED" in found.stderr
    assert "rota retry many:1 --again" in found.stderr


def test_a_completed_run_needs_again(project: Project) -> None:
    project.applied(JOBS).ok("trigger", "load")
    project.carry_out([COMPLETED])
    assert project.rota("retry", "load").exit_code == 6
    assert "retried as load:2" in project.ok("retry", "load", "--again")


def test_a_cancelled_run_can_be_run_again(project: Project) -> None:
    project.applied(JOBS).ok("trigger", "load")
    project.ok("cancel", "load:1")
    assert "retried as load:2" in project.ok("retry", "load:1")


def test_a_skipped_run_can_be_run_again(project: Project) -> None:
    project.applied("jobs:\n  tick: {command: [tick], cron: '0 * * * *'}\n").ok("pause", "tick")
    project.clock.advance(timedelta(hours=3))
    project.ok("resume", "tick")
    assert "tick:1 (the first of 3 instants)  retried as tick:2" in project.ok("retry", "tick:1")


def test_a_run_that_is_not_finished_is_refused(project: Project) -> None:
    project.applied(JOBS).ok("trigger", "load")
    found = project.rota("retry", "load:1")
    assert (found.exit_code, "load:1 is not finished: it is QUEUED" in found.stderr) == (6, True)


def test_r_31_a_run_whose_automatic_retry_waits_for_its_backoff_is_run_again_in_its_place(transforms: Project) -> None:
    assert "transform:1  retried as transform:3" in transforms.ok("retry", "transform:1")
    replaced = transforms.json("show", "transform:2")
    assert (replaced["status"], replaced["reason"]) == ("CANCELLED", "replaced")
    assert "transform:3 was started by hand and replaces it" in transforms.ok("show", "transform:2")
    assert "replacing the retry transform:2" in transforms.ok("explain", "transform:3")


def test_r_31_rota_run_makes_one_attempt_and_can_be_repeated_at_once(project: Project) -> None:
    project.applied(JOBS).ok("run", "transform", "--detach")
    project.carry_out([FAILED])
    assert len(project.json("history", "transform")) == 1
    project.ok("run", "transform", "--detach", "--retry")
    project.carry_out([FAILED])
    assert project.json("show", "transform:3")["retry_of"] == project.json("show", "transform:2")["id"]
    assert "queued as transform:4" in project.rota("run", "transform").stdout
    assert project.json("show", "transform:3")["reason"] == "replaced"


def test_r_31_a_dry_run_says_which_retry_would_be_replaced_and_how_often_it_is_tried(transforms: Project) -> None:
    said = transforms.ok("run", "transform", "--param", "day=7", "--dry-run")
    assert "replaces the retry transform:2" in said
    assert "retry        none: `rota run` makes one attempt" in said
    assert "retry        3 attempts" in transforms.ok("run", "transform", "--dry-run", "--retry")
    assert transforms.json("show", "transform:2")["status"] == "QUEUED"


def test_r_31_a_direct_call_is_never_retried(project: Project) -> None:
    found = project.applied(JOBS).rota("run", "load", "--next-slot", "--retry")
    assert (found.exit_code, "--retry" in found.stderr) == (2, True)


def test_overlap_applies_to_a_retry_by_hand(loads: Project) -> None:
    """R-29: it is a start by hand."""
    loads.ok("trigger", "load")
    found = loads.rota("retry", "load:1")
    assert (found.exit_code, "load:2 is not finished" in found.stderr) == (6, True)
    assert "retried as load:3" in loads.ok("retry", "load:1", "--force")


def test_a_disabled_job_is_not_run_again(loads: Project) -> None:
    loads.applied(JOBS.replace("{command: [load]", "{enabled: false, command: [load]"))
    assert "disabled" in loads.rota("retry", "load:1").stderr


def test_a_param_that_the_job_does_not_have_is_refused(loads: Project) -> None:
    assert "has no param 'x'" in loads.rota("retry", "load:1", "--param", "x=1").stderr


def test_a_dry_run_stores_nothing(loads: Project) -> None:
    said = loads.ok("retry", "load:1", "--dry-run")
    assert "load:1  would be retried" in said
    assert "nothing was changed" in said
    assert [run["run"] for run in loads.json("history", "load")] == ["load:1"]


def test_json_is_a_list_of_the_new_runs(loads: Project) -> None:
    [new] = loads.json("retry", "load:1")
    assert (new["run"], new["retried"], new["status"]) == ("load:2", "load:1", "QUEUED")


def test_following_needs_one_run(loads: Project) -> None:
    assert loads.rota("retry", "load:1", "load:1", "--follow").exit_code == 2


def test_following_without_a_scheduler_says_so(loads: Project) -> None:
    found = loads.rota("retry", "load:1", "--follow")
    assert (found.exit_code, "no scheduler is running here" in found.stdout) == (69, True)


def test_a_retry_by_hand_moves_no_schedule(project: Project) -> None:
    """R-06: unscheduled runs never move `next_at`."""
    project.applied("jobs:\n  tick: {command: [tick], interval: 1h, retry: false}\n").ok("trigger", "tick")
    project.carry_out([FAILED])
    before = project.json("show", "tick")["next"]
    project.ok("retry", "tick:1")
    project.carry_out([COMPLETED])
    assert project.json("show", "tick")["next"] == before


def test_the_instant_of_the_run_is_repeated(project: Project) -> None:
    """R-05: placeholders and ROTA_DATE mean the instant that failed."""
    project.applied("jobs:\n  tick: {command: [tick], interval: 1h, retry: false}\n")
    project.clock.advance(timedelta(minutes=5))
    project.ok("pause", "tick")
    project.clock.advance(timedelta(hours=3))
    project.ok("resume", "tick", "--catch-up", "once")
    project.carry_out([FAILED])
    project.ok("retry", "tick:1")
    shown = project.json("history", "tick")
    assert shown[0]["scheduled_for"] == shown[-1]["scheduled_for"] is not None


def test_the_chain_and_the_next_try_are_shown(transforms: Project) -> None:
    for handle in ("transform:1", "transform:2"):
        said = transforms.ok("show", handle)
        assert "chain        transform:1 → :2" in said
        assert "next try     " in said
    assert "attempt      2 of 3" in transforms.ok("show", "transform:2")
    shown = transforms.json("show", "transform:2")
    assert (shown["chain"], shown["max_attempts"], shown["attempt"]) == (["transform:1", "transform:2"], 3, 2)


def test_the_policy_is_shown_with_the_job(transforms: Project) -> None:
    assert "retry        3 attempts, 20 s apart, ×2 up to 10 min" in transforms.ok("show", "transform")
    assert "retry        none" in transforms.ok("show", "load")


def test_a_job_that_is_being_retried_is_not_yet_failing_for_good(transforms: Project) -> None:
    said = transforms.rota("status").stdout
    assert "FAILED exit_code, retrying, attempt 2 of 3 at 12:00:22: no such table" in said


def test_a_job_whose_last_attempt_failed_says_so(transforms: Project) -> None:
    release(transforms)
    release(transforms)
    assert "FAILED exit_code, attempt 3 of 3: no such table" in transforms.rota("status").stdout


def release(project: Project) -> None:
    """Wait out the backoff of the pending retry, and let that fail too."""
    project.clock.advance(timedelta(minutes=1))
    store = open_state(project.state, project.clock, create=False)
    store.write(lambda db: run_queries.release_due(db, project.clock.now()))
    store.close()
    project.carry_out([FAILED])


def test_explain_tells_what_a_failure_led_to(transforms: Project) -> None:
    assert "retried as transform:2 at 12:00:22" in transforms.ok("explain", "transform:1")
    said = transforms.ok("explain", "transform:2")
    assert "attempt 2 of 3, 20 s after transform:1 FAILED exit_code" in said
    assert "for its backoff, retried at 12:00:22 (in 20 s)" in said


def test_explain_tells_why_a_failure_is_not_retried(loads: Project) -> None:
    assert "not retried: the job does not retry (`retry: false`)" in loads.ok("explain", "load:1")


def test_explain_tells_the_last_attempt(transforms: Project) -> None:
    release(transforms)
    release(transforms)
    assert "not retried: attempt 3 of 3 was the last" in transforms.ok("explain", "transform:3")


def test_explain_tells_a_retry_by_hand(loads: Project) -> None:
    loads.ok("retry", "load:1")
    assert "load:1 (FAILED) retried by hand" in loads.ok("explain", "load:2")


def test_history_marks_attempts(transforms: Project) -> None:
    release(transforms)
    assert "attempt 2: no such table" in transforms.ok("history", "--all")
