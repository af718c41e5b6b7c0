"""Cron by brute force: every minute of a window is looked at. Knows neither cronsim nor rota."""

import calendar
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
MARGIN = timedelta(days=2)
NAMES = {name: number for number, name in enumerate(["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"])} | {
    name: number
    for number, name in enumerate(
        ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"], start=1
    )
}
LIMITS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def number(text: str) -> int:
    return NAMES[text] if text in NAMES else int(text)


def plain_values(term: str, low: int, high: int) -> set[int]:
    body, _, step = term.partition("/")
    if body == "*":
        first, last = low, high
    elif "-" in body:
        first, last = (number(part) for part in body.split("-"))
    else:
        first = number(body)
        last = high if step else first
    return {value for value in range(first, last + 1) if (value - first) % int(step or 1) == 0}


def day_of_month_matches(field: str, day: date) -> bool:
    length = calendar.monthrange(day.year, day.month)[1]
    for term in field.split(","):
        if term == "L":
            hit = day.day == length
        elif term == "LW":
            working = [n for n in range(1, length + 1) if date(day.year, day.month, n).weekday() < 5]
            hit = day.day == working[-1]
        else:
            hit = day.day in plain_values(term, 1, 31)
        if hit:
            return True
    return False


def weekday_matches(field: str, day: date) -> bool:
    mine = day.isoweekday() % 7
    length = calendar.monthrange(day.year, day.month)[1]
    for term in field.split(","):
        if term.endswith("L"):
            hit = number(term[:-1]) % 7 == mine and day.day > length - 7
        elif "#" in term:
            name, nth = term.split("#")
            hit = number(name) % 7 == mine and (day.day - 1) // 7 + 1 == int(nth)
        else:
            hit = mine in {value % 7 for value in plain_values(term, 0, 7)}
        if hit:
            return True
    return False


@lru_cache(maxsize=4096)
def day_matches(expression: str, day: date) -> bool:
    _, _, days, months, weekdays = expression.split()
    if not any(day.month in plain_values(term, 1, 12) for term in months.split(",")):
        return False
    both = day_of_month_matches(days, day), weekday_matches(weekdays, day)
    return all(both) if days.startswith("*") or weekdays.startswith("*") else any(both)


@lru_cache(maxsize=4096)
def field_values(field: str, place: int) -> frozenset[int]:
    return frozenset().union(*(plain_values(term, *LIMITS[place]) for term in field.split(",")))


@lru_cache(maxsize=4096)
def time_values(expression: str) -> tuple[frozenset[int], frozenset[int]]:
    minutes, hours, *_ = expression.split()
    return field_values(minutes, 0), field_values(hours, 1)


def wall_matches(expression: str, wall: datetime) -> bool:
    minutes, hours = time_values(expression)
    return wall.minute in minutes and wall.hour in hours and day_matches(expression, wall.date())


@lru_cache(maxsize=64)
def walls(tz: str, first: datetime, last: datetime) -> list[tuple[datetime, datetime]]:
    """Every whole minute of the window with what a clock in `tz` shows then."""
    place = ZoneInfo(tz)
    count = (last - first) // MINUTE + 1
    instants = (first + n * MINUTE for n in range(count))
    return [(at, at.astimezone(place).replace(tzinfo=None, fold=0)) for at in instants]


def instants(expression: str, tz: str, first: datetime, last: datetime) -> list[datetime]:
    """The instants from `first` to `last` as Debian's cron would have them."""
    minute, hour, *_ = expression.split()
    table = walls(tz, first - MARGIN, last + MARGIN)
    if minute.startswith("*") or hour.startswith("*"):
        return [at for at, wall in table if first <= at <= last and wall_matches(expression, wall)]
    return [at for at in fixed_instants(expression, table) if first <= at <= last]


def fixed_instants(expression: str, table: list[tuple[datetime, datetime]]) -> list[datetime]:
    found, highest, (minutes, _) = [], table[0][1] - MINUTE, time_values(expression)
    for at, wall in table:
        new = False
        while wall - highest >= MINUTE:  # more than once after a gap; what was shown once does not count again
            highest += MINUTE
            new = new or (highest.minute in minutes and wall_matches(expression, highest))
        if new:
            found.append(at)
        if wall > highest:
            highest = wall
    return found


@lru_cache(maxsize=256)
def transitions(tz: str, first_year: int, last_year: int) -> tuple[datetime, ...]:
    """The instants at which clocks in `tz` change."""
    place, day = ZoneInfo(tz), timedelta(days=1)
    at, end = datetime(first_year, 1, 1, tzinfo=UTC), datetime(last_year, 12, 31, tzinfo=UTC)
    found = []
    while at < end:
        low, high = at, at + day
        if low.astimezone(place).utcoffset() != high.astimezone(place).utcoffset():
            offset = low.astimezone(place).utcoffset()
            while high - low > MINUTE:
                middle = low + (high - low) // (2 * MINUTE) * MINUTE
                low, high = (middle, high) if middle.astimezone(place).utcoffset() == offset else (low, middle)
            found.append(high)
        at += day
    return tuple(found)
