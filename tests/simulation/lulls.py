"""Quiet hours and excluded dates of simulated days, and the oracle's own reading: borders are fixed times of cron."""

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from random import Random

from msgspec.structs import replace

from rota.model.spec import QuietHours, QuietPolicy, Schedule

DAY = timedelta(days=1)
WINDOWS = {
    "00:00-06:00": ("0 0 * * *", "0 6 * * *"),
    "22:00-03:30": ("0 22 * * *", "30 3 * * *"),
    "mon-fri 09:00-17:00": ("0 9 * * 1,2,3,4,5", "0 17 * * 1,2,3,4,5"),
    "sun 01:30-02:30": ("30 1 * * 0", "30 2 * * 0"),
    "sat,sun 12:00-24:00": ("0 12 * * 6,0", "0 0 * * 0,1"),
}
"""Windows, and the fixed times at which each begins and ends."""
Crons = Callable[[str, str], Sequence[datetime]]
"""Returns the instants of an expression in a zone, near the day."""


def with_lulls(random: Random, schedule: Schedule, *, zone: str, around: datetime) -> Schedule:
    """Return a schedule that may have quiet hours and excluded dates."""
    if schedule.manual:
        return schedule
    if random.random() < 0.3:
        windows = tuple(sorted(random.sample(sorted(WINDOWS), random.choice((1, 1, 2)))))
        policy = random.choice((QuietPolicy.DEFER, QuietPolicy.DEFER, QuietPolicy.SKIP))
        schedule = replace(schedule, quiet=QuietHours(windows, random.choice((zone, "UTC")), policy))
    if random.random() < 0.15:
        days = {around.date() + random.choice((-1, 0, 1)) * DAY for _ in range(2)}
        texts = (random.choice((f"{day}", f"{day:%m-%d}")) for day in sorted(days))
        schedule = replace(schedule, excluded=tuple(sorted(texts)))
    return schedule


def quiet_end(schedule: Schedule, at: datetime, crons: Crons) -> datetime | None:
    """Return the end of the quiet hours that an instant waits for."""
    quiet = schedule.quiet
    if quiet is None:
        return None
    spans: list[tuple[datetime, datetime]] = []
    for window in quiet.windows:
        begin, end = WINDOWS[window]
        ends = crons(end, quiet.timezone)
        spans += [(one, next((e for e in ends if e >= one), one)) for one in crons(begin, quiet.timezone)]
    if not any(begin <= at < end for begin, end in spans):
        return None
    until = at
    while later := [end for begin, end in spans if begin <= until < end]:
        until = max(later)
    return until


def is_excluded(schedule: Schedule, at: datetime, crons: Crons) -> bool:
    """Return whether an instant falls on an excluded day of its zone."""
    for day in (at.date() + step * DAY for step in (-1, 0, 1)):
        if f"{day}" in schedule.excluded or f"{day:%m-%d}" in schedule.excluded:
            begin, end = (_midnight(one, schedule.timezone, crons) for one in (day, day + DAY))
            if begin <= at < end:
                return True
    return False


def _midnight(day: date, zone: str, crons: Crons) -> datetime:
    return next(iter(crons(f"0 0 {day.day} {day.month} *", zone)))


def wrong_fate(
    schedule: Schedule, at: datetime, crons: Crons, *, reason: str | None, written: datetime | None
) -> str | None:
    """Return why an instant may not have this row; `written` None: the clock tells nothing."""
    if reason == "paused":
        return None
    if is_excluded(schedule, at, crons):
        return None if reason == "excluded" else "is excluded"
    end = quiet_end(schedule, at, crons)
    if end is None:
        return "is neither quiet nor excluded" if reason in ("quiet_hours", "excluded") else None
    assert schedule.quiet is not None
    if reason == "quiet_hours":
        return None
    if schedule.quiet.policy is QuietPolicy.SKIP or reason in ("missed", "excluded"):
        return f"is quiet until {end}"
    return f"waits until {end}" if written is not None and written < end else None
