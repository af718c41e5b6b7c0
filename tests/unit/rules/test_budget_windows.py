"""The calendar windows of budgets, in every zone and across every change of clocks (R-19)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.budgets import Per, Window
from rota.rules.budgets import Basis, forecast, window_before, window_of
from rota.rules.schedule.timezone import zone

ZONES = (
    "UTC",
    "Europe/Madrid",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/Asuncion",
    "America/St_Johns",
    "Africa/Cairo",
    "Pacific/Apia",
    "Atlantic/Azores",
    "Pacific/Chatham",
)
LENGTHS = {
    Per.MINUTE: (timedelta(minutes=1), timedelta(minutes=1)),
    Per.HOUR: (timedelta(minutes=30), timedelta(hours=1)),
    Per.DAY: (timedelta(hours=23), timedelta(hours=25)),
    Per.WEEK: (timedelta(days=5, hours=23), timedelta(days=7, hours=1)),
    Per.MONTH: (timedelta(days=27, hours=23), timedelta(days=31, hours=1)),
}
BEGIN, END = datetime(2005, 1, 1, tzinfo=UTC), datetime(2035, 1, 1, tzinfo=UTC)
instants = st.timedeltas(timedelta(), END - BEGIN).map(lambda passed: BEGIN + passed)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@given(st.sampled_from(list(Per)), st.sampled_from(ZONES), instants)
def test_windows_follow_each_other_without_a_gap(per: Per, tz: str, instant: datetime) -> None:
    """R-19: every instant lies in exactly one window, and the next begins where it ends."""
    window = window_of(per, tz, instant)
    assert window.since <= instant < window.until
    assert window_of(per, tz, window.since) == window
    assert window_of(per, tz, window.until - timedelta(microseconds=1)) == window
    assert window_of(per, tz, window.until).since == window.until
    assert window_before(per, tz, window).until == window.since


@given(st.sampled_from(list(Per)), st.sampled_from(ZONES), instants)
def test_windows_are_as_long_as_the_calendar_says(per: Per, tz: str, instant: datetime) -> None:
    """R-19: give or take what clocks are changed by."""
    window = window_of(per, tz, instant)
    least, most = LENGTHS[per]
    assert least <= window.until - window.since <= most


@given(
    st.sampled_from((Per.DAY, Per.WEEK, Per.MONTH)), st.sampled_from(("UTC", "Europe/Madrid", "Asia/Kolkata")), instants
)
def test_a_window_begins_at_midnight_in_the_zone(per: Per, tz: str, instant: datetime) -> None:
    """R-19: on a Monday, on the first of the month."""
    local = window_of(per, tz, instant).since.astimezone(zone(tz))
    assert (local.hour, local.minute, local.second) == (0, 0, 0)
    assert per is not Per.WEEK or local.weekday() == 0
    assert per is not Per.MONTH or local.day == 1


@pytest.mark.parametrize(
    ("per", "tz", "instant", "since", "until"),
    [
        (Per.DAY, "Europe/Madrid", "2026-03-29T12:00Z", "2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00"),
        (Per.DAY, "Europe/Madrid", "2026-10-25T12:00Z", "2026-10-25T00:00+02:00", "2026-10-26T00:00+01:00"),
        (Per.WEEK, "Europe/Madrid", "2026-11-15T23:30+01:00", "2026-11-09T00:00+01:00", "2026-11-16T00:00+01:00"),
        (Per.WEEK, "UTC", "2026-11-16T00:00Z", "2026-11-16T00:00Z", "2026-11-23T00:00Z"),
        (Per.MONTH, "UTC", "2026-12-31T23:59Z", "2026-12-01T00:00Z", "2027-01-01T00:00Z"),
        (Per.MONTH, "UTC", "2028-02-29T12:00Z", "2028-02-01T00:00Z", "2028-03-01T00:00Z"),
        (Per.HOUR, "Asia/Kolkata", "2026-11-15T12:00Z", "2026-11-15T17:00+05:30", "2026-11-15T18:00+05:30"),
        (Per.HOUR, "Europe/Madrid", "2026-10-25T00:30Z", "2026-10-25T00:00Z", "2026-10-25T01:00Z"),
        (Per.HOUR, "Europe/Madrid", "2026-10-25T01:30Z", "2026-10-25T01:00Z", "2026-10-25T02:00Z"),
        (Per.MINUTE, "UTC", "2026-11-15T12:00:59.999Z", "2026-11-15T12:00Z", "2026-11-15T12:01Z"),
        # Clocks skip this midnight, and show the other one twice.
        (Per.DAY, "Africa/Cairo", "2026-04-24T12:00Z", "2026-04-24T01:00+03:00", "2026-04-25T00:00+03:00"),
        (Per.DAY, "Atlantic/Azores", "2026-10-25T12:00Z", "2026-10-25T00:00+00:00", "2026-10-26T00:00-01:00"),
        # A day that does not exist there.
        (Per.DAY, "Pacific/Apia", "2011-12-30T09:59Z", "2011-12-29T00:00-10:00", "2011-12-31T00:00+14:00"),
    ],
)
def test_a_window_in_its_zone(per: Per, tz: str, instant: str, since: str, until: str) -> None:
    """R-19: DST, weeks, months, and midnights that clocks skip or show twice."""
    assert window_of(per, tz, at(instant)) == Window(at(since), at(until))


DAY = Window(at("2026-11-15T00:00Z"), at("2026-11-16T00:00Z"))
NOON = at("2026-11-15T12:00Z")


def test_a_forecast_adds_what_the_last_windows_used_from_here_on() -> None:
    """R-19: what is settled now, and the mean of the rests."""
    found = forecast(300, 0, window=DAY, rests=[100, 200, 0], now=NOON)
    assert (found.amount, found.basis, found.windows) == (400, Basis.HISTORY, 3)


def test_a_forecast_without_history_goes_on_as_it_began() -> None:
    assert forecast(300, 0, window=DAY, rests=[500], now=NOON).amount == 600
    assert forecast(300, 0, window=DAY, rests=[], now=NOON).basis is Basis.LINEAR


def test_a_forecast_is_never_below_what_is_used_and_reserved() -> None:
    assert forecast(300, 900, window=DAY, rests=[0, 0], now=NOON).amount == 1200
    assert forecast(300, 900, window=DAY, rests=[], now=NOON).amount == 1200


def test_at_the_beginning_of_a_window_nobody_can_say() -> None:
    found = forecast(5, 0, window=DAY, rests=[], now=DAY.since + timedelta(minutes=5))
    assert (found.amount, found.basis) == (None, Basis.NONE)
