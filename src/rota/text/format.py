"""Formatting of times, durations and reasons for people."""

import re
from datetime import datetime, time, timedelta

from rota.model.clock import parse_duration, say_duration
from rota.model.errors import InvalidDuration, InvalidInstant
from rota.model.records import Run
from rota.model.states import Reason
from rota.rules.schedule.timezone import localize, zone

DAY = timedelta(days=1)
WEEK_AHEAD = timedelta(days=6)


def spaced(text: object | None) -> str:
    """Return a text after a space; empty for none.

    >>> f"FAILED{spaced('timed_out')}, COMPLETED{spaced(None)}"
    'FAILED timed_out, COMPLETED'
    """
    return f" {text}" if text else ""


def clock_time(at: datetime, tz: str) -> str:
    """Return the time of day, to the second.

    >>> clock_time(datetime.fromisoformat("2026-11-15T19:41:07Z"), "Europe/Madrid")
    '20:41:07'
    """
    return f"{at.astimezone(zone(tz)):%H:%M:%S}"


def day_time(at: datetime, tz: str, *, now: datetime, seconds: bool = False) -> str:
    """Return an instant in short: today's by its time, the coming week's by weekday.

    >>> now = datetime.fromisoformat("2026-11-15T19:41:07Z")
    >>> day_time(datetime.fromisoformat("2026-11-16T01:15:00Z"), "Europe/Berlin", now=now)
    'Mon 02:15'
    """
    local, today = at.astimezone(zone(tz)), now.astimezone(zone(tz)).date()
    time = f"{local:%H:%M:%S}" if seconds else f"{local:%H:%M}"
    days = local.date() - today
    if not days:
        return time
    if days == -DAY:
        return f"yesterday {time}"
    if timedelta() < days <= WEEK_AHEAD:
        return f"{local:%a} {time}"
    return f"{_date(local, today.year)} {time}"


def full_time(at: datetime, tz: str, *, now: datetime, seconds: bool = False) -> str:
    """Return an instant with its date.

    >>> at = datetime.fromisoformat("2026-11-16T01:30:00Z")
    >>> full_time(at, "Europe/Madrid", now=at)
    'Mon 16 Nov 02:30'
    """
    local = at.astimezone(zone(tz))
    time = f"{local:%H:%M:%S}" if seconds or local.second else f"{local:%H:%M}"
    return f"{_date(local, now.astimezone(zone(tz)).year)} {time}"


def _date(local: datetime, this_year: int) -> str:
    year = "" if local.year == this_year else f" {local.year}"
    return f"{local:%a} {local.day} {local:%b}{year}"


def from_now(at: datetime, now: datetime) -> str:
    """Return the distance of an instant: `now`, `in 5 h 54 min`, `3 min ago`."""
    away = at - now
    if abs(away) < timedelta(seconds=1):
        return "now"
    return f"in {say_duration(whole_seconds(away))}" if away > timedelta() else f"{ago(at, now)} ago"


def ago(at: datetime, now: datetime) -> str:
    """Return the age of an instant."""
    return say_duration(max(now - at, timedelta()))


def briefly(duration: timedelta) -> str:
    """Return a duration, a very short one in milliseconds.

    >>> briefly(timedelta(milliseconds=41))
    '41 ms'
    """
    if timedelta() <= duration < timedelta(milliseconds=100):
        return f"{duration // timedelta(milliseconds=1)} ms"
    return say_duration(duration)


def roughly(duration: timedelta) -> str:
    """Return a duration in one unit.

    >>> roughly(timedelta(hours=5, minutes=54))
    '5 h'
    """
    return " ".join(say_duration(whole_seconds(duration)).split()[:2])


def whole_seconds(duration: timedelta) -> timedelta:
    """Return a duration in whole seconds; one below 10 s is unchanged."""
    return duration if duration < timedelta(seconds=10) else timedelta(seconds=int(duration.total_seconds()))


def read_instant(text: str, tz: str, *, now: datetime) -> datetime:
    """Return the instant of a text: a duration back from now, `today`, `yesterday`, an ISO date or time.

    >>> now = datetime.fromisoformat("2026-11-15T19:41:07Z")
    >>> read_instant("yesterday", "Europe/Berlin", now=now).isoformat()
    '2026-11-13T23:00:00+00:00'
    """
    word = text.strip().lower()
    midnight = now.astimezone(zone(tz)).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    if word in ("today", "yesterday"):
        return localize(midnight - (DAY if word == "yesterday" else timedelta()), tz)
    if word == "now":
        return now
    try:
        return now - parse_duration(word)
    except InvalidDuration:
        return _iso(text, tz)


_BACK = "write a duration back from now (30d, 2h), today, yesterday, 2026-11-15 or 2026-11-15T20:41:07Z"
_AHEAD = "write a time of day (22:43), 2026-11-15, 2026-11-15T22:43 or 2026-11-15T20:41:07Z"


def _iso(text: str, tz: str, *, hint: str = _BACK) -> datetime:
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidInstant(f"{text!r} is not a point in time", hint=hint) from None
    return localize(at, tz)


def read_coming(text: str, tz: str, *, now: datetime) -> datetime:
    """Return the coming instant of a text: the next such time of day, or an ISO date or time.

    >>> now = datetime.fromisoformat("2026-11-15T19:41:07Z")
    >>> read_coming("02:30", "Europe/Berlin", now=now).isoformat()
    '2026-11-16T01:30:00+00:00'
    """
    today = now.astimezone(zone(tz)).date()
    try:
        at = time.fromisoformat(text.strip() if ":" in text else "")
    except ValueError:
        return _iso(text, tz, hint=_AHEAD)
    if at.tzinfo is not None:
        raise InvalidInstant(f"{text!r} is a time of day with an offset", hint=_AHEAD)
    instant = localize(datetime.combine(today, at), tz)
    return instant if instant > now else localize(datetime.combine(today + DAY, at), tz)


ROTA_REASONS = frozenset({Reason.OVERLAP, Reason.BACKING_OFF, Reason.QUIET_HOURS, Reason.POLL_FAILED})
"""Reasons whose errors rota writes itself; errors of a command or a server stay unchanged."""
_INSTANT = r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?Z(?!\w)"


def say_why(run: Run, tz: str, *, now: datetime) -> str | None:
    """Return the error of a run with its instant in a zone, None for none."""
    return in_zone(run.error, tz, now=now) if run.error is not None and run.reason in ROTA_REASONS else run.error


def in_zone(text: str, tz: str, *, now: datetime) -> str:
    """Return a text of rota with its instant in a zone.

    >>> now = datetime.fromisoformat("2026-11-15T19:41:07Z")
    >>> in_zone("held back until 2026-11-15T20:00:00Z", "Europe/Madrid", now=now)
    'held back until Sun 15 Nov 21:00'
    """
    return re.sub(_INSTANT, lambda match: full_time(datetime.fromisoformat(match[0]), tz, now=now), text, count=1)
