"""Quiet hours and excluded dates, played: what the database holds after nights, edits, pauses and steps (R-17)."""

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from rota.model.clock import to_ms
from rota.model.records import Run
from rota.model.spec import Anchor, Misfire, MisfirePolicy, QuietHours, QuietPolicy, Schedule
from rota.model.states import Status
from rota.operations.bulk import Range, backfill
from rota.operations.pause import JobSelection, pause, resume
from rota.operations.project.apply import adopt_tzdata
from rota.operations.verify.report import Check
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.conftest import NOON, audit, command, cron, every
from tests.engine.test_apply import put
from tests.scene import tamper

pytestmark = pytest.mark.anyio

AFTERNOON = ("13:00-15:00",)


def quiet(schedule: Schedule, policy: QuietPolicy = QuietPolicy.DEFER, *windows: str) -> Schedule:
    return replace(schedule, quiet=QuietHours(windows or AFTERNOON, "UTC", policy))


def at(hours: float) -> datetime:
    """A time of the day of the scene."""
    return NOON + timedelta(hours=hours - 12)


def rows(scene: Scene, name: str) -> list[tuple[str, str | None, str, int | None]]:
    """Each row as (status, reason, times, count)."""
    return [(run.status.shown.value, run.reason, _times(run), run.count) for run in scene.history(name)]


def _times(run: Run) -> str:
    assert run.scheduled_for is not None
    first = f"{run.scheduled_for:%H:%M}"
    return first if run.covers_to is None else f"{first}-{run.covers_to:%H:%M}"


HALF_HOURLY = cron("*/30 * * * *")


async def test_deferred_instants_become_one_run_and_one_counted_row(scene: Scene) -> None:
    """R-17: one transaction at the end of the window; the run starts then."""
    scene.declare(command("sync", schedule=quiet(HALF_HOURLY)))
    await scene.advance("2h")
    assert rows(scene, "sync") == [("COMPLETED", None, "12:30", None)]
    await scene.advance("1h")
    assert rows(scene, "sync")[1:] == [
        ("SKIPPED", "quiet_hours", "13:00-14:00", 3),
        ("COMPLETED", None, "14:30", None),
        ("SKIPPED", "overlap", "15:00", 1),
    ]
    deferred = scene.history("sync")[2]
    assert deferred.created_at == deferred.started_at == at(15)
    assert deferred.decisions["quiet_until"] == "2026-11-15T15:00:00Z"


async def test_skipped_instants_become_one_counted_row(scene: Scene) -> None:
    """R-17: maintenance windows."""
    scene.declare(command("sync", schedule=quiet(HALF_HOURLY, QuietPolicy.SKIP)))
    await scene.advance("3h")
    assert rows(scene, "sync")[1:] == [
        ("SKIPPED", "quiet_hours", "13:00-14:30", 4),
        ("COMPLETED", None, "15:00", None),
    ]


async def test_a_scheduler_that_was_away_accounts_for_every_instant(scene: Scene) -> None:
    """R-17, R-10: the deferred one is not judged by misfire, the others are."""
    scene.declare(command("sync", schedule=quiet(HALF_HOURLY)))
    await scene.advance("20m")
    await scene.crash()
    scene.clock.advance(timedelta(hours=4))
    await scene.start()
    await scene.settle()
    assert rows(scene, "sync") == [
        ("SKIPPED", "missed", "12:30", 1),
        ("SKIPPED", "quiet_hours", "13:00-14:00", 3),
        ("COMPLETED", None, "14:30", None),
        ("SKIPPED", "missed", "15:00-16:00", 3),
    ]


async def test_a_restart_inside_the_window_changes_nothing(scene: Scene) -> None:
    """R-17, R-23."""
    scene.declare(command("sync", schedule=quiet(HALF_HOURLY)))
    await scene.advance("110m")
    await scene.crash()
    await scene.start()
    await scene.advance("70m")
    assert [row[2] for row in rows(scene, "sync")] == ["12:30", "13:00-14:00", "14:30", "15:00"]


async def test_completion_anchors_wait_for_the_end_or_go_on_an_interval_after_it(scene: Scene) -> None:
    """R-17, R-06."""
    scene.declare(command("waits", schedule=quiet(every("50m"))))
    scene.declare(command("skips", schedule=quiet(every("50m"), QuietPolicy.SKIP)))
    await scene.advance("4h")
    assert rows(scene, "waits") == [
        ("COMPLETED", None, "12:00", None),
        ("COMPLETED", None, "12:50", None),
        ("COMPLETED", None, "13:40", None),
        ("COMPLETED", None, "15:50", None),
    ]
    assert scene.history("waits")[2].started_at == at(15)
    assert rows(scene, "skips")[2:] == [("SKIPPED", "quiet_hours", "13:40", 1), ("COMPLETED", None, "15:50", None)]


