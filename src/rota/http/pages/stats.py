"""Statistics on pages: the range picker, figures with small lines, charts, and the page of costs."""

import csv
import io
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import Depends, Query
from msgspec import Struct
from starlette.responses import Response

from rota.http.context import segment
from rota.http.pages import charts
from rota.http.pages.charts import Chart, ChartTable, Day, Limit, Mark, Series
from rota.http.pages.page import PageContext, Pages, View, VisitOf
from rota.model.amounts import counted, say_money
from rota.model.budgets import Per
from rota.model.clock import MILLISECOND
from rota.model.records import Job
from rota.model.states import Status
from rota.operations.budgets import AccountView
from rota.operations.stats import stats
from rota.operations.stats.costs import OTHERS, CostBy, CostStats, CostUnit, costs
from rota.operations.stats.ranges import CUSTOM, ONE_DAY, ONE_HOUR, PRESETS, Point, StatRange, Step, between, range_of
from rota.rules.stats import Figures, Tally, figures, parts, sum_of
from rota.rules.stats import counted as count_of
from rota.text.format import briefly

pages = Pages()
NONE = "–"
Preset = Annotated[Literal["", "24h", "7d", "30d"], Query(alias="range")]
Date = Annotated[str, Query(pattern=r"^(\d{4}-\d\d-\d\d)?$")]
As = Annotated[Literal["", "table"], Query(alias="as", description="Show the tables behind the charts.")]


class Asked(Struct, frozen=True):
    """The time that a page was asked for, and whether as tables."""

    preset: str
    since: str
    until: str
    as_table: bool

    def range(self, visit: PageContext, default: str) -> StatRange:
        """Return the time; dates are whole days of the zone of the page."""
        tz, now = visit.zone, visit.now
        if not self.since and not self.until:
            return range_of(self.preset or default, "", "", tz=tz, now=now)
        since = self.since or self.until
        until = self.until or since
        stat_range = range_of("", since, "", tz=tz, now=now)
        ends = range_of("", until, "", tz=tz, now=now).since + ONE_DAY if self.until else now
        step = Step.HOUR if min(ends, now) - stat_range.since <= 3 * ONE_DAY else Step.DAY
        return StatRange(CUSTOM, stat_range.since, min(max(ends, stat_range.since), now), step, tz)

    def query(self) -> dict[str, str]:
        """Return what keeps the time in an address."""
        named = {"range": self.preset, "since": self.since, "until": self.until}
        return {name: value for name, value in named.items() if value}


def asked(preset: Preset = "", since: Date = "", until: Date = "", shown: As = "") -> Asked:
    """Return the time that a page was asked for."""
    return Asked(preset, since, until, shown == "table")


AskedOf = Annotated[Asked, Depends(asked)]


def picker(visit: PageContext, of: Asked, found: StatRange, path: str, kept: Mapping[str, str]) -> View:
    """Return the range picker of a page; `kept` are its other parameters."""
    named = ((name, _link(visit, path, {**kept, "range": name})) for name in PRESETS)
    return {
        "presets": [{"name": _PRESET_NAMES[name], "href": href, "chosen": found.name == name} for name, href in named],
        "custom": found.name == CUSTOM,
        "words": f"{of.since or '…'} to {of.until or 'now'}" if found.name == CUSTOM else "",
        "since": of.since,
        "until": of.until,
        "today": visit.now.date().isoformat(),
        "action": visit.href(path) if path else "",
        "kept": sorted(kept.items()),
    }


_PRESET_NAMES = {"24h": "24 hours", "7d": "7 days", "30d": "30 days"}


def toggle(visit: PageContext, of: Asked, path: str, kept: Mapping[str, str]) -> str:
    """Return the address of the same page with tables for charts, or back."""
    query = {**kept, **of.query(), **({} if of.as_table else {"as": "table"})}
    return _link(visit, path, query)


def _link(visit: PageContext, path: str, query: Mapping[str, str]) -> str:
    """Return a link to a page with parameters; without a path, to the page itself, whose path may be long."""
    return visit.href(path, **query) if path else f"?{urlencode(query)}"


