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
    entrance = entrance_of(**entering)

    from rota.runners.first import leave_first_place

    leave_first_place()
    from rota.cli.console import Console
    from rota.cli.foreground import run_in_foreground
    from rota.cli.trust import ensure_trust
    from rota.daemon import Daemon
    from rota.operations.observing import Observer

    place = invocation.own_place("worker")
    ensure_trust(invocation)
    console = Console(place, invocation.clock, as_json=invocation.as_json, verb="works for")

    def make(observer: Observer | None) -> Daemon:
        environ = invocation.environ
        return Daemon(place, invocation.clock, environ=environ, observer=observer, kind="worker", entrance=entrance)

    return run_in_foreground(invocation, console, make, quiet=quiet, verbose=verbose)
