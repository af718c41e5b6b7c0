"""`rota open`: open rota in a browser, logged in."""

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json


@click.command("open", cls=RotaCommand)
@click.option("--print", "only_print", is_flag=True, help="Print the address instead of opening it.")
@click.pass_obj
def command(invocation: Invocation, *, only_print: bool) -> None:
    """Open rota in a browser, logged in by a code that works once, within a minute; the token itself is never shown."""
    from rota.operations.login import login_address

    url = login_address(invocation.place().state)
    if invocation.as_json:
        print_json({"url": url})
    elif only_print or not _opened(url):
        click.echo(url)
        click.echo("it logs one browser in, within a minute", err=True)
    else:
        click.echo(f"opened {url.partition('?')[0].removesuffix('/login')}")


def _opened(url: str) -> bool:
    """Open an address in the user's browser; tell whether there is one."""
    return click.launch(url) == 0
