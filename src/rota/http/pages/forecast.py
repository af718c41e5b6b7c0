"""The pages of the future: the forecast with its what-if form, and the calendar."""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Annotated, Literal

from fastapi import Query
from markupsafe import Markup
from starlette.responses import Response

from rota.http.api.forecast import FEED, Assumed, Days, Windows, project_of
from rota.http.context import segment
from rota.http.pages.charts import WEEKDAYS
from rota.http.pages.page import PageContext, Pages, View, VisitOf, fit
from rota.http.pages.stats import As
from rota.model.amounts import counted, listed
from rota.model.budgets import Unit
from rota.model.errors import RotaError
from rota.model.states import Status
from rota.operations.simulate import calendar as calendars
from rota.operations.simulate import forecast as forecasts
from rota.operations.simulate.calendar import CalendarDay, JobDay
from rota.operations.simulate.forecast import ForecastRequest, ForecastResult
from rota.operations.simulate.report import AccountReport, LevelReport, SimulationReport, summed_cost
from rota.operations.simulate.svg import draw
from rota.operations.simulate.tally import JobReport
from rota.rules.budgets import say_amount, say_used, say_window
from rota.rules.schedule.timezone import zone as known_zone
from rota.store.tables.jobs import job_names
from rota.text.format import briefly, full_time

pages = Pages()
PATH = "/ui/forecast"
PRESETS = ((1.0, "1 day"), (2.0, "2 days"), (7.0, "7 days"), (30.0, "30 days"))
NAMED = 200
"""The jobs whose names the form offers."""
ROWS = 60
"""The jobs that are drawn and listed; fewer on a page that would be too large."""


@pages.show(PATH)
def show_forecast(
    visit: VisitOf,
    what_if: Assumed,
    days: Days = 1.0,
    activity: Windows = None,
    slots: Annotated[str, Query(pattern=r"^[0-9]{0,5}$")] = "",
    shown: As = "",
) -> Response:
    """Show what would happen in some days, with assumed changes of one job."""
    windows = tuple(window for line in activity or () for window in line.split(",") if window.strip())
    forecast_request = ForecastRequest(
        days, windows, what_if=what_if, slots=int(slots) if slots and int(slots) else None
    )
    changes = {"job": what_if.job, "schedule": what_if.schedule, "keys": what_if.keys}
    ends = {"duration": what_if.duration, "fail": what_if.failures}
    query = {"days": f"{days:g}", "activity": ", ".join(windows), "slots": slots, **changes, **ends}
    forecast, refusal = None, None
    try:
        forecast = forecasts.forecast(
            project_of(visit.ctx), forecast_request, monotonic=visit.ctx.clock.monotonic, now=visit.now
        )
    except RotaError as error:
        refusal = error
    kept = {name: value for name, value in query.items() if value and name != "days"}
    given = {name: value for name, value in query.items() if value}

    def show(rows: int) -> Response:
        view = {
            "asked": query,
            "what_if": what_if,
            "names": visit.ctx.store.read(job_names)[:NAMED],
            "presets": [
                {"name": name, "href": visit.href(PATH, **kept, days=f"{number:g}"), "chosen": number == days}
                for number, name in PRESETS
            ],
            "refusal": refusal,
            "as_table": shown == "table",
            "to": visit.href(PATH, **given, **({} if shown == "table" else {"as": "table"})),
            "found": None if forecast is None else _view(forecast, rows=rows, drawn=shown != "table"),
        }
        status = 200 if refusal is None else 422
        return visit.show("forecast.html", view, title="Forecast", section="calendar", status=status)

    return fit(show, lines=ROWS)


def _view(found: ForecastResult, *, rows: int, drawn: bool) -> View:
    report = found.report
    busy = [job for job in report.jobs if job.fires or job.runs]
    earlier = {job.name: job for job in found.before.jobs} if found.before is not None else {}
    return {
        "report": report,
        "figures": _figures(report, found.before),
        "drawing": Markup(draw(report, alone=False, rows=rows)) if drawn else "",  # noqa: S704 - svg.py escapes all texts
        "jobs": [_job(report, job, earlier.get(job.name)) for job in busy[:rows]],
        "left": len(busy) - len(busy[:rows]),
        "idle": len(report.jobs) - len(busy),
        "compared": found.before is not None,
        "levels": [_level(level) for level in (report.slots, *report.pools)],
        "accounts": [_account(account) for account in report.accounts],
        "collided": counted(report.collided, "second") if report.collided else "",
        "collisions": [
            {
                "at": full_time(collision.at, report.timezone, now=report.since, seconds=True),
                "jobs": listed(collision.jobs, 6),
                "times": collision.times,
            }
            for collision in report.collisions
        ],
    }