async def test_a_manual_trigger_and_a_retry_ignore_quiet_hours(scene: Scene) -> None:
    """R-17, R-29: they act on instants alone."""
    scene.declare(command("sync", schedule=quiet(HALF_HOURLY)))
    await scene.advance("90m")
    scene.trigger("sync")
    await scene.settle()
    assert scene.history("sync")[-1].status is Status.COMPLETED


async def test_an_edit_of_the_schedule_inside_counts_what_came_under_the_old_one(scene: Scene) -> None:
    """R-17, R-14: nothing runs inside quiet hours, and the new definition owns what is left of them."""
    put(scene, command("sync", schedule=quiet(HALF_HOURLY)))
    await scene.advance("100m")
    put(scene, command("sync", schedule=quiet(cron("*/15 * * * *"))))
    await scene.advance("80m")
    assert rows(scene, "sync")[1:4] == [
        ("SKIPPED", "quiet_hours", "13:00-13:30", 2),
        ("SKIPPED", "quiet_hours", "13:45-14:30", 4),
        ("COMPLETED", None, "14:45", None),
    ]
    assert "changed before the quiet hours ended" in (scene.history("sync")[1].error or "")


async def test_an_edit_of_anything_else_inside_leaves_the_instants_waiting(scene: Scene) -> None:
    """R-17, R-06: the cursor stays where it is."""
    spec = command("sync", schedule=quiet(cron("30 13 * * *")))
    put(scene, spec)
    await scene.advance("100m")
    put(scene, replace(spec, description="changed"))
    await scene.advance("80m")
    assert rows(scene, "sync") == [("COMPLETED", None, "13:30", None)]


@pytest.mark.parametrize("policy", [QuietPolicy.DEFER, QuietPolicy.SKIP])
async def test_a_job_that_is_disabled_or_retired_inside_counts_what_came(scene: Scene, policy: QuietPolicy) -> None:
    """R-17, R-14."""
    spec = command("sync", schedule=quiet(cron("30 13 * * *"), policy))
    put(scene, spec, command("gone", schedule=spec.schedule))
    await scene.advance("100m")
    put(scene, replace(spec, enabled=False))
    assert rows(scene, "sync") == rows(scene, "gone") == [("SKIPPED", "quiet_hours", "13:30", 1)]
    await scene.advance("2h")
    assert len(rows(scene, "sync")) == 1


async def test_new_quiet_hours_hold_what_comes_next(scene: Scene) -> None:
    """R-17: a change of quiet hours is an edit of the schedule."""
    put(scene, command("sync", schedule=HALF_HOURLY))
    await scene.advance("80m")
    put(scene, command("sync", schedule=quiet(HALF_HOURLY)))
    assert (scene.job("sync").next_for, scene.job("sync").next_at) == (at(13.5), at(15))


async def test_a_pause_inside_the_window_leaves_its_instants_waiting(scene: Scene) -> None:
    """R-20, R-17: a pause holds fires back, and theirs comes later."""
    scene.declare(command("sync", schedule=quiet(HALF_HOURLY)))
    await scene.advance("70m")
    pause(scene.store, JobSelection(("sync",)), until=None, reason="", now=scene.clock.now())
    await scene.advance("40m")
    resume(scene.store, JobSelection(("sync",)), catch_up=True, now=scene.clock.now())
    await scene.advance("70m")
    assert rows(scene, "sync")[1:3] == [
        ("SKIPPED", "quiet_hours", "13:00-14:00", 3),
        ("COMPLETED", None, "14:30", None),
    ]


async def test_a_pause_over_the_end_of_the_window_counts_its_instants(scene: Scene) -> None:
    """R-20, R-17."""
    scene.declare(command("sync", schedule=quiet(HALF_HOURLY)))
    await scene.advance("70m")
    pause(scene.store, JobSelection(("sync",)), until=at(15.25), reason="", now=scene.clock.now())
    await scene.advance("130m")
    assert rows(scene, "sync")[1:] == [("SKIPPED", "paused", "13:00-15:00", 5)]
    await scene.advance("20m")
    assert rows(scene, "sync")[2:] == [("COMPLETED", None, "15:30", None)]


