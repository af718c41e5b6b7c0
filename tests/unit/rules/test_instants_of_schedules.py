"""Instants of cron, at and fixed schedules, their bounds, previews and readings."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduled import CREATED, DAY, HOUR, MINUTE, SECOND

from rota.model.spec import Anchor, FirstRun, Jitter, Schedule
from rota.rules.schedule.instants import (
    count_instants,
    explain_schedule,
    fires_at,
    first_instant,
    last_instant,
    next_instant,
    previous_instant,
)
from rota.rules.schedule.preview import UpcomingFire, next_fires

HOURLY = Schedule(cron=("0 * * * *",))
FIXED = Schedule(interval=HOUR, anchor=Anchor.FIXED)


def after(schedule: Schedule, at: datetime) -> datetime | None:
    return next_instant(schedule, after=at, created_at=CREATED)


def before(schedule: Schedule, at: datetime) -> datetime | None:
    return previous_instant(schedule, before=at, created_at=CREATED)


def test_instants_lie_at_start_at_and_before_end_at():
    bounded = Schedule(cron=("0 * * * *",), start_at=CREATED, end_at=CREATED + 3 * HOUR)
    assert after(bounded, CREATED - DAY) == CREATED
    assert after(bounded, CREATED + HOUR) == CREATED + 2 * HOUR
    assert after(bounded, CREATED + 2 * HOUR) is None
    assert before(bounded, CREATED + DAY) == CREATED + 2 * HOUR
    assert before(bounded, CREATED) is None
    assert count_instants(bounded, first=CREATED - DAY, last=CREATED + DAY, created_at=CREATED) == 3


def test_first_and_last_take_the_border_itself():
    assert first_instant(HOURLY, since=CREATED, created_at=CREATED) == CREATED
    assert last_instant(HOURLY, until=CREATED, created_at=CREATED) == CREATED
    assert after(HOURLY, CREATED) == CREATED + HOUR
    assert before(HOURLY, CREATED) == CREATED - HOUR


def test_r06_a_fixed_grid_begins_at_start_at_else_at_the_creation():
    assert after(FIXED, CREATED - DAY) == CREATED
    late = Schedule(interval=HOUR, anchor=Anchor.FIXED, start_at=CREATED + 90 * SECOND)
    assert after(late, CREATED) == CREATED + 90 * SECOND
    assert after(late, CREATED + HOUR) == CREATED + HOUR + 90 * SECOND


def test_r06_first_run_after_interval_drops_the_creation_itself_but_never_a_written_start():
    waits = Schedule(interval=HOUR, anchor=Anchor.FIXED, first_run=FirstRun.AFTER_INTERVAL)
    assert after(waits, CREATED - DAY) == CREATED + HOUR
    assert before(waits, CREATED + HOUR) is None
    assert count_instants(waits, first=CREATED, last=CREATED + 2 * HOUR, created_at=CREATED) == 2
    written = Schedule(interval=HOUR, anchor=Anchor.FIXED, first_run=FirstRun.AFTER_INTERVAL, start_at=CREATED)
    assert after(written, CREATED - DAY) == CREATED


def test_an_at_schedule_has_one_instant():
    once = Schedule(at=CREATED)
    assert after(once, CREATED - SECOND) == CREATED
    assert after(once, CREATED) is None
    assert before(once, CREATED + SECOND) == CREATED
    assert before(once, CREATED) is None
    assert count_instants(once, first=CREATED, last=CREATED, created_at=CREATED) == 1
    assert count_instants(once, first=CREATED + SECOND, last=CREATED + DAY, created_at=CREATED) == 0


@pytest.mark.parametrize("schedule", [Schedule(), Schedule(interval=HOUR)], ids=["manual", "completion"])
def test_a_schedule_that_depends_on_runs_or_people_has_no_instants_of_its_own(schedule):
    assert after(schedule, CREATED) is None
    assert before(schedule, CREATED + DAY) is None
    assert count_instants(schedule, first=CREATED, last=CREATED + DAY, created_at=CREATED) == 0


def test_a_count_is_exact_up_to_10_000_and_none_above():
    seconds = Schedule(interval=SECOND, anchor=Anchor.FIXED)
    ends = {"first": CREATED, "created_at": CREATED}
    assert count_instants(seconds, last=CREATED + 9_999 * SECOND, **ends) == 10_000
    assert count_instants(seconds, last=CREATED + 10_000 * SECOND, **ends) is None


schedules = st.sampled_from(
    [
        Schedule(cron=("*/7 * * * *", "30 2 * * *"), timezone="Europe/Paris"),
        Schedule(cron=("0 9 * * MON-FRI",), timezone="America/New_York"),
        Schedule(interval=7 * MINUTE, anchor=Anchor.FIXED),
    ]
)
jitters = st.sampled_from([Jitter(percent=50), Jitter(percent=3), Jitter(up_to=2 * HOUR), Jitter(up_to=SECOND)])


@settings(max_examples=150)
@given(schedules, jitters, st.integers(0, 40_000))
def test_jitter_is_never_early_and_always_ends_before_the_next_instant(schedule, jitter, minutes):
    jittered = Schedule(
        cron=schedule.cron,
        interval=schedule.interval,
        anchor=schedule.anchor,
        timezone=schedule.timezone,
        jitter=jitter,
    )
    instant = after(jittered, CREATED + minutes * MINUTE)
    following = after(jittered, instant)
    at = fires_at(jittered, instant, name="backup", created_at=CREATED)
    assert instant <= at < following
    assert at == fires_at(jittered, instant, name="backup", created_at=CREATED)


def test_the_end_of_a_schedule_does_not_change_the_jitter_of_its_last_instant():
    open_end = Schedule(cron=("0 * * * *",), jitter=Jitter(percent=50))
    ends = Schedule(cron=("0 * * * *",), jitter=Jitter(percent=50), end_at=CREATED + SECOND)
    found = [fires_at(one, CREATED, name="backup", created_at=CREATED) for one in (open_end, ends)]
    assert found[0] == found[1] > CREATED


def test_a_preview_shows_nominal_instants_and_when_they_fire():
    jittered = Schedule(cron=("0 * * * *",), jitter=Jitter(percent=50))
    fires = next_fires(jittered, CREATED, 3, name="backup")
    assert [fire.nominal for fire in fires] == [CREATED + n * HOUR for n in (1, 2, 3)]
    assert all(fire.nominal < fire.at < fire.nominal + HOUR / 2 for fire in fires)


def test_a_preview_of_a_chain_counts_from_the_given_moment_as_if_runs_took_no_time():
    fires = next_fires(Schedule(interval=5 * MINUTE), CREATED, 3)
    assert fires == [UpcomingFire(at, at) for at in (CREATED + n * 5 * MINUTE for n in (1, 2, 3))]


def test_a_preview_keeps_the_bounds_and_ends_when_there_is_nothing_more():
    chain = Schedule(interval=HOUR, start_at=CREATED + 3 * HOUR, end_at=CREATED + 5 * HOUR)
    assert [fire.at for fire in next_fires(chain, CREATED, 9)] == [CREATED + 3 * HOUR, CREATED + 4 * HOUR]
    assert [fire.at for fire in next_fires(Schedule(at=CREATED), CREATED - HOUR, 9)] == [CREATED]
    assert next_fires(Schedule(at=CREATED), CREATED, 9) == []
    assert next_fires(Schedule(), CREATED, 9) == []


def test_a_preview_of_run_once_shows_one_fire():
    assert len(next_fires(Schedule(cron=("0 * * * *",), run_once=True), CREATED, 5)) == 1
    assert next_fires(Schedule(cron=("0 * * * *",), run_once=True), CREATED, 0) == []


@pytest.mark.parametrize("schedule", [HOURLY, FIXED, Schedule(interval=3660 * DAY)])
def test_a_preview_near_the_end_of_the_calendar_ends_without_a_crash(schedule):
    assert next_fires(schedule, datetime(9999, 12, 31, 23, 59, tzinfo=UTC), 5) == []
    assert len(next_fires(schedule, datetime(9899, 12, 31, 23, 59, tzinfo=UTC), 1)) <= 1


def test_a_preview_of_very_many_fires_stops_at_the_end_of_the_calendar():
    assert 780 < len(next_fires(Schedule(interval=3660 * DAY), CREATED, 10_000)) < 790


def test_a_preview_of_a_grid_uses_the_creation_where_it_is_known():
    fires = next_fires(FIXED, CREATED + 90 * MINUTE, 2, created_at=CREATED)
    assert [fire.at for fire in fires] == [CREATED + 2 * HOUR, CREATED + 3 * HOUR]
    assert [fire.at for fire in next_fires(FIXED, CREATED, 2)] == [CREATED + HOUR, CREATED + 2 * HOUR]


@pytest.mark.parametrize(
    ("schedule", "reading"),
    [
        (Schedule(cron=("30 2 * * *",), timezone="Europe/Madrid"), "at 02:30 every day (Europe/Madrid)"),
        (
            Schedule(cron=("30 2 * * *", "0 12 * * *")),
            "at 02:30 every day, and at 12:00 every day (UTC)",
        ),
        (
            Schedule(at=datetime(2026, 11, 16, 1, 30, tzinfo=UTC), timezone="Europe/Madrid"),
            "once at 2026-11-16 02:30 (Europe/Madrid)",
        ),
        (Schedule(), "by hand"),
        (Schedule(interval=30 * MINUTE), "every 30 min after it finishes"),
        (
            Schedule(interval=HOUR, anchor=Anchor.FIXED, start_at=CREATED, end_at=CREATED + DAY, run_once=True),
            "every 1 h, from 2026-11-15 12:00 (UTC), before 2026-11-16 12:00 (UTC), only once",
        ),
        (Schedule(interval=HOUR, jitter=Jitter(up_to=5 * MINUTE)), "every 1 h after it finishes, up to 5 min later"),
        (
            Schedule(interval=HOUR, jitter=Jitter(percent=2.5)),
            "every 1 h after it finishes, up to 2.5 % of the gap later",
        ),
    ],
)
def test_a_schedule_is_read_back_with_zone_bounds_and_jitter(schedule, reading):
    assert explain_schedule(schedule) == reading


def test_an_instant_finer_than_a_minute_is_shown_with_its_seconds():
    assert explain_schedule(Schedule(at=CREATED + timedelta(seconds=7))) == "once at 2026-11-15 12:00:07 (UTC)"
