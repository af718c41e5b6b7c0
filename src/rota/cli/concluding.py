"""The end of a command that acts on several runs: some may have been refused."""

from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import Invocation, print_json

if TYPE_CHECKING:
    from rota.model.errors import RotaError


def conclude(invocation: Invocation, told: list[dict[str, Any]], refused: "list[RotaError]", *, dry_run: bool) -> None:
    """Print what was done to each, then tell every refusal; the last one gives the exit code."""
    from rota.cli.errors import report

    if invocation.as_json:
        print_json(told)
    elif dry_run:
        click.echo("nothing was changed (--dry-run)")
    for error in refused[:-1]:
        report(error, as_json=invocation.as_json)
    if refused:
        raise refused[-1]
