"""The times that statistics are about: their steps, and the cells of each step."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from rota.model.clock import from_ms, to_ms
from rota.model.errors import InvalidValue
from rota.rules.schedule.timezone import zone as zone_of
from rota.rules.stats import DAY, HOUR, Tally, sum_of
from rota.store.driver import Database
from rota.store.tables import stats
from rota.text.format import read_instant

ONE_HOUR, ONE_DAY = timedelta(hours=1), timedelta(days=1)
PRESETS = {"24h": timedelta(hours=24), "7d": timedelta(days=7), "30d": timedelta(days=30)}
CUSTOM = "custom"
MOST_HOURS = timedelta(days=3)
"""A longer time has steps of days."""
HOURS_KEPT = timedelta(days=59)
"""Days of a zone are sums of hours as far back as hours are kept, else those of UTC."""
LONGEST = timedelta(days=732)


class Step(StrEnum):
    """The length of a step."""

    HOUR = "hour"
    DAY = "day"


class StatRange(Struct, frozen=True):
    """A time, cut into steps of a zone. `name` is a preset or `custom`."""

    name: str
    since: datetime
    until: datetime
    step: Step
    timezone: str

    @property
    def length(self) -> timedelta:
        """The length of the time."""
        return self.until - self.since


class Point(Struct, frozen=True):
    """A step and what ended in it."""

    at: datetime
    tally: Tally


def range_of(name: str, since: str, until: str, *, tz: str, now: datetime) -> StatRange:
    """Return the time of a preset, or from `since` to `until`; refuse one that is empty."""
    if not since and not until:
        if name not in PRESETS:
            raise InvalidValue(f"{name!r} is no range", hint=f"use {', '.join(PRESETS)}, or `since` and `until`")
        return between(now - PRESETS[name], now, tz=tz, name=name)
    ends = min(read_instant(until, tz, now=now), now) if until else now
    begins = read_instant(since, tz, now=now) if since else ends - PRESETS["7d"]
    if begins >= ends:
        raise InvalidValue("the range is empty", hint="let `since` be before `until` and before now")
    return between(begins, ends, tz=tz)


def between(since: datetime, until: datetime, *, tz: str, name: str = CUSTOM) -> StatRange:
    """Return the time between two instants: at most the last two years of it, none if the first is the later one."""
    since = min(max(since, until - LONGEST), until)
    return StatRange(name, since, until, Step.HOUR if until - since <= MOST_HOURS else Step.DAY, tz)


def points(db: Database, job_id: str | None, asked: StatRange, *, now: datetime) -> list[Point]:
    """Return every step of a range, of a job or of all; a step without ends is empty."""
    if asked.step is Step.HOUR:
        since, last = to_ms(asked.since), to_ms(asked.until)
        first = since // HOUR * HOUR if asked.length < 2 * ONE_HOUR else -(-since // HOUR) * HOUR
        found = stats.series(db, job_id, span=HOUR, since=first, until=last)
        return [Point(from_ms(at), found.get(at, {})) for at in range(first, last, HOUR)]
    if asked.since < now - HOURS_KEPT:
        first, last = to_ms(asked.since) // DAY * DAY, to_ms(asked.until)
        found = stats.series(db, job_id, span=DAY, since=first, until=last)
        return [Point(from_ms(at), found.get(at, {})) for at in range(first, last, DAY)]
    return list(_days(stats.series(db, job_id, span=HOUR, since=_first(asked), until=to_ms(asked.until)), asked))


def _first(asked: StatRange) -> int:
    return to_ms(_midnight(asked.since, asked.timezone)) // HOUR * HOUR


def _midnight(at: datetime, tz: str) -> datetime:
    local = at.astimezone(zone_of(tz))
    return local.replace(hour=0, minute=0, second=0, microsecond=0)


def _days(hours: Mapping[int, Tally], asked: StatRange) -> Iterator[Point]:
    place = zone_of(asked.timezone)
    by_day: dict[object, list[Tally]] = {}
    for at, tally in hours.items():
        by_day.setdefault(from_ms(at).astimezone(place).date(), []).append(tally)
    day = _midnight(asked.since, asked.timezone)
    while day < asked.until:
        yield Point(day, sum_of(by_day.get(day.date(), ())))
        day = _midnight(day + timedelta(hours=30), asked.timezone)
