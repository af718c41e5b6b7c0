"""Blackouts: periods whose scheduled runs are skipped or deferred (quiet hours, excluded dates)."""

import re
from bisect import bisect_left
from calendar import isleap
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache

from msgspec import Struct

from rota.model.errors import InvalidWindow
from rota.model.spec import QuietHours, QuietPolicy, Schedule
from rota.model.states import Reason
from rota.rules.schedule.timezone import end_of_gap, instants_of_wall, zone

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES = 24 * 60
WEEK_MINUTES = 7 * DAY_MINUTES
_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)
_ALL_DAYS = frozenset(range(7))
_WRITTEN = r"(?a)(?:([a-z ,-]*[a-z])\s+)?(\d{1,2}):(\d\d)\s*-\s*(\d{1,2}):(\d\d)"


class QuietWindow(Struct, frozen=True):
    """Minutes of a day from `start` to before `end`, and the weekdays of its start; Monday is 0.

    An end above 24 hours lies on the next day.
    """

    days: frozenset[int]
    start: int
    end: int


class QuietRun(Struct, frozen=True):
    """Consecutive windows from `since` to before `until`."""

    since: datetime
    until: datetime


def parse_window(text: str) -> QuietWindow:
    """Return the window of a text, or raise InvalidWindow with an example.

    >>> parse_window("mon-fri 22:00-07:00").end // 60
    31
    """
    written = re.fullmatch(_WRITTEN, text.strip().lower())
    if written is None:
        raise InvalidWindow(text, "is not a window of quiet hours")
    days, *times = written.groups()
    start, end = _minutes(text, *times[:2]), _minutes(text, *times[2:])
    if start == DAY_MINUTES:
        raise InvalidWindow(text, "starts at 24:00, which is only an end", hint="write 00:00 and the day after")
    if start == end:
        raise InvalidWindow(text, "ends when it starts", hint="write 00:00-24:00 for a whole day")
    return QuietWindow(_days(text, days), start, end if end > start else end + DAY_MINUTES)


def _minutes(text: str, hour: str, minute: str) -> int:
    minutes = 60 * int(hour) + int(minute)
    if int(minute) > 59 or minutes > DAY_MINUTES:
        hint = "write times from 00:00 to 24:00"
        raise InvalidWindow(text, f"has the time {hour}:{minute}, which does not exist", hint=hint)
    return minutes


def _days(text: str, written: str | None) -> frozenset[int]:
    if written is None:
        return _ALL_DAYS
    days: set[int] = set()
    for term in written.split(","):
        first, dash, last = (part.strip() for part in term.partition("-"))
        begin = _weekday(text, first)
        end = _weekday(text, last) if dash else begin
        days.update((begin + step) % 7 for step in range((end - begin) % 7 + 1))
    return frozenset(days)


def _weekday(text: str, name: str) -> int:
    if name not in WEEKDAYS:
        hint = f"write {', '.join(WEEKDAYS)}: mon-fri or sat,sun"
        raise InvalidWindow(text, f"has the weekday {name!r}, which does not exist", hint=hint)
    return WEEKDAYS.index(name)


def write_window(window: QuietWindow) -> str:
    """Return the canonical text of a window.

    >>> write_window(parse_window("fri - sun  7:00 - 0:00"))
    'fri-sun 07:00-24:00'
    """
    end = window.end if window.end <= DAY_MINUTES else window.end - DAY_MINUTES
    times = f"{_clock(window.start)}-{_clock(end)}"
    return times if window.days == _ALL_DAYS else f"{','.join(_spans(window.days))} {times}"


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _spans(days: Collection[int]) -> Iterator[str]:
    """Yield the names of days, three or more in a row as a span."""
    rest = sorted(days)
    while rest:
        length = next((step for step in range(1, len(rest)) if rest[step] != rest[0] + step), len(rest))
        taken, rest = [WEEKDAYS[day] for day in rest[:length]], rest[length:]
        if length > 2:
            yield f"{taken[0]}-{taken[-1]}"
        else:
            yield from taken


def canonical_windows(windows: Sequence[QuietWindow]) -> tuple[str, ...]:
    """Return the distinct texts of windows, in order."""
    ordered = sorted(set(windows), key=lambda window: (window.start, window.end, sorted(window.days)))
    return tuple(write_window(window) for window in ordered)


