"""`rota logs`: the output of a run."""

import sys
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json

if TYPE_CHECKING:
    from rota.model.records import Run
    from rota.operations.output import Follower
    from rota.operations.project import Place
    from rota.operations.runs import RunView
    from rota.store.driver import Store

LOOK_AGAIN = 0.2


@click.command("logs", cls=RotaCommand)
@click.argument("run", metavar="RUN")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run is finished.")
@click.option("--tail", "lines", metavar="N", type=click.IntRange(0), help="Only the last N lines.")
@click.option("--raw", is_flag=True, help="As it was written, with control characters.")
@click.pass_obj
def command(invocation: Invocation, *, run: str, follow: bool, lines: int | None, raw: bool) -> None:
    """Print the output of a RUN (JOB:NUMBER; JOB alone is its newest run)."""
    from rota.operations.output import why_no_output
    from rota.operations.runs import show_run

    if follow and invocation.as_json:
        raise click.UsageError("--follow and --json do not go together")
    with invocation.store() as (place, store):
        view = show_run(store, run)
        if invocation.as_json:
            note = why_no_output(place.state, view, now=invocation.now())
            print_json({"run": view.run.handle, "output": _text(place, view, lines, raw=raw), "note": note})
        elif follow and not view.run.status.final:
            _follow(invocation, place, store, view.run, lines, raw=raw)
        else:
            _print(invocation, place, view, lines, raw=raw)


def _text(place: "Place", view: "RunView", lines: int | None, *, raw: bool) -> str:
    from rota.operations.output import output_of
    from rota.runners.output import clean_for_terminal

    text = b"".join(output_of(place.state, view.run.id, lines=lines)).decode("utf-8", "replace")
    return text if raw else clean_for_terminal(text)


def _print(invocation: Invocation, place: "Place", view: "RunView", lines: int | None, *, raw: bool) -> None:
    from rota.operations.output import follow, output_of, why_no_output

    note = why_no_output(place.state, view, now=invocation.now())
    if note is not None:
        click.echo(f"rota: {note}", err=True)
    elif raw:
        sys.stdout.flush()
        for chunk in output_of(place.state, view.run.id, lines=lines):
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
    elif lines is not None:
        click.echo(_text(place, view, lines, raw=False), nl=False)
    else:
        _print_lines(follow(place.state, view.run.id).rest())


def _print_lines(lines: list[str]) -> None:
    for line in lines:
        click.echo(line, color=True)


def _follow(
    invocation: Invocation, place: "Place", store: "Store", run: "Run", lines: int | None, *, raw: bool
) -> None:
    from rota.operations.output import follow
    from rota.operations.runs import show_run
    from rota.operations.system import serves

    reader = follow(place.state, run.id, raw=raw)
    _catch_up(reader, lines)
    while not run.status.final:
        if not serves(place.state):
            _print_lines(reader.rest())
            click.echo(f"rota: {run.handle} is {run.status.shown}, and no scheduler is running here", err=True)
            return
        invocation.pause(LOOK_AGAIN)
        run = show_run(store, run.id).run
        _print_lines(reader.lines())
    _print_lines(reader.rest())


def _catch_up(reader: "Follower", lines: int | None) -> None:
    found = reader.lines()
    _print_lines(found if lines is None else found[len(found) - lines :] if lines else [])
