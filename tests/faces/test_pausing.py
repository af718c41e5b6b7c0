"""`rota pause` and `rota resume`, and every place that shows a pause (R-20)."""

from datetime import timedelta
from functools import partial

from rota.engine.transactions.pause import pause_everything
from rota.operations.project.locate import open_state
from rota.rules.liveness import REASON
from tests.faces.conftest import Project

TWO = """
jobs:
  tick: {cron: "*/10 * * * *", command: [echo, hi], labels: [web]}
  by-hand: {command: [echo, hi]}
"""


def test_a_pause_tells_how_many_instants_it_holds_back_and_resume_accounts_for_them(project: Project) -> None:
    project.applied(TWO)
    told = project.ok("pause", "tick", "--for", "2h", "--reason", "kernel upgrade")
    assert told == (
        "paused 1 job (tick) until 14:00 (kernel upgrade). Instants in the pause: 12, recorded as SKIPPED paused.\n"
    )
    project.clock.advance(timedelta(minutes=35))
    assert project.ok("resume", "tick") == "tick  resumed; instants in the pause: 3, SKIPPED paused as tick:1\n"
    rows = [(run["status"], run["reason"], run["count"]) for run in project.json("history", "tick")]
    assert rows == [("SKIPPED", "paused", 3)]


def test_a_pause_names_what_still_runs(project: Project) -> None:
    project.applied(TWO)
    project.ok("trigger", "tick")
    project.carry_out([])
    assert "Running: tick:1, which may finish." in project.ok("pause", "--all", "--reason", "upgrade")


def test_a_pause_in_json_has_a_fixed_shape(project: Project) -> None:
    project.applied(TWO)
    assert project.json("pause", "--all", "--until", "13:00") == {
        "dry_run": False,
        "everything": True,
        "jobs": ["by-hand", "tick"],
        "until": "2026-11-15T13:00:00Z",
        "reason": "",
        "running": [],
        "instants": 6,
    }
    assert project.json("resume", "--all") == {
        "dry_run": False,
        "everything_was_paused": True,
        "everything_is_paused": False,
        "jobs": [
            {"job": "by-hand", "skipped": None, "count": None, "caught_up": None},
            {"job": "tick", "skipped": None, "count": None, "caught_up": None},
        ],
    }


def test_a_dry_run_changes_nothing(project: Project) -> None:
    project.applied(TWO)
    assert "would pause 1 job (tick)" in project.ok("pause", "tick", "--dry-run")
    assert project.json("list")[1]["paused"] is None
    project.ok("pause", "tick")
    project.clock.advance(timedelta(minutes=35))
    assert "would be resumed; instants in the pause: 3" in project.ok("resume", "tick", "--dry-run")
    assert project.json("list")[1]["state"] == "paused"


def test_resume_may_make_up_the_latest_instant(project: Project) -> None:
    project.applied(TWO)
    project.ok("pause", "tick")
    project.clock.advance(timedelta(minutes=35))
    told = project.ok("resume", "tick", "--catch-up", "once")
    assert told == "tick  resumed; instants in the pause: 2, SKIPPED paused as tick:1, tick:2 catches up the latest\n"
    assert "5 min late; `rota resume --catch-up once` ran it after a pause" in project.ok("explain", "tick:2")
    assert "not checked: the job was paused" in project.ok("explain", "tick:1")
    assert "clean" in project.ok("verify")


def test_a_label_names_the_jobs_that_carry_it(project: Project) -> None:
    project.applied(TWO)
    assert project.json("pause", "--label", "web")["jobs"] == ["tick"]
    assert project.rota("pause", "--label", "wep").exit_code == 2


def test_jobs_must_be_named_in_one_way(project: Project) -> None:
    project.applied(TWO)
    for arguments in ([], ["tick", "--all"], ["--all", "--label", "web"], ["tick", "--for", "1h", "--until", "13:00"]):
        assert project.rota("pause", *arguments).exit_code == 2, arguments
    assert project.rota("resume").exit_code == 2


def test_a_pause_that_ends_in_the_past_is_refused(project: Project) -> None:
    project.applied(TWO)
    refused = project.rota("pause", "tick", "--until", "2026-11-15T11:00")
    assert refused.exit_code == 2
    assert "is in the past" in refused.stderr


