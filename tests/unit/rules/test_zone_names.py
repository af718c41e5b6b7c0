"""Time zones by name, and local times that do not exist or exist twice."""

# ruff: noqa: DTZ001 - local times without a zone are what is tested

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rota.model.errors import InvalidInstant, InvalidTimezone
from rota.rules.schedule.timezone import end_of_gap, localize, zone


@pytest.mark.parametrize("name", ["UTC", "Europe/Paris", "America/Argentina/Buenos_Aires", "Etc/GMT+5"])
def test_an_iana_name_is_a_zone(name):
    assert zone(name).key == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "../../etc/passwd",
        "/etc/localtime",
        "Europe/../UTC",
        "Europe/./Paris",
        "Europe//Paris",
        "Europe/",
        "Europe",
        "localtime",
        "posixrules",
        "posix/UTC",
        "right/UTC",
        "Factory",
        "zone.tab",
        "leapseconds",
        "Europe\\Paris",
        "Europe/Paris\n",
        "Europe/Paris\0",
        "+02:00",
        "CET-1CEST",
        "Mars/Olympus",
        "é",
        "A" * 5000,
    ],
)
def test_anything_else_is_refused_as_a_name(name):
    """DEC-010."""
    with pytest.raises(InvalidTimezone):
        zone(name)


@pytest.mark.parametrize(
    ("name", "near"),
    [("Europe/Pariss", "Europe/Paris"), ("europe/paris", "Europe/Paris"), ("new york", "America/New_York")],
)
def test_a_misspelt_zone_names_the_nearest(name, near):
    with pytest.raises(InvalidTimezone, match=f"did you mean '{near}'"):
        zone(name)


def test_a_local_time_becomes_its_utc_instant():
    assert localize(datetime(2026, 7, 1, 12, 0, 0, 5000), "Asia/Kathmandu") == datetime(
        2026, 7, 1, 6, 15, 0, 5000, tzinfo=UTC
    )


def test_a_time_with_an_offset_keeps_its_instant():
    written = datetime(2026, 7, 1, 12, tzinfo=timezone(timedelta(hours=-4)))
    assert localize(written, "Asia/Tokyo") == datetime(2026, 7, 1, 16, tzinfo=UTC)


def test_a_local_time_in_the_gap_is_refused_with_the_instants_around_it():
    with pytest.raises(InvalidInstant, match="2026-03-29 02:30:00 does not exist in Europe/Paris") as refused:
        localize(datetime(2026, 3, 29, 2, 30), "Europe/Paris")
    assert "from 2026-03-29T01:59:59+01:00 to 2026-03-29T03:00:00+02:00" in refused.value.hint


def test_a_local_time_in_the_fold_is_refused_with_both_offsets():
    with pytest.raises(InvalidInstant, match="2026-10-25 02:30:00 exists twice in Europe/Paris") as refused:
        localize(datetime(2026, 10, 25, 2, 30), "Europe/Paris")
    assert "2026-10-25T02:30:00+02:00 (2026-10-25T00:30:00Z)" in refused.value.hint
    assert "2026-10-25T02:30:00+01:00 (2026-10-25T01:30:00Z)" in refused.value.hint


@pytest.mark.parametrize(
    ("wall", "tz", "choices"),
    [
        (datetime(2026, 3, 29, 2, 0), "Europe/Paris", 0),
        (datetime(2026, 3, 29, 3, 0), "Europe/Paris", 1),
        (datetime(2026, 10, 25, 1, 59, 59), "Europe/Paris", 1),
        (datetime(2026, 10, 25, 2, 0), "Europe/Paris", 2),
        (datetime(2026, 10, 25, 3, 0), "Europe/Paris", 1),
        (datetime(2026, 4, 5, 1, 45), "Australia/Lord_Howe", 2),
        (datetime(2026, 10, 4, 2, 15), "Australia/Lord_Howe", 0),
        (datetime(2011, 12, 30, 12, 0), "Pacific/Apia", 0),
    ],
)
def test_the_borders_of_gap_and_fold_are_exact(wall, tz, choices):
    if choices == 1:
        assert localize(wall, tz).astimezone(zone(tz)).replace(tzinfo=None) == wall
        return
    with pytest.raises(InvalidInstant, match="does not exist" if choices == 0 else "exists twice"):
        localize(wall, tz)


def test_the_end_of_a_gap_is_exact_from_anywhere_in_it():
    for seconds in (0, 1, 1799, 3599, 3599.999):
        wall = datetime(2026, 3, 29, 2) + timedelta(seconds=seconds)
        assert end_of_gap(wall, zone("Europe/Paris")) == datetime(2026, 3, 29, 1, tzinfo=UTC)


def test_a_local_time_beyond_the_calendar_is_refused():
    with pytest.raises(InvalidInstant, match="out of range"):
        localize(datetime(9999, 12, 31, 23, 59), "America/New_York")
