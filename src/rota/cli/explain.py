"""`rota explain`: why did it, did it not, or will it run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json

if TYPE_CHECKING:
    from rota.rules.explain import Line


@click.command("explain", cls=RotaCommand)
@click.argument("name", metavar="JOB|RUN")
@click.pass_obj
def command(invocation: Invocation, *, name: str) -> None:
    """Tell the chain of decisions about a run, or about a job and its newest run, from what is stored."""
    from rota.operations.explaining import explain, explanation_json

    with invocation.store() as (place, store):
        found = explain(store, name, state=place.state, now=invocation.now())
    if invocation.as_json:
        print_json(explanation_json(found))
        return
    if found.job_lines:
        click.echo(found.job.job.name)
        _lines(found.job_lines)
    if found.run is None:
        click.echo("it has no runs yet")
        return
    from rota.cli.words import coloured

    head, status, rest = found.title.partition(found.run.status.shown.value)
    click.echo(f"{head}{coloured(found.run.status, status)}{rest}")
    _lines(found.run_lines)


def _lines(lines: "Sequence[Line]") -> None:
    from rota.cli.words import plain

    for line in lines:
        click.echo(f"  {line.label:12} {plain(line.text)}")
