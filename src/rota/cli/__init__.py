"""The command line: parses, calls an operation, shows the answer. Everything heavy is imported when it is used."""

import sys
from typing import NoReturn

__all__ = ["run"]

INTERRUPTED = 130


def run() -> NoReturn:
    """Run the command `rota`; a Ctrl-C while its parts are still being loaded ends it as quietly as one later."""
    try:
        from rota.cli.main import main
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    main()
