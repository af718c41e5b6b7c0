"""`rota mcp`: serve the tools for agents over standard input and output."""

from typing import TYPE_CHECKING, Any, NoReturn

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json

if TYPE_CHECKING:
    from collections.abc import Mapping


@click.command("mcp", cls=RotaCommand)
@click.option("--list", "listing", is_flag=True, help="Only name the tools and what they are for; serve nothing.")
@click.pass_obj
def command(invocation: Invocation, *, listing: bool) -> None:
    """Serve the tools for agents over MCP: the protocol on standard input and output, the log on standard error.

    It ends when its input does. Started inside a run it acts as that run, within `agent_policy`; else as `user`.
    The run of an agent needs `rota_tools: true`.
    With --json it prints the tools with their JSON Schemas and serves nothing.
    """
    from rota.operations.tools import Toolbox
    from rota.operations.tools.makers import project_declares

    if listing or invocation.as_json:
        _show(invocation)
        return
    with invocation.store() as (place, store):
        from rota.mcp import serve

        declare = project_declares(place, invocation.environ)
        serve(Toolbox(store, place.state, invocation.clock, maker=invocation.maker(), declare=declare))


def _show(invocation: Invocation) -> None:
    """Print the tools, which are the same in every project."""
    from rota.operations.tools.toolbox import tools_of

    tools = tools_of(_uncalled)
    if invocation.as_json:
        told = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in tools
        ]
        print_json({"tools": told})
        return
    width = max(len(tool.name) for tool in tools)
    for tool in tools:
        click.echo(f"{tool.name:{width}}  {tool.description.partition('. ')[0].rstrip('.')}")


def _uncalled(name: str, _: "Mapping[str, Any]") -> NoReturn:
    raise AssertionError(f"{name} is only shown")
