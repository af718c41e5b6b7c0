"""`rota history --trigger` and `--agent`: which door a run came through, and whom its job asks."""

import pytest

from tests.faces.conftest import Project

FILE = """
agents:
  reviewer: {adapter: claude}
jobs:
  nightly: {cron: "0 2 * * *", agent: reviewer, prompt: Review the day.}
  plain: {command: "true", cron: "0 3 * * *"}
"""


@pytest.fixture
def asked(project: Project) -> Project:
    project.applied(FILE)
    for job in ("nightly", "plain"):
        project.ok("trigger", job)
    return project


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        (["--agent", "reviewer"], ["nightly:1"]),
        (["--agent", "nobody"], []),
        (["--trigger", "manual"], ["plain:1", "nightly:1"]),
        (["--trigger", "schedule"], []),
        (["--trigger", "schedule", "--trigger", "manual"], ["plain:1", "nightly:1"]),
    ],
)
def test_runs_are_found_by_door_and_agent(asked: Project, flags: list[str], found: list[str]) -> None:
    assert [run["run"] for run in asked.json("history", *flags)] == found


def test_a_door_that_is_none_is_refused(asked: Project) -> None:
    result = asked.rota("history", "--trigger", "window")
    assert result.exit_code == 2
    assert "no trigger is named 'window'" in result.stderr
