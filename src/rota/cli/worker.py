"""`rota worker`: run jobs on this machine for a database that machines share."""

from typing import Any

import click

from rota.cli.entering import entering_options, entrance_of
from rota.cli.invocation import Invocation, RotaCommand


@click.command("worker", cls=RotaCommand)
@entering_options
@click.option("--quiet", is_flag=True, help="Print no console lines; the log on stderr stays.")
@click.option("--verbose", is_flag=True, help="Log starts and ends too (DEBUG).")
@click.pass_obj
def command(invocation: Invocation, /, *, quiet: bool, verbose: bool, **entering: Any) -> int:
    """Take runs from a database that machines share and carry them out here, until stopped (Ctrl-C, `rota stop`).

    A worker fires nothing and applies no file: `rota serve` does, on at least one machine. Its rota.yaml tells where
    the database is (`store: postgresql://…`), how it works, and which functions there are.
    """
    import asyncio

    entrance = entrance_of(**entering)

    from rota.runners.first import leave_first_place

    leave_first_place()
    from rota.cli.console import Console
    from rota.cli.logging import configure_logging, same_stream
    from rota.daemon import Daemon

    place = invocation.own_place("worker")
    in_one_place = not quiet and not invocation.as_json and same_stream()
    console = Console(place, invocation.clock, as_json=invocation.as_json, verb="works for")
    configure_logging(verbose=verbose, console=in_one_place, stamp=console.time)
    try:
        daemon = Daemon(
            place,
            invocation.clock,
            environ=invocation.environ,
            observer=None if quiet else console,
            kind="worker",
            entrance=entrance,
        )
        asyncio.run(daemon.run())
    finally:
        console.close()
    return 0