def names_of(points: Sequence[Point], found: StatRange) -> list[str]:
    """Return the names of steps."""
    return charts.step_names([point.at for point in points], found.timezone, hours=found.step is Step.HOUR)


def length(value: timedelta | None) -> str:
    """Return a length of time, a dash for none."""
    return NONE if value is None else briefly(value)


def share(value: float | None) -> str:
    """Return a success rate.

    >>> share(0.98765), share(1.0), share(None)
    ('98.8 %', '100 %', '–')
    """
    return NONE if value is None else f"{value * 100:.1f}".removesuffix(".0") + " %"


def _ms(value: float) -> str:
    return briefly(timedelta(milliseconds=value))


_SAID = {
    "runs": ("Runs", charts.number, False),
    "failed": ("Failures", charts.number, True),
    "success_rate": ("Success", share, False),
    "duration_p50": ("Duration, median", _ms, False),
    "duration_p95": ("Duration, p95", _ms, True),
    "lateness_p50": ("Lateness, median", _ms, False),
    "lateness_p95": ("Lateness, p95", _ms, True),
    "usd": ("Cost", lambda value: say_money(round(value)), True),
}
"""The figures of the strip: label, words, and whether more is worse."""
WORSE = 1.5


def overview_stats(visit: PageContext, of: Asked, *, kept: Mapping[str, str]) -> View:
    """Return the figures and charts of the overview."""
    stat_range = of.range(visit, "24h")
    whole = stats.overview(visit.ctx.store, stat_range, now=visit.now)
    steps = names_of(whole.points, stat_range)
    return {
        "title": f"The last {_PRESET_NAMES[stat_range.name]}" if stat_range.name != CUSTOM else "The chosen time",
        "figures": [_strip_figure(one) for one in whole.compared if one.name in _SAID],
        "charts": [
            charts.bars("throughput", "Throughput", steps=steps, series=_by_status(whole.points)),
            *_queue(whole.points, steps, stat_range),
        ],
        "counted_from": whole.counted_from,
        "ranges": picker(visit, of, stat_range, "/", kept),
        "as_table": of.as_table,
        "to": toggle(visit, of, "/", kept),
    }


def _strip_figure(one: stats.Compared) -> View:
    label, say, more_is_worse = _SAID[one.name]
    worse = one.value is not None and one.usual is not None and more_is_worse and one.value > one.usual * WORSE + 0.5
    return {
        "label": label,
        "value": NONE if one.value is None else say(one.value),
        "usual": "" if one.usual is None else say(one.usual),
        "worse": worse,
        "spark": charts.spark(one.days, f"{label}, the last {counted(len(one.days), 'day')}"),
    }


STATUSES = (
    ("completed", "s-completed", Status.COMPLETED),
    ("skipped", "s-skipped", Status.SKIPPED),
    ("cancelled", "s-cancelled", Status.CANCELLED),
    ("failed", "s-failed", Status.FAILED),
)


def _by_status(points: Sequence[Point]) -> list[Series]:
    return [
        Series(name, style, tuple(count_of(point.tally, status) for point in points))
        for name, style, status in STATUSES
    ]


def _queue(points: Sequence[Point], steps: Sequence[str], found: StatRange) -> list[Chart]:
    waits = [figures(point.tally) for point in points]
    step = ONE_HOUR if found.step is Step.HOUR else ONE_DAY
    depth = tuple(stats.mean_queue(point, step) or None for point in points)
    series = _half_and_most([one.wait_p50 for one in waits], [one.wait_p95 for one in waits])
    waiting = [Series("waiting runs", "s-half", depth)]
    return [
        charts.lines("wait", "Wait in the queue", steps=steps, series=series, say=_ms),
        charts.bars("queue", "Mean queue", steps=steps, series=waiting, say=_depth, added=False),
    ]


def _depth(value: float) -> str:
    return f"{value:,.1f}" if value >= 0.1 else f"{value:.1g}" if value >= 0.0001 else "0"


def _half_and_most(half: Sequence[timedelta | None], most: Sequence[timedelta | None]) -> list[Series]:
    def values(lengths: Sequence[timedelta | None]) -> tuple[float | None, ...]:
        return tuple(None if one is None else one / MILLISECOND for one in lengths)

    return [Series("p95", "s-most", values(most)), Series("median", "s-half", values(half))]


