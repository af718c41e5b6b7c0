"""The command line: parses, calls an operation, prints the result. Heavy modules are imported on use."""

import sys
from typing import NoReturn

__all__ = ["run"]

INTERRUPTED = 130


def run() -> NoReturn:
    """Run the command `rota`; exit quietly on Ctrl-C also during imports."""
    try:
        from rota.cli.main import main
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    main()
