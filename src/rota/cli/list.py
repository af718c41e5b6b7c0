"""`rota list`: jobs with schedule, last outcomes and next fire."""

from datetime import datetime
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json

if TYPE_CHECKING:
    from rota.cli.tables import Row
    from rota.model.records import Run
    from rota.operations.jobs import JobView


@click.command("list", cls=RotaCommand)
@click.option("--label", "labels", metavar="L", multiple=True, help="Only jobs that carry this label; may be repeated.")
@click.option("--made-by", "maker", metavar="MAKER", help="Only jobs that this maker made; `agent` for all makers.")
@click.option("--all", "retired", is_flag=True, help="Also retired jobs.")
@click.pass_obj
def command(invocation: Invocation, *, labels: tuple[str, ...], maker: str | None, retired: bool) -> None:
    """List the jobs: what they do when, how they went, when they fire next."""
    from rota.cli.tables import Column, print_table
    from rota.cli.words import LEGEND, counted
    from rota.operations.jobs import list_jobs, project_timezone
    from rota.operations.made import made_by
    from rota.operations.views import is_failing, job_json

    with invocation.store() as (_, store):
        views, zone = list_jobs(store, labels=invocation.labels(labels), retired=retired), project_timezone(store)
    views = [view for view in views if maker is None or made_by(view.job, maker)]
    if invocation.as_json:
        print_json([job_json(view) for view in views])
        return
    invocation.tell_scope()
    rows = [_row(view, zone, now=invocation.now()) for view in views]
    titles = (Column("JOB"), Column("SCHEDULE", flexible=True), Column("LAST"), Column("LAST 10"))
    if rows:
        print_table([*titles, Column(f"NEXT ({zone})")], rows)
    failing = sum(is_failing(view) for view in views)
    told = " · ".join([counted(len(views), "job"), *([f"{failing} failing"] if failing else [])])
    none = "no jobs; write some into rota.yaml and apply it" if maker is None else f"no jobs were made by {maker}"
    click.echo(_last_lines(f"{told} · {LEGEND}", "rota explain JOB") if rows else none)


def _row(view: "JobView", zone: str, *, now: datetime) -> "Row":
    from rota.cli.tables import Cell
    from rota.cli.words import colour_of, next_words, outcome_words, schedule_words, ticks

    last = (view.unfinished or view.last)[:1]
    words = Cell(outcome_words(last[0], now=now) + _used(last[0]), colour_of(last[0])) if last else ""
    return [view.job.name, schedule_words(view, zone), words, ticks(view.last), next_words(view, zone, now=now)]


def _last_lines(legend: str, advice: str) -> str:
    """Return both on one line, or on two where the terminal is too narrow for that."""
    import shutil
    import sys

    whole = f"{legend}   {advice}"
    narrow = sys.stdout.isatty() and len(whole) > shutil.get_terminal_size().columns
    return f"{legend}\n{advice}" if narrow else whole


def _used(run: "Run") -> str:
    """Return what a run cost; where nobody knows that, how many tokens it took."""
    from rota.rules.budget_words import say_money

    if "usd_millionths" in run.usage:
        return f" · {say_money(run.usage['usd_millionths'])}"
    tokens = sum(run.usage.get(key, 0) for key in ("tokens_in", "tokens_out"))
    return f" · {tokens:,} tokens" if tokens else ""
