"""Quiet hours and excluded days in plans, case by case (R-17), and in the coming fires."""

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace
from scheduled import CREATED, DAY, HOUR, MINUTE, SECOND, job, spec

from rota.model.records import Job
from rota.model.spec import (
    Anchor,
    Jitter,
    Misfire,
    MisfirePolicy,
    QuietHours,
    QuietPolicy,
    RepeatedFailure,
    Schedule,
)
from rota.model.states import Reason, Status
from rota.rules.admission import ActiveRun
from rota.rules.pause import cursor_after_pause, plan_pause_end
from rota.rules.schedule.blackouts import excluded_until, next_excluded
from rota.rules.schedule.cursor import first_cursor
from rota.rules.schedule.plan import FireFacts, FirePlan, PlannedRun, plan_close, plan_fire
from rota.rules.schedule.preview import coming_fires, fires_to_come, next_fires, overdue_fire

HOURLY = Schedule(cron=("0 * * * *",))
MIDNIGHT = CREATED + 12 * HOUR
"""Of Monday, 2026-11-16, in UTC; quiet hours last until seven."""
NIGHT = ("00:00-07:00",)
RUNNING = ActiveRun("id-7", "backup:7", Status.RUNNING)


def deferring(schedule: Schedule = HOURLY, *windows: str) -> Schedule:
    return replace(schedule, quiet=QuietHours(windows or NIGHT, "UTC", QuietPolicy.DEFER))


def skipping(schedule: Schedule = HOURLY, *windows: str) -> Schedule:
    return replace(schedule, quiet=QuietHours(windows or NIGHT, "UTC", QuietPolicy.SKIP))


def at(hours: float) -> datetime:
    """A time of Monday."""
    return MIDNIGHT + hours * HOUR


def stored(schedule: Schedule, nominal: datetime, *, fires: datetime | None = None, **more: object) -> Job:
    return job(schedule, next_for=nominal, next_at=fires or nominal, **more)


def plan(one: Job, now: datetime, *active: ActiveRun) -> FirePlan:
    return plan_fire(one, FireFacts(active), now=now)


def outline(found: FirePlan) -> list[tuple[object, ...]]:
    """Each step as (what, first, last, count)."""
    return [
        ("run", step.scheduled_for, step.scheduled_for, 1)
        if isinstance(step, PlannedRun)
        else (step.reason, step.scheduled_for, step.covers_to or step.scheduled_for, step.count)
        for step in found.steps
    ]


@pytest.mark.parametrize("quiet", [deferring(), skipping()])
def test_the_first_instant_inside_waits_for_the_end(quiet: Schedule) -> None:
    """R-17: `next_for` is the instant, `next_at` the window's end."""
    found = plan(stored(quiet, at(-1)), at(-1))
    assert (found.next_for, found.next_at) == (at(0), at(7))
    waiting = stored(quiet, at(0), fires=at(7))
    assert plan(waiting, at(7) - SECOND) == FirePlan((), at(0), at(7))


def test_defer_runs_the_last_instant_at_the_end_and_counts_the_others() -> None:
    """R-17: one transaction, in the order of the instants, and seven itself is outside."""
    found = plan(stored(deferring(), at(0), fires=at(7)), at(7))
    assert outline(found) == [
        (Reason.QUIET_HOURS, at(0), at(5), 6),
        ("run", at(6), at(6), 1),
        (Reason.OVERLAP, at(7), at(7), 1),
    ]
    run = found.steps[1]
    assert isinstance(run, PlannedRun)
    assert (run.quiet_until, run.late_by, run.made_up) == (at(7), timedelta(), False)


def test_skip_leaves_one_counted_row_for_each_window() -> None:
    """R-17."""
    assert outline(plan(stored(skipping(), at(0), fires=at(7)), at(7))) == [
        (Reason.QUIET_HOURS, at(0), at(6), 7),
        ("run", at(7), at(7), 1),
    ]
    twice = skipping(Schedule(cron=("0 3 * * *",)))
    found = plan(stored(twice, at(3), fires=at(7), misfire=Misfire(MisfirePolicy.ALL)), at(24 + 7))
    assert outline(found) == [
        (Reason.QUIET_HOURS, at(3), at(3), 1),
        (Reason.QUIET_HOURS, at(27), at(27), 1),
    ]


def test_a_deferred_instant_runs_however_late_its_end_is_noticed() -> None:
    """R-17: misfire never judges it, and it is not made up."""
    lonely = deferring(Schedule(cron=("30 2 * * *",)))
    found = plan(stored(lonely, at(2.5), fires=at(7), misfire=Misfire(max_age=MINUTE)), at(15))
    assert outline(found) == [("run", at(2.5), at(2.5), 1)]


