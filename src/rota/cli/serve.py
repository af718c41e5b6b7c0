"""`rota serve`: run the scheduler in the foreground."""

from typing import TYPE_CHECKING, Any

import click

from rota.cli.entering import entering_options, entrance_of
from rota.cli.invocation import Invocation, RotaCommand

if TYPE_CHECKING:
    from rota.http.flags import Flags


@click.command("serve", cls=RotaCommand)
@entering_options
@click.option("--quiet", is_flag=True, help="Print no console lines; the log on stderr stays.")
@click.option("--verbose", is_flag=True, help="Log starts and ends too (DEBUG).")
@click.option("--no-http", is_flag=True, help="Serve no HTTP API.")
@click.option("--listen", metavar="ADDR:PORT", help="Where the HTTP API listens; beyond this machine only so.")
@click.option("--behind-proxy", is_flag=True, help="A proxy in front of it encrypts; believe its X-Forwarded headers.")
@click.option("--tls-cert", metavar="FILE", help="The certificate with which HTTP is encrypted (PEM).")
@click.option("--tls-key", metavar="FILE", help="Its key, where it is in a file of its own.")
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    quiet: bool,
    verbose: bool,
    no_http: bool,
    listen: str | None,
    behind_proxy: bool,
    tls_cert: str | None,
    tls_key: str | None,
    **entering: Any,
) -> int:
    """Run the scheduler in the foreground: apply rota.yaml, then do what is due until stopped (Ctrl-C, `rota stop`).

    The console on stdout shows what fires and how it ends; the log goes to stderr, as JSON where that is no terminal.
    With --json the console prints one JSON object a line.

    The dashboard and the HTTP API are served on 127.0.0.1:7682, or as `http:` or --listen say; where no port is
    written, a 7682 that is in use gives way to the next free port. `rota open` logs a browser in, `rota token` prints
    the token that everything else needs.
    """
    http = None if no_http else _flags(invocation, listen, behind_proxy=behind_proxy, cert=tls_cert, key=tls_key)
    entrance = entrance_of(**entering)
    if no_http and (listen or behind_proxy or tls_cert or tls_key):
        raise click.UsageError("--no-http and flags about HTTP do not go together")

    from rota.runners.first import leave_first_place

    leave_first_place()
    from rota.cli.console import Console
    from rota.cli.foreground import run_in_foreground
    from rota.cli.trust import ensure_trust
    from rota.daemon import Daemon
    from rota.operations.hosting import refuse_included
    from rota.operations.observing import Observer

    place = invocation.own_place("serve")
    refuse_included(place, invocation.environ, verb="serve")
    ensure_trust(invocation)
    console = Console(place, invocation.clock, zone=_known_zone(invocation), as_json=invocation.as_json)

    def make(observer: Observer | None) -> Daemon:
        environ = invocation.environ
        return Daemon(place, invocation.clock, environ=environ, observer=observer, http=http, entrance=entrance)

    return run_in_foreground(invocation, console, make, quiet=quiet, verbose=verbose)


def _flags(
    invocation: Invocation, listen: str | None, *, behind_proxy: bool, cert: str | None, key: str | None
) -> "Flags":
    from rota.declare.fields import Refused
    from rota.declare.listening import read_listen
    from rota.http.flags import Flags

    if key is not None and cert is None:
        raise click.UsageError("--tls-key goes with --tls-cert")
    try:
        where = None if listen is None else read_listen(listen)
    except Refused as error:
        raise click.UsageError(f"--listen: {error.message}; {error.hint}") from None
    files = [None if file is None else invocation.cwd / file for file in (cert, key)]
    return Flags(where, behind_proxy=behind_proxy, certificate=files[0], key=files[1])


def _known_zone(invocation: Invocation) -> str:
    """Return the zone in which the project was read last, for lines before its file is loaded."""
    from rota.model.errors import NotApplied
    from rota.operations.jobs import project_timezone

    try:
        with invocation.store() as (_, store):
            return project_timezone(store)
    except NotApplied:
        return "UTC"
