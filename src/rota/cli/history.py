"""`rota history`: past runs, newest first; equal neighbours collapsed."""

from datetime import datetime
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json

if TYPE_CHECKING:
    from rota.cli.tables import Cell
    from rota.operations.history_words import Stretch

LIMIT = 50


@click.command("history", cls=RotaCommand)
@click.argument("job", required=False)
@click.option("--status", "statuses", metavar="S", multiple=True, help="Only runs of this status; may be repeated.")
@click.option("--reason", "reasons", metavar="R", multiple=True, help="Only runs of this reason; may be repeated.")
@click.option("--label", "labels", metavar="L", multiple=True, help="Only runs of jobs that carry this label.")
@click.option("--trigger", "triggers", metavar="T", multiple=True, help="Only runs that came through this door.")
@click.option("--agent", metavar="NAME", default="", help="Only runs of jobs that ask this agent.")
@click.option("--since", metavar="TIME", help="From then on: 30d, 2h, today, yesterday, 2026-11-15, 2026-11-15T20:41Z.")
@click.option("--until", metavar="TIME", help="Before then; the same words.")
@click.option("--grep", "text", metavar="TEXT", help="Only runs whose summary or error holds this text, in any case.")
@click.option(
    "--limit", "-n", type=click.IntRange(1, 100_000), default=LIMIT, show_default=True, help="How many lines."
)
@click.option("--all", "each", is_flag=True, help="Show each run on a line of its own.")
@click.pass_obj
def command(
    invocation: Invocation,
    *,
    job: str | None,
    statuses: tuple[str, ...],
    reasons: tuple[str, ...],
    labels: tuple[str, ...],
    triggers: tuple[str, ...],
    agent: str,
    since: str | None,
    until: str | None,
    text: str | None,
    limit: int,
    each: bool,
) -> None:
    """Show runs, newest first. Equal neighbours of one job are one line, `disk-check ×288`; --json never collapses."""
    from rota.operations.history_words import Lines, history_lines, stretch_of
    from rota.operations.jobs import project_timezone
    from rota.operations.runs import Asked
    from rota.operations.searching import history_with
    from rota.operations.views import run_json
    from rota.rules.times import read_instant

    now = invocation.now()
    with invocation.store() as (_, store):
        zone = project_timezone(store)
        asked = Asked(
            job=job,
            statuses=statuses,
            reasons=reasons,
            labels=labels if job else invocation.labels(labels),
            triggers=triggers,
            agent=agent,
            since=read_instant(since, zone, now=now) if since else None,
            until=read_instant(until, zone, now=now) if until else None,
        )
        if invocation.as_json:
            print_json([run_json(run) for run in history_with(store, text, limit=limit, **asked)])
            return
        if each:
            runs = history_with(store, text, limit=limit + 1, **asked)
            lines = Lines(tuple(stretch_of([run]) for run in runs[:limit]), len(runs) > limit)
        else:
            lines = history_lines(store, text, limit=limit, **asked)
    if job is None:
        invocation.tell_scope()
    _show(lines.stretches, zone, now=now)
    if lines.more:
        count = len(lines.stretches)
        click.echo(
            f"the newest {count} lines; more with --limit" if count > 1 else "the newest line; more with --limit"
        )


def _show(stretches: "tuple[Stretch, ...]", zone: str, *, now: datetime) -> None:
    from rota.cli.tables import Column, print_table
    from rota.operations.history_words import cost_words, token_words

    if not stretches:
        click.echo("no runs")
        return
    told = (("COST", cost_words), ("TOKENS", token_words))
    amounts = [(name, of) for name, of in told if any(of(stretch) for stretch in stretches)]
    names = ("RUN", "STATUS", "REASON", f"STARTED ({zone})", "TOOK", *(name for name, _ in amounts))
    rows = []
    for stretch in stretches:
        *row, why = _row(stretch, zone, now=now)
        rows.append([*row, *(of(stretch) for _, of in amounts), why])
    spare = {"TOKENS"} | (set() if any(row[2] for row in rows) else {"REASON"})
    print_table([*(Column(name, spare=name in spare) for name in names), Column("WHY", flexible=True)], rows)


def _row(stretch: "Stretch", zone: str, *, now: datetime) -> "list[Cell | str]":
    from rota.cli.tables import Cell
    from rota.cli.words import colour_of, denied_words, plain, shown_status, took
    from rota.operations.history_words import started_words, why_words

    newest, times = stretch.newest, stretch.times
    name = newest.handle if stretch.runs == 1 else newest.job
    status = ", ".join(part for part in (shown_status(newest), denied_words(newest)) if part)
    return [
        f"{name} ×{times:,}" if times > 1 else name,
        Cell(status, colour_of(newest)),
        newest.reason.value if newest.reason else f"waits: {newest.waiting_for}" if newest.waiting_for else "",
        started_words(stretch, zone, now=now),
        took(newest, now=now),
        plain(why_words(newest, zone, now=now)),
    ]
