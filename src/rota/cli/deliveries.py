"""`rota deliveries`: what was told to whom, what failed; send it again."""

from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json
from rota.cli.subcommands import RotaGroup

if TYPE_CHECKING:
    from datetime import datetime

    from rota.model.notify import Delivery

LIMIT = 50
SHORT = 8
"""How many of the last characters of an id are shown."""


@click.group("deliveries", cls=RotaGroup, invoke_without_command=True, subcommand_metavar="[retry …]")
@click.option("--failed", is_flag=True, help="Only those that failed for good.")
@click.option("--pending", is_flag=True, help="Only those that are still to be sent.")
@click.option("--job", metavar="JOB", help="Only those about a job, or about a run as JOB:NUMBER.")
@click.option("--target", metavar="NAME", help="Only those to a target.")
@click.option(
    "--limit", "-n", type=click.IntRange(1, 1000), default=LIMIT, show_default=True, help="How many, newest first."
)
@click.pass_context
def command(
    ctx: click.Context, *, failed: bool, pending: bool, job: str | None, target: str | None, limit: int
) -> None:
    """List what was told to whom, newest first: how often it was tried, and what became of it."""
    if ctx.invoked_subcommand is not None:
        return
    if failed and pending:
        raise click.UsageError("--failed and --pending do not go together")
    _list(ctx.ensure_object(Invocation), failed=failed, pending=pending, job=job, target=target, limit=limit)


def _list(
    invocation: Invocation, *, failed: bool, pending: bool, job: str | None, target: str | None, limit: int
) -> None:
    from rota.cli.tables import Column, print_table
    from rota.model.notify import DeliveryStatus
    from rota.operations.jobs import project_timezone
    from rota.operations.notifying import delivery_json, list_deliveries

    status = DeliveryStatus.FAILED if failed else DeliveryStatus.PENDING if pending else None
    with invocation.store() as (_, store):
        found = list_deliveries(store, status=status, about=job, target=target, limit=limit)
        zone = project_timezone(store)
    found = [one for one in found if invocation.covers(one.handle)]
    if invocation.as_json:
        print_json([delivery_json(one) for one in found])
        return
    invocation.tell_scope()
    if not found:
        click.echo("no deliveries")
        return
    titles = ("ID", f"WHEN ({zone})", "EVENT", "RUN", "TARGET", "STATUS", "TRIES")
    columns = [*map(Column, titles), Column("ANSWER", flexible=True)]
    print_table(columns, [_cells(one, zone, now=invocation.now()) for one in found])


def _cells(one: "Delivery", zone: str, *, now: "datetime") -> list[str]:
    from rota.cli.words import plain
    from rota.rules.times import full_time

    again = f"; again {full_time(one.next_at, zone, now=now, seconds=True)}" if one.next_at and one.attempts else ""
    told = "exit 0" if one.answer == 0 else str(one.answer or "")
    answer = plain(one.error or "") or told
    when = full_time(one.created_at, zone, now=now, seconds=True)
    tried = [one.id[-SHORT:], when, one.event.value, one.handle, one.target, one.status.value, str(one.attempts)]
    return [*tried, f"{answer}{again}"]


@command.command("retry", cls=RotaCommand)
@click.argument("ids", metavar="[ID…]", nargs=-1)
@click.option("--failed", is_flag=True, help="All that failed for good.")
@dry_run_option
@click.pass_obj
def retry(invocation: Invocation, *, ids: tuple[str, ...], failed: bool, dry_run: bool) -> None:
    """Send deliveries again, under their own ids: those that end with ID, or all that failed."""
    from rota.engine.wake import wake
    from rota.operations.notifying import delivery_json, retry_deliveries
    from rota.operations.system import serves

    if not ids and not failed:
        raise click.UsageError("name deliveries, or pass --failed")
    with invocation.store() as (place, store):
        found = retry_deliveries(store, ids, failed=failed, now=invocation.now(), dry_run=dry_run)
        if found and not dry_run:
            wake(place.state)
        served = serves(place.state)
    if invocation.as_json:
        print_json({"dry_run": dry_run, "retried": [delivery_json(one) for one in found]})
        return
    for one in found:
        click.echo(f"{one.event} of {one.handle} to {one.target}: sent again")
    click.echo("nothing was changed (--dry-run)" if dry_run else _told(len(found), served=served))


def _told(count: int, *, served: bool) -> str:
    if not count:
        return "nothing to send again"
    return "the scheduler sends them" if served else "no scheduler runs; the next one sends them"
