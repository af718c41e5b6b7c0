"""`rota serve`: run the scheduler in the foreground."""

import click

from rota.cli.invocation import Invocation, RotaCommand


@click.command("serve", cls=RotaCommand)
@click.option("--quiet", is_flag=True, help="Print no console lines; the log on stderr stays.")
@click.option("--verbose", is_flag=True, help="Log starts and ends too (DEBUG).")
@click.pass_obj
def command(invocation: Invocation, *, quiet: bool, verbose: bool) -> int:
    """Run the scheduler in the foreground: apply rota.yaml, then do what is due until stopped (Ctrl-C, `rota stop`).

    The console on stdout shows what fires and how it ends; the log goes to stderr, as JSON where that is no terminal.
    With --json the console prints one JSON object a line.
    """
    import asyncio

    from rota.runners.first import leave_first_place

    leave_first_place()
    from rota.cli.console import Console
    from rota.cli.logging import configure_logging, same_stream
    from rota.daemon import Daemon
    from rota.operations.hosting import refuse_included

    place = invocation.own_place("serve")
    refuse_included(place, invocation.environ, verb="serve")
    in_one_place = not quiet and not invocation.as_json and same_stream()
    console = Console(place, invocation.clock, zone=_known_zone(invocation), as_json=invocation.as_json)
    configure_logging(verbose=verbose, console=in_one_place, stamp=console.time)
    observer = None if quiet else console
    try:
        asyncio.run(Daemon(place, invocation.clock, environ=invocation.environ, observer=observer).run())
    finally:
        console.close()
    return 0


def _known_zone(invocation: Invocation) -> str:
    """Return the zone in which the project was read last, for lines before its file is loaded."""
    from rota.model.errors import NotApplied
    from rota.operations.jobs import project_timezone

    try:
        with invocation.store() as (_, store):
            return project_timezone(store)
    except NotApplied:
        return "UTC"
