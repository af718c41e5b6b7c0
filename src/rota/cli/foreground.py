"""A scheduler or worker in the foreground: its console on stdout, its log on stderr."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from rota.cli.console import Console
from rota.cli.invocation import Invocation
from rota.cli.logging import configure_logging, same_stream, say_dropped
from rota.cli.streams import background_streams

if TYPE_CHECKING:
    from rota.daemon import Daemon
    from rota.operations.observing import Observer


def run_in_foreground(
    invocation: Invocation,
    console: Console,
    make: "Callable[[Observer | None], Daemon]",
    *,
    quiet: bool,
    verbose: bool,
) -> int:
    """Run what `make` makes until it is stopped; `quiet` has nobody watch it."""
    in_one_place = not quiet and not invocation.as_json and same_stream()
    dropped = say_dropped(invocation.clock, as_json=invocation.as_json)
    with background_streams(dropped):
        configure_logging(verbose=verbose, console=in_one_place, stamp=console.time)
        try:
            asyncio.run(make(None if quiet else console).run())
        finally:
            console.close()
    return 0
