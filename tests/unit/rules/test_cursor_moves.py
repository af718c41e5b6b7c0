"""Where the cursor stands after creation, after a chain, and after an edit (R-06, R-07, R-14)."""

import pytest
from msgspec.structs import replace
from scheduled import CREATED, DAY, HOUR, MINUTE, SECOND, job, spec

from rota.model.spec import Anchor, ByMode, FirstRun, Jitter, Mode, Schedule
from rota.rules.schedule.cursor import (
    NOWHERE,
    Cursor,
    cursor_after_chain,
    cursor_after_edit,
    cursor_in_mode,
    first_cursor,
)

NOW = CREATED + 10 * HOUR + 5 * MINUTE
HOURLY = Schedule(cron=("0 * * * *",))
CHAIN = Schedule(interval=HOUR)
FROM_START = Schedule(interval=HOUR, anchor=Anchor.START)
FIXED = Schedule(interval=HOUR, anchor=Anchor.FIXED)


def first(schedule: Schedule, *, enabled: bool = True) -> Cursor:
    return first_cursor(spec(schedule, enabled=enabled), created_at=CREATED)


def both(at):
    return Cursor(at, at)


@pytest.mark.parametrize("schedule", [CHAIN, FROM_START, FIXED])
def test_r06_a_new_interval_job_runs_now(schedule):
    assert first(schedule) == both(CREATED)


@pytest.mark.parametrize("schedule", [CHAIN, FROM_START, FIXED])
def test_r06_first_run_after_interval_waits_one_interval(schedule):
    assert first(replace(schedule, first_run=FirstRun.AFTER_INTERVAL)) == both(CREATED + HOUR)


@pytest.mark.parametrize("schedule", [CHAIN, FIXED, HOURLY])
def test_a_new_job_does_not_begin_before_start_at(schedule):
    assert first(replace(schedule, start_at=CREATED + 3 * HOUR)) == both(CREATED + 3 * HOUR)


@pytest.mark.parametrize("schedule", [CHAIN, FIXED, HOURLY, Schedule(at=CREATED)])
def test_a_new_job_whose_end_has_passed_has_no_cursor(schedule):
    assert first(replace(schedule, end_at=CREATED)) == NOWHERE


def test_a_grid_that_began_before_the_job_makes_up_nothing():
    assert first(replace(FIXED, start_at=CREATED - 90 * MINUTE)) == both(CREATED + 30 * MINUTE)


def test_a_new_cron_job_stands_at_its_first_instant_after_the_creation():
    assert first(HOURLY) == both(CREATED + HOUR)
    later = first_cursor(spec(HOURLY), created_at=CREATED + SECOND)
    assert later == both(CREATED + HOUR)


def test_an_at_in_the_past_stands_there_so_that_it_is_late_and_not_silent():
    assert first(Schedule(at=CREATED - DAY)) == both(CREATED - DAY)


@pytest.mark.parametrize("schedule", [CHAIN, HOURLY, Schedule(at=CREATED)])
def test_a_disabled_job_has_no_cursor(schedule):
    assert first(schedule, enabled=False) == NOWHERE


def test_a_manual_job_has_no_cursor():
    assert first(Schedule()) == NOWHERE


def test_jitter_moves_when_it_fires_and_not_the_nominal_instant():
    cursor = first(replace(HOURLY, jitter=Jitter(percent=50)))
    assert cursor.next_for == CREATED + HOUR
    assert CREATED + HOUR < cursor.next_at < CREATED + 1.5 * HOUR


def test_r06_completion_counts_from_the_end_of_the_chain():
    cursor = cursor_after_chain(
        job(CHAIN), scheduled_for=CREATED, first_started_at=CREATED, finished_at=CREATED + 20 * MINUTE
    )
    assert cursor == both(CREATED + 80 * MINUTE)


def test_r06_start_counts_from_the_first_start():
    cursor = cursor_after_chain(
        job(FROM_START), scheduled_for=CREATED, first_started_at=CREATED, finished_at=CREATED + 20 * MINUTE
    )
    assert cursor == both(CREATED + HOUR)


def test_r06_start_is_not_before_the_chain_is_final():
    cursor = cursor_after_chain(
        job(FROM_START), scheduled_for=CREATED, first_started_at=CREATED, finished_at=CREATED + 3 * HOUR
    )
    assert cursor == both(CREATED + 3 * HOUR)


def test_r06_a_chain_that_never_started_counts_from_its_end():
    cursor = cursor_after_chain(job(FROM_START), scheduled_for=CREATED, first_started_at=None, finished_at=NOW)
    assert cursor == both(NOW + HOUR)


@pytest.mark.parametrize("schedule", [HOURLY, FIXED, Schedule(at=CREATED)])
def test_r06_the_end_of_a_chain_leaves_the_cursor_of_cron_at_and_fixed(schedule):
    stored = job(schedule, next_for=CREATED + HOUR, next_at=CREATED + HOUR + SECOND)
    cursor = cursor_after_chain(stored, scheduled_for=CREATED, first_started_at=CREATED, finished_at=NOW)
    assert cursor == Cursor(CREATED + HOUR, CREATED + HOUR + SECOND)