def say_quiet(quiet: QuietHours) -> str:
    """Return quiet hours in words.

    >>> say_quiet(QuietHours(("00:00-07:00",), "Europe/Madrid"))
    '00:00-07:00 (Europe/Madrid), policy dormant'
    """
    return f"{', '.join(quiet.windows)} ({quiet.timezone}), policy {quiet.policy}"


def cover_the_week(windows: Sequence[QuietWindow]) -> bool:
    """Return whether windows cover every minute of the week."""
    left = set(range(WEEK_MINUTES))
    for window in windows:
        for day in window.days:
            begin = day * DAY_MINUTES
            left.difference_update(at % WEEK_MINUTES for at in range(begin + window.start, begin + window.end))
    return not left


def quiet_until(quiet: QuietHours, at: datetime) -> datetime | None:
    """Return the end of the quiet hours that hold `at`, None outside of them. Adjacent windows count as one.

    >>> night = QuietHours(("00:00-07:00",), "Europe/Madrid")
    >>> quiet_until(night, datetime.fromisoformat("2026-11-16T01:30:00Z")).isoformat()
    '2026-11-16T06:00:00+00:00'
    """
    run = quiet_run(quiet, at)
    return None if run is None else run.until


@lru_cache(maxsize=4096)
def quiet_run(quiet: QuietHours, at: datetime) -> QuietRun | None:
    """Return the consecutive windows that hold `at`, None outside of them.

    They end: a file whose windows cover the whole week is rejected.
    """
    since = until = at.astimezone(UTC)
    if not any(begin <= since < end for begin, end in _near(quiet, since)):
        return None
    while (earlier := min((begin for begin, end in _near(quiet, since) if begin <= since <= end))) < since:
        since = earlier
    while (later := max((end for begin, end in _near(quiet, until) if begin <= until <= end))) > until:
        until = later
    return QuietRun(since, until)


def next_border(quiet: QuietHours, after: datetime) -> datetime:
    """Return the next start or end of quiet hours, strictly after `after`."""
    after = after.astimezone(UTC)
    return quiet_until(quiet, after) or next_quiet(quiet, after)


def next_quiet(quiet: QuietHours, after: datetime) -> datetime:
    """Return the next start of quiet hours, strictly after `after`, which lies outside of them."""
    after = after.astimezone(UTC)
    day = _wall_date(after, quiet.timezone) - _DAY
    while True:  # clocks may skip a whole window
        begins = [begin for begin, _ in _on(quiet, day, day + _WEEK) if begin > after]
        if begins:
            return min(begins)
        day += _WEEK