async def test_a_paused_job_that_is_edited_inside_counts_what_came(scene: Scene) -> None:
    """R-20, R-17."""
    put(scene, command("sync", schedule=quiet(HALF_HOURLY)))
    await scene.advance("70m")
    pause(scene.store, JobSelection(("sync",)), until=None, reason="", now=scene.clock.now())
    await scene.advance("30m")
    put(scene, command("sync", schedule=quiet(cron("*/20 * * * *"))))
    assert rows(scene, "sync")[1:] == [("SKIPPED", "paused", "13:00-13:30", 2)]
    resume(scene.store, JobSelection(("sync",)), catch_up=False, now=scene.clock.now())
    await scene.advance("90m")


async def test_a_clock_that_is_set_back_moves_an_anchored_instant_to_the_quiet_hours_it_lies_in_now(
    scene: Scene,
) -> None:
    """R-26, R-17: the end of quiet hours is of the calendar and does not move."""
    scene.declare(command("waits", schedule=quiet(every("50m"))))
    await scene.advance("101m")
    assert (scene.job("waits").next_for, scene.job("waits").next_at) == (at(12) + timedelta(minutes=100), at(15))
    scene.clock.step(-timedelta(minutes=20))
    await scene.settle()
    assert (scene.job("waits").next_for, scene.job("waits").next_at) == (at(12) + timedelta(minutes=80), at(15))
    scene.clock.step(-timedelta(minutes=40))
    await scene.settle()
    assert rows(scene, "waits")[-1] == ("COMPLETED", None, "12:40", None)


async def test_a_clock_that_is_set_back_leaves_a_waiting_instant_of_the_calendar(scene: Scene) -> None:
    """R-26, R-17."""
    scene.declare(command("sync", schedule=quiet(HALF_HOURLY)))
    await scene.advance("100m")
    scene.clock.step(-timedelta(hours=1))
    await scene.advance("140m")
    assert [row[2] for row in rows(scene, "sync")] == ["12:30", "13:00-14:00", "14:30", "15:00"]


async def test_new_zone_data_inside_a_window_loses_no_instant(scene: Scene) -> None:
    """R-20, R-17."""
    zoned = replace(
        HALF_HOURLY, timezone="Europe/London", quiet=QuietHours(AFTERNOON, "Europe/London", QuietPolicy.DEFER)
    )
    scene.declare(command("sync", schedule=zoned))
    scene.declare(command("waits", schedule=replace(zoned, cron=(), interval=timedelta(minutes=50))))
    scene.store.write(lambda db: adopt_tzdata(db, tzdata="earlier", now=scene.clock.now()))
    await scene.advance("110m")
    scene.store.write(lambda db: adopt_tzdata(db, tzdata="2026z", now=scene.clock.now()))
    assert rows(scene, "sync")[1:] == [("SKIPPED", "quiet_hours", "13:00-13:30", 2)]
    assert scene.job("waits").next_at == at(15)


async def test_misfire_never_makes_up_what_quiet_hours_skip(scene: Scene) -> None:
    """R-17, R-10."""
    scene.declare(command("sync", schedule=quiet(HALF_HOURLY, QuietPolicy.SKIP), misfire=Misfire(MisfirePolicy.ALL)))
    await scene.advance("40m")
    await scene.crash()
    scene.clock.advance(timedelta(hours=3))
    await scene.start()
    await scene.settle()
    assert [row[:3] for row in rows(scene, "sync")[1:]] == [
        ("SKIPPED", "quiet_hours", "13:00-14:30"),
        ("COMPLETED", None, "15:00"),
        ("COMPLETED", None, "15:30"),
    ]


async def test_excluded_instants_are_rows_when_they_come(scene: Scene) -> None:
    """Calendars: in the job's zone, whose day begins at 15:00 here."""
    scene.declare(command("sync", schedule=replace(HALF_HOURLY, timezone="Asia/Tokyo", excluded=("2026-11-15",))))
    await scene.advance("70m")
    assert rows(scene, "sync") == [("SKIPPED", "excluded", "12:30", 1), ("SKIPPED", "excluded", "13:00", 1)]
    await scene.crash()
    scene.clock.advance(timedelta(hours=2))
    await scene.start()
    await scene.settle()
    assert rows(scene, "sync")[2:] == [("SKIPPED", "excluded", "13:30-14:30", 3), ("SKIPPED", "missed", "15:00", 1)]


async def test_an_excluded_anchored_instant_goes_on_an_interval_after_the_day(scene: Scene) -> None:
    """Calendars: as after a pause (R-20)."""
    schedule = replace(every("1h"), timezone="Asia/Tokyo", excluded=("11-15",))
    scene.declare(command("sync", schedule=schedule))
    await scene.advance("5h")
    assert rows(scene, "sync") == [
        ("SKIPPED", "excluded", "12:00", 1),
        ("COMPLETED", None, "16:00", None),
        ("COMPLETED", None, "17:00", None),
    ]


