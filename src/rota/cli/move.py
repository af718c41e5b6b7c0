"""`rota move`: change the place of queued runs."""

from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json

if TYPE_CHECKING:
    from rota.operations.changing import Destination, Moved


@click.command("move", cls=RotaCommand)
@click.argument("runs", metavar="RUN…", nargs=-1, required=True)
@click.option("--first", is_flag=True, help="Before all others of their priority.")
@click.option("--last", is_flag=True, help="Behind all others of their priority.")
@click.option("--before", metavar="RUN", help="Just before this run, of the same priority.")
@click.option("--to", "place", metavar="N", type=int, help="To this place as `rota queue` counts it, 1 to 1000.")
@dry_run_option
@click.pass_obj
def command(
    invocation: Invocation,
    *,
    runs: tuple[str, ...],
    first: bool,
    last: bool,
    before: str | None,
    place: int | None,
    dry_run: bool,
) -> None:
    """Move queued RUNs to another place, in the order in which they are named. They stay within their priority."""
    from rota.operations.changing import move_runs

    destination = _destination(first=first, last=last, before=before, place=place)
    with invocation.store() as (_, store):
        moved = move_runs(store, runs, destination, now=invocation.now(), dry_run=dry_run)
    _tell(invocation, moved, dry_run=dry_run)


def _destination(*, first: bool, last: bool, before: str | None, place: int | None) -> "Destination":
    from rota.engine.move import Where
    from rota.operations.changing import Destination

    given = [
        *([Destination(Where.FIRST)] if first else []),
        *([Destination(Where.LAST)] if last else []),
        *([Destination(Where.BEFORE, other=before)] if before is not None else []),
        *([Destination(Where.TO, place=place)] if place is not None else []),
    ]
    if len(given) != 1:
        raise click.UsageError("say where to: one of --first, --last, --before RUN, --to N")
    return given[0]


def _tell(invocation: Invocation, moved: "list[Moved]", *, dry_run: bool) -> None:
    from rota.operations.answers import moved_json

    if invocation.as_json:
        print_json(moved_json(moved, dry_run=dry_run))
        return
    for one in moved:
        note = f": {one.note}" if one.note else ""
        click.echo(f"{one.run.handle}  {place_words(one)}{note}")
    if dry_run:
        click.echo("nothing was changed (--dry-run)")


def place_words(one: "Moved") -> str:
    """Return where a run stands now."""
    if one.run.waiting_for is not None:
        return f"moved; it still waits for {one.run.waiting_for}"
    return "place 1000+" if one.place is None else f"place {one.place}"