def _near(quiet: QuietHours, at: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield the windows that may hold or touch `at`: a window may reach over two midnights."""
    day = _wall_date(at, quiet.timezone)
    return _on(quiet, day - 2 * _DAY, day + _DAY)


def _on(quiet: QuietHours, first: date, last: date) -> Iterator[tuple[datetime, datetime]]:
    for step in range((last - first).days + 1):
        yield from _windows_of_day(quiet.windows, quiet.timezone, first + step * _DAY)


@lru_cache(maxsize=4096)
def _windows_of_day(texts: tuple[str, ...], tz: str, day: date) -> tuple[tuple[datetime, datetime], ...]:
    """Return the windows that begin on a day, as instants, without those that clocks skip."""
    windows = [window for window in map(_parsed, texts) if day.weekday() in window.days]
    spans = [(_instant(day, window.start, tz), _instant(day, window.end, tz)) for window in windows]
    return tuple((begin, end) for begin, end in spans if begin < end)


_parsed = lru_cache(maxsize=1024)(parse_window)


def _instant(day: date, minutes: int, tz: str) -> datetime:
    """Return when clocks first show a time of a day, or the end of the gap that skips it, as cron does."""
    wall = datetime.combine(day, time()) + timedelta(minutes=minutes)
    place = zone(tz)
    return next(iter(instants_of_wall(wall, place)), None) or end_of_gap(wall, place)


def _wall_date(at: datetime, tz: str) -> date:
    return at.astimezone(zone(tz)).date()


_LEAP_CYCLE = 8
"""The maximum number of years between two 29ths of February, also around 2100."""


class Calendar(Struct, frozen=True):
    """Single dates in order, and days of every year as month and day."""

    dates: tuple[date, ...]
    yearly: frozenset[tuple[int, int]]

    def holds(self, day: date) -> bool:
        """Return whether a day is excluded."""
        place = bisect_left(self.dates, day)
        return (day.month, day.day) in self.yearly or (place < len(self.dates) and self.dates[place] == day)

    def next(self, after: date) -> date | None:
        """Return the first excluded day after this one, or None."""
        place = bisect_left(self.dates, after + _DAY)
        yearly = [_next_of_year(month, day, after) for month, day in self.yearly]
        return min([*yearly, *self.dates[place : place + 1]], default=None)


def _next_of_year(month: int, day: int, after: date) -> date:
    years = range(after.year, after.year + _LEAP_CYCLE + 1)
    dates = (date(year, month, day) for year in years if (month, day) != (2, 29) or isleap(year))
    return next(found for found in dates if found > after)


@lru_cache(maxsize=1024)
def read_calendar(excluded: tuple[str, ...]) -> Calendar:
    """Return the calendar of stored texts.

    >>> read_calendar(("12-25", "2027-01-06")).next(date(2026, 12, 25))
    datetime.date(2027, 1, 6)
    """
    dates = sorted(date.fromisoformat(text) for text in excluded if len(text) == len("2026-12-25"))
    yearly = {(int(text[:2]), int(text[3:])) for text in excluded if len(text) == len("12-25")}
    return Calendar(tuple(dates), frozenset(yearly))


def excluded_until(schedule: Schedule, at: datetime) -> datetime | None:
    """Return the start of the next day that is not excluded, None if the day of `at` is not excluded.

    >>> holidays = Schedule(excluded=("12-25", "12-26"), timezone="Europe/Madrid")
    >>> excluded_until(holidays, datetime.fromisoformat("2026-12-25T09:00:00Z")).isoformat()
    '2026-12-26T23:00:00+00:00'
    """
    if not schedule.excluded:
        return None
    calendar, day = read_calendar(schedule.excluded), _day_of(at, schedule.timezone)
    if not calendar.holds(day):
        return None
    while calendar.holds(day):
        day += _DAY
    return _begins(day, schedule.timezone)


def next_excluded(schedule: Schedule, after: datetime) -> datetime | None:
    """Return the start of the next excluded day after the day of `after`, or None."""
    if not schedule.excluded:
        return None
    day = read_calendar(schedule.excluded).next(_day_of(after, schedule.timezone))
    return None if day is None else _begins(day, schedule.timezone)


def _day_of(at: datetime, tz: str) -> date:
    """Return the day of `at`. Clocks set back over midnight show the old date again, but stay on the new day."""
    day = at.astimezone(zone(tz)).date()
    return day + _DAY if at >= _begins(day + _DAY, tz) else day


@lru_cache(maxsize=4096)
def _begins(day: date, tz: str) -> datetime:
    return _instant(day, 0, tz).astimezone(UTC)


class Blackout(Struct, frozen=True):
    """The effect on instants up to before `until`, None for ever; `reason` None: they run.

    `fires`: the end of the quiet hours for which the instants wait.
    """

    reason: Reason | None
    until: datetime | None
    fires: datetime | None = None


def has_blackouts(schedule: Schedule) -> bool:
    """Return whether a schedule has blackouts that affect its instants."""
    return bool(schedule.excluded) or (schedule.quiet is not None and has_waits(schedule))


def has_waits(schedule: Schedule) -> bool:
    """Return whether quiet hours affect instants; `dormant` affects the mode alone."""
    return schedule.quiet is not None and schedule.quiet.policy is not QuietPolicy.DORMANT


def waiting_run(schedule: Schedule, at: datetime) -> QuietRun | None:
    """Return the quiet hours that hold back an instant at `at`, or None."""
    return quiet_run(schedule.quiet, at) if schedule.quiet is not None and has_waits(schedule) else None


def defers(schedule: Schedule) -> bool:
    """Return whether the last instant of quiet hours runs at their end."""
    return schedule.quiet is not None and schedule.quiet.policy is QuietPolicy.DEFER


def blackout_at(schedule: Schedule, at: datetime) -> Blackout:
    """Return the blackout of an instant at `at`, and its end. Exclusion goes first."""
    run = waiting_run(schedule, at)
    fires = None if run is None else run.until
    day = excluded_until(schedule, at)
    if day is not None:
        return Blackout(Reason.EXCLUDED, day, fires)
    coming = next_excluded(schedule, at)
    if run is not None:
        return Blackout(Reason.QUIET_HOURS, run.until if coming is None else min(run.until, coming), fires)
    quiet = next_quiet(schedule.quiet, at) if schedule.quiet is not None and has_waits(schedule) else None
    return Blackout(None, min((border for border in (coming, quiet) if border is not None), default=None))
