"""`rota digest`."""

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json
from rota.text.ansi import plain
from rota.text.format import read_instant


@click.command("digest", cls=RotaCommand)
@click.option(
    "--since",
    metavar="TIME",
    help="Begin at this time: 12h, today, 2026-11-15. Default: the last digest that was sent, else a day ago.",
)
@click.pass_obj
def digest_command(invocation: Invocation, *, since: str | None) -> None:
    """Show what ran, what agents did, what failed, what needs attention, and the budgets.

    The key `digest` of a target sends the same at times of day.
    """
    from rota.operations.jobs import project_timezone
    from rota.operations.status.digest import look_at_digest
    from rota.operations.status.heartbeat import heartbeat
    from rota.text import messages

    now = invocation.now()
    with invocation.store() as (place, store):
        zone = project_timezone(store)
        begin = read_instant(since, zone, now=now) if since else None
        digest = look_at_digest(store, beat=heartbeat(place.state), since=begin, zone=zone, now=now)
    if invocation.as_json:
        print_json(digest)
        return
    invocation.tell_whole()
    click.echo(plain(messages.title({**digest, "event": "digest"})))
    for line in messages.digest_lines(digest):
        click.echo(f"{'  ' * line.startswith(' ')}{plain(line)}")
