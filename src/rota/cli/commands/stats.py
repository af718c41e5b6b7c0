"""`rota stats`, `rota spans`, `rota diff` and `rota digest`."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json
from rota.cli.output import Column, print_pairs, print_table
from rota.model.amounts import say_money
from rota.text.ansi import plain
from rota.text.format import briefly, full_time, read_instant
from rota.text.runs import PHASE_WORDS, say_spans

if TYPE_CHECKING:
    from rota.operations.stats.ranges import StatRange
    from rota.rules.spans import Span
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
    from rota.operations.stats.ranges import range_of

    if job is not None and by in ("job", "queue"):
        raise click.UsageError(f"--by {by} shows all jobs; leave out {job!r}")
    now = invocation.now()
    with invocation.store() as (_, store):
        stat_range = range_of("", since, until or "", tz=invocation.zone(store), now=now)
        told, table = _read(store, stat_range, by=by, job=job, now=now)
    if invocation.as_json:
        print_json(told)
        return
    tz = stat_range.timezone
    click.echo(f"{full_time(stat_range.since, tz, now=now)} to {full_time(stat_range.until, tz, now=now)} ({tz})")
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
    print_table([title, *COLUMNS], cells)


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
        print_table((queue.range.step.value.upper(), "MEAN QUEUE", "WAIT P50", "WAIT P95"), rows)


def _show_costs(paid: Any) -> None:
    if not paid.parts:
        click.echo("no run reported a cost in this time")
        return
    total = sum(part.total for part in paid.parts)
    rows = [[part.name or "(unknown)", say_money(part.total), f"{part.total / total:.0%}"] for part in paid.parts]
    print_table((paid.by.value.upper(), "COST", "SHARE"), [*rows, ["total", say_money(total), ""]])
    if paid.per_completed is not None:
        click.echo(f"{say_money(paid.per_completed)} for each completed run")
    for one in paid.expensive[:3]:
        click.echo(f"{one.run.handle} {say_money(one.usd)}")


@click.command("diff", cls=RotaCommand)
@click.argument("before", metavar="RUN")
@click.argument("run")
@click.pass_obj
def diff_command(invocation: Invocation, *, before: str, run: str) -> None:
    """Compare two runs: definition, params, environment names, prompt, model, duration, cost and output.

    The facts that differ are printed first. The differences of prompt and output follow, as of `diff -u`.
    """
    from rota.operations.diff import diff_json, diff_runs

    now = invocation.now()
    with invocation.store() as (place, store):
        view = diff_runs(store, place.state, before, run, now=now)
    if invocation.as_json:
        print_json(diff_json(view, now=now))
        return
    rows = [[row.name, row.left, row.right] for row in view.facts if not row.same]
    if rows:
        print_table(("", view.left.run.handle, Column(view.right.run.handle, flexible=True)), rows)
    same = ", ".join(row.name for row in view.facts if row.same)
    click.echo(f"the same: {same}" if same else "nothing is the same")
    for name, lines in (("definition", view.definition), ("prompt", view.prompt.lines), ("output", view.output.lines)):
        if lines:
            click.echo(f"\n{name}")
            for line in lines:
                click.secho(line, fg=DIFF_COLOURS.get(line[:1]) if name != "definition" else None)
    for note in filter(None, (view.prompt.note, view.output.note)):
        click.echo(note, err=True)


DIFF_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
BAR = 40
MARKS = {"queue": "-", "start": "+", "running": "#", "retrying": "%"}
"""The characters of a bar; waits for anything else are dots."""


@click.command("spans", cls=RotaCommand)
@click.argument("name", metavar="RUN|GROUP")
@click.pass_obj
def spans_command(invocation: Invocation, *, name: str) -> None:
    """Show where the time went: of a RUN with its retries, or of the members of a GROUP.

    A bar has a dot for waiting, - for the queue, + for gates and start, # for running and % for retrying.
    """
    from rota.operations.stats.spans import spans_by_name, spans_json

    now = invocation.now()
    with invocation.store() as (place, store):
        view = spans_by_name(store, name, state=place.state, now=now)
        zone = invocation.zone(store)
    if invocation.as_json:
        print_json(spans_json(view))
        return
    ends = "now" if view.open else full_time(view.until, zone, now=now, seconds=True)
    took = briefly(view.until - view.since)
    click.echo(f"{view.handle}  {full_time(view.since, zone, now=now, seconds=True)} to {ends} ({zone}), {took}")
    rows = [
        [row.run.handle, row.run.status.shown.value, bar(row.spans, view.since, view.until), say_spans(row.spans)]
        for row in view.rows
    ]
    print_table(("RUN", "STATUS", "TIME", Column("WHERE", flexible=True)), rows)
    lengths = [(PHASE_WORDS[phase], briefly(length)) for phase, length in view.totals.items()]
    if len(rows) > 1 and lengths:
        click.echo(f"in all: {', '.join(f'{words} {length}' for words, length in lengths)}")


def bar(spans: "Sequence[Span]", since: datetime, until: datetime, *, width: int = BAR) -> str:
    """Return the spans of a run as a line of characters; a span too short for one shows in place of a longer one.

    >>> from rota.rules.spans import Span
    >>> at = datetime(2026, 11, 1)
    >>> begin, end = at + timedelta(seconds=2), at + timedelta(seconds=4)
    >>> bar([Span("backoff", at, begin), Span("retrying", begin, end)], at, end, width=8)
    '....%%%%'
    """
    cells = [" "] * width
    whole = max(until - since, timedelta(milliseconds=1))
    for span in sorted(spans, key=lambda span: span.length, reverse=True):
        first = min(int((span.since - since) / whole * width), width - 1)
        last = max(first + 1, round((span.until - since) / whole * width))
        cells[first:last] = MARKS.get(span.phase, ".") * (min(last, width) - first)
    return "".join(cells).rstrip()


@click.command("digest", cls=RotaCommand)
@click.option(
    "--since",
    metavar="TIME",
    help="Begin at this time: 12h, today, 2026-11-15. Default: the last digest that was sent, else a day ago.",
)
@click.pass_obj
def digest_command(invocation: Invocation, *, since: str | None) -> None:
    """Show what ran, what agents did, what failed, what needs attention, and the budgets.

    The key `digest` of a target sends the same at times of day.
    """
    from rota.operations.status.digest import look_at_digest
    from rota.operations.status.heartbeat import heartbeat
    from rota.text import messages

    now = invocation.now()
    with invocation.store() as (place, store):
        zone = invocation.zone(store)
        begin = read_instant(since, zone, now=now) if since else None
        digest = look_at_digest(store, beat=heartbeat(place.state), since=begin, zone=zone, now=now)
    if invocation.as_json:
        print_json(digest)
        return
    invocation.tell_whole()
    click.echo(plain(messages.title({**digest, "event": "digest"})))
    for line in messages.digest_lines(digest):
        click.echo(f"{'  ' * line.startswith(' ')}{plain(line)}")
