"""`rota migrate`: move everything between SQLite and PostgreSQL."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from rota.cli.errors import INTERRUPTED
from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json
from rota.cli.streams import direct_stream

if TYPE_CHECKING:
    from pathlib import Path

    from rota.operations.moving import Moved, Spot, Telling

SHOWN = 10
"""So many violations are shown."""


@click.command("migrate", cls=RotaCommand)
@click.option(
    "--from", "source", metavar="STORE", help="sqlite:PATH or postgresql://…; else the store of this project."
)
@click.option(
    "--to", "target", metavar="STORE", required=True, help="sqlite:PATH or postgresql://…: where all of it goes."
)
@click.option("--restart", is_flag=True, help="Drop what an interrupted move copied, and begin anew.")
@dry_run_option
@click.pass_obj
def command(invocation: Invocation, *, source: str | None, target: str, restart: bool, dry_run: bool) -> int:
    """Copy every table from one database to the other, in batches, and compare both; the source stays as it was.

    PATH is a state folder, or a project. No scheduler may be at work on either side, and the target must be empty. A
    move that was interrupted goes on when the same command is given again.
    """
    from rota.operations.moving import move, preview

    begins, ends = _spot(invocation, source), _spot(invocation, target)
    if dry_run:
        _tell_counts(invocation, begins, ends, preview(begins, ends, clock=invocation.clock))
        return 0
    try:
        with _progress(invocation) as tell:
            moved = move(begins, ends, clock=invocation.clock, tell=tell, restart=restart)
    except KeyboardInterrupt:
        click.echo("interrupted; the same command goes on where it was", err=True)
        return INTERRUPTED
    if invocation.as_json:
        _print(moved)
    else:
        _tell(invocation, moved)
    return 0 if moved.report.clean else 1


def _spot(invocation: Invocation, text: str | None) -> "Spot":
    """Return an end of the move; outside of a project both must be named in full."""
    from rota.model.errors import ProjectMissing
    from rota.operations.moving import Spot, read_spot

    state: Path | None
    try:
        place = invocation.own_place("migrate")
        state = place.state
        if text is None:
            return Spot(state, place.store)
    except ProjectMissing:
        if text is None:
            raise
        state = None
    return read_spot(text, cwd=invocation.cwd, state=state, environ=invocation.environ)


@contextlib.contextmanager
def _progress(invocation: Invocation) -> "Iterator[Telling]":
    """Show how far the move is: a bar on a terminal, a line for each table elsewhere, nothing beside JSON."""
    if invocation.as_json:
        yield lambda *_: None
    elif sys.stdout.isatty():
        with _bar() as tell:
            yield tell
    else:
        yield _tell_line


def _tell_line(doing: str, table: str, done: int, total: int) -> None:
    if done == total > 0 and doing == "copies":
        click.echo(f"{table:<16} {total:>10,} rows")


@contextlib.contextmanager
def _bar() -> "Iterator[Callable[[str, str, int, int], None]]":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:<26}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=direct_stream(sys.stdout)), transient=True) as shown:
        task = shown.add_task("", total=None)

        def tell(doing: str, table: str, done: int, total: int) -> None:
            shown.update(task, description=f"{doing} {table}", completed=done, total=total)

        yield tell


def _tell_counts(invocation: Invocation, source: "Spot", target: "Spot", counts: dict[str, int]) -> None:
    if invocation.as_json:
        print_json({"dry_run": True, "from": source.place, "to": target.place, "tables": counts})
        return
    for name, count in counts.items():
        _tell_line("copies", name, count, count)
    total = sum(counts.values())
    click.echo(f"would move {total:,} rows from {source.place} to {target.place}; nothing was changed (--dry-run)")


def _print(moved: "Moved") -> None:
    from rota.operations.auditing.report import report_json

    print_json(
        {
            "dry_run": False,
            "from": moved.source.place,
            "to": moved.target.place,
            "store": moved.target.written,
            "resumed": moved.resumed,
            "replaced": moved.replaced,
            "tables": [{"name": table.name, "rows": table.rows, "digest": table.digest} for table in moved.tables],
            "verify": report_json(moved.report),
        }
    )


def _tell(invocation: Invocation, moved: "Moved") -> None:
    from rota.cli.words import counted, plain

    again = ", going on with an earlier move" if moved.resumed else ""
    click.echo(f"copied {moved.rows:,} rows in {len(moved.tables)} tables{again}; checksums are equal on both sides")
    if moved.replaced:
        had = counted(moved.replaced, "row")
        click.echo(f"{had} had NUL characters in texts; PostgreSQL cannot hold them: U+FFFD stands there now")
    found = moved.report.violations
    click.echo(f"rota verify on {moved.target.place}: {counted(len(found), 'violation') if found else 'clean'}")
    for one in found[:SHOWN]:
        click.echo(f"  {one.check.value}  {one.where}  {plain(one.text)}")
    if found:
        click.echo("the source has the same rows, so they are not of this move; `rota verify` shows all")
    click.echo("now write in rota.yaml, or set ROTA_STORE:\n")
    click.echo(f"    store: {moved.target.written}")
    if not moved.target.shared and moved.target.state != _own_state(invocation):
        click.echo(f"    state: {moved.target.state}")
    click.echo(f"\n{moved.source.place} stays as it was; a scheduler that serves it says that it was moved")
    if not moved.source.shared:
        click.echo(f"output files stay where they are, in {moved.source.state}")


def _own_state(invocation: Invocation) -> "Path | None":
    from rota.model.errors import ProjectMissing

    try:
        return invocation.place().state
    except ProjectMissing:
        return None
