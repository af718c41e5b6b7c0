"""The command line: parses, calls an operation, prints the result. Heavy modules are imported on use."""

import gc
import sys
from typing import NoReturn

__all__ = ["run"]

INTERRUPTED = 130
OBJECTS = 10_000
"""How many more objects there must be before garbage is collected: imports make many, and none is garbage."""


def run() -> NoReturn:
    """Run the command `rota`; exit quietly on Ctrl-C also during imports."""
    gc.set_threshold(OBJECTS)
    try:
        if sys.argv[1:] in (["--help"], ["-h"]) and _print_overview():
            sys.exit(0)
        from rota.cli.main import main
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    main()


def _print_overview() -> bool:
    """Print the help of `rota`; return whether that worked, else the command itself reports why."""
    from rota.cli.overview import overview

    try:
        print(overview(), end="", flush=True)  # noqa: T201
    except (OSError, ValueError):  # a closed or full stream, or an encoding without these characters
        return False
    return True
