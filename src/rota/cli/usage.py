"""`rota usage`: runs, time, tokens, requests and money by job, agent, model or day."""

import csv
import io
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json

if TYPE_CHECKING:
    from rota.operations.usage import UsageView
    from rota.store.usage import Amount, Used

UNKNOWN = "?"


@click.command("usage", cls=RotaCommand)
@click.option(
    "--by",
    type=click.Choice(["job", "agent", "model", "day"]),
    default="job",
    show_default=True,
    help="What each line is.",
)
@click.option("--since", metavar="TIME", default="30d", show_default=True, help="From then on: 30d, today, 2026-11-15.")
@click.option("--job", metavar="JOB", help="Only what this job used.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@click.pass_obj
def command(invocation: Invocation, *, by: str, since: str, job: str | None, as_csv: bool) -> None:
    """Show what runs and direct calls used. `?` is unknown, `≥` means that some runs did not tell."""
    from rota.operations.jobs import project_timezone
    from rota.operations.usage import By, look_at_usage, usage_json
    from rota.rules.times import read_instant

    if as_csv and invocation.as_json:
        raise click.UsageError("--csv and --json do not go together")
    now = invocation.now()
    with invocation.store() as (place, store):
        tz = project_timezone(store)
        begin = read_instant(since, tz, now=now)
        view = look_at_usage(store, by=By(by), since=begin, tz=tz, now=now, job=job, scope=place.scope)
    if invocation.as_json:
        print_json(usage_json(view))
    elif as_csv:
        click.echo(_csv(view), nl=False)
    else:
        invocation.tell_scope()
        _show(view, tz)


def _csv(view: "UsageView") -> str:
    from rota.operations.usage import used_json

    text = io.StringIO()
    rows = [{view.by.value: used.name or "", **used_json(used)} for used in view.rows]
    names = [view.by.value, *used_json(view.total)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _show(view: "UsageView", tz: str) -> None:
    from rota.cli.tables import Column, print_table
    from rota.rules.times import full_time

    if not view.rows:
        click.echo(f"nothing ran since {full_time(view.since, tz, now=view.until)} ({tz})")
        return
    columns = [(title, of) for title, of in _columns() if any(of(used) != UNKNOWN for used in view.rows)]
    lines = [*view.rows, view.total] if len(view.rows) > 1 else list(view.rows)
    names = [used.name or NOBODY[view.by] for used in view.rows] + ["total"] * (len(lines) > len(view.rows))
    texts = [[of(used) for _, of in columns] for used in lines]
    widths = [max(len(title), *(len(row[at]) for row in texts)) for at, (title, _) in enumerate(columns)]
    titles = [Column(title.rjust(width)) for (title, _), width in zip(columns, widths, strict=True)]
    rows = [
        [name, *(text.rjust(width) for text, width in zip(row, widths, strict=True))]
        for name, row in zip(names, texts, strict=True)
    ]
    print_table([Column(view.by.value.upper()), *titles], rows)


NOBODY = {"job": "(reserved slots)", "agent": "(no agent)", "model": "(unknown)", "day": ""}
"""What those lines are called that have no name."""


def _columns() -> "list[tuple[str, Callable[[Used], str]]]":
    """Return the columns: what everybody has first, money last."""
    from rota.model.durations import say_duration
    from rota.rules.budget_words import say_money
    from rota.rules.times import whole_seconds

    return [
        ("RUNS", lambda used: f"{used.runs:,}"),
        ("TIME", lambda used: say_duration(whole_seconds(used.took))),
        ("TOKENS IN", lambda used: _told(used, used.tokens_in)),
        ("TOKENS OUT", lambda used: _told(used, used.tokens_out)),
        ("REQUESTS", lambda used: _told(used, used.requests)),
        ("COST", lambda used: _told(used, used.usd, say_money)),
    ]


def _told(used: "Used", amount: "Amount", say: Callable[[int], str] = "{:,}".format) -> str:
    if not amount.told:
        return UNKNOWN
    return f"{'≥ ' if amount.told < used.runs else ''}{say(amount.total)}"
