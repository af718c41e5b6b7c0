"""A real scheduler that is paused, backed up under load and restored beside itself."""

import json
import os
from datetime import datetime, timedelta

import pytest

from rota.engine.clock import SystemClock
from rota.engine.membership.control import ask
from tests.service.serving import Project
from tests.waiting import LONGEST_WAIT, until

pytestmark = pytest.mark.xdist_group("service")

A_SECOND = timedelta(seconds=1)
BUSY = """
scheduler: {tick: 1s}
defaults: {retry: false}
jobs:
  tick: {interval: 1s, anchor: fixed, command: [echo, hi], overlap: allow}
  by-hand: {command: [echo, hi]}
"""
LONG = """
defaults: {retry: false}
jobs:
  long: {command: [sh, -c, "echo $$ > pid; read line < gate; exit 7"], timeout: never}
"""


def claim_rounds(project: Project) -> int:
    """Return how often the scheduler has looked for runs to start."""
    answer = ask(project.state, {"ask": "status"}, timeout=LONGEST_WAIT)
    assert answer is not None
    return next(loop["rounds"] for loop in answer["loops"] if loop["name"] == "claim")


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def covered(project: Project) -> list[datetime]:
    """Return the instants of `tick` that have a row, as often as they have one."""
    rows = [(instant(row["scheduled_for"]), row["count"] or 1) for row in project.history("tick")]
    return [first + number * A_SECOND for first, count in rows for number in range(count)]


def test_a_pause_of_everything_reaches_a_living_scheduler_and_its_console(project: Project) -> None:
    """R-20: nothing fires or starts, a trigger waits, and resume lets both go."""
    project.write(BUSY)
    project.serve()
    until(lambda: project.history("tick"), what="a fire")
    project.rota("pause", "--all", "--reason", "upgrade")
    fired_to, clock = covered(project)[-1], SystemClock()
    until(lambda: "paused everything (upgrade)" in project.log(), what="the console to tell the pause")
    before = claim_rounds(project)
    project.rota("trigger", "by-hand")
    until(lambda: claim_rounds(project) > before, what="the scheduler to look for work")
    assert project.told("by-hand") == [("QUEUED", None)]
    assert covered(project)[-1] == fired_to
    until(lambda: clock.now() > fired_to + 3 * A_SECOND, what="three more instants to pass")
    resumed_after = clock.now()
    project.rota("resume", "--all")
    project.until_told("by-hand", [("COMPLETED", None)])
    until(lambda: "resumed: nothing is paused" in project.log(), what="the console to tell the end")
    (row,) = [run for run in project.history("tick") if run["reason"] == "paused"]
    assert instant(row["scheduled_for"]) == fired_to + A_SECOND
    assert row["count"] >= (resumed_after - fired_to) // A_SECOND
    last_paused = fired_to + row["count"] * A_SECOND
    until(lambda: covered(project)[-1] > last_paused, what="fires to go on")
    found = covered(project)
    assert found == [found[0] + number * A_SECOND for number in range(len(found))]


def test_a_pause_survives_a_restart_and_is_told_at_the_start(project: Project) -> None:
    """R-20."""
    project.write(BUSY)
    project.rota("apply")
    project.rota("pause", "tick", "--reason", "moving house")
    fired = len(project.history("tick"))
    project.serve()
    until(lambda: "paused 1 job: tick (moving house)" in project.log(), what="the console to tell the pause")
    assert len(project.history("tick")) == fired


def test_a_timed_pause_ends_by_itself(project: Project) -> None:
    """R-20."""
    project.write(BUSY)
    project.serve()
    project.rota("pause", "tick", "--for", "3s")
    until(lambda: "pause ended" in project.log(), what="the end of the pause")
    count = len(project.history("tick"))
    until(lambda: len(project.history("tick")) > count, what="fires to go on")


def test_a_backup_under_load_is_whole_and_restores_paused(project: Project, tmp_path_factory) -> None:
    project.write(BUSY)
    project.serve()
    for _ in range(5):
        project.rota("trigger", "by-hand", "--force")
    project.rota("backup", str(project.folder / "copy.tgz"))
    other = Project(tmp_path_factory.mktemp("other"))
    told = other.rota("restore", str(project.folder / "copy.tgz")).stdout
    assert "everything is paused" in told
    answer = json.loads(other.rota("status", "--json", check=False).stdout)
    assert answer["paused"]["reason"].startswith("restored from")
    assert len(other.history("by-hand")) == 5


def test_a_project_restored_beside_the_living_one_touches_nothing_of_it(project: Project, tmp_path_factory) -> None:
    """Neither adopts nor kills what the scheduler runs that the copy was taken from."""
    os.mkfifo(project.folder / "gate")
    project.write(LONG)
    project.serve()
    project.rota("trigger", "long")
    until(lambda: project.history("long")[0]["started_at"], what="the start")
    project.rota("backup", str(project.folder / "copy.tgz"))
    other = Project(tmp_path_factory.mktemp("other"))
    try:
        other.rota("restore", str(project.folder / "copy.tgz"))
        other.serve()
        assert other.told("long") == [("FAILED", "process_restarted")]
        assert project.told("long") == [("RUNNING", None)]
    finally:
        other.end()
    with open(project.folder / "gate", "w") as gate:
        gate.write("go\n")
    project.until_told("long", [("FAILED", "exit_code")])
