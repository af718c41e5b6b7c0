"""When an interval is due, as document 003 asks: read it, count on from the last completion, compare with now."""

from datetime import datetime, timedelta

from rota.model.durations import parse_duration
from rota.model.errors import IntervalParseError, InvalidDuration, InvalidInstant, InvalidValue
from rota.model.spec import Jitter
from rota.rules.jitter import delay

MOST_JITTER = 50


def parse_interval(text: str, /) -> timedelta:
    """Return the interval that a text names: one positive whole number and one of the units s, m, h and d.

    >>> parse_interval("5m")
    datetime.timedelta(seconds=300)
    """
    if not isinstance(text, str):
        raise IntervalParseError(text, "is no text such as '5m'")
    try:
        return parse_duration(text)
    except InvalidDuration as error:
        raise IntervalParseError(text, error.problem) from None


def next_trigger(
    last_completed: datetime | None, interval: str | timedelta, *, jitter: float = 0, now: datetime
) -> datetime:
    """Return when an interval is due: at once the first time, else an interval after its last completion.

    Never before now; `jitter` is at most so many percent of the interval, chosen by hash of the instant.
    """
    if not 0 <= jitter <= MOST_JITTER:
        hint = "write percent of the interval, such as 10"
        raise InvalidValue(f"a jitter of {jitter} % is not between 0 and {MOST_JITTER}", hint=hint)
    every = interval if isinstance(interval, timedelta) else parse_interval(interval)
    if last_completed is None:
        return now
    nominal = aware(last_completed) + every
    return max(now, nominal + delay(Jitter(percent=jitter), name="", instant=nominal, gap=every))


def is_due(next_run_at: datetime, now: datetime) -> bool:
    """Tell whether an instant has come."""
    return aware(next_run_at) <= now


def aware(at: datetime) -> datetime:
    """Return an instant that has a zone; one without is refused."""
    if at.tzinfo is None:
        hint = "give it one: datetime.now(UTC), or .replace(tzinfo=UTC)"
        raise InvalidInstant(f"{at.isoformat()} has no time zone", hint=hint)
    return at