DAY_ORDER = (Status.COMPLETED, Status.FAILED, Status.SKIPPED, Status.CANCELLED)


def day_of(tally: Tally, words: str) -> Day:
    """Return the block of a day in a strip."""
    tallies = parts(tally)
    kinds = {status.lower(): tallies.count(status) for status in DAY_ORDER}
    told = ", ".join(f"{number:,} {kind}" for kind, number in kinds.items() if number)
    kind = "none"
    if kinds["failed"]:
        kind = "mixed" if kinds["completed"] else "failed"
    elif kinds["completed"]:
        kind = "completed"
    elif kinds["skipped"] or kinds["cancelled"]:
        kind = "skipped"
    return Day(kind, f"{words}: {told or 'nothing'}")


def rows_of_jobs(visit: PageContext, found: Sequence[Job]) -> dict[str, View]:
    """Return the last 14 days of some jobs, by name: a strip, the success rate, durations and cost."""
    stat_range = between(visit.now - (stats.STRIP_DAYS - 1) * ONE_DAY, visit.now, tz="UTC")
    each = visit.ctx.store.read(lambda db: stats.stats_of(db, found, stat_range, now=visit.now))
    return {one.job.name: _job_row(visit, one) for one in each}


def _job_row(visit: PageContext, one: stats.JobStats) -> View:
    first = visit.now - (len(one.days) - 1) * ONE_DAY
    days = [day_of(tally, f"{first + at * ONE_DAY:%a %d %b}") for at, tally in enumerate(one.days)]
    found = one.figures
    ended = f"{found.completed:,} completed, {found.failed:,} failed, {found.skipped:,} skipped"
    label = f"last {counted(len(days), 'day')}: {ended}"
    half, most = length(found.duration_p50), length(found.duration_p95)
    return {
        "strip": charts.strip(days, label),
        "success": share(found.success_rate),
        "took": f"{half} / {most}" if found.duration_p50 is not None else NONE,
        "cost": say_money(found.usd) if found.paid_runs else "",
    }


def job_stats(visit: PageContext, of: Asked, name: str) -> View:
    """Return the statistics of a job."""
    stat_range = of.range(visit, "30d")
    whole = stats.of_job(visit.ctx.store, name, stat_range, now=visit.now)
    steps = names_of(whole.points, stat_range)
    each = [figures(point.tally) for point in whole.points]
    places = [(charts.place_of(change.at, stat_range.since, stat_range.until), change) for change in whole.changes]
    marks = [Mark(place, f"definition {change.version} since {change.at:%d %b}") for place, change in places]
    durations = _half_and_most([one.duration_p50 for one in each], [one.duration_p95 for one in each])
    lateness = _half_and_most([one.lateness_p50 for one in each], [one.lateness_p95 for one in each])
    return {
        "ranges": picker(visit, of, stat_range, "", {}),
        "figures": _job_figures(whole.figures),
        "year": _year(whole.year),
        "charts": [
            charts.lines("duration", "Duration", steps=steps, series=durations, say=_ms, marks=marks),
            charts.bars("outcomes", "Outcomes", steps=steps, series=_by_status(whole.points)),
            *_heats(whole.heat),
            charts.lines("lateness", "Lateness", steps=steps, series=lateness, say=_ms),
            _reasons(whole.weeks),
        ],
        "as_table": of.as_table,
        "to": toggle(visit, of, "", {}),
    }


def _job_figures(found: Figures) -> list[View]:
    pairs = [
        ("Runs", f"{found.runs:,}"),
        ("Failures", f"{found.failed:,}"),
        ("Success", share(found.success_rate)),
        ("Duration, median", length(found.duration_p50)),
        ("Duration, p95", length(found.duration_p95)),
        ("Lateness, p95", length(found.lateness_p95)),
        ("Late", f"{found.late:,}"),
        *([("Cost", say_money(found.usd)), ("Tokens", f"{found.tokens:,}")] if found.paid_runs else []),
    ]
    return [{"label": label, "value": value} for label, value in pairs]


