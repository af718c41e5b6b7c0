"""`rota queue`, `move` and `edit`."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from rota.cli.commands.run import param_option, read_params
from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json, tell_unchanged
from rota.cli.output import Column, print_table
from rota.text.format import roughly

if TYPE_CHECKING:
    from rota.cli.output import Cell
    from rota.model.records import Run
    from rota.operations.direct_calls import DirectView
    from rota.operations.queue import QueueView, ReadyRun
    from rota.operations.run_actions import Destination, Edited, ReorderedRun


LIMIT = 20
MAX_POSITION = 1000


@click.command("queue", cls=RotaCommand)
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(1, MAX_POSITION),
    default=LIMIT,
    show_default=True,
    help="Maximum number of lines in each section.",
)
@click.pass_obj
def queue_command(invocation: Invocation, *, limit: int) -> None:
    """Show the queue: waiting direct calls, then ready runs in order, then blocked runs."""
    from rota.operations.queue import look_at_queue, queue_json

    now = invocation.now()
    with invocation.store() as (place, store):
        view = _covered(
            invocation, look_at_queue(store, place.state, limit=MAX_POSITION if place.scope else limit, now=now), limit
        )
        zone = invocation.zone(store)
    if invocation.as_json:
        print_json(queue_json(view))
        return
    invocation.tell_scope()
    if not (view.direct or view.ready or view.waiting):
        click.echo("the queue is empty")
        return
    for line in _head(view, zone, now=now):
        click.echo(line)
    _show(view, zone, now=now)


def _covered(invocation: Invocation, view: "QueueView", limit: int) -> "QueueView":
    """Return the visible queue: inside an included project only its own runs, with their positions."""
    if not invocation.place().scope:
        return view
    ready = [ready_run for ready_run in view.ready if invocation.covers(ready_run.run.job)]
    waiting = [run for run in view.waiting if invocation.covers(run.job)]
    return replace(
        view,
        direct=tuple(call for call in view.direct if invocation.covers(call.name)),
        ready=tuple(ready[:limit]),
        waiting=tuple(waiting[:limit]),
        ready_count=len(ready),
        waiting_count=len(waiting),
    )


def _head(view: "QueueView", zone: str, *, now: datetime) -> Iterator[str]:
    from rota.operations.queue import COUNTED, hold_words
    from rota.operations.text import pause_words

    if view.pause is not None:
        told = pause_words(view.pause.until, view.pause.reason, zone=zone, now=now)
        yield f"everything is paused{told}; continue with `rota resume --all`"
    ready, waiting = (f"{count:,}{'+' * (count >= COUNTED)}" for count in (view.ready_count, view.waiting_count))
    yield f"{ready} ready, {waiting} waiting"
    if view.ready:
        head = view.ready[0]
        yield f"first: {head.run.handle}, {hold_words(head, view, zone=zone, now=now)}"


def _show(view: "QueueView", zone: str, *, now: datetime) -> None:
    columns = ("PLACE", "RUN", "SINCE", "PRIORITY", "POOLS", Column("WHY", flexible=True))
    rows = [
        *(_direct(call, now=now) for call in view.direct),
        *(_ready(ready_run, view, zone, now=now) for ready_run in view.ready),
        *(_waiting(run, view, zone, now=now) for run in view.waiting),
    ]
    print_table(columns, rows)
    if view.ready_count > len(view.ready) or view.waiting_count > len(view.waiting):
        click.echo("more with --limit")


def _direct(call: "DirectView", *, now: datetime) -> "list[Cell | str]":
    why = f"served before the queue (pid {call.caller.pid})"
    return ["direct", call.name, roughly(now - call.asked_at), "", "", why]


def _ready(one: "ReadyRun", view: "QueueView", zone: str, *, now: datetime) -> "list[Cell | str]":
    from rota.operations.queue import draw_words, hold_words

    since, why = roughly(now - one.run.created_at), hold_words(one, view, zone=zone, now=now)
    return [str(one.place), one.run.handle, since, str(one.run.priority), draw_words(one), why]


def _waiting(run: "Run", view: "QueueView", zone: str, *, now: datetime) -> "list[Cell | str]":
    from rota.operations.queue import waiting_words

    since, why = roughly(now - run.created_at), waiting_words(run, view, zone=zone, now=now)
    return ["–", run.handle, since, str(run.priority), "", why]


@click.command("move", cls=RotaCommand)
@click.argument("runs", metavar="RUN…", nargs=-1, required=True)
@click.option("--first", is_flag=True, help="To the front of their priority.")
@click.option("--last", is_flag=True, help="To the end of their priority.")
@click.option("--before", metavar="RUN", help="Directly before this run of the same priority.")
@click.option("--to", "place", metavar="N", type=int, help="To this position in `rota queue`, 1 to 1000.")
@dry_run_option
@click.pass_obj
def move_command(
    invocation: Invocation,
    *,
    runs: tuple[str, ...],
    first: bool,
    last: bool,
    before: str | None,
    place: int | None,
    dry_run: bool,
) -> None:
    """Move queued RUNs to another position, in the given order. They stay within their priority."""
    from rota.operations.run_actions import move_runs

    destination = _destination(first=first, last=last, before=before, place=place)
    with invocation.store() as (_, store):
        moved = move_runs(store, runs, destination, now=invocation.now(), dry_run=dry_run)
    _tell(invocation, moved, dry_run=dry_run)


def _destination(*, first: bool, last: bool, before: str | None, place: int | None) -> "Destination":
    from rota.engine.transactions.enqueue import Where
    from rota.operations.run_actions import Destination

    destinations = [
        *([Destination(Where.FIRST)] if first else []),
        *([Destination(Where.LAST)] if last else []),
        *([Destination(Where.BEFORE, other=before)] if before is not None else []),
        *([Destination(Where.TO, place=place)] if place is not None else []),
    ]
    if len(destinations) != 1:
        raise click.UsageError("give one of --first, --last, --before RUN, --to N")
    return destinations[0]


def _tell(invocation: Invocation, moved: "list[ReorderedRun]", *, dry_run: bool) -> None:
    from rota.operations.bulk import moved_json

    if invocation.as_json:
        print_json(moved_json(moved, dry_run=dry_run))
        return
    for reordered_run in moved:
        note = f": {reordered_run.note}" if reordered_run.note else ""
        click.echo(f"{reordered_run.run.handle}  {place_words(reordered_run)}{note}")
    tell_unchanged(dry_run=dry_run)


def place_words(one: "ReorderedRun") -> str:
    """Return the queue position of a run."""
    if one.run.waiting_for is not None:
        return f"moved; it still waits for {one.run.waiting_for}"
    return "place 1000+" if one.place is None else f"place {one.place}"


@click.command("edit", cls=RotaCommand)
@click.argument("run")
@param_option
@click.option("--priority", type=int, metavar="N", help="Priority, -1000 to 1000; higher runs first.")
@dry_run_option
@click.pass_obj
def edit_command(
    invocation: Invocation, *, run: str, params: tuple[str, ...], priority: int | None, dry_run: bool
) -> None:
    """Edit a queued RUN: its params before its first dispatch, its priority before its start."""
    from rota.operations.run_actions import edit_run

    given = read_params(params)
    with invocation.store() as (_, store):
        edited = edit_run(store, run, params=given, priority=priority, now=invocation.now(), dry_run=dry_run)
    _print_edited(invocation, edited, sorted(given), dry_run=dry_run)


def _print_edited(invocation: Invocation, edited: "Edited", names: list[str], *, dry_run: bool) -> None:
    from rota.operations.bulk import edited_json

    run = edited.run
    if invocation.as_json:
        print_json(edited_json(edited, dry_run=dry_run))
        return
    changed = [f"{name} = {run.params[name]!r}" for name in names]
    if run.priority != edited.before.priority:
        changed.append(f"priority {edited.before.priority} → {run.priority}")
    waits = f"waits for {run.waiting_for}" if run.waiting_for else f"place {edited.place or '1000+'}"
    click.echo(f"{run.handle}  {', '.join(changed) or 'unchanged'}; {waits}")
    tell_unchanged(dry_run=dry_run)
