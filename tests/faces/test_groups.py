"""Groups on the command line: listed, shown, cancelled, repeated, made at run time; and in every other view (R-15)."""

from datetime import timedelta

import pytest

from rota.model.records import Outcome
from rota.model.states import Reason, Status
from tests.faces.conftest import Project

FILE = """timezone: UTC
defaults: {retry: {max_attempts: 1}}
jobs:
  extract: {command: [./extract.py]}
  transform: {command: [./transform.py], params: {full: true}}
  load: {command: [./load.py]}
  report: {command: [./report.py]}
groups:
  nightly:
    cron: "0 1 * * *"
    members:
      - extract
      - {job: transform, params: {full: false}}
      - load
      - {job: report, always: true}
  month-end: {mode: parallel, on_failure: continue, members: [extract, load]}
"""
DONE = Outcome(Status.COMPLETED, exit_code=0)
FAILED = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=2, error="it left with 2")


@pytest.fixture
def nightly(project: Project) -> Project:
    """A project whose group `nightly` was started by hand: its first member is in the queue."""
    project.applied(FILE)
    project.ok("run", "nightly", "--detach")
    return project


def stopped(project: Project) -> None:
    """Let the second member fail, and the one that always runs complete."""
    project.carry_out([DONE], took=timedelta(minutes=9))
    project.carry_out([FAILED], took=timedelta(minutes=3))
    project.carry_out([DONE], took=timedelta(seconds=4))


def test_check_counts_groups_beside_jobs(project: Project) -> None:
    project.write(FILE)
    assert project.ok("check").startswith("rota.yaml: 2 groups, 4 jobs: ok\n")


def test_a_group_that_stopped_is_shown_member_by_member(nightly: Project) -> None:
    stopped(nightly)
    assert nightly.ok("groups", "show", "nightly").splitlines() == [
        "nightly:1  PARTIAL  Sun 15 Nov 12:00 → 12:12  (1 completed, 1 failed, 1 cancelled, 1 always)",
        "  1 extract:1    COMPLETED   9 min",
        "  2 transform:1  FAILED      exit_code 2   rota logs transform:1",
        "  3 load:1       CANCELLED   predecessor failed: transform:1 did not complete",
        "  4 report:1     COMPLETED   4 s (always)",
        "retry from the failed member: rota groups retry nightly:1",
    ]


def test_a_group_that_runs_tells_what_each_member_waits_for(nightly: Project) -> None:
    assert nightly.ok("groups", "show", "nightly:1").splitlines() == [
        "nightly:1  RUNNING  Sun 15 Nov 12:00 → now  (3 queued, 1 always)",
        "  1 extract:1    QUEUED      in the queue",
        "  2 transform:1  QUEUED      waits for extract:1",
        "  3 load:1       QUEUED      waits for transform:1",
        "  4 report:1     QUEUED      waits for all others (always)",
    ]


def test_the_attempts_of_a_member_are_shown_as_a_chain(project: Project) -> None:
    project.applied(FILE.replace("max_attempts: 1", "max_attempts: 2, backoff: 1s"))
    project.ok("run", "nightly", "--detach", "--retry")
    project.carry_out([FAILED])
    told = project.ok("groups", "show", "nightly").splitlines()[1]
    assert told.startswith("  1 extract:2    QUEUED      attempt 2 of 2 at ")
    members = project.json("groups", "show", "nightly")["members"]
    assert (members[0]["earlier"], members[0]["max_attempts"]) == (["extract:1"], 2)


def test_the_members_of_a_group_that_rota_run_starts_have_one_attempt(project: Project) -> None:
    project.applied(FILE.replace("max_attempts: 1", "max_attempts: 2, backoff: 1s"))
    project.ok("run", "nightly", "--detach")
    project.carry_out([FAILED])
    told = project.ok("groups", "show", "nightly").splitlines()[1]
    assert told == "  1 extract:1    FAILED      exit_code 2   rota logs extract:1"
    members = project.json("groups", "show", "nightly")["members"]
    assert (members[0]["earlier"], members[0]["max_attempts"]) == ([], 1)


def test_groups_are_listed_with_their_newest_run(nightly: Project) -> None:
    stopped(nightly)
    told = nightly.ok("groups").splitlines()
    assert told[0].split() == ["GROUP", "STATUS", "BEGAN", "(UTC)", "TOOK", "MEMBERS", "SCHEDULE"]
    assert told[1].startswith("month-end  –")
    assert "nightly:1  PARTIAL" in told[2]
    assert [line["name"] for line in nightly.json("groups")] == ["month-end", "nightly"]


