"""Cron instants against brute force, around every kind of clock change (DESIGN section 4)."""

# ruff: noqa: DTZ001 - hypothesis takes the bounds of its datetimes without a zone

from bisect import bisect_left, bisect_right
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import cron_oracle
import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.rules.schedule.cron import check_cron, cron_count, cron_next, cron_previous, explain_cron

ZONES = [
    "UTC",
    "Europe/Paris",
    "Europe/Dublin",
    "America/New_York",
    "America/St_Johns",
    "America/Sao_Paulo",
    "America/Havana",
    "America/Asuncion",
    "Africa/Casablanca",
    "Africa/Cairo",
    "Asia/Kathmandu",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Antarctica/Troll",
]
EXACT = settings(max_examples=60)
INSTANT = timedelta(microseconds=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def listed(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(values, min_size=1, max_size=3).map(",".join)


def field(low: int, high: int, steps: tuple[int, ...]) -> st.SearchStrategy[str]:
    value = st.integers(low, high)
    ranged = st.tuples(value, value).map(lambda ends: f"{min(ends)}-{max(ends)}")
    stepped = st.sampled_from(steps)
    return st.one_of(
        st.just("*"),
        stepped.map(lambda step: f"*/{step}"),
        listed(value.map(str)),
        ranged,
        st.tuples(ranged, stepped).map(lambda parts: f"{parts[0]}/{parts[1]}"),
    )


night = st.sampled_from(["0", "1", "2", "3", "0,2", "23", "1-3", "0-4/2"])
expressions = st.tuples(
    field(0, 59, (7, 10, 15, 20, 30)) | st.sampled_from(["0", "1", "15", "30", "59", "0,30"]),
    field(0, 23, (2, 3, 5, 6)) | night,
    st.sampled_from(["*", "*", "*", "*/2", "L", "LW", "1-7", "30,31", "13"]),
    st.sampled_from(["*", "*", "*", "*/2", "1-6", "MAR,APR,OCT,NOV,DEC"]),
    st.sampled_from(["*", "*", "*", "SUN", "MON-FRI", "0", "7", "5-7", "SUN#2", "0L", "*/2"]),
).map(lambda parts: check_cron(" ".join(parts)))


@st.composite
def moments(draw: st.DrawFn) -> tuple[str, datetime]:
    """A zone and a moment near one of its clock changes, or anywhere where it has none."""
    tz = draw(st.sampled_from(ZONES))
    changes = cron_oracle.transitions(tz, 2005, 2037)
    anywhere = st.datetimes(datetime(2005, 1, 1), datetime(2037, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))
    near = draw(st.sampled_from(changes)) if changes else draw(anywhere)
    return tz, near.replace(second=0, microsecond=0)


def walk_forward(expression: str, tz: str, first: datetime, last: datetime) -> list[datetime]:
    found, at = [], cron_next((expression,), tz, first - INSTANT)
    while at is not None and at <= last:
        found.append(at)
        at = cron_next((expression,), tz, at)
    return found


def walk_back(expression: str, tz: str, first: datetime, last: datetime) -> list[datetime]:
    found, at = [], cron_previous((expression,), tz, last + INSTANT)
    while at is not None and at >= first:
        found.append(at)
        at = cron_previous((expression,), tz, at)
    return found[::-1]


@EXACT
@given(expressions, moments())
def test_next_previous_and_count_agree_with_brute_force_around_clock_changes(expression, moment):
    tz, change = moment
    first, last = change - timedelta(hours=27), change + timedelta(hours=30)
    expected = cron_oracle.instants(expression, tz, first, last)
    assert walk_forward(expression, tz, first, last) == expected
    assert walk_back(expression, tz, first, last) == expected
    assert cron_count((expression,), tz, first=first, last=last, at_most=10_000) == len(expected)


@EXACT
@given(st.lists(expressions, min_size=1, max_size=3), moments(), st.integers(-6 * 3600_000, 6 * 3600_000))
def test_from_any_moment_the_neighbours_are_strictly_after_and_strictly_before(several, moment, offset):
    tz, change = moment
    at = change + timedelta(milliseconds=offset)
    first, last = change - timedelta(days=2), change + timedelta(days=2)
    union = sorted({found for one in several for found in cron_oracle.instants(one, tz, first, last)})
    after, before = cron_next(tuple(several), tz, at), cron_previous(tuple(several), tz, at)
    place = bisect_right(union, at)
    assert (after if after is not None and after <= last else None) == (union[place] if place < len(union) else None)
    place = bisect_left(union, at)
    assert (before if before is not None and before >= first else None) == (union[place - 1] if place else None)
    assert cron_count(tuple(several), tz, first=first, last=last, at_most=20_000) == len(union)


@settings(max_examples=60)
@given(
    expressions,
    st.sampled_from(ZONES),
    st.datetimes(datetime(2000, 1, 1), datetime(2037, 1, 1)).map(lambda at: at.replace(tzinfo=UTC)),
)
def test_next_and_previous_are_mirrors_over_long_distances(expression, tz, at):
    after = cron_next((expression,), tz, at)
    assert after is not None
    assert after > at
    before = cron_previous((expression,), tz, after)
    assert before is not None
    assert before <= at
    assert cron_next((expression,), tz, before) == after


@pytest.mark.parametrize("tz", ["Europe/Paris", "America/New_York", "UTC"])
@pytest.mark.parametrize("expression", ["30 2 * * *", "*/30 * * * *", "0 * * * *", "15 1,3 * * 0", "30 */2 * * *"])
def test_where_clocks_move_by_an_hour_the_instants_are_those_of_cronsim(expression, tz):
    start = utc("2026-01-01T00:00:00")
    theirs = CronSim(expression, start.astimezone(ZoneInfo(tz)))
    at = start
    for _ in range(3000):
        at = cron_next((expression,), tz, at)
        assert at == next(theirs).astimezone(UTC)
        if at > utc("2027-01-01T00:00:00"):
            break


def test_a_fixed_time_job_in_the_gap_fires_once_after_it():
    fires = walk_forward("30 2 * * *", "Europe/Paris", utc("2026-03-28T00:00:00"), utc("2026-03-31T00:00:00"))
    assert fires == [utc("2026-03-28T01:30:00"), utc("2026-03-29T01:00:00"), utc("2026-03-30T00:30:00")]


def test_several_fixed_times_in_one_gap_fire_together_once():
    fires = walk_forward("0,20,40 2-3 * * *", "Europe/Paris", utc("2026-03-29T00:00:00"), utc("2026-03-29T02:00:00"))
    assert fires == [utc("2026-03-29T01:00:00"), utc("2026-03-29T01:20:00"), utc("2026-03-29T01:40:00")]


def test_a_fixed_time_job_in_the_fold_fires_once_the_first_time():
    fires = walk_forward("30 2 * * *", "Europe/Paris", utc("2026-10-24T12:00:00"), utc("2026-10-26T12:00:00"))
    assert fires == [utc("2026-10-25T00:30:00"), utc("2026-10-26T01:30:00")]


def test_a_wildcard_hour_job_follows_elapsed_time_through_gap_and_fold():
    for day in ("2026-03-29", "2026-10-25"):
        fires = walk_forward("0 * * * *", "Europe/Paris", utc(f"{day}T00:00:00"), utc(f"{day}T05:00:00"))
        assert fires == [utc(f"{day}T0{hour}:00:00") for hour in range(6)]


def test_a_stepped_minute_job_fires_in_both_passes_of_the_fold_and_not_in_the_gap():
    fold = walk_forward("*/30 2 * * *", "Europe/Paris", utc("2026-10-25T00:00:00"), utc("2026-10-25T12:00:00"))
    assert fold == [utc(f"2026-10-25T{clock}:00") for clock in ("00:00", "00:30", "01:00", "01:30")]
    assert walk_forward("*/30 2 * * *", "Europe/Paris", utc("2026-03-28T12:00:00"), utc("2026-03-29T12:00:00")) == []


def test_from_inside_the_second_pass_of_a_fold_the_next_instant_is_later():
    second_pass = utc("2026-10-25T01:15:00")
    assert cron_next(("30 2 * * *",), "Europe/Paris", second_pass) == utc("2026-10-26T01:30:00")
    assert cron_next(("*/30 * * * *",), "Europe/Paris", second_pass) == utc("2026-10-25T01:30:00")


def test_a_fixed_time_job_on_the_day_that_samoa_left_out_fires_when_the_next_day_begins():
    fires = walk_forward("30 12 * * *", "Pacific/Apia", utc("2011-12-29T12:00:00"), utc("2011-12-31T12:00:00"))
    assert fires == [utc("2011-12-29T22:30:00"), utc("2011-12-30T10:00:00"), utc("2011-12-30T22:30:00")]


def test_a_half_hour_clock_change_loses_no_instant_of_a_stepped_job():
    fires = walk_forward("*/10 2 * * *", "Australia/Lord_Howe", utc("2026-04-04T13:00:00"), utc("2026-04-04T17:00:00"))
    assert fires == [utc("2026-04-04T15:30:00") + timedelta(minutes=10 * n) for n in range(6)]


def test_where_clocks_are_set_back_over_midnight_both_dates_interleave():
    first, last = utc("2010-11-07T01:30:00"), utc("2010-11-07T04:00:00")
    expected = [first + timedelta(minutes=30 * n) for n in range(6)]
    assert walk_forward("*/30 0,23 * * *", "America/St_Johns", first, last) == expected
    assert walk_back("*/30 0,23 * * *", "America/St_Johns", first, last) == expected


def test_a_leap_day_is_found_across_the_century_that_has_none():
    assert cron_next(("0 0 29 2 *",), "UTC", utc("2096-03-01T00:00:00")) == utc("2104-02-29T00:00:00")
    assert cron_previous(("0 0 29 2 *",), "UTC", utc("2104-02-29T00:00:00")) == utc("2096-02-29T00:00:00")


def test_day_of_month_and_weekday_are_joined_by_or_as_in_vixie_cron():
    fires = walk_forward("0 0 13 * 5", "UTC", utc("2026-11-01T00:00:00"), utc("2026-11-30T00:00:00"))
    assert [at.day for at in fires] == [6, 13, 20, 27]
    fires = walk_forward("0 0 13 12 5", "UTC", utc("2026-12-01T00:00:00"), utc("2026-12-31T00:00:00"))
    assert [at.day for at in fires] == [4, 11, 13, 18, 25]


def test_a_list_of_expressions_is_the_union_of_their_instants():
    both = ("0 0 * * *", "0 */12 * * *")
    assert cron_count(both, "UTC", first=utc("2026-01-01T00:00:00"), last=utc("2026-01-02T00:00:00"), at_most=99) == 3


def test_a_count_above_the_limit_is_none():
    bounds = {"first": utc("2026-01-01T00:00:00"), "last": utc("2026-01-01T00:09:00")}
    assert cron_count(("* * * * *",), "UTC", **bounds, at_most=10) == 10
    assert cron_count(("* * * * *",), "UTC", **bounds, at_most=9) is None


def test_at_the_ends_of_the_calendar_there_is_no_instant_and_no_crash():
    assert cron_next(("0 0 1 1 *",), "Europe/Paris", utc("9999-12-31T23:59:00")) is None
    assert cron_previous(("0 0 1 1 *",), "Europe/Paris", utc("0001-01-01T00:00:00")) is None


@pytest.mark.parametrize(
    ("expression", "reading"),
    [
        ("30 2 * * *", "at 02:30 every day"),
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("*/7 * * * *", "every seventh minute of every hour"),
        ("0 * * * *", "at the start of every hour"),
        ("0 */6 * * *", "every 6 hours"),
        ("0 8 * * MON-FRI", "at 08:00 on Monday through Friday"),
        ("0 4 L * *", "at 04:00 on the last day of every month"),
        ("0 0 1,15 * *", "at 00:00 on the first and the 15th day of the month"),
    ],
)
def test_an_expression_is_read_back_in_plain_english(expression, reading):
    assert explain_cron((check_cron(expression),)) == reading


def test_an_instant_found_before_is_found_again_only_where_it_still_comes_first():
    hourly, noon = ("0 * * * *",), datetime(2026, 11, 16, 12, tzinfo=UTC)
    hour = timedelta(hours=1)

    assert cron_next(hourly, "UTC", noon) == noon + hour
    assert cron_next(hourly, "UTC", noon + hour - INSTANT) == noon + hour
    assert cron_next(hourly, "UTC", noon + hour) == noon + 2 * hour
    assert cron_next(hourly, "UTC", noon - INSTANT) == noon
    assert cron_next(hourly, "Asia/Kathmandu", noon) == noon + timedelta(minutes=15)