def _sums(report: SimulationReport) -> Mapping[str, str]:
    jobs = report.jobs
    sums = {
        "Fires": f"{sum(job.fires for job in jobs):,}",
        "Runs": f"{sum(job.runs for job in jobs):,}",
        "Skipped": f"{sum(sum(job.skipped.values()) for job in jobs):,}",
        "Longest wait": briefly(report.slots.longest_wait) if report.slots.longest_wait else "none",
        "Slots at most": f"{report.slots.peak} of {report.slots.capacity}",
    }
    if cost := summed_cost(report):
        sums["Cost by estimates"] = ", ".join(say_amount(amount, Unit(unit)) for unit, amount in cost.items())
    if report.calls:
        sums["Remote calls a day"] = f"{report.calls / report.days:,.0f}"
    return sums


def _figures(report: SimulationReport, before: SimulationReport | None) -> list[View]:
    earlier = {} if before is None else _sums(before)
    return [
        {"label": label, "value": value, "before": earlier.get(label, "")} for label, value in _sums(report).items()
    ]


def _job(report: SimulationReport, job: JobReport, before: JobReport | None) -> View:
    trouble = [f"{count:,} {reason}" for reason, count in job.skipped.items()]
    trouble += [f"{job.ends[status]:,} {status.lower()}" for status in ("FAILED", "CANCELLED") if status in job.ends]
    trouble += [f"{job.retries:,} retried"] if job.retries else []
    trouble += [f"{count:,} waited for {waiting_for}" for waiting_for, count in job.waits.items()]
    busiest = full_time(report.hour(job.busiest), report.timezone, now=report.since) if job.fires else ""
    return {
        "name": job.name,
        "path": f"/ui/jobs/{segment(job.name)}",
        "fires": f"{job.fires:,}",
        "runs": "" if job.is_group else f"{job.runs:,}",
        "before": "" if before is None or before.fires == job.fires else f"{before.fires:,}",
        "takes": briefly(job.takes.duration),
        "known": job.takes.known,
        "wait": briefly(job.longest_wait) if job.longest_wait else "",
        "busiest": f"{busiest} ×{job.hours[job.busiest]:,}" if job.fires else "",
        "trouble": ", ".join(trouble),
        "cost": ", ".join(say_amount(amount, Unit(unit)) for unit, amount in job.cost.items()),
    }


def _level(one: LevelReport) -> View:
    return {
        "name": one.name if one.name == "slots" else f"pool {one.name}",
        "peak": f"{one.peak} of {one.capacity}",
        "mean": f"{one.mean:.2f}",
        "full": f"{one.share_full:.1%}" if one.share_full else "never",
        "wait": briefly(one.longest_wait) if one.longest_wait else "none",
    }


def _account(one: AccountReport) -> View:
    account = one.account
    fullest = max(one.windows, key=lambda window: window.used, default=None)
    return {
        "name": account.name,
        "most": f"{say_used(one.most, account.limit, account.unit)} a {account.per}",
        "share": f"{one.most / account.limit:.0%}" if account.limit else "no room",
        "over": one.most > account.limit,
        "when": "" if fullest is None else say_window(fullest.window.since, account.per, account.timezone),
    }


CALENDAR = "/ui/calendar"
WEEK_JOBS, MONTH_JOBS = 12, 4
"""The jobs that a day names, of the past and of the future."""
ENDS = ((Status.COMPLETED, "completed"), (Status.FAILED, "failed"), (Status.SKIPPED, "skipped"))


