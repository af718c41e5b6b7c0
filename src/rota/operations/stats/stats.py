"""Statistics of runs: the overview, jobs, one job, throughput and the queue."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, partial

from msgspec import Struct

from rota.model.clock import from_ms, to_ms
from rota.model.records import Job
from rota.model.states import Status
from rota.operations.jobs import Ranking, Sort, find_job, has_labels
from rota.operations.stats.ranges import ONE_DAY, Point, StatRange, points
from rota.rules.schedule.timezone import zone as zone_of
from rota.rules.stats import (
    DAY,
    DURATION,
    FIRED,
    FIRED_FAILED,
    HOUR,
    LATENESS,
    WAIT,
    Figures,
    Tally,
    add,
    figures,
    parts,
    reasons,
    sum_of,
    usual,
)
from rota.store.driver import Database, Store
from rota.store.tables import jobs, runs, stats
from rota.store.tables.stats import counted_from

STRIP_DAYS = 14
WEEKS = 8
"""The weeks whose same weekdays give the usual value."""
YEAR = timedelta(days=365)
HEAT = timedelta(days=56)
COMPARED = (
    "runs",
    "failed",
    "success_rate",
    "duration_p50",
    "duration_p95",
    "lateness_p50",
    "lateness_p95",
    "wait_p95",
    "usd",
    "tokens",
)


class Compared(Struct, frozen=True):
    """A figure, its usual value on this weekday, and its value on each of the last days."""

    name: str
    value: float | None
    usual: float | None
    days: tuple[float | None, ...]


class OverviewStats(Struct, frozen=True):
    """The figures of a time beside the usual ones, and its steps. `counted_from`: older ends are not yet counted."""

    range: StatRange
    figures: Figures
    compared: tuple[Compared, ...]
    points: tuple[Point, ...]
    counted_from: datetime | None = None


def overview(store: Store, asked: StatRange, *, now: datetime) -> OverviewStats:
    """Return the statistics of all jobs."""
    return store.read(partial(overview_in, asked=asked, now=now))


def overview_in(db: Database, *, asked: StatRange, now: datetime) -> OverviewStats:
    """Return the statistics of all jobs inside a transaction."""
    steps = points(db, None, asked, now=now)
    whole = sum_of(point.tally for point in steps)
    today = to_ms(now) // DAY * DAY
    days = stats.series(db, None, span=DAY, since=today - 7 * WEEKS * DAY, until=today + DAY)
    past = {at: figures(tally) for at, tally in days.items()}
    found = figures(whole)
    compared = tuple(_compare(name, found, past, today=today, length=asked.length) for name in COMPARED)
    from_at = counted_from(db)
    return OverviewStats(asked, found, compared, tuple(steps), None if from_at is None else from_ms(from_at))


def _compare(name: str, found: Figures, past: Mapping[int, Figures], *, today: int, length: timedelta) -> Compared:
    """Return a figure beside the usual one: for a day the median of the same weekdays, else no comparison."""
    days = [_number(past.get(today - back * DAY), name) for back in range(STRIP_DAYS - 1, -1, -1)]
    same = [_number(past[at], name) for at in (today - week * 7 * DAY for week in range(1, WEEKS + 1)) if at in past]
    return Compared(name, _number(found, name), usual(same) if length <= ONE_DAY else None, tuple(days))


def _number(found: Figures | None, name: str) -> float | None:
    value = None if found is None else getattr(found, name)
    return value.total_seconds() * 1000 if isinstance(value, timedelta) else value


class JobStats(Struct, frozen=True):
    """A job with its figures, the tallies of its last days, oldest first, and its state."""

    job: Job
    figures: Figures
    days: tuple[Tally, ...]


def of_jobs(store: Store, asked: StatRange, *, now: datetime, labels: Sequence[str] = ()) -> list[JobStats]:
    """Return the figures of each job, most failures first; jobs without runs come last."""

    def read(db: Database) -> list[JobStats]:
        job_list = [job for job in jobs.all_jobs(db) if job.retired_at is None and has_labels(job, labels)]
        return stats_of(db, job_list, asked, now=now)

    return sorted(store.read(read), key=lambda one: (-one.figures.failed, -one.figures.runs, one.job.name))


def stats_of(db: Database, found: Sequence[Job], asked: StatRange, *, now: datetime) -> list[JobStats]:
    """Return the figures of some jobs: of a day or less by hours, else by UTC days."""
    ids = [job.id for job in found]
    span = HOUR if asked.length <= ONE_DAY else DAY
    today = to_ms(now) // DAY * DAY
    begins = -(-to_ms(asked.since) // HOUR) * HOUR if span == HOUR else to_ms(asked.since) // DAY * DAY
    strip = stats.series_by_job(db, ids, span=DAY, since=today - (STRIP_DAYS - 1) * DAY, until=today + DAY)
    inside = stats.series_by_job(db, ids, span=span, since=begins, until=to_ms(asked.until))
    days = range(today - (STRIP_DAYS - 1) * DAY, today + DAY, DAY)
    return [
        JobStats(
            job,
            figures(sum_of(inside.get(job.id, {}).values())),
            tuple(strip.get(job.id, {}).get(at, {}) for at in days),
        )
        for job in found
    ]


_RANKED: Mapping[Sort, Callable[[Figures], float | None]] = {
    Sort.FAILURES: lambda one: one.failed,
    Sort.SUCCESS: lambda one: None if one.success_rate is None else -one.success_rate,
    Sort.DURATION: lambda one: None if one.duration_p95 is None else one.duration_p95.total_seconds(),
    Sort.COST: lambda one: one.usd,
}
"""The figures that order jobs, worst first."""


def ranking(sort: Sort, *, now: datetime) -> Ranking | None:
    """Return how jobs are ordered by a figure of the last days; None for an order without statistics."""
    figure_of = _RANKED.get(sort)
    if figure_of is None:
        return None

    def rank(db: Database, found: Sequence[Job]) -> dict[str, float]:
        today = to_ms(now) // DAY * DAY
        ids = [job.id for job in found]
        cells = stats.series_by_job(db, ids, span=DAY, since=today - (STRIP_DAYS - 1) * DAY, until=today + DAY)
        ranks = ((job_id, figure_of(figures(sum_of(days.values())))) for job_id, days in cells.items())
        return {job_id: value for job_id, value in ranks if value is not None}

    return rank


class Heat(Struct, frozen=True):
    """The starts, the failures and the mean lateness of one hour of one weekday."""

    fires: int = 0
    failed: int = 0
    lateness: timedelta | None = None


class DefinitionChange(Struct, frozen=True):
    """A new definition of a job."""

    version: int
    at: datetime


class OneJobStats(Struct, frozen=True):
    """The statistics of one job: its time, its year by day, its week by hour, and its reasons by week."""

    job: Job
    range: StatRange
    figures: Figures
    points: tuple[Point, ...]
    year: tuple[Point, ...]
    heat: tuple[tuple[Heat, ...], ...]
    weeks: tuple[Point, ...]
    changes: tuple[DefinitionChange, ...]


def of_job(store: Store, name: str, asked: StatRange, *, now: datetime) -> OneJobStats:
    """Return the statistics of one job; UnknownJob names the nearest."""
    return store.read(partial(_of_job, name=name, asked=asked, now=now))


def _of_job(db: Database, *, name: str, asked: StatRange, now: datetime) -> OneJobStats:
    job = find_job(db, name)
    steps = points(db, job.id, asked, now=now)
    today = to_ms(now) // DAY * DAY
    days = stats.series(db, job.id, span=DAY, since=today - (YEAR // ONE_DAY) * DAY, until=today + DAY)
    year = tuple(Point(from_ms(at), days.get(at, {})) for at in range(today - YEAR // ONE_DAY * DAY, today + DAY, DAY))
    hours = stats.series(db, job.id, span=HOUR, since=to_ms(now - HEAT), until=to_ms(now))
    versions = jobs.versions(db, job.id, below=job.version + 1, limit=100)
    changes = tuple(
        DefinitionChange(version.number, version.since)
        for version in reversed(versions)
        if asked.since <= version.since <= asked.until and version.number > 1
    )
    return OneJobStats(
        job=job,
        range=asked,
        figures=figures(sum_of(point.tally for point in steps)),
        points=tuple(steps),
        year=year,
        heat=_heat(hours, tz=asked.timezone),
        weeks=tuple(_weeks(year)),
        changes=changes,
    )


def _heat(hours: Mapping[int, Tally], *, tz: str) -> tuple[tuple[Heat, ...], ...]:
    """Return seven rows of 24 hours, Monday first: a run counts in the hour in which it started."""
    fires, failed, late = ([[0] * 24 for _ in range(7)] for _ in range(3))
    measured = [[0] * 24 for _ in range(7)]
    place = zone_of(tz)

    @cache
    def hour_of(at: int) -> tuple[int, int]:
        local = from_ms(at).astimezone(place)
        return local.weekday(), local.hour

    def put(where: list[list[int]], at: int, number: int) -> None:
        weekday, hour = hour_of(at)
        where[weekday][hour] += number

    for at, tally in hours.items():
        tallies = parts(tally)
        put(fires, at, sum(tallies.buckets.get(DURATION, {}).values()))
        put(failed, at, tallies.count(Status.FAILED))
        put(late, at, tally.get(LATENESS, 0))
        put(measured, at, sum(tallies.buckets.get(LATENESS, {}).values()))
        for measure, where in ((FIRED, fires), (FIRED_FAILED, failed)):
            for back, number in tallies.buckets.get(measure, {}).items():
                put(where, at, -number)
                put(where, at - back * HOUR, number)
    return tuple(
        tuple(
            Heat(
                max(fires[day][hour], 0),
                max(failed[day][hour], 0),
                timedelta(milliseconds=late[day][hour] // measured[day][hour]) if measured[day][hour] else None,
            )
            for hour in range(24)
        )
        for day in range(7)
    )


def _weeks(days: Sequence[Point]) -> list[Point]:
    weeks: dict[datetime, Tally] = {}
    for day in days:
        monday = day.at - day.at.weekday() * ONE_DAY
        add(weeks.setdefault(monday, {}), day.tally)
    return [Point(at, tally) for at, tally in weeks.items()]


def skipped_and_failed(tally: Mapping[str, int]) -> dict[str, int]:
    """Return the number of ends by reason: failures, skips and cancellations."""
    return {
        reason: number
        for status in (Status.FAILED, Status.SKIPPED, Status.CANCELLED)
        for reason, number in sorted(reasons(tally, status).items(), key=lambda item: -item[1])
    }


class QueueStats(Struct, frozen=True):
    """The runs that wait now, and the waits of those that ended in a time."""

    range: StatRange
    queued: int
    running: int
    figures: Figures
    points: tuple[Point, ...]


def of_queue(store: Store, asked: StatRange, *, now: datetime) -> QueueStats:
    """Return the statistics of the queue."""
    return store.read(partial(queue_in, asked=asked, now=now))


def queue_in(db: Database, *, asked: StatRange, now: datetime) -> QueueStats:
    """Return the statistics of the queue inside a transaction."""
    counts = runs.counts(db)
    queued, running = (sum(counts.get(status, {}).values()) for status in (Status.QUEUED, Status.RUNNING))
    steps = points(db, None, asked, now=now)
    whole = figures(sum_of(point.tally for point in steps))
    return QueueStats(asked, queued, running, whole, tuple(steps))


def mean_queue(point: Point, step: timedelta) -> float:
    """Return the mean number of runs that waited during a step: their waits added, by the length of the step."""
    return point.tally.get(WAIT, 0) / (step.total_seconds() * 1000)