def test_of_several_nights_only_the_last_instant_of_the_last_one_runs() -> None:
    """R-17, R-10: what lies outside of the nights is judged as ever."""
    found = plan(stored(deferring(), at(0), fires=at(7)), at(24 + 9.5))
    assert outline(found) == [
        (Reason.QUIET_HOURS, at(0), at(6), 7),
        (Reason.MISSED, at(7), at(23), 17),
        (Reason.QUIET_HOURS, at(24), at(29), 6),
        ("run", at(30), at(30), 1),
        (Reason.MISSED, at(31), at(33), 3),
    ]


def test_overlap_judges_a_deferred_instant() -> None:
    """R-17, R-11."""
    found = plan(stored(deferring(Schedule(cron=("0 3 * * *",))), at(3), fires=at(7)), at(7), RUNNING)
    assert outline(found) == [(Reason.OVERLAP, at(3), at(3), 1)]


def test_an_instant_that_is_made_up_beside_a_deferred_one_is_judged_by_overlap() -> None:
    """R-10: only those that misfire makes up wait for each other."""
    found = plan(stored(deferring(), at(0), fires=at(7), misfire=Misfire(MisfirePolicy.ONCE)), at(9.5))
    assert [what for what, *_ in outline(found)] == [Reason.QUIET_HOURS, "run", Reason.MISSED, Reason.OVERLAP]


def test_excluded_instants_have_their_row_when_they_come() -> None:
    """An excluded day does not wait, and neighbours become one row."""
    holiday = replace(HOURLY, excluded=("2026-11-16",))
    found = plan(stored(holiday, at(0)), at(0))
    assert outline(found) == [(Reason.EXCLUDED, at(0), at(0), 1)]
    assert (found.next_for, found.next_at) == (at(1), at(1))
    late = plan(stored(holiday, at(0), misfire=Misfire(MisfirePolicy.ALL)), at(25.5))
    assert outline(late)[0] == (Reason.EXCLUDED, at(0), at(23), 24)


def test_exclusion_goes_before_quiet_hours() -> None:
    """R-17: of a night over two days the excluded one has its own row, and the last instant left runs."""
    both = replace(deferring(HOURLY, "22:00-04:00"), excluded=("11-16",))
    found = plan(stored(both, at(-2), fires=at(4)), at(4))
    assert outline(found) == [
        (Reason.QUIET_HOURS, at(-2), at(-2), 1),
        ("run", at(-1), at(-1), 1),
        (Reason.EXCLUDED, at(0), at(4), 5),
    ]


def test_jitter_does_not_move_the_end_of_quiet_hours() -> None:
    """R-17."""
    jittered = replace(deferring(), jitter=Jitter(percent=50))
    found = plan(stored(jittered, at(-1)), at(-0.5))
    assert (found.next_for, found.next_at) == (at(0), at(7))


def test_a_run_that_is_wanted_once_may_be_a_deferred_one() -> None:
    """R-07, R-17."""
    once = replace(deferring(), run_once=True)
    found = plan(stored(once, at(0), fires=at(7)), at(7))
    assert [what for what, *_ in outline(found)] == [Reason.QUIET_HOURS, "run"]
    assert found.next_for is None


def test_a_job_that_is_held_back_does_not_run_at_the_end_either() -> None:
    """R-17, DEC-007."""
    one = stored(deferring(Schedule(cron=("0 3 * * *",))), at(3), fires=at(7), backing_off_until=at(8))
    one = replace(one, spec=replace(one.spec, on_repeated_failure=RepeatedFailure()))
    assert outline(plan(one, at(7))) == [(Reason.BACKING_OFF, at(3), at(3), 1)]


CHAIN = Schedule(interval=HOUR)


def test_an_anchored_instant_waits_for_the_end_and_runs_then() -> None:
    """R-17, R-06."""
    one = stored(deferring(CHAIN), at(3), fires=at(7))
    assert plan(one, at(6)) == FirePlan((), at(3), at(7))
    found = plan(one, at(12))
    assert outline(found) == [("run", at(3), at(3), 1)]
    assert found.next_for is None


def test_an_anchored_instant_that_is_skipped_goes_on_an_interval_after_the_end() -> None:
    """R-17: as after a pause (R-20)."""
    found = plan(stored(skipping(CHAIN), at(3), fires=at(7)), at(7))
    assert outline(found) == [(Reason.QUIET_HOURS, at(3), at(3), 1)]
    assert (found.next_for, found.next_at) == (at(8), at(8))