def test_a_chain_ends_with_the_schedule():
    stored = job(replace(CHAIN, end_at=CREATED + HOUR))
    assert cursor_after_chain(stored, scheduled_for=CREATED, first_started_at=CREATED, finished_at=CREATED) == NOWHERE


@pytest.mark.parametrize("state", [{"used_up_at": CREATED}, {"retired_at": CREATED}, {"enabled": False}])
@pytest.mark.parametrize("schedule", [CHAIN, HOURLY])
def test_r07_the_chain_of_a_job_that_is_used_up_retired_or_disabled_leads_nowhere(schedule, state):
    stored = job(schedule, **state)
    assert cursor_after_chain(stored, scheduled_for=CREATED, first_started_at=CREATED, finished_at=NOW) == NOWHERE


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [(HOURLY, CREATED + HOUR), (FIXED, CREATED + HOUR), (CHAIN, NOW + HOUR)],
)
def test_r07_a_skipped_chain_of_run_once_goes_on_with_the_instants_after_it(schedule, expected):
    stored = job(replace(schedule, run_once=True), next_for=None, next_at=None)
    assert cursor_after_chain(stored, scheduled_for=CREATED, first_started_at=None, finished_at=NOW) == both(expected)


def test_r07_a_skipped_at_job_has_no_later_instant():
    stored = job(Schedule(at=CREATED, run_once=True), next_for=None, next_at=None)
    assert cursor_after_chain(stored, scheduled_for=CREATED, first_started_at=None, finished_at=NOW) == NOWHERE


@pytest.mark.parametrize("schedule", [HOURLY, FIXED, CHAIN, Schedule(at=NOW + DAY)])
@pytest.mark.parametrize("active", [True, False])
def test_r06_editing_anything_but_the_schedule_leaves_the_cursor(schedule, active):
    stored = job(schedule, next_for=NOW - HOUR, next_at=NOW - MINUTE)
    edited = replace(stored.spec, description="new", priority=7)
    assert cursor_after_edit(stored, edited, now=NOW, active=active) == Cursor(NOW - HOUR, NOW - MINUTE)


def test_r06_a_new_cron_counts_from_now():
    stored = job(HOURLY, next_for=CREATED, next_at=CREATED)
    edited = spec(Schedule(cron=("*/10 * * * *",)))
    assert cursor_after_edit(stored, edited, now=NOW, active=False) == both(NOW + 5 * MINUTE)
    on_the_instant = cursor_after_edit(stored, edited, now=NOW + 5 * MINUTE, active=False)
    assert on_the_instant == both(NOW + 15 * MINUTE)


def test_r06_a_new_time_zone_is_a_new_schedule():
    """DEC-010."""
    stored = job(Schedule(cron=("0 12 * * *",)))
    edited = spec(Schedule(cron=("0 12 * * *",), timezone="Europe/Paris"))
    assert cursor_after_edit(stored, edited, now=NOW, active=False) == both(CREATED + 23 * HOUR)


def test_r06_a_new_grid_keeps_the_creation_as_its_origin():
    edited = spec(replace(FIXED, interval=7 * HOUR))
    assert cursor_after_edit(job(FIXED), edited, now=NOW, active=False) == both(CREATED + 14 * HOUR)


@pytest.mark.parametrize(
    ("anchored_at", "expected"),
    [(NOW - 10 * MINUTE, NOW + 20 * MINUTE), (NOW - 30 * MINUTE, NOW), (NOW - 3 * HOUR, NOW)],
)
def test_r06_a_new_interval_counts_from_the_last_anchor_and_what_is_past_is_now(anchored_at, expected):
    stored = job(CHAIN, anchored_at=anchored_at)
    edited = spec(Schedule(interval=30 * MINUTE))
    assert cursor_after_edit(stored, edited, now=NOW, active=False) == both(expected)


def test_r06_a_new_interval_that_was_never_anchored_does_what_first_run_says():
    edited = spec(CHAIN)
    assert cursor_after_edit(job(HOURLY), edited, now=NOW, active=False) == both(NOW)
    waits = spec(replace(CHAIN, first_run=FirstRun.AFTER_INTERVAL))
    assert cursor_after_edit(job(HOURLY), waits, now=NOW, active=False) == both(NOW + HOUR)


def waiting(next_for, **changes):
    return job(replace(CHAIN, first_run=FirstRun.AFTER_INTERVAL), next_for=next_for, next_at=next_for, **changes)


@pytest.mark.parametrize(
    ("interval", "expected"), [(5 * MINUTE, 10 * MINUTE), (30 * MINUTE, 30 * MINUTE), (2 * HOUR, 2 * HOUR)]
)
def test_r06_a_new_interval_of_a_job_that_has_not_run_counts_from_where_its_first_wait_began(interval, expected):
    """Shortened below the time that has passed, it is due at once."""
    edited = spec(Schedule(interval=interval, first_run=FirstRun.AFTER_INTERVAL))
    found = cursor_after_edit(waiting(CREATED + HOUR), edited, now=CREATED + 10 * MINUTE, active=False)
    assert found == both(CREATED + expected)


