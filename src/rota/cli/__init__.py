"""The command line: parses, calls an operation, shows the answer. Everything heavy is imported when it is used."""

from rota.cli.root import main

__all__ = ["main"]
