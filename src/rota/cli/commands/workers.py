"""`rota workers`: the machines that run jobs; take one out of service, or off the list."""

from functools import partial
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json, tell_unchanged
from rota.cli.main import listing_group
from rota.cli.output import Cell, Column, print_table
from rota.rules.queue_order import say_takes
from rota.text.format import ago, full_time

if TYPE_CHECKING:
    from datetime import datetime

    from rota.operations.workers import WorkerState

DOES = {
    (True, False): "finishes its runs and claims no more",
    (True, True): "would finish its runs and claim no more",
    (False, False): "claims runs again",
    (False, True): "would claim runs again",
}
"""The state of a worker that is drained or not, now and in a dry run."""
COLOURS = {"alive": "green", "draining": "yellow", "gone": "red"}


@listing_group("workers", metavar="[drain | resume | forget NAME]")
@click.option("--label", "labels", metavar="K=V", multiple=True, help="Only workers with this label. Repeatable.")
def workers_command(invocation: Invocation, *, labels: tuple[str, ...]) -> None:
    """List workers: state, accepted pools, used slots."""
    from rota.operations.workers import read_labels, worker_json, worker_states

    wanted = read_labels(labels).items()
    with invocation.store() as (place, store):
        states = store.read(partial(worker_states, state=place.state))
        zone = invocation.zone(store)
    workers = [worker for worker in states if wanted <= worker.worker.labels.items()]
    if invocation.listed(workers, worker_json, none="no worker has that label" if labels else "no worker"):
        return
    titles = ("NAME", "STATE", "SLOTS", "ROLE", f"SINCE ({zone})", "LAST SEEN", "POOLS", "LABELS")
    columns = (*titles, Column("WHERE", flexible=True))
    print_table(columns, [_cells(worker, zone, now=invocation.now()) for worker in workers])


def _cells(one: "WorkerState", zone: str, *, now: "datetime") -> "list[Cell | str]":
    state = one.presence.value
    name = f"{one.worker.called} (here)" if one.here else one.worker.called
    slots = f"{one.taken} of {one.slots}" if one.slots is not None and one.kinds else str(one.taken or "–")
    since = full_time(one.since, zone, now=now) if one.since else "–"
    seen = f"{ago(one.seen_at, now)} ago" if one.seen_at else "now" if one.kinds else "–"
    labels = ", ".join(f"{key}={value}" for key, value in sorted(one.worker.labels.items())) or "–"
    wrong = one.skew is not None
    cell = Cell(f"{state}, clock wrong" if wrong else state, "red" if wrong else COLOURS[state])
    does = ", ".join(one.kinds) or "–"
    where = f"{one.worker.host}:{one.worker.state}"
    return [name, cell, slots, does, since, seen, say_takes(one.takes), labels, where]


@workers_command.command("drain", cls=RotaCommand)
@click.argument("name")
@dry_run_option
@click.pass_obj
def drain(invocation: Invocation, *, name: str, dry_run: bool) -> None:
    """Drain a worker: it finishes its runs and claims no new ones until `rota workers resume`."""
    _change(invocation, name, draining=True, dry_run=dry_run)


@workers_command.command("resume", cls=RotaCommand)
@click.argument("name")
@dry_run_option
@click.pass_obj
def resume(invocation: Invocation, *, name: str, dry_run: bool) -> None:
    """Resume a drained worker: it claims runs again."""
    _change(invocation, name, draining=False, dry_run=dry_run)


def _change(invocation: Invocation, name: str, *, draining: bool, dry_run: bool) -> None:
    from rota.operations.group_actions import drain_worker

    with invocation.changing(dry_run=dry_run) as store:
        changed = drain_worker(store, name, draining=draining, dry_run=dry_run)
    if invocation.as_json:
        print_json({"worker": name, "draining": draining, "changed": changed, "dry_run": dry_run})
        return
    already = "is already draining" if draining else "already claims runs"
    click.echo(f"{name} {DOES[draining, dry_run] if changed else already}")
    tell_unchanged(dry_run=dry_run)


@workers_command.command("forget", cls=RotaCommand)
@click.argument("name")
@dry_run_option
@click.pass_obj
def forget(invocation: Invocation, *, name: str, dry_run: bool) -> None:
    """Remove a dead worker from the list; its unfinished runs fail as worker_lost and are retried."""
    from rota.operations.group_actions import forget_worker

    with invocation.changing(dry_run=dry_run) as store:
        ended = forget_worker(store, invocation.place().state, name, now=invocation.now(), dry_run=dry_run)
    if invocation.as_json:
        print_json({"worker": name, "forgotten": not dry_run, "runs_failed": ended, "dry_run": dry_run})
        return
    done, failed = ("would be", "would fail") if dry_run else ("is", "failed")
    click.echo(f"{name} {done} forgotten" + (f"; {ended} of its runs {failed} as worker_lost" if ended else ""))
    tell_unchanged(dry_run=dry_run)
