"""`rota export`: stored jobs as a rota.yaml."""

import os

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json


@click.command("export", cls=RotaCommand)
@click.argument("jobs", nargs=-1, metavar="[JOB…]")
@click.pass_obj
def command(invocation: Invocation, *, jobs: tuple[str, ...]) -> None:
    """Print the stored jobs as a rota.yaml, also those that no file declares; all of them, or each JOB named."""
    from rota.operations.exporting import export_jobs, stored_names

    home = invocation.environ.get("HOME") or os.path.expanduser("~")
    with invocation.store() as (place, store):
        named = jobs or (tuple(job for job in stored_names(store) if invocation.covers(job)) if place.scope else ())
        exported = export_jobs(store, named, place=place, home=home)
    if invocation.as_json:
        print_json({"yaml": exported.text, "jobs": list(exported.names), "notes": list(exported.notes)})
        return
    click.echo(exported.text, nl=False)
    for note in exported.notes:
        click.echo(f"note: {note}", err=True)
