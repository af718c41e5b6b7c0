"""`rota queue`: what waits, in order, and why the first does not run."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json

if TYPE_CHECKING:
    from rota.cli.tables import Cell
    from rota.model.records import Run
    from rota.operations.direct_calls import DirectView
    from rota.operations.queue import QueueView, Standing

LIMIT = 20
MOST = 1000


@click.command("queue", cls=RotaCommand)
@click.option(
    "--limit", "-n", type=click.IntRange(1, MOST), default=LIMIT, show_default=True, help="How many lines of each."
)
@click.pass_obj
def command(invocation: Invocation, *, limit: int) -> None:
    """Show what waits: direct callers first, then runs that may start, in order, then those that wait."""
    from rota.operations.jobs import project_timezone
    from rota.operations.queue import look_at_queue, queue_json

    now = invocation.now()
    with invocation.store() as (place, store):
        view = _covered(
            invocation, look_at_queue(store, place.state, limit=MOST if place.scope else limit, now=now), limit
        )
        zone = project_timezone(store)
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
    """Return what of the queue is shown here: inside an included project only its own runs, at their places."""
    from dataclasses import replace

    if not invocation.place().scope:
        return view
    ready = [one for one in view.ready if invocation.covers(one.run.job)]
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
    from rota.cli.words import pause_words
    from rota.operations.queue import COUNTED, hold_words

    if view.pause is not None:
        told = pause_words(view.pause.until, view.pause.reason, zone=zone, now=now)
        yield f"everything is paused{told}; go on with `rota resume --all`"
    ready, waiting = (f"{count:,}{'+' * (count >= COUNTED)}" for count in (view.ready_count, view.waiting_count))
    yield f"{ready} ready, {waiting} waiting for something"
    if view.ready:
        head = view.ready[0]
        yield f"first: {head.run.handle}, {hold_words(head, view, zone=zone, now=now)}"


def _show(view: "QueueView", zone: str, *, now: datetime) -> None:
    from rota.cli.tables import Column, print_table

    columns = [*(Column(name) for name in ("PLACE", "RUN", "SINCE", "PRIORITY", "POOLS")), Column("WHY", flexible=True)]
    rows = [
        *(_direct(call, now=now) for call in view.direct),
        *(_ready(one, view, zone, now=now) for one in view.ready),
        *(_waiting(run, view, zone, now=now) for run in view.waiting),
    ]
    print_table(columns, rows)
    if view.ready_count > len(view.ready) or view.waiting_count > len(view.waiting):
        click.echo("more with --limit")


def _direct(call: "DirectView", *, now: datetime) -> "list[Cell | str]":
    from rota.rules.times import roughly

    return [
        "direct",
        call.name,
        roughly(now - call.asked_at),
        "",
        "",
        f"served before the queue (pid {call.caller.pid})",
    ]


def _ready(one: "Standing", view: "QueueView", zone: str, *, now: datetime) -> "list[Cell | str]":
    from rota.operations.queue import draw_words, hold_words
    from rota.rules.times import roughly

    since, why = roughly(now - one.run.created_at), hold_words(one, view, zone=zone, now=now)
    return [str(one.place), one.run.handle, since, str(one.run.priority), draw_words(one), why]


def _waiting(run: "Run", view: "QueueView", zone: str, *, now: datetime) -> "list[Cell | str]":
    from rota.operations.queue import waiting_words
    from rota.rules.times import roughly

    since, why = roughly(now - run.created_at), waiting_words(run, view, zone=zone, now=now)
    return ["–", run.handle, since, str(run.priority), "", why]
