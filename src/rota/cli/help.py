"""`rota help`: the overview, one command, or all of them."""

from typing import Any

import click

from rota.cli.invocation import RotaCommand, print_json


@click.command("help", cls=RotaCommand)
@click.argument("name", metavar="[COMMAND]", required=False)
@click.option("--all", "everything", is_flag=True, help="The help of every command.")
@click.pass_context
def command(ctx: click.Context, *, name: str | None, everything: bool) -> None:
    """Show the commands, one COMMAND, or --all of them."""
    from rota.cli.root import COMMANDS, cli

    root = ctx.find_root()
    if ctx.obj.as_json:
        print_json([_as_json(each) for each in ([name] if name in COMMANDS else COMMANDS)])
        return
    if name is not None:
        cli.resolve_command(root, [name])
    if name is None and not everything:
        click.echo(cli.get_help(root))
        return
    for each in [name] if name else COMMANDS:
        found = cli.get_command(root, each)
        assert found is not None
        with found.context_class(found, info_name=each, parent=root) as inner:
            click.echo(found.get_help(inner) + ("" if name else "\n"))


def _as_json(name: str | None) -> dict[str, Any]:
    from rota.cli.root import COMMANDS

    assert name is not None
    return {"name": name, "group": COMMANDS[name].group, "summary": COMMANDS[name].summary}
