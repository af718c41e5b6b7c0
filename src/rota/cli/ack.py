"""`rota ack`: what needs somebody, and keeping it quiet until something new happens."""

from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.operations.attention import Need
    from rota.operations.project import Place
    from rota.store.driver import Store


@click.command("ack", cls=RotaCommand)
@click.argument("what", metavar="[WHAT…]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Everything that needs attention now.")
@click.option("--undo", is_flag=True, help="Show it again.")
@dry_run_option
@click.pass_obj
def command(invocation: Invocation, *, what: tuple[str, ...], everything: bool, undo: bool, dry_run: bool) -> None:
    """Acknowledge WHAT needs attention: a job, a run or another name that `rota status` shows.

    It stays quiet, here and on the dashboard, until something new happens to it, such as the next failure.
    Without WHAT: list what needs attention and what was acknowledged.
    """
    if what and everything:
        raise click.UsageError("name what is meant, or pass --all, not both")
    if undo and not what and not everything:
        raise click.UsageError("--undo needs a name, or --all")
    with invocation.store() as (place, store):
        needs = _needs(invocation, place, store)
        if what or everything:
            _change(invocation, store, needs, what=what, undo=undo, dry_run=dry_run)
        else:
            _list(invocation, needs)


def _needs(invocation: Invocation, place: "Place", store: "Store") -> "tuple[Need, ...]":
    from rota.operations.jobs import project_timezone
    from rota.operations.system import heartbeat, needs_of

    beat, zone = heartbeat(place.state), project_timezone(store)
    return needs_of(store, beat=beat, zone=zone, now=invocation.now(), scope=place.scope)


def _change(
    invocation: Invocation, store: "Store", needs: "Sequence[Need]", *, what: tuple[str, ...], undo: bool, dry_run: bool
) -> None:
    from rota.operations.attention import need_json
    from rota.operations.needs import acknowledge, chosen_among, point_out
    from rota.operations.trail import person

    scope = invocation.place().scope
    known = {name for one in needs for name in (one.attention.name, one.attention.subject)}
    names = [f"{scope}/{name}" if scope and f"{scope}/{name}" in known else name for name in what]
    chosen = [one for one in chosen_among(needs, names, everything=not what) if (one.seen is not None) == undo]
    if chosen and not dry_run and undo:
        point_out(store, [one.attention.topic for one in chosen])
    elif chosen and not dry_run:
        chosen = list(acknowledge(store, chosen, needs=needs, actor=person(), now=invocation.now()))
    if invocation.as_json:
        print_json({"items": [need_json(one) for one in chosen], "dry_run": dry_run})
        return
    for one in chosen:
        click.echo(_told(one, undo=undo, dry_run=dry_run))
    if not chosen:
        click.echo(f"nothing to change: {'nothing of it was' if undo else 'all of it was already'} acknowledged")


def _told(need: "Need", *, undo: bool, dry_run: bool) -> str:
    from rota.cli.words import plain

    would = "would be" if dry_run else "is"
    done = "shown again" if undo else "quiet until something new happens"
    return f"{need.attention.name} {would} {done} ({need.attention.kind}: {plain(need.attention.what)})"


def _list(invocation: Invocation, needs: "Sequence[Need]") -> None:
    from rota.cli.tables import Column, print_table
    from rota.cli.words import plain
    from rota.operations.attention import need_json
    from rota.rules.times import ago

    if invocation.as_json:
        print_json([need_json(one) for one in needs])
        return
    invocation.tell_scope()
    if not needs:
        click.echo("nothing needs attention")
        return
    rows = []
    for one in needs:
        seen = f"{ago(one.seen.at, invocation.now())} ago by {one.seen.actor}" if one.seen else ""
        rows.append([one.attention.name, one.attention.kind, seen, plain(one.attention.what)])
    titles = [Column("NAME"), Column("KIND"), Column("ACKNOWLEDGED"), Column("WHAT", flexible=True)]
    print_table(titles, rows)
    click.echo("keep one quiet until something new happens: rota ack NAME   show it again: rota ack --undo NAME")
