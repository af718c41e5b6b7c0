"""Calendar files: the days of all-day events, and everything else told with its line."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.declare.problems import BadValue
from rota.declare.readers.calendar import days_of


def calendar(*events: str, begin: str = "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x", end: str = "END:VCALENDAR") -> str:
    bodies = [f"BEGIN:VEVENT\n{event}\nEND:VEVENT" for event in events]
    return "\n".join([begin, *bodies, end, ""])


@pytest.mark.parametrize(
    ("event", "days"),
    [
        ("DTSTART;VALUE=DATE:20261225", ("2026-12-25",)),
        ("DTSTART:20261225\nSUMMARY:Christmas", ("2026-12-25",)),
        ("DTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261227", ("2026-12-25", "2026-12-26")),
        ("DTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261225", ("2026-12-25",)),
        ("DTSTART;VALUE=DATE:20261230\nDURATION:P3D", ("2026-12-30", "2026-12-31", "2027-01-01")),
        ("DTSTART;VALUE=DATE:20260101\nDURATION:P1W", tuple(f"2026-01-0{day}" for day in range(1, 8))),
        ("DTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY", ("12-25",)),
        ("DTSTART;VALUE=DATE:20261231\nDURATION:P2D\nRRULE:FREQ=YEARLY;INTERVAL=1", ("01-01", "12-31")),
        ("DTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25;WKST=MO", ("12-25",)),
        ("DTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY;COUNT=2", ("2026-12-25", "2027-12-25")),
        ("DTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY;UNTIL=20271225T000000Z", ("2026-12-25", "2027-12-25")),
        ("DTSTART;VALUE=DATE:20240229\nRRULE:FREQ=YEARLY;COUNT=2", ("2024-02-29", "2028-02-29")),
        (
            "DTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY;COUNT=3\nEXDATE;VALUE=DATE:20271225",
            ("2026-12-25", "2028-12-25"),
        ),
        ("DTSTART;VALUE=DATE:20261225\nSTATUS:CANCELLED", ()),
        ('DTSTART;VALUE=DATE;X-A="a:b;c":20261225', ("2026-12-25",)),
        ("DTSTART;VALUE=DA\n TE:2026\n\t1225", ("2026-12-25",)),
        ("dtstart;value=date:20261225", ("2026-12-25",)),
        ("DTSTART:20261225\nBEGIN:VALARM\nTRIGGER:-PT15M\nDURATION:PT5M\nEND:VALARM", ("2026-12-25",)),
    ],
)
def test_all_day_events_are_days(event: str, days: tuple[str, ...]) -> None:
    assert days_of(calendar(event)) == days
    assert days_of(calendar(event).replace("\n", "\r\n")) == days


def test_other_parts_of_a_calendar_are_passed_over() -> None:
    zone = (
        "BEGIN:VTIMEZONE\nTZID:x\nBEGIN:STANDARD\nDTSTART:19701025T030000\nRRULE:FREQ=YEARLY;BYMONTH=10\nEND:STANDARD"
    )
    text = calendar("DTSTART:20261225", begin=f"BEGIN:VCALENDAR\n{zone}\nEND:VTIMEZONE\nBEGIN:VTODO\nDUE:1\nEND:VTODO")
    assert days_of(text) == ("2026-12-25",)


@pytest.mark.parametrize(
    ("event", "line", "message"),
    [
        ("DTSTART:20261225T100000Z", 5, "not a day such as 20261225"),
        ("SUMMARY:x", 4, "begins an event without DTSTART"),
        ("SUMMARY:a\n b\nDTSTART:20260230", 7, "a day that does not exist"),
        ("DTSTART:20261225\nDTEND:20261224", 6, "would last -1 days"),
        ("DTSTART:20261225\nDURATION:PT5H", 6, "not days"),
        ("DTSTART:20261225\nRRULE:FREQ=MONTHLY", 6, "FREQ=MONTHLY"),
        ("DTSTART:20261225\nRRULE:FREQ=YEARLY;BYDAY=4TH", 6, "BYDAY=4TH"),
        ("DTSTART:20261225\nRRULE:FREQ=YEARLY;INTERVAL=2", 6, "INTERVAL=2"),
        ("DTSTART:20261225\nRRULE:COUNT=3", 6, "no FREQ"),
        ("DTSTART:20261225\nRRULE:FREQ=YEARLY;COUNT=x", 6, "COUNT=X"),
        ("DTSTART:20261225\nRRULE:FREQ=YEARLY\nEXDATE:20271225", 7, "EXDATE"),
        ("DTSTART:20261225\nRDATE:20271225", 6, "RDATE"),
        ("DTSTART:20261225\nRECURRENCE-ID:20271225", 6, "RECURRENCE-ID"),
        ("DTSTART:20261225\nnonsense", 6, "not a line of a calendar"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_line(event: str, line: int, message: str) -> None:
    with pytest.raises(BadValue) as refused:
        days_of(calendar(event))
    assert refused.value.problems[0].at == (line,)
    assert message in refused.value.problems[0].message


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("SUMMARY:x\n", 1, "does not begin with BEGIN:VCALENDAR"),
        ("<html>\n", 1, "not a line of a calendar"),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20261225\n", 3, "ends inside VEVENT"),
        ("BEGIN:VCALENDAR\nEND:VEVENT\n", 2, "does not match the last BEGIN"),
    ],
)
def test_a_text_that_is_no_whole_calendar_is_refused(text: str, line: int, message: str) -> None:
    with pytest.raises(BadValue) as refused:
        days_of(text)
    [problem] = refused.value.problems
    assert (problem.at, message in problem.message) == ((line,), True)


@given(st.lists(st.sampled_from(["BEGIN:VCALENDAR", "BEGIN:VEVENT", "END:VEVENT", "DTSTART:20261225", "RRULE:", " x"])))
def test_any_text_is_read_or_refused(lines: list[str]) -> None:
    with contextlib.suppress(BadValue):
        assert set(days_of("\n".join(lines))) <= {"2026-12-25"}
