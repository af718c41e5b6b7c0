"""`rota digest`: what happened, at any time."""

from datetime import timedelta

from rota.model.records import Outcome
from rota.model.states import Reason, Status
from tests.faces.conftest import Project

FILE = "defaults: {retry: false}\njobs:\n  bad: {command: 'true'}\n  good: {command: 'true'}\n"


def test_it_shows_each_part_with_its_lines_indented(project: Project) -> None:
    project.applied(FILE)
    for name in ("bad", "good"):
        project.ok("trigger", name)
    project.carry_out(
        [Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3, error="exit 3"), Outcome(Status.COMPLETED, exit_code=0)]
    )
    title, *lines = project.ok("digest").splitlines()
    assert title.startswith("rota: 1 completed, 1 failed since ")
    assert lines == [
        "Needs attention:",
        "  bad: FAILED exit_code: exit 3 rota explain bad:1",
        "Failed:",
        "  bad:1 exit_code: exit 3",
        "Jobs:",
        "  bad: 1 failed",
        "  good: 1 completed",
    ]


def test_since_bounds_it(project: Project) -> None:
    project.applied(FILE)
    project.ok("trigger", "good")
    project.carry_out([Outcome(Status.COMPLETED, exit_code=0)])
    project.clock.advance(timedelta(hours=3))
    assert project.json("digest", "--since", "2h")["counts"]["completed"] == 0
    assert project.json("digest", "--since", "4h")["counts"]["completed"] == 1