def test_a_pause_is_shown_by_status_list_show_explain_and_next(project: Project) -> None:
    project.applied(TWO)
    project.ok("pause", "tick", "--for", "90m", "--reason", "moving house")
    assert "paused    1 job: tick until 13:30 (moving house)   rota resume JOB" in project.rota("status").stdout
    assert "paused until 13:30 (moving house)" in project.ok("list")
    assert "tick  paused" in project.ok("show", "tick")
    assert "the job is paused since Sun 15 Nov 12:00 until Sun 15 Nov 13:30" in project.ok("explain", "tick")
    coming = project.ok("next", "tick", "-n", "1")
    assert coming.startswith("tick  Sun 15 Nov 13:40:00 UTC")
    assert "fires during a pause are omitted; paused: 1 job: tick until 13:30 (moving house)" in coming


def test_a_pause_without_an_end_has_no_coming_fires(project: Project) -> None:
    project.applied(TWO)
    project.ok("pause", "tick")
    assert project.json("next") == []
    assert project.json("next", "--after", "2026-11-15T20:00") == []
    assert "`rota resume tick`" in project.ok("next", "tick")


def test_a_pause_of_everything_is_told_with_the_way_out(project: Project) -> None:
    project.applied(TWO)
    project.ok("pause", "--all", "--reason", "disk swap")
    told = project.rota("status").stdout
    assert "paused    everything (disk swap): nothing fires or starts; continue with `rota resume --all`" in told
    assert "2 jobs" not in told
    assert project.json("status")["paused"]["reason"] == "disk swap"


def test_explain_says_that_a_queued_run_waits_for_the_pause_of_everything(project: Project) -> None:
    project.applied(TWO)
    project.ok("pause", "--all", "--until", "15:00", "--reason", "disk swap")
    project.ok("trigger", "by-hand")
    told = project.ok("explain", "by-hand:1")
    assert "because everything is paused until 15:00 (disk swap): nothing starts" in told


def test_a_start_by_hand_says_that_everything_is_paused(project: Project) -> None:
    project.applied(TWO)
    project.ok("pause", "--all")
    assert "everything is paused" in project.rota("trigger", "by-hand").stderr


def test_resuming_one_job_says_that_the_rest_is_paused(project: Project) -> None:
    project.applied(TWO)
    project.ok("pause", "--all")
    assert "everything else is still paused" in project.ok("resume", "tick")


def test_resuming_what_is_not_paused_says_so(project: Project) -> None:
    project.applied(TWO)
    assert project.ok("resume", "--all") == "nothing was paused\n"


def test_a_pause_because_of_crashes_says_how_to_go_on(project: Project) -> None:
    """R-23."""
    project.applied(TWO)
    store = open_state(project.state, project.clock, create=False)
    store.write(partial(pause_everything, until=None, reason=REASON, now=project.clock.now()))
    store.close()
    told = project.rota("status").stdout
    assert "everything (crash_loop): nothing fires or starts; the scheduler crashed repeatedly" in told


def test_a_resume_after_the_stored_end_ends_the_pause_there(project: Project) -> None:
    """R-20: later instants fall under R-10."""
    project.applied(TWO)
    project.ok("pause", "tick", "--for", "25m")
    project.clock.advance(timedelta(minutes=65))
    assert "instants in the pause: 2, SKIPPED paused" in project.ok("resume", "tick")
    assert "due since Sun 15 Nov 12:30" in project.ok("explain", "tick")


def test_pausing_again_after_the_stored_end_begins_a_new_pause(project: Project) -> None:
    """R-20: what lay between the two pauses is judged by R-10."""
    project.applied(TWO)
    project.ok("pause", "tick", "--for", "25m")
    project.clock.advance(timedelta(minutes=65))
    project.ok("pause", "tick")
    rows = [(run["reason"], run["count"]) for run in project.json("history", "tick")]
    assert rows == [("missed", 4), ("paused", 2)]
    project.ok("verify")


def test_an_edit_after_the_stored_end_settles_the_pause_there_first(project: Project) -> None:
    """R-20, R-14."""
    project.applied(TWO)
    project.ok("pause", "tick", "--for", "25m")
    project.clock.advance(timedelta(minutes=65))
    project.applied(TWO.replace("*/10", "*/5"))
    rows = [(run["reason"], run["count"]) for run in project.json("history", "tick")]
    assert rows == [("missed", 4), ("paused", 2)]
    project.ok("verify")
