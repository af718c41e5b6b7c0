"""Where the axis of a timeline has its marks: at round hours or at midnights of the project's zone."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rota.rules.timezone import zone

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MOST = 14
HOURS = (1, 2, 3, 6, 12)
DAYS = (1, 2, 7, 14, 28, 56)


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment with its words; `strong` where a day begins between hours."""

    at: datetime
    words: str
    strong: bool = False


def marks(since: datetime, until: datetime, tz: str) -> list[Mark]:
    """Return at most some fourteen marks from `since` to before `until`."""
    span = until - since
    hours = next((step for step in HOURS if span / (step * HOUR) <= MOST), None)
    found = _hours(since, until, tz, step=hours) if hours else _days(since, until, tz)
    return [mark for mark in found if since <= mark.at < until]


def _hours(since: datetime, until: datetime, tz: str, *, step: int) -> list[Mark]:
    place = zone(tz)
    local = since.astimezone(place).replace(minute=0, second=0, microsecond=0)
    found: list[Mark] = []
    at = local.astimezone(UTC)
    while at < until:
        shown = at.astimezone(place)
        if shown.hour % step == 0:
            midnight = shown.hour == 0
            found.append(Mark(at, f"{shown:%a} {shown.day}" if midnight else f"{shown:%H:%M}", strong=midnight))
        at += HOUR
    return found


def _days(since: datetime, until: datetime, tz: str) -> list[Mark]:
    place = zone(tz)
    step = next((step for step in DAYS if (until - since) / (step * DAY) <= MOST), DAYS[-1])
    day = since.astimezone(place).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None) + DAY
    found: list[Mark] = []
    while (at := day.replace(tzinfo=place).astimezone(UTC)) < until:
        words = f"{day:%a} {day.day} {day:%b}" if step < 7 else f"{day.day} {day:%b}"
        found.append(Mark(at, words, strong=day.weekday() == 0 and step < 7))
        day += step * DAY
    return found
