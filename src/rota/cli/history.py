"""`rota history`: past runs, newest first; equal neighbours collapsed."""

from datetime import datetime
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
    from rota.operations.history_words import collapsed
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
            triggers=triggers,
            agent=agent,
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


def _show(stretches: "list[list[Run]]", zone: str, *, now: datetime) -> None:
    from rota.cli.tables import Column, print_table
    from rota.operations.history_words import cost_words, token_words

    if not stretches:
        click.echo("no runs")
        return
    told = (("COST", cost_words), ("TOKENS", token_words))
    amounts = [(name, of) for name, of in told if any(of(runs) for runs in stretches)]
    names = ("RUN", "STATUS", "REASON", f"STARTED ({zone})", "TOOK", *(name for name, _ in amounts))
    rows = []
    for runs in stretches:
        *row, why = _row(runs, zone, now=now)
        rows.append([*row, *(of(runs) for _, of in amounts), why])
    spare = {"TOKENS"} | (set() if any(row[2] for row in rows) else {"REASON"})
    print_table([*(Column(name, spare=name in spare) for name in names), Column("WHY", flexible=True)], rows)


def _row(runs: "list[Run]", zone: str, *, now: datetime) -> "list[Cell | str]":
    from rota.cli.tables import Cell
    from rota.cli.words import colour_of, denied_words, plain, shown_status, took
    from rota.operations.history_words import started_words, times_of, why_words

    newest, times = runs[0], times_of(runs)
    name = newest.handle if len(runs) == 1 else newest.job
    status = ", ".join(part for part in (shown_status(newest), denied_words(newest)) if part)
    return [
        f"{name} ×{times:,}" if times > 1 else name,
        Cell(status, colour_of(newest)),
        newest.reason.value if newest.reason else f"waits: {newest.waiting_for}" if newest.waiting_for else "",
        started_words(runs, zone, now=now),
        took(newest, now=now),
        plain(why_words(newest, zone, now=now)),
    ]
