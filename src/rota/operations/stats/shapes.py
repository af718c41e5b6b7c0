"""The JSON of statistics, the same for `rota stats --json` and the HTTP API."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TypedDict

from rota.model.clock import MILLISECOND, iso
from rota.model.serialize import iso_or_none, to_shape
from rota.operations.stats.costs import CostStats
from rota.operations.stats.ranges import ONE_DAY, ONE_HOUR, Point, StatRange, Step
from rota.operations.stats.stats import JobStats, OneJobStats, OverviewStats, QueueStats, mean_queue, skipped_and_failed
from rota.rules.stats import Figures, figures


class RangeJson(TypedDict):
    """A time and the length of its steps."""

    name: str
    since: str
    until: str
    step: str
    timezone: str


class FiguresJson(TypedDict):
    """The figures of a time; null where nothing was measured. Money is in millionths of a dollar."""

    runs: int
    completed: int
    failed: int
    skipped: int
    cancelled: int
    late: int
    success_rate: float | None
    duration_p50_ms: int | None
    duration_p95_ms: int | None
    lateness_p50_ms: int | None
    lateness_p95_ms: int | None
    wait_p50_ms: int | None
    wait_p95_ms: int | None
    paid_runs: int
    requests: int
    tokens: int
    usd_millionths: int


class PointJson(TypedDict):
    """The figures of a step."""

    at: str
    figures: FiguresJson


class ComparedJson(TypedDict):
    """A figure, its usual value on this weekday, and its value on each of the last 14 UTC days."""

    name: str
    value: float | None
    usual: float | None
    days: list[float | None]


class OverviewStatsJson(TypedDict):
    """The statistics of all jobs. `counted_from`: older ends are not yet counted."""

    range: RangeJson
    figures: FiguresJson
    compared: list[ComparedJson]
    points: list[PointJson]
    counted_from: str | None


class JobFiguresJson(TypedDict):
    """The figures of a job."""

    job: str
    figures: FiguresJson
    next_at: str | None


class JobsStatsJson(TypedDict):
    """The figures of each job, most failures first."""

    range: RangeJson
    jobs: list[JobFiguresJson]


class HeatJson(TypedDict):
    """The starts of an hour of a weekday, 0 is Monday."""

    weekday: int
    hour: int
    fires: int
    failed: int
    lateness_ms: int | None


class WeekJson(TypedDict):
    """The reasons of failures, skips and cancellations of a week."""

    at: str
    reasons: dict[str, int]


class ChangeJson(TypedDict):
    """A new definition."""

    version: int
    at: str


class JobStatsJson(TypedDict):
    """The statistics of a job."""

    job: str
    range: RangeJson
    figures: FiguresJson
    points: list[PointJson]
    heat: list[HeatJson]
    weeks: list[WeekJson]
    changes: list[ChangeJson]


class CostPartJson(TypedDict):
    """The amounts of a model, agent or job in each step."""

    name: str
    total: int
    amounts: list[int]


class ExpensiveRunJson(TypedDict):
    """A run and its cost."""

    run: str
    finished_at: str | None
    usd_millionths: int


class CostsJson(TypedDict):
    """Costs: `unit` usd in millionths of a dollar, or tokens."""

    range: RangeJson
    by: str
    unit: str
    total: int
    figures: FiguresJson
    steps: list[str]
    parts: list[CostPartJson]
    usd_per_completed_run: int | None
    most_expensive: list[ExpensiveRunJson]


class ThroughputJson(TypedDict):
    """The ends of each step."""

    range: RangeJson
    points: list[PointJson]


class QueuePointJson(TypedDict):
    """The waits of the runs that ended in a step, and the mean number of waiting runs."""

    at: str
    mean_queue: float
    wait_p50_ms: int | None
    wait_p95_ms: int | None


class QueueStatsJson(TypedDict):
    """The queue now, and the waits of a time."""

    range: RangeJson
    queued: int
    running: int
    wait_p50_ms: int | None
    wait_p95_ms: int | None
    points: list[QueuePointJson]


def range_json(asked: StatRange) -> RangeJson:
    """Return a time as JSON."""
    return to_shape(RangeJson, asked)


def figures_json(found: Figures) -> FiguresJson:
    """Return figures as JSON."""
    measured = (f"{what}_{part}" for what in ("duration", "lateness", "wait") for part in ("p50", "p95"))
    return to_shape(
        FiguresJson,
        found,
        success_rate=None if found.success_rate is None else round(found.success_rate, 4),
        usd_millionths=found.usd,
        **{f"{name}_ms": _ms(getattr(found, name)) for name in measured},
    )


def _ms(length: timedelta | None) -> int | None:
    return None if length is None else length // MILLISECOND


def _points(points: Sequence[Point]) -> list[PointJson]:
    return [{"at": iso(point.at), "figures": figures_json(figures(point.tally))} for point in points]


def overview_json(found: OverviewStats) -> OverviewStatsJson:
    """Return the statistics of all jobs as JSON."""
    return {
        "range": range_json(found.range),
        "figures": figures_json(found.figures),
        "compared": [to_shape(ComparedJson, one) for one in found.compared],
        "points": _points(found.points),
        "counted_from": iso_or_none(found.counted_from),
    }


def jobs_json(asked: StatRange, found: Sequence[JobStats]) -> JobsStatsJson:
    """Return the figures of jobs as JSON."""
    return {
        "range": range_json(asked),
        "jobs": [
            {"job": one.job.name, "figures": figures_json(one.figures), "next_at": iso_or_none(one.job.next_at)}
            for one in found
        ],
    }


def job_json(found: OneJobStats) -> JobStatsJson:
    """Return the statistics of one job as JSON; hours without a start are left out."""
    return {
        "job": found.job.name,
        "range": range_json(found.range),
        "figures": figures_json(found.figures),
        "points": _points(found.points),
        "heat": [
            {
                "weekday": weekday,
                "hour": hour,
                "fires": one.fires,
                "failed": one.failed,
                "lateness_ms": _ms(one.lateness),
            }
            for weekday, row in enumerate(found.heat)
            for hour, one in enumerate(row)
            if one.fires
        ],
        "weeks": [
            {"at": iso(week.at), "reasons": reasons}
            for week in found.weeks
            if (reasons := skipped_and_failed(week.tally))
        ],
        "changes": [to_shape(ChangeJson, change) for change in found.changes],
    }


def costs_json(found: CostStats) -> CostsJson:
    """Return costs as JSON."""
    return {
        "range": range_json(found.range),
        "by": found.by.value,
        "unit": found.unit.value,
        "total": sum(part.total for part in found.parts),
        "figures": figures_json(found.figures),
        "steps": [iso(point.at) for point in found.points],
        "parts": [to_shape(CostPartJson, part) for part in found.parts],
        "usd_per_completed_run": found.per_completed,
        "most_expensive": [
            {
                "run": expensive_run.run.handle,
                "finished_at": iso_or_none(expensive_run.run.finished_at),
                "usd_millionths": expensive_run.usd,
            }
            for expensive_run in found.expensive
        ],
    }


def throughput_json(found: OverviewStats) -> ThroughputJson:
    """Return the ends of each step as JSON."""
    return {"range": range_json(found.range), "points": _points(found.points)}


def queue_json(found: QueueStats) -> QueueStatsJson:
    """Return the statistics of the queue as JSON."""
    step = ONE_HOUR if found.range.step is Step.HOUR else ONE_DAY
    return {
        "range": range_json(found.range),
        "queued": found.queued,
        "running": found.running,
        "wait_p50_ms": _ms(found.figures.wait_p50),
        "wait_p95_ms": _ms(found.figures.wait_p95),
        "points": [
            {
                "at": iso(point.at),
                "mean_queue": round(mean_queue(point, step), 3),
                "wait_p50_ms": _ms(one.wait_p50),
                "wait_p95_ms": _ms(one.wait_p95),
            }
            for point in found.points
            for one in (figures(point.tally),)
        ],
    }
