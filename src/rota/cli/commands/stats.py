"""`rota stats`."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json
from rota.cli.output import Column, print_pairs, print_table
from rota.model.amounts import say_money
from rota.text.format import briefly, full_time

if TYPE_CHECKING:
    from rota.operations.stats.ranges import StatRange
    from rota.rules.stats import Figures
    from rota.store.driver import Store

NONE = "–"
COLUMNS = ("RUNS", "FAILED", "SUCCESS", "P50", "P95", "LATE P95", "WAIT P95", "SKIPPED", "COST")


@click.command("stats", cls=RotaCommand)
@click.argument("job", required=False)
@click.option(
    "--by",
    type=click.Choice(["total", "job", "time", "queue", "model", "agent", "cost"]),
    default="total",
    show_default=True,
    help="Group by this; `cost` is the cost of each job.",
)
@click.option("--since", metavar="TIME", default="24h", show_default=True, help="Only ends since this time: 7d, today.")
@click.option("--until", metavar="TIME", help="Only ends before this time.")
@click.pass_obj
def stats_command(invocation: Invocation, *, job: str | None, by: str, since: str, until: str | None) -> None:
    """Show runs, failures, success rate, durations, lateness, waits and cost, of all jobs or of JOB."""
    from rota.operations.jobs import project_timezone
    from rota.operations.stats.ranges import range_of

    if job is not None and by in ("job", "queue"):
        raise click.UsageError(f"--by {by} shows all jobs; leave out {job!r}")
    now = invocation.now()
    with invocation.store() as (_, store):
        asked = range_of("", since, until or "", tz=project_timezone(store), now=now)
        told, table = _read(store, asked, by=by, job=job, now=now)
    if invocation.as_json:
        print_json(told)
        return
    tz = asked.timezone
    click.echo(f"{full_time(asked.since, tz, now=now)} to {full_time(asked.until, tz, now=now)} ({tz})")
    table()


def _read(store: "Store", asked: "StatRange", *, by: str, job: str | None, now: Any) -> Any:
    """Return the JSON, and the function that prints the same as a table."""
    from rota.operations.stats import costs, shapes, stats
    from rota.rules.stats import figures

    if by in ("model", "agent", "cost"):
        kind = costs.CostBy.JOB if by == "cost" else costs.CostBy(by)
        paid = costs.costs(store, asked, by=kind, job=job, now=now)
        return shapes.costs_json(paid), lambda: _show_costs(paid)
    if by == "job":
        found = stats.of_jobs(store, asked, now=now)
        rows = [(one.job.name, one.figures) for one in found]
        return shapes.jobs_json(asked, found), lambda: _show_rows("JOB", rows)
    if by == "queue":
        queue = stats.of_queue(store, asked, now=now)
        return shapes.queue_json(queue), lambda: _show_queue(queue)
    whole = stats.of_job(store, job, asked, now=now) if job else stats.overview(store, asked, now=now)
    told = shapes.job_json(whole) if isinstance(whole, stats.OneJobStats) else shapes.overview_json(whole)
    if by == "time":
        steps = [(full_time(point.at, asked.timezone, now=now), figures(point.tally)) for point in whole.points]
        return told, lambda: _show_rows(asked.step.value.upper(), steps)
    return told, lambda: _show_total(whole)


def _show_total(whole: Any) -> None:
    """Print each figure, with the usual one of this weekday where it is known."""
    usual = {one.name: one.usual for one in getattr(whole, "compared", ())}
    found: Figures = whole.figures
    pairs = [
        ("runs", f"{found.runs:,}{_usual(usual.get('runs'))}"),
        ("completed", f"{found.completed:,}"),
        ("failed", f"{found.failed:,}{_usual(usual.get('failed'))}"),
        ("skipped", f"{found.skipped:,}"),
        ("cancelled", f"{found.cancelled:,}"),
        ("success", f"{rate(found.success_rate)}{_usual_rate(usual.get('success_rate'))}"),
        ("duration", _both(found.duration_p50, found.duration_p95)),
        ("lateness", f"{_both(found.lateness_p50, found.lateness_p95)}; {found.late:,} late"),
        ("wait", _both(found.wait_p50, found.wait_p95)),
        ("cost", say_money(found.usd) if found.paid_runs else NONE),
        ("tokens", f"{found.tokens:,}" if found.paid_runs else NONE),
    ]
    print_pairs(pairs)


def _usual(value: float | None) -> str:
    return "" if value is None else f" (usually {value:,.0f})"


def _usual_rate(value: float | None) -> str:
    return "" if value is None else f" (usually {rate(value)})"


def rate(share: float | None) -> str:
    """Return a success rate.

    >>> rate(0.98765), rate(None)
    ('98.8 %', '–')
    """
    return NONE if share is None else f"{share * 100:.1f} %"


def _both(half: timedelta | None, most: timedelta | None) -> str:
    return f"{_length(half)} (p50), {_length(most)} (p95)" if half is not None else NONE


def _length(length: timedelta | None) -> str:
    return NONE if length is None else briefly(length)


def _show_rows(title: str, rows: "Sequence[tuple[str, Figures]]") -> None:
    cells = [[name, *_cells(found)] for name, found in rows if found.runs or found.skipped]
    if not cells:
        click.echo("nothing ended in this time")
        return
    print_table([Column(title), *map(Column, COLUMNS)], cells)


def _cells(found: "Figures") -> list[str]:
    lengths = (found.duration_p50, found.duration_p95, found.lateness_p95, found.wait_p95)
    cost = say_money(found.usd) if found.paid_runs else NONE
    return [
        f"{found.runs:,}",
        f"{found.failed:,}",
        rate(found.success_rate),
        *map(_length, lengths),
        f"{found.skipped:,}",
        cost,
    ]


def _show_queue(queue: Any) -> None:
    from rota.operations.stats.ranges import ONE_DAY, ONE_HOUR, Step
    from rota.operations.stats.stats import mean_queue
    from rota.rules.stats import figures

    click.echo(f"{queue.queued:,} queued, {queue.running:,} running now")
    step = ONE_HOUR if queue.range.step is Step.HOUR else ONE_DAY
    rows = []
    for point in queue.points:
        found = figures(point.tally)
        if found.wait_p50 is not None:
            at = full_time(point.at, queue.range.timezone, now=queue.range.until)
            rows.append([at, f"{mean_queue(point, step):.2f}", _length(found.wait_p50), _length(found.wait_p95)])
    if rows:
        titles = (queue.range.step.value.upper(), "MEAN QUEUE", "WAIT P50", "WAIT P95")
        print_table([Column(title) for title in titles], rows)


def _show_costs(paid: Any) -> None:
    if not paid.parts:
        click.echo("no run reported a cost in this time")
        return
    total = sum(part.total for part in paid.parts)
    rows = [[part.name or "(unknown)", say_money(part.total), f"{part.total / total:.0%}"] for part in paid.parts]
    print_table(
        [Column(paid.by.value.upper()), Column("COST"), Column("SHARE")], [*rows, ["total", say_money(total), ""]]
    )
    if paid.per_completed is not None:
        click.echo(f"{say_money(paid.per_completed)} for each completed run")
    for one in paid.expensive[:3]:
        click.echo(f"{one.run.handle} {say_money(one.usd)}")
