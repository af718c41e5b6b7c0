"""`rota schema`: the JSON Schema of rota.yaml."""

import click

from rota.cli.invocation import RotaCommand, print_json


@click.command("schema", cls=RotaCommand)
def command() -> None:
    """Print the JSON Schema of rota.yaml, for editors. `rota init` writes it to .rota/schema.json."""
    from rota.declare.schema import json_schema

    print_json(json_schema())
