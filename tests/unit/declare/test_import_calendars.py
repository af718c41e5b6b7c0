"""Times of systemd and launchd: their meaning, evaluated without cron, and the cron expressions made of them."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.declare.importers import launchd
from rota.declare.importers.calendar import cron_of, parse_calendar, reading_of
from rota.declare.importers.systemd import seconds_of
from rota.declare.importers.translation import CronLibrary, Unmappable, library_reading

BERLIN = "Europe/Berlin"


def keys(*texts: str) -> dict[str, object]:
    return cron_of([parse_calendar(text) for text in texts])


def fires(text: str, after: str, count: int, zone: str = BERLIN) -> list[str]:
    read = reading_of([parse_calendar(text)], zone)
    return [f"{at:%m-%d %H:%M}" for at in read(datetime.fromisoformat(after).replace(tzinfo=UTC), count)]


@pytest.mark.parametrize(
    ("text", "cron"),
    [
        ("daily", "0 0 * * *"),
        ("weekly", "0 0 * * mon"),
        ("quarterly", "0 0 1 */3 *"),
        ("hourly", "0 * * * *"),
        ("*:0/15", "*/15 * * * *"),
        ("*-*-* *:00/5:00", "*/5 * * * *"),
        ("Mon..Fri 08:30", "30 8 * * mon-fri"),
        ("Sat,Sun *-*-* 10:00:00", "0 10 * * sat,sun"),
        ("*-*-01 04:00", "0 4 1 * *"),
        ("*-1,7-15 6:00", "0 6 15 1,7 *"),
        ("*-*~01 23:55", "55 23 L * *"),
        ("Fri *-*~07/1 18:00", "0 18 * * 5L"),
        ("Mon *-*-1..7 04:00", "0 4 * * mon#1"),
        ("Tue *-*-8..14 04:00", "0 4 * * tue#2"),
        ("12:05:37", "5 12 * * *"),
        ("*-*-* 8..18/2:10", "10 8-18/2 * * *"),
    ],
)
def test_a_calendar_time_is_a_cron_expression(text: str, cron: str) -> None:
    assert keys(text) == {"cron": cron}


def test_times_without_cron_have_another_schedule() -> None:
    assert keys("2027-01-02 03:04:05") == {"at": "2027-01-02 03:04:05"}
    assert keys("*:*:0/20") == {"interval": "20s", "anchor": "fixed", "start_at": "2026-01-01"}
    assert keys("daily", "12:00") == {"cron": ["0 0 * * *", "0 12 * * *"]}


@pytest.mark.parametrize(
    "text",
    [
        *("Mon *-*-10..16 04:00", "*-*~03 04:00", "2027-*-* 04:00", "*:*:5,10", "soon", "25:00", "*-13-01"),
        *("Foo 10:00", "1-2-3-4", "", "10:00 11:00"),
    ],
)
def test_what_cron_cannot_say_is_refused(text: str) -> None:
    with pytest.raises(Unmappable):
        keys(text)


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [  # as `systemd-analyze calendar --iterations` prints them
        ("Mon *-*-01..07 04:00:00", "2026-11-18", ["12-07 03:00", "01-04 03:00", "02-01 03:00"]),
        ("*-*-* 02:30:00", "2027-03-27T20:00", ["03-29 00:30", "03-30 00:30", "03-31 00:30"]),
        ("*-*-* 02:30:00", "2026-10-24T22:30", ["10-25 00:30", "10-26 01:30", "10-27 01:30"]),
        ("*:0/30", "2026-10-24T23:29", ["10-24 23:30", "10-25 00:00", "10-25 00:30", "10-25 02:00"]),
    ],
)
def test_the_evaluation_is_that_of_systemd(text: str, after: str, expected: list[str]) -> None:
    assert fires(text, after, len(expected)) == expected


def test_a_zone_of_its_own_is_read() -> None:
    assert parse_calendar("Mon 10:00 Asia/Tokyo").timezone == "Asia/Tokyo"
    assert parse_calendar("10:00 UTC").timezone == "UTC"


@pytest.mark.parametrize(
    ("text", "seconds"), [("5min", 300), ("1h 30m", 5400), ("90", 90), ("2d12h", 216_000), ("500ms", 0.5), ("x", 0)]
)
def test_a_time_span_is_read(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


def test_day_and_weekday_of_launchd_match_either() -> None:
    read = launchd.reading_of([{"Day": 1, "Weekday": 0, "Hour": 9, "Minute": 0}], "UTC")
    found = read(datetime(2026, 11, 18, tzinfo=UTC), 4)
    assert [f"{at:%m-%d}" for at in found] == ["11-22", "11-29", "12-01", "12-06"]


def test_a_missing_minute_of_launchd_is_every_minute() -> None:
    read = launchd.reading_of([{"Hour": 9}], "UTC")
    found = read(datetime(2026, 11, 18, tzinfo=UTC), 61)
    assert (f"{found[1]:%d %H:%M}", f"{found[60]:%d %H:%M}") == ("18 09:01", "19 09:00")


SPRING, AUTUMN = "2027-03-28T00:00", "2027-10-30T23:30"
"""Before the clock of Berlin goes from 2:00 to 3:00, and from 3:00 back to 2:00."""


@pytest.mark.parametrize(
    ("cron", "after", "croner", "croniter", "cron_parser"),
    [
        ("30 2 * * *", SPRING, "01:00", "01:00", "01:30"),
        ("30 2 * * *", AUTUMN, "00:30", "00:30 01:30", "00:30"),
        ("*/15 2 * * *", SPRING, "", "01:00", "01:00 01:15 01:30 01:45"),
        ("*/30 2 * * *", AUTUMN, "00:00 00:30 01:00 01:30", "00:00 00:30 01:00 01:30", "00:00 00:30"),
        ("30 1,2,3 * * *", SPRING, "00:30 01:30", "00:30 01:00 01:30", "00:30 01:30"),
        ("15 * * * *", SPRING, "00:15 01:15 02:15", "00:15 01:15 02:15", "00:15 01:15 02:15"),
        ("15 * * * *", AUTUMN, "00:15 01:15 02:15", "00:15 01:15 02:15", "00:15 01:15 02:15"),
    ],
)
def test_each_library_starts_a_cron_line_in_its_own_way_where_clocks_change(
    cron: str, after: str, croner: str, croniter: str, cron_parser: str
) -> None:
    """The times are those that croner 9, croniter 6 and cron-parser 5 return."""
    begin = datetime.fromisoformat(after).replace(tzinfo=UTC)
    found = [
        " ".join(
            f"{at:%H:%M}"
            for at in library_reading(cron, BERLIN, library)(begin, 9)
            if (at - begin).seconds < 11_000 and at.day == (begin + timedelta(hours=1)).day
        )
        for library in CronLibrary
    ]
    assert found == [croner, croniter, cron_parser]
