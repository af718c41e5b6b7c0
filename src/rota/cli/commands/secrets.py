"""`rota secrets`: the secrets that jobs name, and where they come from; storing one."""

import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json
from rota.cli.main import RotaGroup
from rota.cli.output import Cell, Column, print_table
from rota.model.errors import RotaError, SecretMissing
from rota.text.ansi import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.model.spec import SecretOrigin
    from rota.operations.admin.secrets import SecretView

COLOURS = {"missing": "red"}


@click.group("secrets", cls=RotaGroup, invoke_without_command=True, subcommand_metavar="[COMMAND …]")
@click.pass_context
def secrets_command(ctx: click.Context) -> None:
    """List the secrets of jobs and targets and the source of each, as seen by this shell; values are never printed.

    A run searches $CREDENTIALS_DIRECTORY, the environment of the scheduler, and secrets.env of the state folder.
    A secret under `secrets:` of rota.yaml comes from the command, file or keyring entry named there, at each start.
    """
    if ctx.invoked_subcommand is None:
        _list(ctx.ensure_object(Invocation))


def _list(invocation: Invocation) -> None:
    from rota.operations.admin.secrets import look_at_secrets, secret_json

    place = invocation.place()
    with ExitStack() as stack:
        store = None
        with suppress(SecretMissing):  # that of the store itself: to be told below
            if invocation.applied():
                _, store = stack.enter_context(invocation.store())
        origins, problem = _origins(invocation)
        found = look_at_secrets(store, place.state, invocation.environ, address=place.store, origins=origins)
    if problem:
        click.echo(problem, err=True)
    none = "no applied job or target uses a secret; a job does with `env: {NAME: {secret: NAME}}`"
    if invocation.listed(found, secret_json, none=none):
        return
    rows: list[list[Cell | str]] = [
        [one.name, Cell(_from(one), COLOURS.get(one.source.value)), _who(one)] for one in found
    ]
    print_table([Column("SECRET"), Column("FROM"), Column("NAMED BY", flexible=True)], rows)


def _origins(invocation: Invocation) -> "tuple[Mapping[str, SecretOrigin], str]":
    """Return the origins in the file; for a file with problems none, and a note."""
    from rota.operations.project.load import load_project

    place = invocation.place()
    try:
        loaded = load_project(
            place.folder, invocation.environ, state=place.state, now=invocation.clock.now(), lenient=True
        )
    except RotaError as error:
        return {}, f"`secrets:` of rota.yaml was not read: {error.message}"
    return loaded.declared.settings.secrets, ""


def _from(one: "SecretView") -> str:
    return f"{one.source.value} {plain(one.origin)}" if one.origin else one.source.value


def _who(one: "SecretView") -> str:
    named = [*one.jobs, *(f"notify.{name}" for name in one.targets), *(("store",) if one.store else ())]
    return ", ".join(named) or "-"


@secrets_command.command("set", cls=RotaCommand)
@click.argument("secret", metavar="NAME")
@dry_run_option
@click.pass_obj
def set_secret(invocation: Invocation, *, secret: str, dry_run: bool) -> None:
    """Store the secret NAME in secrets.env of the state folder (mode 0600); prompts for the value, or reads stdin.

    Runs that start later get the new value; the scheduler needs no restart.
    """
    from rota.operations.admin.secrets import refuse_declared, store_secret

    refuse_declared(secret, _origins(invocation)[0])
    value = _value(secret)
    place = invocation.place()
    replaced = False if dry_run else store_secret(place.state, secret, value)
    if not dry_run:
        invocation.note()
    if invocation.as_json:
        print_json({"dry_run": dry_run, "name": secret, "replaced": replaced})
    elif dry_run:
        click.echo(f"would store {secret}\nnothing was changed (--dry-run)")
    else:
        click.echo(f"{secret} {'replaced' if replaced else 'stored'}")


@secrets_command.command("remove", cls=RotaCommand)
@click.argument("secret", metavar="NAME")
@dry_run_option
@click.pass_obj
def remove_secret(invocation: Invocation, *, secret: str, dry_run: bool) -> None:
    """Remove the secret NAME from secrets.env of the state folder; running runs keep it."""
    from rota.operations.admin.secrets import drop_secret

    drop_secret(invocation.place().state, secret, dry_run=dry_run)
    if not dry_run:
        invocation.note()
    if invocation.as_json:
        print_json({"dry_run": dry_run, "name": secret})
    elif dry_run:
        click.echo(f"would remove {secret}\nnothing was changed (--dry-run)")
    else:
        click.echo(f"{secret} removed")


def _value(secret: str) -> str:
    if sys.stdin.isatty():
        return str(click.prompt(f"value of {secret}", hide_input=True, err=True))
    return sys.stdin.read().removesuffix("\n")