async def test_a_person_may_have_an_excluded_instant_run_after_a_pause(scene: Scene) -> None:
    """R-20: `resume --catch-up once` is asked for by hand."""
    scene.declare(command("sync", schedule=replace(HALF_HOURLY, excluded=("11-15",))))
    pause(scene.store, JobSelection(("sync",)), until=None, reason="", now=scene.clock.now())
    await scene.advance("70m")
    resume(scene.store, JobSelection(("sync",)), catch_up=True, now=scene.clock.now())
    await scene.settle()
    assert rows(scene, "sync") == [("SKIPPED", "paused", "12:30", 1), ("COMPLETED", None, "13:00", None)]


async def test_a_backfill_leaves_excluded_days_out_and_ignores_quiet_hours(scene: Scene) -> None:
    """R-17, R-29: a person asks for it."""
    scene.declare(command("sync", schedule=replace(quiet(cron("30 14 * * *"), QuietPolicy.SKIP), excluded=("11-13",))))
    made = backfill(scene.store, "sync", Range(at(-72), at(-24)), now=scene.clock.now())
    assert [f"{instant:%d}" for instant in made.instants] == ["12"]


async def test_a_running_job_at_the_end_of_the_window_makes_the_deferred_one_overlap(scene: Scene) -> None:
    """R-17, R-11."""
    scene.processes.scripts["sync"] = Script(takes=timedelta(hours=4))
    scene.declare(command("sync", schedule=quiet(HALF_HOURLY)))
    await scene.advance("3h")
    assert rows(scene, "sync")[1:] == [
        ("SKIPPED", "quiet_hours", "13:00-14:00", 3),
        ("SKIPPED", "overlap", "14:30-15:00", 2),
    ]


async def test_a_fixed_grid_is_deferred_too(scene: Scene) -> None:
    """R-17."""
    scene.declare(command("grid", schedule=quiet(every("40m", anchor=Anchor.FIXED))))
    await scene.advance("3h")
    assert [row[2] for row in rows(scene, "grid")] == ["12:00", "12:40", "13:20-14:00", "14:40"]


SECOND_RUN = "run = (SELECT seq FROM run WHERE number = 2)"
SKIP_SECOND = f"UPDATE ended SET status = 6, reason = '{{}}', started_at = NULL WHERE {SECOND_RUN}"
RENAME = "UPDATE ended SET reason = '{}' WHERE reason = 'quiet_hours'"
RUN_SECOND = f"UPDATE ended SET status = 4, reason = NULL, started_at = finished_at WHERE {SECOND_RUN}"
EARLY = "UPDATE run SET created_at = created_at - 3600000 WHERE number = 3"
FORGERIES = {
    "a deferred night was missed": (quiet(HALF_HOURLY), RENAME.format("missed"), "quiet hours until"),
    "a deferred run was early": (quiet(HALF_HOURLY), EARLY, "defers it to"),
    "nothing is quiet": (HALF_HOURLY, SKIP_SECOND.format("quiet_hours"), "has none"),
    "another day is excluded": (
        replace(HALF_HOURLY, excluded=("11-16",)),
        SKIP_SECOND.format("excluded"),
        "lets it run",
    ),
    "an excluded day ran": (replace(HALF_HOURLY, excluded=("11-15",)), RUN_SECOND, "excludes it"),
    "a skipped night ran": (quiet(HALF_HOURLY, QuietPolicy.SKIP), RENAME.format("overlap"), "quiet hours until"),
}


@pytest.mark.parametrize(("schedule", "forgery", "told"), FORGERIES.values(), ids=FORGERIES)
async def test_verify_finds_rows_that_the_calendar_does_not_allow(
    unaudited: Scene, schedule: Schedule, forgery: str, told: str
) -> None:
    """R-17: found by a reading of its own."""
    unaudited.declare(command("sync", schedule=schedule))
    await unaudited.advance("190m")
    assert audit(unaudited).violations == ()
    tamper(unaudited, forgery)
    found = [one.text for one in audit(unaudited).violations if one.check is Check.LEDGER]
    assert any(told in text for text in found), found


async def test_verify_finds_a_cursor_that_does_not_wait(unaudited: Scene) -> None:
    """R-17."""
    unaudited.declare(command("sync", schedule=quiet(HALF_HOURLY)), command("waits", schedule=quiet(every("50m"))))
    await unaudited.advance("110m")
    tamper(unaudited, f"UPDATE job SET next_at = {to_ms(at(14.5))}")
    found = [(one.job, one.text) for one in audit(unaudited).violations if one.check is Check.CURSOR]
    assert [job for job, text in found if "it lies in quiet hours until" in text] == ["sync", "waits"]