@pages.show(CALENDAR)
def show_calendar(
    visit: VisitOf,
    shape: Annotated[Literal["week", "month"], Query(alias="view")] = "week",
    day: Annotated[str, Query(alias="date", pattern=r"^(\d{4}-\d\d-\d\d)?$")] = "",
    shown: As = "",
) -> Response:
    """Show a week or a month: what ended on its past days, and what would fire on the coming ones."""
    today = visit.now.astimezone(known_zone(visit.zone)).date()
    chosen = _date(day) or today
    first, days = _month(chosen) if shape == "month" else (chosen - timedelta(days=chosen.weekday()), 7)
    calendar = calendars.calendar(
        project_of(visit.ctx), first, days=days, tz=visit.zone, monotonic=visit.ctx.clock.monotonic, now=visit.now
    )
    before = first - timedelta(days=7) if shape == "week" else chosen.replace(day=1) - timedelta(days=1)
    after = first + timedelta(days=7) if shape == "week" else _month_end(chosen) + timedelta(days=1)
    ends = first + timedelta(days=days - 1)
    title = f"{chosen:%B %Y}" if shape == "month" else f"{first.day} {first:%B} to {ends.day} {ends:%B %Y}"

    table = {"as": "table"} if shown else {}

    def show(most: int) -> Response:
        view = {
            "shape": shape,
            "title": title,
            "as_table": bool(shown),
            "to": visit.href(CALENDAR, view=shape, date=day, **({} if shown else {"as": "table"})),
            "before": visit.href(CALENDAR, view=shape, date=before.isoformat(), **table),
            "after": visit.href(CALENDAR, view=shape, date=after.isoformat(), **table),
            "now": visit.href(CALENDAR, view=shape, **table) if not first <= today <= ends else "",
            "weekdays": WEEKDAYS,
            "days": [
                _cell(visit, calendar_day, chosen=chosen, today=today, shape=shape, most=most)
                for calendar_day in calendar.days
            ],
            "prediction": calendar.prediction,
            "feed": f"{visit.request.base_url.scheme}://{visit.request.headers.get('host', '')}{visit.href(FEED)}",
        }
        return visit.show("calendar.html", view, title="Calendar", section="calendar")

    return fit(show, lines=WEEK_JOBS if shape == "week" else MONTH_JOBS)


def _date(text: str) -> date | None:
    """Return a date of the years in which a calendar can count; None for none."""
    try:
        found = date.fromisoformat(text) if text else None
    except ValueError:
        return None
    return found if found is not None and calendars.FIRST_YEAR < found.year <= calendars.LAST_YEAR else None


def _month(chosen: date) -> tuple[date, int]:
    """Return the first Monday on or before a month, and the days up to the Sunday on or after it."""
    first = chosen.replace(day=1)
    monday, ends = first - timedelta(days=first.weekday()), _month_end(chosen)
    return monday, (ends + timedelta(days=6 - ends.weekday()) - monday).days + 1


def _month_end(chosen: date) -> date:
    return (chosen.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)


def _cell(visit: PageContext, one: CalendarDay, *, chosen: date, today: date, shape: str, most: int) -> View:
    since, until = one.date.isoformat(), (one.date + timedelta(days=1)).isoformat()
    past = one.past[:most]
    unnamed = one.others + sum(sum(job.ends.values()) for job in one.past[most:])
    return {
        "date": one.date,
        "words": f"{one.date:%a} {one.date.day} {one.date:%b}",
        "number": one.date.day,
        "today": one.date == today,
        "aside": shape == "month" and one.date.month != chosen.month,
        "ends": [
            {
                "kind": kind,
                "count": f"{one.ends[status]:,}",
                "href": visit.href("/ui/runs", status=kind, since=since, until=until),
            }
            for status, kind in ENDS
            if one.ends[status]
        ],
        "past": [_past(job) for job in past],
        "unnamed": f"{counted(unnamed, 'other run')}" if unnamed and past else "",
        "coming": [_coming(visit, job) for job in one.coming[:most]],
        "more": f"{counted(len(one.coming) - most, 'more job')}" if len(one.coming) > most else "",
    }


def _past(job: JobDay) -> View:
    kind = "failed" if job.ends[Status.FAILED] else "completed" if job.ends[Status.COMPLETED] else "skipped"
    words = ", ".join(f"{number:,} {status.lower()}" for status, number in job.ends.items())
    return {"name": job.name, "path": f"/ui/jobs/{segment(job.name)}", "kind": kind, "words": words}


def _coming(visit: PageContext, job: JobDay) -> View:
    place = known_zone(visit.zone)
    times = [f"{at.astimezone(place):%H:%M}" for at in job.times]
    words = f"×{job.fires:,}" if job.fires > len(times) else ""
    skipped = ", ".join(f"{number:,} {reason}" for reason, number in job.skipped.items())
    return {
        "name": job.name,
        "path": f"/ui/jobs/{segment(job.name)}",
        "times": ", ".join(times) if not words else f"{times[0]} …" if times else "",
        "count": words,
        "deferred": f"{job.deferred:,} deferred" if job.deferred else "",
        "skipped": skipped,
    }
