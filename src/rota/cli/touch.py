"""`rota touch`: say that somebody is here."""

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json


@click.command("touch", cls=RotaCommand)
@dry_run_option
@click.pass_obj
def command(invocation: Invocation, *, dry_run: bool) -> None:
    """Count as activity: jobs with intervals by mode become active at once."""
    from rota.engine.wake import wake
    from rota.operations.cadence import current_mode, touch

    now = invocation.now()
    with invocation.store() as (place, store):
        before = current_mode(store, now=now)
        if not dry_run:
            touch(store, now=now)
            wake(place.state)
        after = current_mode(store, now=now)
    if invocation.as_json:
        print_json({"before": before, "mode": after, "dry_run": dry_run})
    elif dry_run:
        click.echo(f"mode is {before}; a touch makes it active, outside of quiet hours. Nothing was changed.")
    elif before == after:
        click.echo(f"mode stays {after}{', as it is in quiet hours' if after == 'dormant' else ''}")
    else:
        click.echo(f"mode {before} → {after}")
