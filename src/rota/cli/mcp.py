"""`rota mcp`: serve the tools for agents over standard input and output."""

from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json

if TYPE_CHECKING:
    from rota.operations.tools import Toolbox


@click.command("mcp", cls=RotaCommand)
@click.option("--list", "listing", is_flag=True, help="Only name the tools and what they are for; serve nothing.")
@click.pass_obj
def command(invocation: Invocation, *, listing: bool) -> None:
    """Serve the tools for agents over MCP: the protocol on standard input and output, the log on standard error.

    It ends when its input does. Started inside a run it acts as that run, within `agent_policy`; else as `user`.
    With --json it prints the tools with their JSON Schemas and serves nothing.
    """
    from rota.operations.tools import Toolbox
    from rota.operations.tools.makers import project_declares

    with invocation.store() as (place, store):
        declare = project_declares(place, invocation.environ)
        toolbox = Toolbox(store, place.state, invocation.clock, maker=invocation.maker(), declare=declare)
        if listing or invocation.as_json:
            _show(invocation, toolbox)
            return
        from rota.mcp import serve

        serve(toolbox)


def _show(invocation: Invocation, toolbox: "Toolbox") -> None:
    if invocation.as_json:
        told = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
            for tool in toolbox.tools
        ]
        print_json({"tools": told})
        return
    width = max(len(tool.name) for tool in toolbox.tools)
    for tool in toolbox.tools:
        click.echo(f"{tool.name:{width}}  {tool.description.partition('. ')[0].rstrip('.')}")