def _year(days: Sequence[Point]) -> Chart:
    drawn = [(day.at, day_of(day.tally, f"{day.at:%a} {day.at.day} {day.at:%b %Y}")) for day in days]
    each = [(day, parts(day.tally)) for day in days if day.tally]
    rows = tuple(
        (f"{day.at:%Y-%m-%d}", *(f"{tallies.count(status):,}" for status in DAY_ORDER))
        for day, tallies in reversed(each)
    )
    return charts.year("year", "Year", drawn, ChartTable(("Day", "Completed", "Failed", "Skipped", "Cancelled"), rows))


def _heats(rows: Sequence[Sequence[stats.Heat]]) -> list[Chart]:
    fires = [[float(one.fires) for one in row] for row in rows]
    failed = [[float(one.failed) for one in row] for row in rows]
    late = [[None if one.lateness is None else one.lateness / MILLISECOND for one in row] for row in rows]
    return [
        charts.heat("fires", "Starts by weekday and hour", style="s-fires", values=fires, say=charts.number),
        charts.heat("failures", "Failures by weekday and hour", style="s-failures", values=failed, say=charts.number),
        charts.heat("late", "Mean lateness by weekday and hour", style="s-lateness", values=late, say=_ms),
    ]


REASONS = 8


def _reasons(weeks: Sequence[Point]) -> Chart:
    """Return the reasons of the ends of each week, those of the last half year."""
    recent = list(weeks)[-26:]
    each = [stats.skipped_and_failed(week.tally) for week in recent]
    total = sum_of(each)
    named = sorted(total, key=lambda reason: -total[reason])
    series = [
        Series(reason, f"part-{at}", tuple(week.get(reason, 0) for week in each))
        for at, reason in enumerate(named[: REASONS - 1])
    ]
    if len(named) >= REASONS:
        rest = tuple(sum(week.get(reason, 0) for reason in named[REASONS - 1 :]) for week in each)
        series.append(Series(OTHERS, f"part-{REASONS - 1}", rest))
    steps = [f"{week.at.day} {week.at:%b}" for week in recent]
    return charts.bars("reasons", "Reasons by week", steps=steps, series=series, first="Week")


COSTS = "/ui/costs"
TITLES = {CostUnit.USD: "Cost", CostUnit.TOKENS: "Tokens"}
UNKNOWN = "unknown"


@pages.show(COSTS)
def show_costs(
    visit: VisitOf,
    of: AskedOf,
    by: Annotated[CostBy, Query()] = CostBy.MODEL,
    unit: Annotated[CostUnit, Query()] = CostUnit.USD,
) -> Response:
    """Show what runs cost by step, divided by model, agent or job."""
    stat_range = of.range(visit, "30d")
    paid = costs(visit.ctx.store, stat_range, by=by, unit=unit, now=visit.now)
    kept = {"by": by.value, "unit": unit.value}
    keep = {**kept, **of.query(), **({"as": "table"} if of.as_table else {})}
    say = _say_unit(unit)
    all_parts, of_jobs = sum(part.total for part in paid.parts), by is CostBy.JOB

    def choice(name: str, key: str, value: str) -> View:
        return {"name": name, "href": visit.href(COSTS, **{**keep, key: value}), "chosen": kept[key] == value}

    view = {
        "ranges": picker(visit, of, stat_range, COSTS, kept),
        "divisions": [choice(f"By {cost_by.value}", "by", cost_by.value) for cost_by in CostBy],
        "units": [choice(TITLES[cost_unit], "unit", cost_unit.value) for cost_unit in CostUnit],
        "figures": _cost_figures(paid, say),
        "chart": _cost_chart(paid, say),
        "by": by.value,
        "noun": "cost" if unit is CostUnit.USD else "tokens",
        "parts": [
            {
                "name": part.name or UNKNOWN,
                "style": f"part-{at}",
                "value": say(part.total),
                "share": f"{part.total / all_parts:.0%}",
                "href": visit.href(f"/ui/jobs/{segment(part.name)}")
                if of_jobs and part.name not in ("", OTHERS)
                else "",
            }
            for at, part in enumerate(paid.parts)
        ],
        "expensive": [
            {"run": expensive_run.run, "cost": say_money(expensive_run.usd)} for expensive_run in paid.expensive
        ],
        "csv": visit.href(f"{COSTS}.csv", **kept, **of.query()),
        "as_table": of.as_table,
        "to": toggle(visit, of, COSTS, kept),
    }
    return visit.show("costs.html", view, title="Costs", section="costs")


