"""`rota token`: the token of the HTTP API."""

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json


@click.command("token", cls=RotaCommand)
@click.option(
    "--scope",
    type=click.Choice(["read", "run", "admin", "agent"]),
    help="A token that may only look, or also start and steer runs, or what an agent may.",
)
@click.option("--name", metavar="NAME", help="Who gets it; the audit names it so. Needed with --scope.")
@click.option("--renew", is_flag=True, help="Replace the project's token: all tokens and logins of now end.")
@dry_run_option
@click.pass_obj
def command(invocation: Invocation, *, scope: str | None, name: str | None, renew: bool, dry_run: bool) -> None:
    """Print the project's token, which may do everything; with --scope and --name one made from it that may do less.

    The same scope and name give the same token each time. One of them cannot be taken back alone: --renew ends all.
    """
    from rota.operations.access import Scope, derive_token
    from rota.operations.login import project_token, renew_project_token

    if bool(scope) != bool(name):
        raise click.UsageError("--scope and --name go together")
    if renew and scope:
        raise click.UsageError("--renew goes alone")
    state = invocation.place().state
    token = project_token(state)
    if renew and not dry_run:
        token = renew_project_token(state)
        invocation.note()
    told = token if scope is None or name is None else derive_token(token, Scope(scope), name)
    if renew and dry_run:
        click.echo("would replace the token: every token and login of now would end", err=True)
        click.echo("nothing was changed (--dry-run)", err=True)
        return
    if invocation.as_json:
        print_json({"token": told, "scope": scope or "admin", "name": name or "owner", "renewed": renew})
    else:
        click.echo(told)
