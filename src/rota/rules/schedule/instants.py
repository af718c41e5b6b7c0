"""The instants of a schedule: interval grids, cron and jitter."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from rota.model.clock import hashed_part, say_duration, to_ms
from rota.model.spec import Anchor, FirstRun, Jitter, Schedule
from rota.rules.schedule.blackouts import waiting_run
from rota.rules.schedule.cron import cron_count, cron_next, cron_previous, explain_cron
from rota.rules.schedule.timezone import zone

_READINGS = {Anchor.COMPLETION: " after it finishes", Anchor.START: " after it starts", Anchor.FIXED: ""}


def grid_next(origin: datetime, interval: timedelta, after: datetime) -> datetime:
    """Return the first instant of the grid strictly after `after`; the grid begins with `origin` itself.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> grid_next(noon, timedelta(minutes=5), noon).isoformat()
    '2026-01-01T12:05:00+00:00'
    """
    return origin if after < origin else origin + ((after - origin) // interval + 1) * interval


def grid_previous(origin: datetime, interval: timedelta, before: datetime) -> datetime | None:
    """Return the last instant of the grid strictly before `before`, None at or before its origin."""
    if before <= origin:
        return None
    steps = -((origin - before) // interval)  # the quotient rounded up
    return origin + (steps - 1) * interval


def grid_count(origin: datetime, interval: timedelta, *, first: datetime, last: datetime) -> int:
    """Return the number of instants of the grid from `first` to `last`, both included."""
    first = max(first, origin)
    if last < first:
        return 0
    return (last - origin) // interval + (origin - first) // interval + 1


def explain_interval(schedule: Schedule) -> str:
    """Return an interval in words, with its anchor.

    >>> explain_interval(Schedule(interval=timedelta(minutes=30)))
    'every 30 min after it finishes'
    """
    return f"every {say_interval(schedule)}{_READINGS[schedule.anchor]}"


def say_interval(schedule: Schedule) -> str:
    """Return the length of an interval, or its lengths by mode.

    >>> from rota.model.spec import ByMode
    >>> say_interval(Schedule(by_mode=ByMode(timedelta(seconds=15), timedelta(minutes=1), None)))
    '15 s (idle 1 min, dormant never)'
    """
    if schedule.by_mode is None:
        return _say(schedule.interval)
    modes = schedule.by_mode
    return f"{_say(modes.active)} (idle {_say(modes.idle)}, dormant {_say(modes.dormant)})"


def _say(interval: timedelta | None) -> str:
    return "never" if interval is None else say_duration(interval)


NO_DELAY = timedelta(0)


def delay(jitter: Jitter | None, *, name: str, instant: datetime, gap: timedelta | None) -> timedelta:
    """Return the jitter of `instant`: whole milliseconds, less than the gap to the next instant.

    >>> from datetime import UTC
    >>> at = datetime(2026, 1, 1, tzinfo=UTC)
    >>> NO_DELAY <= delay(Jitter(percent=50), name="a", instant=at, gap=timedelta(hours=1)) < timedelta(minutes=30)
    True
    """
    return NO_DELAY if jitter is None else hashed_part(_room(jitter, gap), f"{name}\0{to_ms(instant)}")


def _room(jitter: Jitter, gap: timedelta | None) -> timedelta:
    if gap is None:  # the only instant: there is no gap to bound the jitter
        return jitter.up_to or NO_DELAY
    wanted = jitter.up_to if jitter.up_to is not None else gap * ((jitter.percent or 0) / 100)
    return min(wanted, gap)


COUNTED = 10_000
_INSTANT = timedelta(microseconds=1)


def next_instant(schedule: Schedule, *, after: datetime, created_at: datetime) -> datetime | None:
    """Return the first instant strictly after `after` within the bounds, or None."""
    if schedule.start_at is not None:
        after = max(after, schedule.start_at - _INSTANT)
    instant = _unbounded_next(schedule, after, created_at=created_at)
    return instant if instant is None or schedule.end_at is None or instant < schedule.end_at else None


def previous_instant(schedule: Schedule, *, before: datetime, created_at: datetime) -> datetime | None:
    """Return the last instant strictly before `before` within the bounds, or None."""
    if schedule.end_at is not None:
        before = min(before, schedule.end_at)
    instant = _unbounded_previous(schedule, before, created_at=created_at)
    early = instant is not None and schedule.start_at is not None and instant < schedule.start_at
    return None if early else instant


def first_instant(schedule: Schedule, *, since: datetime, created_at: datetime) -> datetime | None:
    """Return the first instant at or after `since` within the bounds, or None."""
    return next_instant(schedule, after=since - _INSTANT, created_at=created_at)


def last_instant(schedule: Schedule, *, until: datetime, created_at: datetime) -> datetime | None:
    """Return the last instant at or before `until` within the bounds, or None."""
    return previous_instant(schedule, before=until + _INSTANT, created_at=created_at)


def last_come(schedule: Schedule, *, until: datetime, created_at: datetime) -> datetime | None:
    """Return the last instant at or before `until` that does not wait for quiet hours beyond `until`."""
    instant = last_instant(schedule, until=until, created_at=created_at)
    quiet = None if instant is None else waiting_run(schedule, instant)
    if quiet is None or quiet.until <= until:
        return instant
    return previous_instant(schedule, before=quiet.since, created_at=created_at)


def count_instants(
    schedule: Schedule, *, first: datetime, last: datetime, created_at: datetime, at_most: int = COUNTED
) -> int | None:
    """Return the number of instants from `first` to `last`, both included; None above `at_most`."""
    if schedule.start_at is not None:
        first = max(first, schedule.start_at)
    if schedule.end_at is not None:
        last = min(last, schedule.end_at - _INSTANT)
    if last < first:
        return 0
    if schedule.cron:
        return cron_count(schedule.cron, schedule.timezone, first=first, last=last, at_most=at_most)
    count = _simple_count(schedule, first=first, last=last, created_at=created_at)
    return count if count <= at_most else None


def _simple_count(schedule: Schedule, *, first: datetime, last: datetime, created_at: datetime) -> int:
    if schedule.at is not None:
        return int(first <= schedule.at <= last)
    if schedule.interval is None or schedule.follows_runs:
        return 0
    return grid_count(_origin(schedule, created_at), schedule.interval, first=first, last=last)


def instants_between(
    schedule: Schedule, *, since: datetime, until: datetime, created_at: datetime
) -> Iterator[datetime]:
    """Yield the instants in [since, until) of a schedule that does not depend on runs, within its bounds.

    >>> daily = Schedule(cron=("30 2 * * *",))
    >>> since, until = (datetime.fromisoformat(f"2026-11-{day}T00:00:00Z") for day in ("01", "03"))
    >>> [f"{at:%d %H:%M}" for at in instants_between(daily, since=since, until=until, created_at=since)]
    ['01 02:30', '02 02:30']
    """
    instant = first_instant(schedule, since=since, created_at=created_at)
    while instant is not None and instant < until:
        yield instant
        instant = next_instant(schedule, after=instant, created_at=created_at)


def fires_at(
    schedule: Schedule, instant: datetime, *, name: str, created_at: datetime, interval: timedelta | None = None
) -> datetime:
    """Return when `instant` fires: at the end of its quiet hours, else with its jitter.

    Jitter ends before the next instant; `interval` is that of a job whose interval has modes.
    """
    if schedule.fires_on_time:
        return instant
    quiet = waiting_run(schedule, instant)
    if quiet is not None:
        return quiet.until
    if schedule.jitter is None:
        return instant
    gap = interval if schedule.by_mode is not None else _gap(schedule, instant, created_at=created_at)
    return instant + delay(schedule.jitter, name=name, instant=instant, gap=gap)


def _gap(schedule: Schedule, instant: datetime, *, created_at: datetime) -> timedelta | None:
    if schedule.interval is not None:
        return schedule.interval
    following = _unbounded_next(schedule, instant, created_at=created_at)
    return None if following is None else following - instant


def within_bounds(schedule: Schedule, nominal: datetime) -> datetime | None:
    """Return `nominal`, not before `start_at`; None from `end_at` on."""
    if schedule.start_at is not None:
        nominal = max(nominal, schedule.start_at)
    return nominal if schedule.end_at is None or nominal < schedule.end_at else None


def _unbounded_next(schedule: Schedule, after: datetime, *, created_at: datetime) -> datetime | None:
    if schedule.cron:
        return cron_next(schedule.cron, schedule.timezone, after)
    if schedule.at is not None:
        return schedule.at if schedule.at > after else None
    if schedule.interval is None or schedule.follows_runs:
        return None
    return grid_next(_origin(schedule, created_at), schedule.interval, after)


def _unbounded_previous(schedule: Schedule, before: datetime, *, created_at: datetime) -> datetime | None:
    if schedule.cron:
        return cron_previous(schedule.cron, schedule.timezone, before)
    if schedule.at is not None:
        return schedule.at if schedule.at < before else None
    if schedule.interval is None or schedule.follows_runs:
        return None
    return grid_previous(_origin(schedule, created_at), schedule.interval, before)


def _origin(schedule: Schedule, created_at: datetime) -> datetime:
    assert schedule.interval is not None
    if schedule.start_at is not None:
        return schedule.start_at
    return created_at + schedule.interval if schedule.first_run is FirstRun.AFTER_INTERVAL else created_at


def explain_schedule(schedule: Schedule) -> str:
    """Return a schedule in words, with zone, bounds and jitter.

    >>> explain_schedule(Schedule(cron=("30 2 * * *",), timezone="Europe/Madrid", jitter=Jitter(percent=10)))
    'at 02:30 every day (Europe/Madrid), up to 10 % of the gap later'
    """
    parts = [_explain_instants(schedule)]
    if schedule.start_at is not None:
        parts.append(f"from {_local(schedule.start_at, schedule)}")
    if schedule.end_at is not None:
        parts.append(f"before {_local(schedule.end_at, schedule)}")
    if schedule.jitter is not None:
        up_to, percent = schedule.jitter.up_to, schedule.jitter.percent
        parts.append(f"up to {f'{percent or 0:g} % of the gap' if up_to is None else say_duration(up_to)} later")
    if schedule.run_once and schedule.at is None:
        parts.append("only once")
    return ", ".join(parts)


def _explain_instants(schedule: Schedule) -> str:
    if schedule.reboot:
        return "at boot"
    if schedule.cron:
        return f"{explain_cron(schedule.cron)} ({schedule.timezone})"
    if schedule.at is not None:
        return f"once at {_local(schedule.at, schedule)}"
    return explain_interval(schedule) if schedule.repeats else "by hand"


def _local(at: datetime, schedule: Schedule) -> str:
    local = at.astimezone(zone(schedule.timezone))
    pattern = "%Y-%m-%d %H:%M:%S" if local.second else "%Y-%m-%d %H:%M"
    return f"{local.strftime(pattern)} ({schedule.timezone})"
