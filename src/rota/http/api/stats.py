"""Routes of statistics."""

from typing import Annotated, Literal

from fastapi import Depends, Query
from starlette.responses import Response

from rota.http.context import Ctx, FilterWord, GroupName, JobName, PastTime, Routes, RunName, answer, instant
from rota.operations.admin.access import Scope
from rota.operations.jobs import project_timezone
from rota.operations.stats import shapes, stats
from rota.operations.stats.costs import CostBy, CostUnit
from rota.operations.stats.costs import costs as read_costs
from rota.operations.stats.ranges import PRESETS, StatRange, between, range_of
from rota.operations.stats.spans import SpansJson, spans_by_name, spans_json, spans_of_group

stats_routes = Routes("stats")
Preset = Annotated[
    Literal["24h", "7d", "30d"], Query(alias="range", description="The time until now; `since` and `until` replace it.")
]


def day(ctx: Ctx, preset: Preset = "24h", since: PastTime | None = None, until: PastTime | None = None) -> StatRange:
    """Return the time of a request, the last 24 hours by default."""
    zone = project_timezone(ctx.store)
    if since is None and until is None:
        return range_of(preset, "", "", tz=zone, now=ctx.now)
    ends = min(instant(until, now=ctx.now), ctx.now) if until else ctx.now
    return between(instant(since, now=ctx.now) if since else ends - PRESETS[preset], ends, tz=zone)


def month(ctx: Ctx, preset: Preset = "30d", since: PastTime | None = None, until: PastTime | None = None) -> StatRange:
    """Return the time of a request, the last 30 days by default."""
    return day(ctx, preset, since, until)


DayRange = Annotated[StatRange, Depends(day)]
MonthRange = Annotated[StatRange, Depends(month)]


@stats_routes.on("GET", "/stats/overview", scope=Scope.READ, answer=shapes.OverviewStatsJson)
def get_overview_stats(ctx: Ctx, asked: DayRange) -> Response:
    """Return the figures of all jobs, beside the usual ones of this weekday and those of the last 14 days."""
    return answer(shapes.overview_json(stats.overview(ctx.store, asked, now=ctx.now)))


@stats_routes.on("GET", "/stats/jobs", scope=Scope.READ, answer=shapes.JobsStatsJson)
def get_jobs_stats(
    ctx: Ctx, asked: DayRange, label: Annotated[list[FilterWord] | None, Query(max_length=20)] = None
) -> Response:
    """Return the figures of each job, most failures first."""
    return answer(shapes.jobs_json(asked, stats.of_jobs(ctx.store, asked, now=ctx.now, labels=label or ())))


@stats_routes.on("GET", "/stats/jobs/{job}", scope=Scope.READ, answer=shapes.JobStatsJson)
def get_job_stats(ctx: Ctx, job: JobName, asked: MonthRange) -> Response:
    """Return the figures of a job by step, its starts by weekday and hour, and its reasons by week."""
    return answer(shapes.job_json(stats.of_job(ctx.store, job, asked, now=ctx.now)))


@stats_routes.on("GET", "/stats/costs", scope=Scope.READ, answer=shapes.CostsJson)
def get_cost_stats(
    ctx: Ctx,
    asked: MonthRange,
    by: Annotated[CostBy, Query()] = CostBy.MODEL,
    unit: Annotated[CostUnit, Query()] = CostUnit.USD,
    job: Annotated[str | None, Query(min_length=1, max_length=300)] = None,
) -> Response:
    """Return what runs cost by step and by model, agent or job, and the most expensive runs."""
    return answer(shapes.costs_json(read_costs(ctx.store, asked, by=by, unit=unit, job=job, now=ctx.now)))


@stats_routes.on("GET", "/stats/throughput", scope=Scope.READ, answer=shapes.ThroughputJson)
def get_throughput_stats(ctx: Ctx, asked: DayRange) -> Response:
    """Return how many runs ended in each step, by status."""
    return answer(shapes.throughput_json(stats.overview(ctx.store, asked, now=ctx.now)))


@stats_routes.on("GET", "/stats/queue", scope=Scope.READ, answer=shapes.QueueStatsJson)
def get_queue_stats(ctx: Ctx, asked: DayRange) -> Response:
    """Return the length of the queue, and how long the runs of each step waited."""
    return answer(shapes.queue_json(stats.of_queue(ctx.store, asked, now=ctx.now)))


@stats_routes.on("GET", "/stats/runs/{run}", scope=Scope.READ, answer=SpansJson)
def get_run_spans(ctx: Ctx, run: RunName) -> Response:
    """Return where the time of a run and its retries went, or of the members of a group's run."""
    return answer(spans_json(spans_by_name(ctx.store, run, state=ctx.state, now=ctx.now)))


@stats_routes.on("GET", "/stats/groups/{group}", scope=Scope.READ, answer=SpansJson)
def get_group_spans(ctx: Ctx, group: GroupName) -> Response:
    """Return where the time of a group went: what its members waited for, and when they ran."""
    return answer(spans_json(spans_of_group(ctx.store, group, state=ctx.state, now=ctx.now)))
