"""`rota audit`: who changed what."""

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json


@click.command("audit", cls=RotaCommand)
@click.option("--actor", metavar="A", help="Only what this one did, as the column ACTOR names it.")
@click.option("--since", metavar="TIME", help="Only from then on: 2h, yesterday, 2026-11-15.")
@click.option("--limit", "-n", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many lines.")
@click.pass_obj
def command(invocation: Invocation, *, actor: str | None, since: str | None, limit: int) -> None:
    """Show who changed what, newest first: through commands, HTTP and tools. Lines are added, never changed."""
    from rota.cli.tables import Column, print_table
    from rota.cli.words import plain
    from rota.operations.jobs import project_timezone
    from rota.operations.trail import entry_json, read_trail
    from rota.rules.times import full_time, read_instant

    now = invocation.now()
    with invocation.store() as (_, store):
        zone = project_timezone(store)
        begin = read_instant(since, zone, now=now) if since else None
        found = read_trail(store, limit=limit, since=begin, actor=actor)
    if invocation.as_json:
        print_json([entry_json(one) for one in found])
        return
    if not found:
        click.echo("nobody has changed anything")
        return
    rows = [
        [full_time(one.at, zone, now=now, seconds=True), one.actor, one.face, one.action, plain(one.target)]
        for one in found
    ]
    titles = (Column(f"WHEN ({zone})"), Column("ACTOR"), Column("FACE"), Column("DID"))
    print_table([*titles, Column("WHAT", flexible=True)], rows)
