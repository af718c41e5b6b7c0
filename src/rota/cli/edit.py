"""`rota edit`: change a queued run."""

from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json
from rota.cli.run import param_option, read_params

if TYPE_CHECKING:
    from rota.operations.changing import Edited


@click.command("edit", cls=RotaCommand)
@click.argument("run")
@param_option
@click.option("--priority", type=int, metavar="N", help="Higher goes first in the queue, -1000 to 1000.")
@dry_run_option
@click.pass_obj
def command(invocation: Invocation, *, run: str, params: tuple[str, ...], priority: int | None, dry_run: bool) -> None:
    """Change a queued RUN: its params until it is dispatched for the first time, its priority until it starts."""
    from rota.operations.changing import edit_run

    given = read_params(params)
    with invocation.store() as (_, store):
        edited = edit_run(store, run, params=given, priority=priority, now=invocation.now(), dry_run=dry_run)
    _tell(invocation, edited, sorted(given), dry_run=dry_run)


def _tell(invocation: Invocation, edited: "Edited", names: list[str], *, dry_run: bool) -> None:
    from rota.operations.answers import edited_json

    run = edited.run
    if invocation.as_json:
        print_json(edited_json(edited, dry_run=dry_run))
        return
    changed = [f"{name} = {run.params[name]!r}" for name in names]
    if run.priority != edited.before.priority:
        changed.append(f"priority {edited.before.priority} → {run.priority}")
    waits = f"waits for {run.waiting_for}" if run.waiting_for else f"place {edited.place or '1000+'}"
    click.echo(f"{run.handle}  {', '.join(changed) or 'as it was'}; {waits}")
    if dry_run:
        click.echo("nothing was changed (--dry-run)")
