"""Quiet hours, dates without runs and jobs at boot, as the commands show them (R-17)."""

from datetime import timedelta

from tests.faces.conftest import Project

FILE = """\
timezone: Europe/Madrid
quiet_hours: {windows: ["12:00-19:00"], policy: defer}
jobs:
  sync: {cron: "0 * * * *", command: [a]}
  report: {cron: "0 * * * *", command: [a], quiet_hours: {policy: skip}, except: [2026-12-25, 01-06]}
  free: {cron: "30 13 * * *", command: [a], quiet_hours: ignore}
  warm: {cron: "@reboot", command: [a]}
"""


def test_next_shows_what_is_deferred_and_leaves_out_what_is_skipped(project: Project) -> None:
    """R-17: until the window's end a preview shows it."""
    project.applied(FILE)
    shown = project.ok("next", "sync", "-n", "2").splitlines()
    assert "19:00:00 Europe/Madrid" in shown[0]
    assert shown[0].endswith("deferred from Sun 15 Nov 18:00 by quiet hours")
    assert "deferred" not in shown[1]
    assert project.json("next", "sync", "-n", "1") == [
        {
            "at": "2026-11-15T18:00:00Z",
            "local": "2026-11-15T19:00:00+01:00",
            "deferred_from": "2026-11-15T17:00:00Z",
        }
    ]
    assert project.json("next", "report", "-n", "1")[0]["at"] == "2026-11-15T18:00:00Z"


def test_next_after_a_moment_inside_the_window_shows_its_end(project: Project) -> None:
    """R-17."""
    project.applied(FILE)
    found = project.json("next", "sync", "-n", "1", "--after", "2026-11-16T17:30:00Z")
    assert found[0]["deferred_from"] == "2026-11-16T17:00:00Z"


def test_list_shows_deferred_instants_and_boots(project: Project) -> None:
    """R-17."""
    project.applied(FILE)
    lines = {line.split()[0]: line for line in project.ok("list").splitlines() if line.strip()}
    assert "19:00  in 6 h  deferred from 18:00" in lines["sync"]
    assert "at boot" in lines["warm"]
    assert lines["warm"].endswith("next boot")
    listed = {job["name"]: job for job in project.json("list")}
    assert listed["sync"]["next"][0]["deferred"] is True
    assert listed["report"]["quiet_hours"] == {
        "windows": ["12:00-19:00"],
        "timezone": "Europe/Madrid",
        "policy": "skip",
    }
    assert listed["report"]["except"] == ["01-06", "2026-12-25"]
    assert listed["free"]["quiet_hours"] is None


def test_explain_tells_quiet_hours_and_dates_of_a_job(project: Project) -> None:
    """R-17."""
    project.applied(FILE)
    project.clock.advance(timedelta(minutes=90))
    told = project.ok("explain", "sync")
    assert "quiet hours  12:00-19:00 (Europe/Madrid), policy defer → until 19:00; 14:00 waits for that" in told
    assert "deferred from Sun 15 Nov 18:00 by quiet hours" in told
    told = project.ok("explain", "report")
    assert "policy skip → until 19:00; 14:00 is skipped then" in told
    assert "except       01-06, 2026-12-25; next 2026-12-25" in told
    assert "next         at the next boot of the machine" in project.ok("explain", "warm")


def test_check_shows_when_a_job_first_runs_and_notes_one_that_waits_each_time(project: Project) -> None:
    """R-17: a cron wholly inside a deferring window is a warning at check."""
    project.write(FILE.replace('sync: {cron: "0 * * * *"', 'sync: {cron: "0 15 * * *"'))
    told = project.ok("check")
    assert "note: sync: every instant is in quiet hours and is deferred" in told
    assert "at boot" in told
    assert "next boot" in told
    found = {job["name"]: job for job in project.json("check")["jobs"]}
    assert found["sync"]["next_at"] == "2026-11-15T18:00:00Z"


def test_a_rehearsal_says_that_a_start_by_hand_ignores_quiet_hours(project: Project) -> None:
    """R-29."""
    project.applied(FILE)
    assert "→ until 19:00; a start by hand ignores them" in project.ok("run", "sync", "--dry-run")


def test_a_pause_that_ends_inside_the_window_shows_what_waits(project: Project) -> None:
    """R-20, R-17."""
    project.applied(FILE)
    project.ok("pause", "sync", "--for", "2h")
    assert project.json("next", "sync", "-n", "1")[0]["deferred_from"] == "2026-11-15T17:00:00Z"


def test_an_apply_tells_what_changes_in_quiet_hours_and_dates(project: Project) -> None:
    """R-17: a change of them is an edit of the schedule."""
    project.applied(FILE)
    project.write(FILE.replace("12:00-19:00", "12:00-18:00").replace("01-06", "01-07"))
    told = project.ok("apply", "--dry-run")
    assert "quiet_hours 12:00-19:00 (Europe/Madrid), policy defer → 12:00-18:00 (Europe/Madrid), policy defer" in told
    assert 'except ["01-06", "2026-12-25"] → ["01-07", "2026-12-25"]' in told