def test_an_anchored_instant_on_an_excluded_day_goes_on_an_interval_after_it() -> None:
    """As after a pause (R-20)."""
    found = plan(stored(replace(CHAIN, excluded=("11-16",)), at(3)), at(3))
    assert outline(found) == [(Reason.EXCLUDED, at(3), at(3), 1)]
    assert (found.next_for, found.next_at) == (at(25), at(25))


def test_a_schedule_that_ends_inside_counts_what_came_so_far_and_runs_nothing() -> None:
    """R-17: the next definition decides what becomes of the rest of the night."""
    found = plan_close(stored(deferring(), at(0), fires=at(7)), now=at(3.5))
    assert outline(found) == [(Reason.QUIET_HOURS, at(0), at(3), 4)]
    assert found.next_for == at(4)
    chain = plan_close(stored(deferring(CHAIN), at(3), fires=at(7)), now=at(3.5))
    assert outline(chain) == [(Reason.QUIET_HOURS, at(3), at(3), 1)]


def paused(schedule: Schedule, since: datetime, until: datetime | None = None) -> Job:
    return job(schedule, next_for=None, next_at=None, held_for=at(0), paused_at=since, paused_until=until)


def test_a_pause_that_ends_inside_leaves_the_instants_waiting() -> None:
    """R-20: a pause holds fires back, and theirs comes at seven."""
    one = paused(deferring(), at(2), at(5))
    found = plan_pause_end(one, end=at(5), catch_up=False, now=at(5))
    assert found.skip is None
    assert (found.cursor.next_for, found.cursor.next_at) == (at(0), at(7))
    assert cursor_after_pause(one) == found.cursor
    chain = plan_pause_end(paused(deferring(CHAIN), at(2)), end=at(5), catch_up=True, now=at(5))
    assert (chain.skip, chain.catch_up, chain.cursor.next_at) == (None, None, at(7))


def test_a_pause_that_ends_after_the_night_counts_it() -> None:
    """R-20, R-17."""
    found = plan_pause_end(paused(skipping(), at(2)), end=at(8), catch_up=False, now=at(8))
    assert found.skip is not None
    assert (found.skip.reason, found.skip.scheduled_for, found.skip.covers_to) == (Reason.PAUSED, at(0), at(8))
    assert found.cursor.next_for == at(9)


def test_a_paused_job_whose_schedule_ends_inside_counts_what_came_so_far() -> None:
    """R-20, R-17."""
    found = plan_pause_end(paused(deferring(), at(2)), end=at(3.5), catch_up=False, now=at(3.5), closing=True)
    assert found.skip is not None
    assert (found.skip.covers_to, found.skip.count) == (at(3), 4)


def test_the_coming_fires_are_those_that_run() -> None:
    """R-17: of a deferring night its last instant, of a skipping one and of an excluded day none."""
    found = next_fires(deferring(), at(-1.5), 3)
    assert [(fire.nominal, fire.at, fire.deferred) for fire in found] == [
        (at(-1), at(-1), False),
        (at(6), at(7), True),
        (at(7), at(7), False),
    ]
    assert [fire.at for fire in next_fires(skipping(), at(-1.5), 2)] == [at(-1), at(7)]
    assert [fire.at for fire in next_fires(replace(HOURLY, excluded=("11-16",)), at(-1.5), 2)] == [at(-1), at(24)]


def test_the_coming_fires_of_a_stored_job_begin_with_what_waits() -> None:
    """R-17."""
    one = stored(deferring(Schedule(cron=("0 3 * * *",))), at(3), fires=at(7))
    assert [(fire.nominal, fire.at) for fire in coming_fires(one, n=2)] == [(at(3), at(7)), (at(27), at(31))]
    skipped = stored(skipping(), at(0), fires=at(7))
    assert [fire.at for fire in coming_fires(skipped, n=2)] == [at(7), at(8)]


def test_fires_to_come_leave_out_what_is_overdue() -> None:
    job = stored(HOURLY, at(3))
    assert overdue_fire(job, now=at(3)) is None
    assert [fire.at for fire in fires_to_come(job, n=2, now=at(3))] == [at(3), at(4)]
    overdue = overdue_fire(job, now=at(9.5))
    assert overdue is not None
    assert overdue.at == at(3)
    assert [fire.at for fire in fires_to_come(job, n=2, now=at(9.5))] == [at(10), at(11)]
    once = stored(Schedule(at=at(3)), at(3))
    assert fires_to_come(once, n=2, now=at(9.5)) == []
    assert [fire.at for fire in fires_to_come(stored(CHAIN, at(3)), n=1, now=at(9.5))] == [at(10.5)]


