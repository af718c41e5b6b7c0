"""`rota secrets` and `rota token`: the secrets that jobs name and their sources, and the tokens of the HTTP API."""

import sys
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import UNCHANGED, Invocation, RotaCommand, dry_run_option, print_json, read_duration
from rota.cli.main import RotaGroup, listing_group
from rota.cli.output import Cell, Column, print_table
from rota.model.errors import RotaError, SecretMissing
from rota.text.ansi import plain

if TYPE_CHECKING:
    from datetime import datetime

    from rota.operations.admin.secrets import SecretView
    from rota.settings import Settings
    from rota.store.tables.tokens import AccessToken

COLOURS = {"missing": "red", "expired": "yellow", "revoked": "red"}
SCOPES = ["read", "run", "admin", "agent", "calendar"]
NEVER = "never"


@listing_group("secrets")
def secrets_command(invocation: Invocation) -> None:
    """List the secrets of jobs and targets and the source of each, as seen by this shell; values are never printed.

    A run searches $CREDENTIALS_DIRECTORY, the environment of the scheduler, and secrets.env of the state folder.
    A secret under `secrets:` of rota.yaml comes from the command, file or keyring entry named there, at each start.
    """
    from rota.operations.admin.secrets import look_at_secrets, secret_json

    place = invocation.place()
    with ExitStack() as stack:
        store = None
        with suppress(SecretMissing):  # that of the store itself: to be told below
            if invocation.applied():
                _, store = stack.enter_context(invocation.store())
        settings, problem = _settings(invocation)
        secrets = look_at_secrets(store, place.state, invocation.environ, address=place.store, settings=settings)
    if problem:
        click.echo(problem, err=True)
    none = "no applied job or target uses a secret; a job does with `env: {NAME: {secret: NAME}}`"
    if invocation.listed(secrets, secret_json, none=none):
        return
    rows: list[list[Cell | str]] = [
        [secret.name, Cell(_from(secret), COLOURS.get(secret.source.value)), _who(secret)] for secret in secrets
    ]
    print_table(["SECRET", "FROM", Column("NAMED BY", flexible=True)], rows)


def _settings(invocation: Invocation) -> "tuple[Settings | None, str]":
    """Return the settings of the file; for a file with problems none, and a note."""
    from rota.operations.project.load import load_project

    place = invocation.place()
    try:
        loaded = load_project(
            place.folder, invocation.environ, state=place.state, now=invocation.clock.now(), lenient=True
        )
    except RotaError as error:
        return None, f"`secrets:` of rota.yaml was not read: {error.message}"
    return loaded.declared.settings, ""


def _from(one: "SecretView") -> str:
    return f"{one.source.value} {plain(one.origin)}" if one.origin else one.source.value


def _who(one: "SecretView") -> str:
    named = [*one.jobs, *(f"notify.{name}" for name in one.targets), *one.sections, *(("store",) if one.store else ())]
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

    settings, _ = _settings(invocation)
    refuse_declared(secret, settings.secrets if settings is not None else {})
    value = _value(secret)
    place = invocation.place()
    replaced = False if dry_run else store_secret(place.state, secret, value)
    if not dry_run:
        invocation.note()
    if invocation.as_json:
        print_json({"dry_run": dry_run, "name": secret, "replaced": replaced})
    elif dry_run:
        click.echo(f"would store {secret}\n{UNCHANGED}")
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
        click.echo(f"would remove {secret}\n{UNCHANGED}")
    else:
        click.echo(f"{secret} removed")


def _value(secret: str) -> str:
    if sys.stdin.isatty():
        return str(click.prompt(f"value of {secret}", hide_input=True, err=True))
    return sys.stdin.read().removesuffix("\n")


@click.group("token", cls=RotaGroup, invoke_without_command=True, subcommand_metavar="[COMMAND …]")
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    help="Rights of the token: read, also run control, everything, those of an agent, or the calendar only.",
)
@click.option("--name", metavar="NAME", help="Name of the token holder in the audit log. Required with --scope.")
@click.option(
    "--renew", is_flag=True, help="Rotate the project token; invalidates it, every derived token and every session."
)
@dry_run_option
@click.pass_context
def token_command(ctx: click.Context, *, scope: str | None, name: str | None, renew: bool, dry_run: bool) -> None:
    """Print the project token, which has all rights; with --scope and --name, a derived token with fewer rights.

    The same scope and name always give the same token. A single derived token cannot be revoked: `rota token create`
    makes one that can, with an expiry.
    """
    if ctx.invoked_subcommand is None:
        _print(ctx.ensure_object(Invocation), scope=scope, name=name, renew=renew, dry_run=dry_run)
    elif scope or name or renew or dry_run:
        raise click.UsageError(f"give options after the command: `rota token {ctx.invoked_subcommand} …`")


