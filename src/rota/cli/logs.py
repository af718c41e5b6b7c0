"""`rota logs`: the output of a run or of a direct call."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json
from rota.cli.search import show_matches

if TYPE_CHECKING:
    from rota.model.spec import JobSpec
    from rota.operations.project import Place
    from rota.store.driver import Store

LOOK_AGAIN = 0.2


@dataclass(frozen=True, slots=True)
class Source:
    """Whose output is read, how it stands, why there is nothing to read, if so, and whether anybody will end it."""

    id: str
    name: str
    status: str
    final: bool
    note: str | None
    attended: bool
    spec: "JobSpec | None" = None


Look = Callable[[], Source]


@click.command("logs", cls=RotaCommand)
@click.argument("run", metavar="[RUN]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on until the run is finished.")
@click.option("--tail", "lines", metavar="N", type=click.IntRange(0), help="Only the last N lines.")
@click.option("--raw", is_flag=True, help="As it was written, with control characters; of an agent, its events.")
@click.option(
    "--grep", "text", metavar="TEXT", help="Lines that hold this text, in any case: of all runs, or of a JOB."
)
@click.option("--since", metavar="TIME", help="With --grep: only runs from then on (30d, 2h, yesterday, 2026-11-15).")
@click.option("--limit", type=click.IntRange(1, 10_000), default=200, show_default=True, help="With --grep: how many.")
@click.pass_obj
def command(
    invocation: Invocation,
    *,
    run: str | None,
    follow: bool,
    lines: int | None,
    raw: bool,
    text: str | None,
    since: str | None,
    limit: int,
) -> None:
    """Print the output of a RUN (JOB:NUMBER; JOB alone is its newest that started; a direct call by its identifier)."""
    if text is not None:
        if follow or raw or lines is not None:
            raise click.UsageError("--grep goes with none of --follow, --tail and --raw")
        show_matches(invocation, text, name=run, since=since, limit=limit)
        return
    if run is None or since:
        raise click.UsageError("--since belongs to --grep" if since else "name a RUN, or look for a text with --grep")
    if follow and invocation.as_json:
        raise click.UsageError("--follow and --json do not go together")
    with invocation.store() as (place, store):
        look = _look_at(invocation, place, store, _meant(invocation, store, run, follow=follow))
        source = look()
        if invocation.as_json:
            print_json({"run": source.name, "output": _text(place, source, lines, raw=raw), "note": source.note})
        elif follow and not source.final:
            _follow(invocation, place, look, lines, raw=raw)
        else:
            _print(place, source, lines, raw=raw)


def _meant(invocation: Invocation, store: "Store", name: str, *, follow: bool) -> str:
    """Return the run whose output is meant: of a job alone not one that never started, such as a skipped instant."""
    from rota.model.ids import is_id
    from rota.operations.runs import find_run, find_started, find_unfinished

    if is_id(name):
        return name
    newest = store.read(partial(find_run, handle=name))
    awaited = store.read(partial(find_unfinished, handle=name)) if follow else newest
    meant = awaited if follow and not awaited.status.final else store.read(partial(find_started, handle=name))
    if meant.id != newest.id and not invocation.as_json:
        reason = f" {newest.reason}" if newest.reason else ""
        click.echo(f"rota: this is {meant.handle}; {newest.handle} is {newest.status.shown}{reason}", err=True)
    return meant.id


def _look_at(invocation: Invocation, place: "Place", store: "Store", name: str) -> Look:
    """Return a look at a run, or at a direct call."""
    from rota.model.ids import is_id
    from rota.operations.direct_calls import direct_spec, direct_view
    from rota.operations.output import fetch_output, why_no_output, why_no_output_of_call
    from rota.operations.runs import show_run
    from rota.operations.system import attended, serves

    called = direct_view(store, name) if is_id(name) else None
    first = show_run(store, name) if called is None else None
    run_id = first.run.id if first is not None else name

    def look() -> Source:
        now = invocation.now()
        call = direct_view(store, run_id) if called is not None else None
        if call is not None:
            note = why_no_output_of_call(place.state, call)
            spec = direct_spec(store, call)
            return Source(call.id, call.name, call.status.shown, call.status.final, note, serves(place.state), spec)
        view = show_run(store, run_id)
        fetch_output(store, place.state, view)
        note = why_no_output(place.state, view, now=now)
        lives = attended(store, place.state, now=now, run=view.run)
        run = view.run
        return Source(run_id, run.handle, run.status.shown, run.status.final, note, lives, view.spec)

    return look


def _text(place: "Place", source: Source, lines: int | None, *, raw: bool) -> str:
    from rota.operations.output import output_of
    from rota.rules.ansi import clean_for_terminal

    text = b"".join(output_of(place.state, source.id, lines=lines)).decode("utf-8", "replace")
    return text if raw else clean_for_terminal(text)


def _print(place: "Place", source: Source, lines: int | None, *, raw: bool) -> None:
    from rota.operations.output import follow, output_of, teller_of

    if source.note is not None:
        click.echo(f"rota: {source.note}", err=True)
    elif raw:
        sys.stdout.flush()
        for chunk in output_of(place.state, source.id, lines=lines):
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
    elif lines is not None and teller_of(source.spec) is None:
        click.echo(_text(place, source, lines, raw=False), nl=False)
    else:
        found = follow(place.state, source.id, spec=source.spec).rest()
        _print_last(found, lines)
        if not found:
            click.echo(f"rota: {source.name} said nothing; what it printed: rota logs --raw {source.name}", err=True)


def _print_lines(lines: list[str]) -> None:
    for line in lines:
        click.echo(line, color=True)


def _follow(invocation: Invocation, place: "Place", look: Look, lines: int | None, *, raw: bool) -> None:
    from rota.operations.output import follow

    source = look()
    reader = follow(place.state, source.id, raw=raw, spec=source.spec)
    _print_last(reader.lines(), lines)
    while not source.final:
        if not source.attended:
            _print_lines(reader.rest())
            click.echo(f"rota: {source.name} is {source.status}, and no scheduler is running here", err=True)
            return
        invocation.pause(LOOK_AGAIN)
        source = look()
        _print_lines(reader.lines())
    _print_lines(reader.rest())


def _print_last(found: list[str], lines: int | None) -> None:
    _print_lines(found if lines is None else found[max(len(found) - lines, 0) :] if lines else [])
