"""`rota notify` and `deliveries`."""

from typing import TYPE_CHECKING

import click

from rota.cli.invocation import UNCHANGED, Invocation, RotaCommand, dry_run_option, print_json, tell_unchanged
from rota.cli.main import listing_group
from rota.cli.output import Column, print_table
from rota.model.amounts import counted
from rota.model.notifications import Channel, DeliveryStatus
from rota.model.serialize import delivery_json
from rota.text.ansi import plain
from rota.text.format import full_time

if TYPE_CHECKING:
    from datetime import datetime

    from rota.model.notifications import Delivery
    from rota.operations.notifications import TargetView


@listing_group("notify")
def notify_command(invocation: Invocation) -> None:
    """List notification targets: channel, events, and whether deliveries succeed."""
    from rota.operations.notifications import list_targets, target_json

    with invocation.store() as (_, store):
        targets, zone = list_targets(store), invocation.zone(store)
    none = "no targets; declare some under `notify:` in rota.yaml and apply it"
    if invocation.listed(targets, target_json, none=none):
        return
    columns = ("TARGET", "CHANNEL", "EVENTS", "STATE", Column(f"LAST ({zone})", flexible=True))
    print_table(columns, [_cells(view, zone, now=invocation.now()) for view in targets])


def _cells(view: "TargetView", zone: str, *, now: "datetime") -> list[str]:
    target, last = view.target, view.last
    unsigned = target.channel is Channel.WEBHOOK and not target.signing
    told = f"{target.channel}{', unsigned' if unsigned else ''}"
    newest = (
        f"{full_time(last.created_at, zone, now=now)} {last.event} {last.handle}: {last.status}" if last else "never"
    )
    return [target.name, told, ", ".join(target.on), _state(view, zone, now=now), newest]


def _state(view: "TargetView", zone: str, *, now: "datetime") -> str:
    endpoint = view.endpoint
    if endpoint.disabled_at is not None:
        return f"off: {plain(endpoint.error or '')}"
    if endpoint.closed_until is not None and endpoint.closed_until > now:
        return f"not retried before {full_time(endpoint.closed_until, zone, now=now)}"
    return f"failed {counted(endpoint.failures, 'time')} in a row" if endpoint.failures else "ok"


@notify_command.command("test", cls=RotaCommand)
@click.argument("name")
@click.pass_obj
def test(invocation: Invocation, *, name: str) -> int:
    """Send a test notification to the target NAME of rota.yaml, applied or not. Exit codes: 0 delivered, 1 failed."""
    from rota.operations.notifications import find_target, receipt_json, try_target
    from rota.operations.project.load import load_project

    place, now = invocation.place(), invocation.now()
    settings = load_project(place.folder, invocation.environ, state=place.state, now=now).declared.settings
    target = find_target(settings.notify, name)
    receipt = try_target(target, settings, environ=invocation.environ, now=now)
    if invocation.as_json:
        print_json(receipt_json(target, receipt))
    elif receipt.ok:
        click.echo(f"{name}: delivered{f', answered {receipt.answer}' if receipt.answer else ''}")
    else:
        click.echo(f"{name}: not delivered: {plain(receipt.error or 'unknown reason')}")
    return 0 if receipt.ok else 1


@notify_command.command("enable", cls=RotaCommand)
@click.argument("name")
@dry_run_option
@click.pass_obj
def enable(invocation: Invocation, *, name: str, dry_run: bool) -> None:
    """Re-enable the target NAME after an HTTP 410 or repeated failures disabled it."""
    from rota.operations.notifications import enable_target

    with invocation.store() as (_, store):
        changed = enable_target(store, name, dry_run=dry_run)
        if changed and not dry_run:
            invocation.wake()
    if invocation.as_json:
        print_json({"target": name, "changed": changed, "dry_run": dry_run})
        return
    click.echo(f"{name} is enabled again" if changed else f"{name} was not disabled")
    tell_unchanged(dry_run=dry_run)


LIMIT = 50
SHORT = 8
"""How many of the last characters of an id are shown."""


@listing_group("deliveries", metavar="[retry …]")
@click.option("--failed", is_flag=True, help="Only notifications that failed permanently.")
@click.option("--pending", is_flag=True, help="Only notifications that are not sent yet.")
@click.option("--job", metavar="JOB", help="Only notifications about this job, or this run (JOB:NUMBER).")
@click.option("--target", metavar="NAME", help="Only notifications to this target.")
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(1, 1000),
    default=LIMIT,
    show_default=True,
    help="Maximum number of notifications, newest first.",
)
def deliveries_command(
    invocation: Invocation, *, failed: bool, pending: bool, job: str | None, target: str | None, limit: int
) -> None:
    """List notifications, newest first: target, attempts, result."""
    from rota.operations.notifications import list_deliveries

    if failed and pending:
        raise click.UsageError("--failed and --pending cannot be combined")
    status = DeliveryStatus.FAILED if failed else DeliveryStatus.PENDING if pending else None
    with invocation.store() as (_, store):
        deliveries = list_deliveries(store, status=status, about=job, target=target, limit=limit)
        zone = invocation.zone(store)
    deliveries = [delivery for delivery in deliveries if invocation.covers(delivery.handle)]
    if invocation.listed(deliveries, delivery_json, none="no deliveries", scoped=True):
        return
    titles = ("ID", f"WHEN ({zone})", "EVENT", "RUN", "TARGET", "STATUS", "ATTEMPTS")
    columns = (*titles, Column("ANSWER", flexible=True))
    print_table(columns, [_delivery_cells(delivery, zone, now=invocation.now()) for delivery in deliveries])


def _delivery_cells(one: "Delivery", zone: str, *, now: "datetime") -> list[str]:
    again = f"; retry {full_time(one.next_at, zone, now=now, seconds=True)}" if one.next_at and one.attempts else ""
    told = "exit 0" if one.answer == 0 else str(one.answer or "")
    answer = plain(one.error or "") or told
    when = full_time(one.created_at, zone, now=now, seconds=True)
    tried = [one.id[-SHORT:], when, one.event.value, one.handle or "–", one.target, one.status.value, str(one.attempts)]
    return [*tried, f"{answer}{again}"]


@deliveries_command.command("retry", cls=RotaCommand)
@click.argument("ids", metavar="[ID…]", nargs=-1)
@click.option("--failed", is_flag=True, help="Retry all notifications that failed permanently.")
@dry_run_option
@click.pass_obj
def retry(invocation: Invocation, *, ids: tuple[str, ...], failed: bool, dry_run: bool) -> None:
    """Send notifications again, under their own ids: those that end with ID, or all that failed."""
    from rota.operations.notifications import retry_deliveries
    from rota.operations.status.heartbeat import serves

    if not ids and not failed:
        raise click.UsageError("name deliveries, or pass --failed")
    with invocation.store() as (place, store):
        deliveries = retry_deliveries(store, ids, failed=failed, now=invocation.now(), dry_run=dry_run)
        if deliveries and not dry_run:
            invocation.wake()
        served = serves(place.state)
    if invocation.as_json:
        print_json({"dry_run": dry_run, "retried": [delivery_json(delivery) for delivery in deliveries]})
        return
    for delivery in deliveries:
        click.echo(f"{delivery.event} of {delivery.handle} to {delivery.target}: queued again")
    click.echo(UNCHANGED if dry_run else _told(len(deliveries), served=served))


def _told(count: int, *, served: bool) -> str:
    if not count:
        return "nothing to resend"
    return "the running scheduler sends them" if served else "no scheduler is running; the next one sends them"
