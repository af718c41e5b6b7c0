"""Routes of forecasts and of the calendar."""

from datetime import date
from typing import Annotated

from fastapi import Depends, Query
from starlette.responses import Response

from rota.http.context import YEARS, Ctx, FilterWord, RequestContext, Routes, answer
from rota.operations.admin.access import Scope
from rota.operations.jobs import project_timezone
from rota.operations.simulate import calendar, forecast
from rota.rules.schedule.timezone import zone
from rota.text.icalendar import write_calendar

forecast_routes = Routes("forecast")
Text = Annotated[str, Query(max_length=400)]
Days = Annotated[
    float, Query(ge=forecast.LEAST_DAYS, le=forecast.MOST_DAYS, description="Number of days; fractions are allowed.")
]
Windows = Annotated[list[str] | None, Query(max_length=10, description="Assumed activity: mon-fri 09:00-17:00.")]
Slots = Annotated[int | None, Query(ge=1, le=10_000, description="Assumed number of slots.")]
Keys = Annotated[str, Query(max_length=4000, description="Assumed keys of the job, as YAML.")]


def assumed(
    job: Text = "", schedule: Text = "", keys: Keys = "", duration: Text = "", fail: Text = ""
) -> forecast.WhatIf:
    """Return the assumed changes of one job."""
    return forecast.WhatIf(job.strip(), schedule, keys, duration, fail)


Assumed = Annotated[forecast.WhatIf, Depends(assumed)]


def project_of(ctx: RequestContext) -> forecast.Project:
    """Return the project of a request, to simulate it."""
    context = ctx.context
    return forecast.project_of(
        ctx.store, context.settings, folder=context.folder, state=context.state, environ=context.environ
    )


@forecast_routes.on("GET", "/forecast", scope=Scope.READ, answer=forecast.ForecastJson)
def get_forecast(
    ctx: Ctx, what_if: Assumed, days: Days = 1.0, activity: Windows = None, modes: Text = "", slots: Slots = None
) -> Response:
    """Return what would happen in some days, with assumed changes of one job; bounded, and nothing is changed."""
    forecast_request = forecast.ForecastRequest(days, tuple(activity or ()), modes, what_if, slots)
    forecast_result = forecast.forecast(project_of(ctx), forecast_request, monotonic=ctx.clock.monotonic, now=ctx.now)
    return answer(forecast.forecast_json(forecast_result))


Day = Annotated[
    date | None, Query(alias="date", description="The first day; default: today.", json_schema_extra={"pattern": YEARS})
]


@forecast_routes.on("GET", "/calendar", scope=Scope.READ, answer=calendar.CalendarJson)
def get_calendar(
    ctx: Ctx, first: Day = None, days: Annotated[int, Query(ge=1, le=calendar.LONGEST_VIEW)] = 7
) -> Response:
    """Return what ended on past days and what would fire on coming ones, by job, in the project's time zone."""
    tz = project_timezone(ctx.store)
    since = first or ctx.now.astimezone(zone(tz)).date()
    calendar_view = calendar.calendar(
        project_of(ctx), since, days=days, tz=tz, monotonic=ctx.clock.monotonic, now=ctx.now
    )
    return answer(calendar.calendar_json(calendar_view))


FEED = "/calendar.ics"
feed_routes = Routes("calendar", prefix="")


@feed_routes.on("GET", FEED, scope=Scope.CALENDAR, answer=str, media="text/calendar; charset=utf-8")
def get_calendar_file(
    ctx: Ctx,
    days: Annotated[int, Query(ge=1, le=calendar.LONGEST_VIEW)] = 14,
    job: Annotated[list[str] | None, Query(max_length=50)] = None,
    label: Annotated[list[FilterWord] | None, Query(max_length=20)] = None,
) -> Response:
    """Return the predicted fires as an iCalendar file. A token of the scope calendar may be in the address."""
    feed = calendar.feed(
        project_of(ctx), days=days, names=job or (), labels=label or (), monotonic=ctx.clock.monotonic, now=ctx.now
    )
    name = f"rota {ctx.context.folder.name}".strip()
    body = write_calendar(name, feed.events, about=feed.about, now=ctx.now)
    headers = {"Content-Disposition": 'inline; filename="rota.ics"'}
    return Response(body, 200, headers, "text/calendar; charset=utf-8")