def test_a_project_without_groups_says_where_to_declare_them(project: Project) -> None:
    project.applied("jobs: {a: {command: [a]}}\n")
    assert project.ok("groups") == "no groups; declare some under `groups:` in rota.yaml and apply it\n"


def test_a_group_is_cancelled_with_all_that_has_not_started(nightly: Project) -> None:
    rehearsed = nightly.ok("groups", "cancel", "nightly:1", "--dry-run")
    assert "nightly:1  CANCELLED" in rehearsed
    assert rehearsed.endswith("nothing was changed (--dry-run)\n")
    assert nightly.json("groups", "show", "nightly")["status"] == "RUNNING"
    assert "nightly:1  CANCELLED" in nightly.ok("groups", "cancel", "nightly:1")
    history = {run["run"]: (run["status"], run["reason"]) for run in nightly.json("history")}
    assert history["nightly:1"] == ("CANCELLED", "requested")
    assert history["report:1"] == ("CANCELLED", "group_cancelled")


def test_rota_cancel_takes_the_run_of_a_group(nightly: Project) -> None:
    assert "nightly:1  CANCELLED" in nightly.ok("cancel", "nightly:1")
    assert nightly.json("groups", "show", "nightly")["status"] == "CANCELLED"


def test_a_final_group_cannot_be_cancelled(nightly: Project) -> None:
    """INV-006: a final group never changes."""
    nightly.ok("groups", "cancel", "nightly")
    result = nightly.rota("groups", "cancel", "nightly")
    assert result.exit_code == 6
    assert "nightly:1 is already CANCELLED\n      a final group never changes" in result.stderr


def test_a_group_is_repeated_from_the_failed_member_on(nightly: Project) -> None:
    """R-15: a new group, linked to the old one; the old one stays as it is."""
    stopped(nightly)
    nightly.ok("groups", "retry", "nightly:1", "--dry-run")
    assert nightly.json("groups", "show", "nightly")["group"] == "nightly:1"
    told = nightly.ok("groups", "retry", "nightly:1").splitlines()
    assert told[0].endswith("(2 queued, 1 always)  repeats nightly:1")
    assert [line.split()[1] for line in told[1:]] == ["transform:2", "load:2", "report:2"]
    again = nightly.json("groups", "show", "nightly:2")
    assert (again["retry_of"], again["members"][0]["run"]["trigger"]) == ("nightly:1", "group")
    assert nightly.json("show", "transform:2")["params"] == {"full": False}
    assert nightly.json("groups", "show", "nightly:1")["status"] == "PARTIAL"
    for _ in range(3):
        nightly.carry_out([DONE])
    assert nightly.json("groups", "show", "nightly:2")["status"] == "COMPLETED"


def test_a_group_that_runs_or_completed_is_not_repeated(nightly: Project) -> None:
    result = nightly.rota("groups", "retry", "nightly:1")
    assert result.exit_code == 6
    assert "nightly:1 is not finished\n      wait for it, or cancel it" in result.stderr
    for _ in range(4):
        nightly.carry_out([DONE])
    result = nightly.rota("groups", "retry", "nightly:1")
    assert result.exit_code == 6
    assert "nightly:1 is COMPLETED: none of its members failed" in result.stderr


def test_a_repetition_asks_overlap_of_the_group(nightly: Project) -> None:
    stopped(nightly)
    nightly.ok("run", "nightly", "--detach")
    result = nightly.rota("groups", "retry", "nightly:1")
    assert "nightly was not started: nightly:2 is not finished" in result.stderr
    nightly.ok("groups", "retry", "nightly:1", "--force")


def test_a_group_is_made_at_run_time_and_repeated(project: Project) -> None:
    project.applied(FILE)
    arguments = ("groups", "run", "adhoc", "extract", "transform:full=false", "--always", "report")
    assert "nothing was changed" in project.ok(*arguments, "--dry-run")
    told = project.ok(*arguments).splitlines()
    assert told[0].startswith("adhoc:1  RUNNING")
    assert [line.split()[1] for line in told[1:]] == ["extract:1", "transform:1", "report:1"]
    project.carry_out([FAILED])
    project.carry_out([DONE])
    made = project.json("groups", "show", "adhoc")
    assert (made["status"], made["run_id"]) == ("PARTIAL", None)
    assert project.ok("groups", "retry", "adhoc").startswith("adhoc:2  RUNNING")