def test_r06_edits_of_the_interval_do_not_keep_a_job_from_its_first_run():
    stored, now = waiting(CREATED + HOUR), CREATED
    for minutes in (61, 62, 63):
        now += 50 * MINUTE
        edited = spec(Schedule(interval=minutes * MINUTE, first_run=FirstRun.AFTER_INTERVAL))
        cursor = cursor_after_edit(stored, edited, now=now, active=False)
        stored = replace(stored, spec=edited, next_for=cursor.next_for, next_at=cursor.next_at)
        if cursor.next_for <= now:
            break
    assert cursor == both(CREATED + 100 * MINUTE)


def test_r06_the_first_wait_of_a_job_that_was_enabled_later_begins_there():
    edited = spec(Schedule(interval=30 * MINUTE, first_run=FirstRun.AFTER_INTERVAL))
    found = cursor_after_edit(waiting(NOW + 50 * MINUTE), edited, now=NOW, active=False)
    assert found == both(NOW + 20 * MINUTE)


def test_r18_changes_of_mode_do_not_keep_a_job_from_its_first_run():
    modes = ByMode(active=10 * MINUTE, idle=HOUR, dormant=None)
    schedule = Schedule(by_mode=modes, first_run=FirstRun.AFTER_INTERVAL)
    stored = job(schedule, next_for=CREATED + HOUR, next_at=CREATED + HOUR, mode=Mode.IDLE)
    assert cursor_in_mode(stored, Mode.ACTIVE, now=CREATED + 5 * MINUTE) == both(CREATED + 10 * MINUTE)
    assert cursor_in_mode(stored, Mode.ACTIVE, now=CREATED + 30 * MINUTE) == both(CREATED + 30 * MINUTE)
    asleep = replace(stored, next_for=None, next_at=None, mode=Mode.DORMANT)
    assert cursor_in_mode(asleep, Mode.ACTIVE, now=CREATED + 30 * MINUTE) == both(CREATED + 30 * MINUTE)


def test_r06_a_new_interval_waits_for_the_end_of_an_active_chain():
    stored = job(CHAIN, anchored_at=CREATED)
    edited = spec(Schedule(interval=30 * MINUTE))
    assert cursor_after_edit(stored, edited, now=NOW, active=True) == NOWHERE
    assert cursor_after_edit(stored, spec(HOURLY), now=NOW, active=True) == both(CREATED + 11 * HOUR)


def test_a_new_at_in_the_future_stays_and_one_in_the_past_is_not_made_up():
    stored = job(HOURLY)
    assert cursor_after_edit(stored, spec(Schedule(at=NOW + DAY)), now=NOW, active=False) == both(NOW + DAY)
    assert cursor_after_edit(stored, spec(Schedule(at=NOW - DAY)), now=NOW, active=False) == NOWHERE


@pytest.mark.parametrize("schedule", [HOURLY, CHAIN])
def test_r14_disabling_takes_the_cursor_away(schedule):
    edited = spec(schedule, enabled=False)
    assert cursor_after_edit(job(schedule), edited, now=NOW, active=False) == NOWHERE


def test_a_job_that_becomes_manual_has_no_cursor():
    assert cursor_after_edit(job(HOURLY), spec(Schedule()), now=NOW, active=False) == NOWHERE


@pytest.mark.parametrize("state", [{"enabled": False}, {"retired_at": CREATED}], ids=["enabling", "reviving"])
@pytest.mark.parametrize(
    ("schedule", "expected"),
    [(HOURLY, CREATED + 11 * HOUR), (FIXED, CREATED + 11 * HOUR), (CHAIN, NOW + HOUR)],
)
def test_r14_enabling_or_reviving_counts_from_now_and_first_run_does_not_apply(schedule, expected, state):
    stored = job(schedule, next_for=None, next_at=None, anchored_at=CREATED, **state)
    assert cursor_after_edit(stored, spec(schedule), now=NOW, active=False) == both(expected)


def test_r14_a_chain_that_still_runs_sets_the_cursor_of_a_revived_job():
    stored = job(CHAIN, next_for=None, next_at=None, retired_at=CREATED)
    assert cursor_after_edit(stored, spec(CHAIN), now=NOW, active=True) == NOWHERE


def test_r07_a_used_up_job_stays_so_until_its_schedule_changes():
    once = Schedule(at=CREATED)
    stored = job(once, next_for=None, next_at=None, used_up_at=CREATED)
    assert cursor_after_edit(stored, spec(once), now=CREATED - DAY, active=False) == NOWHERE
    again = spec(Schedule(at=NOW + DAY))
    assert cursor_after_edit(stored, again, now=NOW, active=False) == both(NOW + DAY)


def test_an_edited_job_respects_its_bounds():
    stored = job(HOURLY)
    starts = spec(replace(CHAIN, start_at=NOW + DAY))
    assert cursor_after_edit(stored, starts, now=NOW, active=False) == both(NOW + DAY)
    ended = spec(replace(CHAIN, end_at=NOW))
    assert cursor_after_edit(stored, ended, now=NOW, active=False) == NOWHERE
