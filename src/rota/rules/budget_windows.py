"""The calendar windows of budgets (R-19), and what a window will have used at its end. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import StrEnum

from rota.model.budget import Per, Window
from rota.model.clock import MILLISECOND
from rota.rules.timezone import end_of_gap, instants_of_wall, zone

DAY = timedelta(days=1)
LEAST_HISTORY = 2
EARLY = 0.05
_SHORT = {Per.MINUTE: timedelta(minutes=1), Per.HOUR: timedelta(hours=1)}


def window_of(per: Per, tz: str, at: datetime) -> Window:
    """Return the calendar window that holds an instant; hours and minutes count from the midnight before it.

    >>> window_of(Per.DAY, "Europe/Madrid", datetime.fromisoformat("2026-11-15T20:00:00Z")).until.isoformat()
    '2026-11-15T23:00:00+00:00'
    """
    if per in _SHORT:
        return _short_window(_SHORT[per], tz, at)
    first = _first_day(per, at.astimezone(zone(tz)).date())
    while at < _midnight(first, tz):
        first = _first_day(per, first - DAY)
    while at >= (until := _midnight(_next_first(per, first), tz)):
        first = _next_first(per, first)
    return Window(_midnight(first, tz), until)


def window_before(per: Per, tz: str, window: Window) -> Window:
    """Return the window that ends where this one begins."""
    return window_of(per, tz, window.since - MILLISECOND)


def _short_window(length: timedelta, tz: str, at: datetime) -> Window:
    day = window_of(Per.DAY, tz, at)
    since = day.since + (at - day.since) // length * length
    return Window(since, min(since + length, day.until))


def _first_day(per: Per, day: date) -> date:
    if per is Per.WEEK:
        return day - day.weekday() * DAY
    return day.replace(day=1) if per is Per.MONTH else day


def _next_first(per: Per, first: date) -> date:
    if per is Per.WEEK:
        return first + 7 * DAY
    return (first + 32 * DAY).replace(day=1) if per is Per.MONTH else first + DAY


def _midnight(day: date, tz: str) -> datetime:
    """Return the instant at which a day begins: its first midnight, or where clocks skip that, what follows the gap."""
    wall, place = datetime.combine(day, time()), zone(tz)
    found = instants_of_wall(wall, place)
    return found[0] if found else end_of_gap(wall, place)


class Basis(StrEnum):
    """What a forecast is made from."""

    HISTORY = "history"
    LINEAR = "so far"
    NONE = "too early"


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a window will have used at its end; None: too early to say. `windows`: how many were looked back at."""

    amount: int | None
    basis: Basis
    windows: int = 0


def forecast(settled: int, reserved: int, *, window: Window, rests: Sequence[int], now: datetime) -> Forecast:
    """Return what a window will have used at its end.

    `rests`: what each of the last windows used after the point at which this one stands. With too few of them it goes
    on as it began.
    """
    at_least = settled + reserved
    if len(rests) >= LEAST_HISTORY:
        expected = settled + round(sum(rests) / len(rests))
        return Forecast(max(expected, at_least), Basis.HISTORY, len(rests))
    elapsed = (now - window.since) / (window.until - window.since)
    if elapsed < EARLY:
        return Forecast(None, Basis.NONE)
    return Forecast(max(round(settled / elapsed), at_least), Basis.LINEAR)
