"""Quiet hours (R-17): windows as people write them, and when they begin and end in a zone."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model.errors import InvalidWindow
from rota.model.spec import QuietHours
from rota.rules.schedule.blackouts import (
    canonical_windows,
    cover_the_week,
    next_border,
    parse_window,
    quiet_run,
    quiet_until,
    write_window,
)

MADRID = "Europe/Madrid"
NIGHT = QuietHours(("00:00-07:00",), MADRID)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("00:00-07:00", "00:00-07:00"),
        (" 7:00 - 9:30 ", "07:00-09:30"),
        ("22:00-07:00", "22:00-07:00"),
        ("22:00-0:00", "22:00-24:00"),
        ("00:00-24:00", "00:00-24:00"),
        ("MON-FRI 09:00-19:00", "mon-fri 09:00-19:00"),
        ("sun,sat 10:00-18:00", "sat,sun 10:00-18:00"),
        ("fri-mon 10:00-18:00", "mon,fri-sun 10:00-18:00"),
        ("mon,tue,wed,fri 10:00-18:00", "mon-wed,fri 10:00-18:00"),
        ("mon-sun 10:00-18:00", "10:00-18:00"),
        ("mon - wed, sat 10:00-18:00", "mon-wed,sat 10:00-18:00"),
    ],
)
def test_a_window_has_one_text(written: str, canonical: str) -> None:
    """R-17: two spellings of one window are no edit of a schedule."""
    assert write_window(parse_window(written)) == canonical
    assert write_window(parse_window(canonical)) == canonical


@pytest.mark.parametrize(
    ("written", "message", "hint"),
    [
        ("night", "is not a window", "mon-fri 09:00-19:00"),
        ("09:00", "is not a window", "mon-fri 09:00-19:00"),
        ("09:00-19:00 mon", "is not a window", "mon-fri 09:00-19:00"),
        ("25:00-26:00", "has the time 25:00", "00:00 to 24:00"),
        ("10:60-11:00", "has the time 10:60", "00:00 to 24:00"),
        ("24:00-07:00", "starts at 24:00", "the day after"),
        ("07:00-07:00", "ends when it starts", "00:00-24:00"),
        ("monday 07:00-08:00", "'monday'", "mon-fri"),
        ("mon-xyz 07:00-08:00", "'xyz'", "mon-fri"),
        ("mon,,tue 07:00-08:00", "''", "mon-fri"),
    ],
)
def test_what_is_no_window_is_refused_with_the_way_out(written: str, message: str, hint: str) -> None:
    """R-17."""
    with pytest.raises(InvalidWindow) as refused:
        parse_window(written)
    assert message in refused.value.message
    assert hint in refused.value.hint


def test_windows_are_listed_once_and_in_order() -> None:
    """R-17."""
    windows = [parse_window(text) for text in ("22:00-07:00", "mon 09:00-10:00", "22:00-7:00")]
    assert canonical_windows(windows) == ("mon 09:00-10:00", "22:00-07:00")


@pytest.mark.parametrize(
    ("texts", "whole"),
    [
        (["00:00-24:00"], True),
        (["07:00-06:59"], False),
        (["00:00-12:00", "12:00-24:00"], True),
        (["mon-fri 00:00-24:00", "sat,sun 10:00-18:00"], False),
        (["mon-sat 22:00-21:59", "sun 00:00-24:00"], False),
        (["12:00-11:00", "10:00-13:00"], True),
    ],
)
def test_windows_that_leave_no_minute_are_known(texts: list[str], whole: bool) -> None:
    """R-17: no instant would ever run."""
    assert cover_the_week([parse_window(text) for text in texts]) is whole


@pytest.mark.parametrize(
    ("instant", "until"),
    [
        ("2026-11-16T00:00+01:00", "2026-11-16T07:00+01:00"),
        ("2026-11-16T06:59:59.999+01:00", "2026-11-16T07:00+01:00"),
        ("2026-11-16T07:00+01:00", None),
        ("2026-11-15T23:59:59.999+01:00", None),
    ],
)
def test_a_window_holds_its_begin_and_not_its_end(instant: str, until: str | None) -> None:
    """R-17."""
    assert quiet_until(NIGHT, at(instant)) == (None if until is None else at(until))


def test_a_window_over_midnight_belongs_to_the_day_it_begins_on() -> None:
    """R-17."""
    quiet = QuietHours(("fri 22:00-07:00",), MADRID)
    assert quiet_until(quiet, at("2026-11-21T03:00+01:00")) == at("2026-11-21T07:00+01:00")  # a Saturday
    assert quiet_until(quiet, at("2026-11-20T03:00+01:00")) is None


def test_windows_that_touch_or_overlap_are_one() -> None:
    """R-17."""
    quiet = QuietHours(("00:00-07:00", "22:00-24:00", "mon 06:00-09:00"), MADRID)
    run = quiet_run(quiet, at("2026-11-15T23:00+01:00"))  # a Sunday
    assert run is not None
    assert (run.since, run.until) == (at("2026-11-15T22:00+01:00"), at("2026-11-16T09:00+01:00"))


def test_a_run_may_last_nearly_a_week() -> None:
    """R-17."""
    quiet = QuietHours(("sun 00:00-23:59", "mon-sat 00:00-24:00"), "UTC")
    run = quiet_run(quiet, at("2026-11-18T12:00+00:00"))
    assert run is not None
    assert (run.since, run.until) == (at("2026-11-16T00:00+00:00"), at("2026-11-22T23:59+00:00"))


@pytest.mark.parametrize(
    ("window", "since", "until"),
    [
        # Clocks in Madrid go from 02:00 to 03:00 on 2026-03-29, and from 03:00 to 02:00 on 2026-10-25.
        ("00:00-07:00", "2026-03-29T00:00+01:00", "2026-03-29T07:00+02:00"),
        ("00:00-02:30", "2026-03-29T00:00+01:00", "2026-03-29T03:00+02:00"),
        ("02:30-05:00", "2026-03-29T03:00+02:00", "2026-03-29T05:00+02:00"),
        ("00:00-07:00", "2026-10-25T00:00+02:00", "2026-10-25T07:00+01:00"),
        ("00:00-02:30", "2026-10-25T00:00+02:00", "2026-10-25T02:30+02:00"),
        ("02:30-05:00", "2026-10-25T02:30+02:00", "2026-10-25T05:00+01:00"),
    ],
)
def test_borders_are_the_first_moment_that_clocks_show_them(window: str, since: str, until: str) -> None:
    """R-17: as the fixed times of cron are, so that a job at 02:30 is outside of quiet hours up to 02:30."""
    quiet = QuietHours((window,), MADRID)
    assert quiet_run(quiet, at(since)) == quiet_run(quiet, at(until) - timedelta(milliseconds=1))
    run = quiet_run(quiet, at(since))
    assert run is not None
    assert (run.since, run.until) == (at(since), at(until))


def test_a_window_that_clocks_skip_altogether_is_none() -> None:
    """R-17."""
    quiet = QuietHours(("02:10-02:50",), MADRID)
    assert quiet_until(quiet, at("2026-03-29T03:00+02:00")) is None
    assert next_border(quiet, at("2026-03-28T12:00+01:00")) == at("2026-03-30T02:10+02:00")


def test_the_next_border_is_the_end_inside_and_the_begin_outside() -> None:
    """R-17."""
    assert next_border(NIGHT, at("2026-11-16T03:00+01:00")) == at("2026-11-16T07:00+01:00")
    assert next_border(NIGHT, at("2026-11-16T00:00+01:00")) == at("2026-11-16T07:00+01:00")
    assert next_border(NIGHT, at("2026-11-16T07:00+01:00")) == at("2026-11-17T00:00+01:00")
    weekly = QuietHours(("sun 10:00-11:00",), MADRID)
    assert next_border(weekly, at("2026-11-15T11:00+01:00")) == at("2026-11-22T10:00+01:00")


TEXTS = st.sampled_from(
    ["00:00-07:00", "22:00-06:30", "mon-fri 09:00-19:00", "sat,sun 02:15-02:45", "sun 23:00-02:30", "wed 00:00-24:00"]
)
ZONES = st.sampled_from(["UTC", MADRID, "Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca"])
MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)).map(lambda naive: naive.replace(tzinfo=UTC))  # noqa: DTZ001


@settings(max_examples=150, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=3, unique=True), ZONES, MOMENTS)
def test_borders_follow_each_other_and_quiet_and_loud_take_turns(texts: list[str], tz: str, moment: datetime) -> None:
    """R-17."""
    quiet = QuietHours(tuple(texts), tz)
    for _ in range(6):
        border = next_border(quiet, moment)
        assert border > moment
        inside = quiet_until(quiet, moment) is not None
        assert (quiet_until(quiet, border) is not None) is not inside
        just_before = quiet_until(quiet, border - timedelta(microseconds=1))
        assert just_before == (border if inside else None)
        moment = border
