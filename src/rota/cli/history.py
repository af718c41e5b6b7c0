"""`rota history`: past runs, newest first; equal neighbours collapsed."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json

if TYPE_CHECKING:
    from rota.cli.tables import Cell
    from rota.model.records import Run

LIMIT = 50
ROWS_A_LINE = 40


@click.command("history", cls=RotaCommand)
@click.argument("job", required=False)
@click.option("--status", "statuses", metavar="S", multiple=True, help="Only runs of this status; may be repeated.")
@click.option("--reason", "reasons", metavar="R", multiple=True, help="Only runs of this reason; may be repeated.")
@click.option("--label", "labels", metavar="L", multiple=True, help="Only runs of jobs that carry this label.")
@click.option("--since", metavar="TIME", help="From then on: 30d, 2h, today, yesterday, 2026-11-15, 2026-11-15T20:41Z.")
@click.option("--until", metavar="TIME", help="Before then; the same words.")
@click.option("--grep", "text", metavar="TEXT", help="Only runs whose summary or error holds this text, in any case.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=LIMIT, show_default=True, help="How many lines.")
@click.option("--all", "each", is_flag=True, help="Show each run on a line of its own.")
@click.pass_obj
def command(
    invocation: Invocation,
    *,
    job: str | None,
    statuses: tuple[str, ...],
    reasons: tuple[str, ...],
    labels: tuple[str, ...],
    since: str | None,
    until: str | None,
    text: str | None,
    limit: int,
    each: bool,
) -> None:
    """Show runs, newest first. Equal neighbours of one job are one line, `disk-check ×288`; --json never collapses."""
    from rota.operations.jobs import project_timezone
    from rota.operations.searching import history_with
    from rota.operations.views import run_json
    from rota.rules.times import read_instant

    now = invocation.now()
    whole = each or invocation.as_json
    with invocation.store() as (_, store):
        zone = project_timezone(store)
        runs = history_with(
            store,
            text,
            job=job,
            statuses=statuses,
            reasons=reasons,
            labels=labels if job else invocation.labels(labels),
            since=read_instant(since, zone, now=now) if since else None,
            until=read_instant(until, zone, now=now) if until else None,
            limit=limit if whole else limit * ROWS_A_LINE,
        )
    if invocation.as_json:
        print_json([run_json(run) for run in runs])
        return
    if job is None:
        invocation.tell_scope()
    stretches = [[run] for run in runs] if each else collapsed(runs)
    _show(stretches[:limit], zone, now=now)
    if len(stretches) > limit:
        click.echo(f"the newest {limit} lines; more with --limit")


def collapsed(runs: "Sequence[Run]") -> "list[list[Run]]":
    """Return runs in stretches of equal neighbours, each where its newest run stands.

    Neighbours are runs of one job that follow each other, whatever other jobs did between them.
    """
    stretches: list[list[Run]] = []
    newest: dict[str, list[Run]] = {}
    for run in runs:
        stretch = newest.get(run.job)
        if stretch is None or _alike(stretch[-1]) != _alike(run):
            stretch = newest[run.job] = []
            stretches.append(stretch)
        stretch.append(run)
    return stretches


def _alike(run: "Run") -> tuple[object, ...]:
    return run.status.shown, run.reason, len(run.denied_tools)


def _show(stretches: "list[list[Run]]", zone: str, *, now: datetime) -> None:
    from rota.cli.tables import Column, print_table

    if not stretches:
        click.echo("no runs")
        return
    amounts = [(name, of) for name, of in _amounts() if any(of(runs) for runs in stretches)]
    names = ("RUN", "STATUS", "REASON", f"STARTED ({zone})", "TOOK", *(name for name, _ in amounts))
    columns = [*(Column(name, spare=name == "TOKENS") for name in names), Column("WHY", flexible=True)]
    rows = []
    for runs in stretches:
        *row, why = _row(runs, zone, now=now)
        rows.append([*row, *(of(runs) for _, of in amounts), why])
    print_table(columns, rows)


def _amounts() -> "list[tuple[str, Callable[[list[Run]], str]]]":
    """Return the columns of what runs used; each is shown where any run tells it."""
    from rota.rules.budget_words import say_money

    def said(runs: "list[Run]", *keys: str, say: Callable[[int], str] = "{:,}".format) -> str:
        told = [run for run in runs if any(key in run.usage for key in keys)]
        total = sum(run.usage.get(key, 0) for run in told for key in keys)
        return f"{'≥ ' if len(told) < len(runs) else ''}{say(total)}" if told else ""

    return [
        ("COST", lambda runs: said(runs, "usd_millionths", say=say_money)),
        ("TOKENS", lambda runs: said(runs, "tokens_in", "tokens_out")),
    ]


def _row(runs: "list[Run]", zone: str, *, now: datetime) -> "list[Cell | str]":
    from rota.cli.tables import Cell
    from rota.cli.words import colour_of, denied_words, plain, shown_status, took

    newest = runs[0]
    counts = [run.count or 1 for run in runs]
    name = newest.handle if len(runs) == 1 else newest.job
    times = f" ×{sum(counts):,}" if sum(counts) > 1 else ""
    status = ", ".join(part for part in (shown_status(newest), denied_words(newest)) if part)
    return [
        f"{name}{times}",
        Cell(status, colour_of(newest)),
        newest.reason.value if newest.reason else f"waits: {newest.waiting_for}" if newest.waiting_for else "",
        _started(runs, zone, now=now),
        took(newest, now=now),
        plain(_why(newest)),
    ]


def _started(runs: "list[Run]", zone: str, *, now: datetime) -> str:
    from rota.rules.times import day_time

    newest, oldest = (run.started_at or run.nominal for run in (runs[0], runs[-1]))
    near = newest - oldest < timedelta(hours=1)
    first = day_time(oldest, zone, now=now, seconds=near)
    return first if len(runs) == 1 else f"{first} … {day_time(newest, zone, now=now, seconds=near)}"


def _why(run: "Run") -> str:
    from rota.model.durations import say_duration

    attempt = f"attempt {run.attempt}" if run.attempt > 1 else ""
    if run.error:
        return f"{attempt}: {run.error}" if attempt else run.error
    parts = [attempt, run.result_summary or ""]
    if "made_up" in run.decisions:
        parts.append(f"{say_duration(timedelta(milliseconds=run.decisions.get('late_ms', 0)))} late")
    return " · ".join(part for part in parts if part)