def test_the_coming_fires_of_an_anchored_job_jump_over_the_night() -> None:
    """R-17."""
    assert [fire.at for fire in next_fires(deferring(CHAIN), at(-1.5), 3)] == [at(-0.5), at(7), at(8)]
    assert [fire.at for fire in next_fires(skipping(CHAIN), at(-1.5), 3)] == [at(-0.5), at(8), at(9)]
    excluded = replace(CHAIN, excluded=("11-16",))
    assert [fire.at for fire in next_fires(excluded, at(-1.5), 2)] == [at(-0.5), at(25)]


def test_a_schedule_that_never_runs_has_no_coming_fires() -> None:
    """R-17: and the search for one ends."""
    assert next_fires(skipping(Schedule(cron=("0 3 * * *",))), at(0), 5) == []
    assert next_fires(skipping(Schedule(interval=2 * HOUR), "00:00-23:00"), at(0), 5) == []


def test_a_new_job_inside_a_window_waits_for_its_end() -> None:
    """R-17: also its first run."""
    cursor = first_cursor(spec(deferring(CHAIN)), created_at=at(3))
    assert (cursor.next_for, cursor.next_at) == (at(3), at(7))
    fixed = first_cursor(spec(deferring(replace(CHAIN, anchor=Anchor.FIXED))), created_at=at(3))
    assert (fixed.next_for, fixed.next_at) == (at(3), at(7))


def test_dormant_hours_leave_instants_alone() -> None:
    """R-17, R-18: they act on the mode."""
    dormant = replace(HOURLY, quiet=QuietHours(NIGHT, "UTC", QuietPolicy.DORMANT))
    assert outline(plan(stored(dormant, at(3)), at(3))) == [("run", at(3), at(3), 1)]


HOLIDAYS = Schedule(cron=("0 * * * *",), timezone="Europe/Madrid", excluded=("12-25", "12-26", "2027-01-06", "02-29"))


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("instant", "until"),
    [
        ("2026-12-24T23:59:59+01:00", None),
        ("2026-12-25T00:00:00+01:00", "2026-12-27T00:00:00+01:00"),
        ("2026-12-26T23:59:59+01:00", "2026-12-27T00:00:00+01:00"),
        ("2027-01-06T12:00:00+01:00", "2027-01-07T00:00:00+01:00"),
        ("2028-02-29T12:00:00+01:00", "2028-03-01T00:00:00+01:00"),
        ("2028-01-06T12:00:00+01:00", None),
    ],
)
def test_days_are_excluded_in_the_zone_of_the_job(instant: str, until: str | None) -> None:
    assert excluded_until(HOLIDAYS, moment(instant)) == (moment(until) if until else None)


def test_the_next_excluded_day_is_found() -> None:
    assert next_excluded(HOLIDAYS, moment("2026-12-26T12:00:00Z")) == moment("2027-01-06T00:00:00+01:00")
    assert next_excluded(HOLIDAYS, moment("2027-01-06T12:00:00Z")) == moment("2027-12-25T00:00:00+01:00")
    assert next_excluded(replace(HOLIDAYS, excluded=("2026-01-01",)), moment("2026-01-01T12:00:00Z")) is None
    leap = replace(HOLIDAYS, excluded=("02-29",))
    assert next_excluded(leap, moment("2096-03-01T12:00:00Z")) == moment("2104-02-29T00:00:00+01:00")


def test_a_day_whose_midnight_clocks_skip_begins_after_the_gap() -> None:
    cairo = Schedule(cron=("0 * * * *",), timezone="Africa/Cairo", excluded=("2026-04-24",))
    begins = moment("2026-04-23T22:00:00+00:00")  # clocks go from 24:00 to 01:00
    assert excluded_until(cairo, begins - SECOND) is None
    assert excluded_until(cairo, begins) == begins + 23 * HOUR
    assert next_excluded(cairo, begins - DAY) == begins


def test_coming_fires_that_are_asked_for_again_are_the_same_whatever_was_done_with_the_first() -> None:
    """R-26: a moved fire of one job is not remembered as that of the schedule."""
    daily = deferring(Schedule(cron=("0 3 * * *",)))
    moved = coming_fires(stored(daily, at(3), fires=at(7)), n=2)
    moved.clear()
    assert [fire.at for fire in coming_fires(stored(daily, at(3), fires=at(7)), n=2)] == [at(7), at(31)]
    assert [fire.at for fire in coming_fires(stored(HOURLY, at(3), fires=at(3.5)), n=2)] == [at(3.5), at(4)]
    assert [fire.at for fire in coming_fires(stored(HOURLY, at(3), fires=at(3)), n=2)] == [at(3), at(4)]
