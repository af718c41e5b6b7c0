"""`rota notify`: who is told of runs; try a target out, or send to it again."""

from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json
from rota.cli.subcommands import RotaGroup

if TYPE_CHECKING:
    from datetime import datetime

    from rota.operations.notifying import TargetView


@click.group("notify", cls=RotaGroup, invoke_without_command=True, subcommand_metavar="[COMMAND …]")
@click.pass_context
def command(ctx: click.Context) -> None:
    """List the targets of notifications: how they are told, of what, and whether it works. See `test`, `enable`."""
    if ctx.invoked_subcommand is None:
        _list(ctx.ensure_object(Invocation))


def _list(invocation: Invocation) -> None:
    from rota.cli.tables import Column, print_table
    from rota.operations.jobs import project_timezone
    from rota.operations.notifying import list_targets, target_json

    with invocation.store() as (_, store):
        found, zone = list_targets(store), project_timezone(store)
    if invocation.as_json:
        print_json([target_json(view) for view in found])
        return
    if not found:
        click.echo("no targets; declare some under `notify:` in rota.yaml and apply it")
        return
    titles = ("TARGET", "TOLD BY", "TOLD OF", "STATE")
    columns = [*map(Column, titles), Column(f"LAST ({zone})", flexible=True)]
    print_table(columns, [_cells(view, zone, now=invocation.now()) for view in found])


def _cells(view: "TargetView", zone: str, *, now: "datetime") -> list[str]:
    from rota.model.notify import Channel
    from rota.rules.times import full_time

    target, last = view.target, view.last
    unsigned = target.channel is Channel.WEBHOOK and not target.signing
    told = f"{target.channel}{', unsigned' if unsigned else ''}"
    newest = (
        f"{full_time(last.created_at, zone, now=now)} {last.event} {last.handle}: {last.status}" if last else "never"
    )
    return [target.name, told, ", ".join(target.on), _state(view, zone, now=now), newest]


def _state(view: "TargetView", zone: str, *, now: "datetime") -> str:
    from rota.cli.words import plain
    from rota.rules.times import full_time

    known = view.endpoint
    if known.disabled_at is not None:
        return f"off: {plain(known.error or '')}"
    if known.closed_until is not None and known.closed_until > now:
        return f"left alone until {full_time(known.closed_until, zone, now=now)}"
    return f"failed {known.failures} times in a row" if known.failures else "ok"


@command.command("test", cls=RotaCommand)
@click.argument("name")
@click.pass_obj
def test(invocation: Invocation, *, name: str) -> int:
    """Send a test to the target NAME of rota.yaml, applied or not. Exit codes: 0 delivered, 1 not."""
    from rota.cli.words import plain
    from rota.operations.loading import load_project
    from rota.operations.notifying import find_target, receipt_json, try_target

    place, now = invocation.place(), invocation.now()
    settings = load_project(place.folder, invocation.environ, state=place.state, now=now).declared.settings
    target = find_target(settings.notify, name)
    receipt = try_target(target, settings, environ=invocation.environ, now=now)
    if invocation.as_json:
        print_json(receipt_json(target, receipt))
    elif receipt.ok:
        click.echo(f"{name}: delivered{f', answered {receipt.answer}' if receipt.answer else ''}")
    else:
        click.echo(f"{name}: not delivered: {plain(receipt.error or 'no reason is known')}")
    return 0 if receipt.ok else 1


@command.command("enable", cls=RotaCommand)
@click.argument("name")
@dry_run_option
@click.pass_obj
def enable(invocation: Invocation, *, name: str, dry_run: bool) -> None:
    """Send to the target NAME again, which was switched off by a 410 or is left alone since it kept failing."""
    from rota.engine.wake import wake
    from rota.operations.notifying import enable_target

    with invocation.store() as (place, store):
        changed = enable_target(store, name, dry_run=dry_run)
        if changed and not dry_run:
            wake(place.state)
    if invocation.as_json:
        print_json({"target": name, "changed": changed, "dry_run": dry_run})
        return
    click.echo(f"{name} is told again" if changed else f"{name} was not switched off")
    if dry_run:
        click.echo("nothing was changed (--dry-run)")