def _print(invocation: Invocation, *, scope: str | None, name: str | None, renew: bool, dry_run: bool) -> None:
    from rota.operations.admin.access import Scope, derive_token, project_token, renew_project_token

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
        click.echo("would rotate the token: it, every derived token and every session would be invalidated", err=True)
        click.echo(UNCHANGED, err=True)
        return
    if invocation.as_json:
        print_json({"token": told, "scope": scope or "admin", "name": name or "owner", "renewed": renew})
    else:
        click.echo(told)


@token_command.command("create", cls=RotaCommand)
@click.argument("name", metavar="NAME")
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    required=True,
    help="Rights of the token: read, also run control, everything, those of an agent, or the calendar only.",
)
@click.option("--expires", metavar="D", default="90d", help="How long it is valid (12h, 90d), or never; default 90d.")
@dry_run_option
@click.pass_obj
def create(invocation: Invocation, *, name: str, scope: str, expires: str, dry_run: bool) -> None:
    """Create the token NAME and print it once; only its hash is stored. NAME is the actor in the audit log."""
    from rota.operations.admin.access import Scope
    from rota.operations.admin.audit import person
    from rota.operations.admin.tokens import create_token, token_json

    lasts = None if expires == NEVER else read_duration(expires)
    with invocation.store() as (_, store):
        now = invocation.now()
        new_token = create_token(store, name, Scope(scope), lasts=lasts, by=person(), now=now, dry_run=dry_run)
    if invocation.as_json:
        text = None if dry_run else new_token.text
        print_json({**token_json(new_token.row, now=now), "secret": text, "dry_run": dry_run})
        return
    until = (
        "never expires" if new_token.row.expires_at is None else f"expires {_when(new_token.row.expires_at, now)} UTC"
    )
    if dry_run:
        click.echo(f"would create the token {name}: scope {scope}, {until}\n{UNCHANGED}")
    else:
        click.echo(new_token.text)
        click.echo(f"token {name}: scope {scope}, {until}; it is shown only now", err=True)
        if scope == "calendar":
            click.echo("subscribe to the address of the dashboard with /calendar.ics?token=TOKEN", err=True)


@token_command.command("list", cls=RotaCommand)
@click.pass_obj
def list_all(invocation: Invocation) -> None:
    """List the named tokens, newest first, with their scope, expiry and last use; no token is printed."""
    from rota.operations.admin.tokens import list_tokens, state_of, token_json

    with invocation.store() as (_, store):
        now = invocation.now()
        tokens = list_tokens(store)
    if invocation.listed(tokens, partial(token_json, now=now), none="no named tokens: `rota token create NAME`"):
        return
    rows: list[list[Cell | str]] = []
    for access_token in tokens:
        state = state_of(access_token, now=now).value
        until = NEVER if access_token.expires_at is None else _when(access_token.expires_at, now)
        used = "-" if access_token.last_used_at is None else _when(access_token.last_used_at, now)
        rows.append(
            [
                access_token.name,
                access_token.scope,
                Cell(state, COLOURS.get(state)),
                until,
                used,
                access_token.created_by,
            ]
        )
    print_table(("TOKEN", "SCOPE", "STATE", "EXPIRES (UTC)", "LAST USED", "CREATED BY"), rows)


def _when(at: "datetime", now: "datetime") -> str:
    from rota.text.format import full_time

    return full_time(at, "UTC", now=now)


@token_command.command("revoke", cls=RotaCommand)
@click.argument("name", metavar="NAME")
@dry_run_option
@click.pass_obj
def revoke(invocation: Invocation, *, name: str, dry_run: bool) -> None:
    """Revoke the token NAME: the next request with it gets 401, and the logins made with it end."""
    from rota.operations.admin.audit import person
    from rota.operations.admin.tokens import revoke_token, token_json

    with invocation.store() as (_, store):
        now = invocation.now()
        token: AccessToken = revoke_token(store, name, by=person(), now=now, dry_run=dry_run)
    if invocation.as_json:
        print_json({**token_json(token, now=now), "dry_run": dry_run})
    elif dry_run:
        click.echo(f"would revoke the token {name}\n{UNCHANGED}")
    else:
        click.echo(f"token {name} is revoked")