@pages.show(f"{COSTS}.csv")
def download_costs(
    visit: VisitOf,
    of: AskedOf,
    by: Annotated[CostBy, Query()] = CostBy.MODEL,
    unit: Annotated[CostUnit, Query()] = CostUnit.USD,
) -> Response:
    """Return the same numbers as comma-separated values; money in millionths of a dollar."""
    paid = costs(visit.ctx.store, of.range(visit, "30d"), by=by, unit=unit, now=visit.now)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["time", *(_cell(part.name or UNKNOWN) for part in paid.parts), "total"])
    totals = paid.totals
    for at, point in enumerate(paid.points):
        row = [part.amounts[at] for part in paid.parts]
        writer.writerow([point.at.isoformat(), *row, totals[at] if totals else 0])
    headers = {"Content-Disposition": f'attachment; filename="costs-by-{by.value}.csv"'}
    return Response(text.getvalue(), media_type="text/csv", headers=headers)


def _cell(name: str) -> str:
    """Return a name that no spreadsheet takes for a formula.

    >>> _cell("=1+1"), _cell("haiku")
    ("'=1+1", 'haiku')
    """
    return f"'{name}" if name[:1] in ("=", "+", "-", "@") else name


def _say_unit(unit: CostUnit) -> charts.Say:
    return (lambda value: say_money(round(value))) if unit is CostUnit.USD else (lambda value: f"{value:,.0f}")


def _cost_chart(paid: CostStats, say: charts.Say) -> Chart:
    steps = names_of(paid.points, paid.range)
    series = [Series(part.name or UNKNOWN, f"part-{at}", part.amounts) for at, part in enumerate(paid.parts)]
    title = f"{TITLES[paid.unit]} by {'hour' if paid.range.step is Step.HOUR else 'day'}"
    if not series:
        return charts.bars("costs", title, steps=(), series=[])
    return charts.bars("costs", title, steps=steps, series=series, say=say, limit=_daily_limit(paid, say))


def _daily_limit(paid: CostStats, say: charts.Say) -> Limit | None:
    """Return the budget line: that of the account with the lowest limit per day."""
    daily = [view.account for view in paid.accounts if view.account.per is Per.DAY and view.declared]
    if not daily or paid.range.step is not Step.DAY:
        return None
    lowest = min(daily, key=lambda account: account.limit)
    return Limit(lowest.limit, f"budget {lowest.name}: {say(lowest.limit)} a day")


def _cost_figures(paid: CostStats, say: charts.Say) -> list[View]:
    total = sum(part.total for part in paid.parts)
    days = max(len(paid.points), 1)
    each = "an hour" if paid.range.step is Step.HOUR else "a day"
    pairs = [("In all", say(total), f"{say(total / days)} {each}")]
    pairs.append(("Runs with usage", f"{paid.figures.paid_runs:,}", ""))
    if paid.per_completed is not None:
        pairs.append(("For each completed run", say_money(paid.per_completed), ""))
    shown = [{"label": label, "value": value, "about": about, "worse": False} for label, value, about in pairs]
    return [*shown, *(_account(view, say) for view in paid.accounts[:4])]


def _account(view: AccountView, say: charts.Say) -> View:
    expected, limit = view.forecast.amount, view.account.limit
    words = "" if expected is None else f", forecast {say(expected)}"
    return {
        "label": f"{view.account.name}, this {view.account.per.value}",
        "value": f"{say(view.used)}",
        "bar": charts.budget_bar(view.used, expected, limit, f"{say(view.used)} of {say(limit)}{words}"),
        "about": f"of {say(limit)}{words}",
        "worse": view.used > limit or (expected is not None and expected > limit),
    }
