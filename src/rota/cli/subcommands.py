"""Commands that have commands below them, such as `rota groups show`."""

import click

from rota.cli.invocation import RotaCommand

WHOLE = 1000
"""More characters than a sentence of help has."""


class RotaGroup(RotaCommand, click.Group):
    """A command that has commands below it."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Print the commands with the first sentence of each, whole."""
        rows = [(name, self.commands[name].get_short_help_str(WHOLE)) for name in sorted(self.commands)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