def test_a_group_made_side_by_side_goes_on_after_a_failure(project: Project) -> None:
    project.applied(FILE)
    project.ok("groups", "run", "adhoc", "extract", "load", "--parallel", "--continue")
    project.carry_out([FAILED, DONE])
    made = project.json("groups", "show", "adhoc")
    assert (made["mode"], made["on_failure"], made["counts"]) == (
        "parallel",
        "continue",
        {"completed": 1, "failed": 1},
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("extract",), "a job is named 'extract'"),
        (("a b", "load"), "'a b' cannot be a group's name"),
        (("adhoc", "zzz"), "no job is named 'zzz'"),
        (("adhoc", "extract", "nightly"), "'nightly' is a group, and groups cannot contain groups"),
        (("adhoc", "transform:ful=1"), "job 'transform' has no param 'ful'"),
    ],
)
def test_a_group_that_cannot_be_made_makes_nothing(project: Project, arguments: tuple[str, ...], said: str) -> None:
    """All or nothing: the first member of a refused group has no run either."""
    project.applied(FILE)
    members = arguments if len(arguments) > 1 else (*arguments, "load")
    result = project.rota("groups", "run", *members)
    assert said in result.stderr
    assert result.exit_code != 0
    assert project.json("history") == []


@pytest.mark.parametrize(
    ("handle", "said"),
    [
        ("nigtly", "there is no group 'nigtly'\n      did you mean 'nightly'?"),
        ("nightly:9", "no group 'nightly:9': it has not started\n      start it with `rota run nightly`"),
        ("extract", "no group 'extract': that is a job"),
    ],
)
def test_a_group_that_is_not_there_is_told(nightly: Project, handle: str, said: str) -> None:
    result = nightly.rota("groups", "show", handle)
    assert said in result.stderr
    assert result.exit_code == 2


def test_groups_run_without_members_names_the_way_to_start_a_declared_group(nightly: Project) -> None:
    result = nightly.rota("groups", "run", "nightly")
    assert (result.exit_code, "is started with `rota run nightly`" in result.stderr) == (2, True)


def test_a_group_ends_as_exactly_as_it_began(nightly: Project) -> None:
    nightly.clock.advance(timedelta(seconds=7))
    nightly.ok("groups", "run", "short", "extract")
    nightly.carry_out([DONE, DONE])
    assert "12:00:07 → 12:00:09" in nightly.ok("groups", "show", "short")


def test_a_group_that_stopped_is_partial_in_list_and_history(nightly: Project) -> None:
    """R-15: FAILED/members_failed is shown as PARTIAL; JSON keeps the two words."""
    stopped(nightly)
    listed = next(line for line in nightly.ok("list").splitlines() if line.startswith("nightly"))
    assert "PARTIAL 12 min" in listed
    told = next(line for line in nightly.ok("history").splitlines() if line.startswith("nightly:1"))
    assert told.split()[1:3] == ["PARTIAL", "members_failed"]
    assert nightly.json("show", "nightly:1")["status"] == "FAILED"


def test_show_tells_the_members_of_a_group_and_the_group_of_a_member(nightly: Project) -> None:
    assert "extract → transform → load → report (always)  (sequential, on_failure: stop)" in nightly.ok(
        "show", "nightly"
    )
    assert "  2 transform:1  QUEUED      waits for extract:1" in nightly.ok("show", "nightly:1")
    assert "member 2 of 4 of nightly:1   rota groups show nightly:1" in nightly.ok("show", "transform:1")


def test_explain_tells_why_a_member_waits_and_what_stopped_it(nightly: Project) -> None:
    told = nightly.ok("explain", "load:1")
    assert "as member 3 of 4 of nightly:1 (sequential, on_failure: stop)" in told
    assert "for extract:1, transform:1 of nightly:1 to finish" in told
    stopped(nightly)
    assert "CANCELLED predecessor_failed: transform:1 did not complete" in nightly.ok("explain", "load:1")
    whole = nightly.ok("explain", "nightly:1")
    assert "1 extract:1 COMPLETED, 2 transform:1 FAILED exit_code" in whole
    assert "members_failed after 12 min 4 s: transform:1 ended FAILED/exit_code" in whole


def test_a_rehearsal_of_a_group_names_its_members(project: Project) -> None:
    project.applied(FILE)
    told = project.ok("run", "nightly", "--dry-run")
    assert "members      extract → transform → load → report (always) (sequential, on_failure: stop)" in told
    assert project.json("history") == []


def test_next_shows_the_fires_of_a_group(project: Project) -> None:
    project.applied(FILE)
    assert "nightly" in project.ok("next")


def test_a_changed_group_is_told_by_apply(project: Project) -> None:
    project.applied(FILE)
    project.write(FILE.replace("      - load\n", "").replace("parallel", "sequential"))
    told = project.ok("apply", "--dry-run")
    assert 'mode "parallel" → "sequential"' in told
    assert "members [" in told
