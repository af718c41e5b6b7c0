"""`rota mcp`: serve the tools for agents over standard input and output."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NoReturn

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.operations.tools.catalog import Tool
    from rota.operations.tools.toolbox import Toolbox


@click.command("mcp", cls=RotaCommand)
@click.option("--list", "listing", is_flag=True, help="Only name the tools and what they are for; serve nothing.")
@click.pass_obj
def command(invocation: Invocation, *, listing: bool) -> None:
    """Serve the tools for agents over MCP: the protocol on standard input and output, the log on standard error.

    It ends when its input does. Started inside a run it acts as that run, within `agent_policy`; else as `user`.
    The run of an agent needs `rota_tools: true`.
    With --json it prints the tools with their JSON Schemas and serves nothing.
    """
    if listing or invocation.as_json:
        _show(invocation)
        return
    from rota.mcp import serve

    with ExitStack() as opened:
        serve(ProjectTools(invocation, opened))


class ProjectTools:
    """The tools of the project in which the server was started; it is opened at the first call that finds it."""

    def __init__(self, invocation: Invocation, opened: ExitStack) -> None:
        from rota.operations.tools.catalog import tools_of

        self.tools: tuple[Tool, ...] = tools_of(self.call)
        self._invocation = invocation
        self._opened = opened
        self._toolbox: Toolbox | None = None

    def call(self, name: str, arguments: "Mapping[str, Any]") -> dict[str, Any]:
        """Call a tool; raise RotaError where it is refused, or where there is no project to open."""
        if self._toolbox is None:
            self._toolbox = self._open()
        return self._toolbox.call(name, arguments)

    def _open(self) -> "Toolbox":
        from rota.operations.tools.makers import project_declares
        from rota.operations.tools.toolbox import Toolbox

        invocation = self._invocation
        place, store = self._opened.enter_context(invocation.store())
        declare = project_declares(place, invocation.environ)
        return Toolbox(store, place.state, invocation.clock, maker=invocation.maker(), declare=declare)


def _show(invocation: Invocation) -> None:
    """Print the tools, which are the same in every project."""
    from rota.operations.tools.catalog import tools_of

    tools = tools_of(_uncalled)
    if invocation.as_json:
        told = [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.input_schema,
                "output_schema": tool.output_schema,
                "annotations": tool.annotations,
            }
            for tool in tools
        ]
        print_json({"tools": told})
        return
    width = max(len(tool.name) for tool in tools)
    for tool in tools:
        click.echo(f"{tool.name:{width}}  {tool.description.partition('. ')[0].rstrip('.')}")


def _uncalled(name: str, _: "Mapping[str, Any]") -> NoReturn:
    raise AssertionError(f"{name} is only shown")
