"""Groups under a real scheduler: followed from another process, carried on by the next one (R-15, DEC-008)."""

import os

import pytest

from tests.service.serving import Project, kill
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("service")

FILE = """
defaults: {retry: {max_attempts: 1}}
jobs:
  extract: {command: [sh, -c, "touch extracting; read line < gate"]}
  load: {command: [echo, loaded]}
  broken: {command: [sh, -c, "exit 3"]}
  report: {command: [echo, reported]}
groups:
  nightly: {members: [extract, load, {job: report, always: true}]}
  doomed: {members: [load, broken, load, {job: report, always: true}]}
"""


def test_a_group_is_followed_member_by_member_and_tells_what_stopped_it(project: Project) -> None:
    project.write(FILE)
    project.serve()
    done = project.rota("run", "doomed", apart=True, check=False)
    assert done.returncode == 1
    lines = [line.strip("│ ") for line in done.stdout.splitlines() if line.startswith("│")]
    ends = [line for line in lines if not line.endswith("RUNNING")]
    assert ends == [
        "load:1  COMPLETED",
        "broken:1  FAILED exit_code",
        "load:2  CANCELLED predecessor_failed",
        "report:1  COMPLETED",
    ]
    assert "doomed:1  PARTIAL members_failed" in done.stdout
    assert project.json("groups", "show", "doomed")["status"] == "PARTIAL"


def test_a_group_goes_on_under_the_next_scheduler(project: Project) -> None:
    """R-23, DEC-008: the member that ran is adopted, the others kept their places and what they wait for."""
    os.mkfifo(project.folder / "gate")
    project.write(FILE)
    server = project.serve()
    project.rota("trigger", "nightly")
    until((project.folder / "extracting").exists, what="the first member to start")
    kill(server)
    assert project.json("groups", "show", "nightly")["counts"] == {"running": 1, "queued": 1, "always": 1}
    project.serve()
    (project.folder / "gate").write_text("go\n")
    project.until_told("nightly", [("COMPLETED", None)])
    assert [project.told(name) for name in ("extract", "load", "report")] == [[("COMPLETED", None)]] * 3
    project.rota("verify")


def test_a_cancelled_group_stops_the_processes_of_its_members(project: Project) -> None:
    os.mkfifo(project.folder / "gate")
    project.write(FILE)
    project.serve()
    project.rota("trigger", "nightly")
    until((project.folder / "extracting").exists, what="the first member to start")
    project.rota("groups", "cancel", "nightly")
    project.until_told("nightly", [("CANCELLED", "requested")])
    assert project.told("extract") == [("CANCELLED", "group_cancelled")]
    project.rota("verify")
