"""`rota simulate`: days ahead, from the stored state or from the file alone, and nothing changes."""

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from rota.model.records import Outcome
from rota.model.states import Status
from tests.faces.conftest import Project

ROOT = Path(__file__).parents[2]
DONE = Outcome(Status.COMPLETED, exit_code=0)
FILE = """
timezone: Europe/Madrid
pools: {press: 1}
jobs:
  hourly:  {cron: "0 * * * *", command: ["true"], pools: [press]}
  nightly: {cron: "30 2 * * *", command: ["true"]}
  manual:  {command: ["true"]}
"""
DOCUMENT = ("--from", "2026-11-16T08:00", "--modes", "active=8h,idle=8h,dormant=8h", "--against", "60s=16")


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Document 001's own day, played from the example's file: figures and drawing."""
    folder = tmp_path_factory.mktemp("cadence")
    shutil.copytree(ROOT / "examples" / "cadence", folder, dirs_exist_ok=True)
    project = Project(folder)
    answer = project.rota("simulate", *DOCUMENT, "--svg", str(folder / "day.svg"), "--json")
    assert answer.exit_code == 0, answer.output
    return {**json.loads(answer.stdout), "svg": (folder / "day.svg").read_text("utf-8")}


def test_the_day_of_document_001_comes_out_at_its_own_figure(day: Any) -> None:
    """R-16, R-18: polls every 15, 60 and 300 s for 8 h each are 8 × 240 + 8 × 60 + 8 × 12 = 2,496, against 23,000."""
    calls = day["remote_calls"]
    assert calls["total"] == pytest.approx(2496, rel=0.05)
    assert calls["jobs"] == 0
    assert calls["single_tick"]["a_day"] == pytest.approx(23_000, rel=0.05)
    (budget,) = day["budgets"]
    assert budget["limit"] == 10_000
    assert sum(window["used"] for window in budget["windows"]) == calls["total"]


def test_each_part_of_that_day_polls_as_often_as_its_mode_says(day: Any) -> None:
    hours = next(job for job in day["jobs"] if job["name"] == "rota/poll")["hours"]
    for first, expected in ((0, 240), (8, 60), (16, 12)):
        assert all(count == pytest.approx(expected, rel=0.1) for count in hours[first : first + 8])


def test_the_drawing_of_the_page_is_that_of_the_example(day: Any) -> None:
    assert (ROOT / "docs" / "simulate-day.svg").read_text("utf-8") == day["svg"]


def test_it_works_before_the_first_apply_and_leaves_nothing(project: Project) -> None:
    project.write(FILE)
    told = project.ok("simulate", "--days", "2")
    assert "2 days, Sun 15 Nov 13:00 to Tue 17 Nov 13:00 (Europe/Madrid): 49 fires, 49 runs" in told
    assert "nothing is applied yet: simulated the file alone" in told
    assert "never due: manual" in told
    assert not project.state.exists()


def test_the_stored_state_goes_on_from_now_and_is_not_touched(project: Project) -> None:
    project.applied(FILE)
    before = project.json("list")
    found = project.json("simulate", "--days", "0.5")
    assert {job["name"]: job["fires"] for job in found["jobs"]} == {"hourly": 11, "nightly": 0, "manual": 0}
    assert project.json("list") == before
    assert project.json("history") == []


def test_durations_come_from_the_last_runs(project: Project) -> None:
    project.applied(FILE)
    project.ok("trigger", "hourly")
    project.carry_out([DONE], took=timedelta(minutes=20))
    found = project.json("simulate")
    takes = {job["name"]: (job["takes_seconds"], job["takes_known"]) for job in found["jobs"]}
    assert takes["hourly"] == (1200.0, "history")
    assert takes["nightly"] == (1.0, "assumed")
    assert any("nightly takes 1 s: no run to measure yet" in text for text in found["assumptions"])


def test_a_given_duration_wins_and_shows_in_the_saturation_of_the_pool(project: Project) -> None:
    project.applied(FILE)
    found = project.json("simulate", "--duration", "hourly=30m")
    (pool,) = found["pools"]
    assert (pool["name"], pool["peak"]) == ("press", 1)
    assert pool["share_full"] == pytest.approx(0.5, abs=0.03)


def test_a_changed_file_is_told_and_can_be_played_before_it_is_applied(project: Project) -> None:
    project.applied(FILE)
    project.write(FILE.replace("0 * * * *", "*/30 * * * *"))
    told = project.json("simulate")
    assert told["notes"] == ["rota.yaml has changes that are not applied; --unapplied simulates them"]
    assert told["totals"]["fires"] == 24
    assert project.json("simulate", "--unapplied")["totals"]["fires"] == 48
    assert project.json("simulate")["totals"]["fires"] == 24


def test_a_broken_file_leaves_what_is_stored(project: Project) -> None:
    project.applied(FILE)
    project.write("jobs: [")
    assert project.json("simulate")["totals"]["fires"] == 24
    assert project.rota("simulate", "--unapplied").exit_code == 65


def test_one_job_is_shown_and_the_others_still_play(project: Project) -> None:
    project.applied(FILE)
    found = project.json("simulate", "--job", "nightly")
    assert [job["name"] for job in found["jobs"]] == ["nightly"]
    assert found["slots"]["peak"] == 1
    assert project.rota("simulate", "--job", "nihgtly").exit_code == 2


def test_a_pause_holds_in_the_simulation_too(project: Project) -> None:
    project.applied(FILE)
    project.ok("pause", "hourly", "--for", "6h")
    found = next(job for job in project.json("simulate")["jobs"] if job["name"] == "hourly")
    assert (found["runs"], found["skipped"]) == (17, {"paused": 6})


def test_from_begins_as_if_everything_had_just_been_applied(project: Project) -> None:
    project.applied(FILE)
    project.ok("pause", "--all")
    found = project.json("simulate", "--from", "2026-12-24", "--days", "1")
    assert found["from"] == "2026-12-23T23:00:00Z"
    assert found["totals"]["runs"] == 24


def test_the_timeline_is_written_where_it_was_asked_for(project: Project) -> None:
    project.applied(FILE)
    path = project.folder / "line.svg"
    assert f"timeline drawn into {path}" in project.ok("simulate", "--svg", str(path))
    assert ElementTree.fromstring(path.read_text("utf-8")).tag.endswith("svg")
    refused = project.rota("simulate", "--svg", str(project.folder / "no" / "line.svg"))
    assert (refused.exit_code, "cannot write" in refused.output) == (74, True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--days", "0"], "days"),
        (["--days", "367"], "days"),
        (["--activity", "09:00-17:00", "--modes", "active=1h"], "cannot be combined"),
        (["--activity", "morning"], "is not a window"),
        (["--modes", "busy=1h"], "names no modes"),
        (["--duration", "3m"], "names no job"),
        (["--duration", "nothing=3m"], "no job is named 'nothing'"),
        (["--fail", "hourly=lots"], "is not a percentage"),
        (["--against", "often"], "is not a tick"),
    ],
)
def test_what_cannot_be_played_is_refused(project: Project, arguments: list[str], told: str) -> None:
    project.applied(FILE)
    answer = project.rota("simulate", *arguments)
    assert answer.exit_code == 2
    assert told in answer.output
