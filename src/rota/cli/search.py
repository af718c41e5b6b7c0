"""What `rota logs --grep` shows: lines of output that hold a text, over many runs."""

from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, print_json

if TYPE_CHECKING:
    from rota.operations.searching import Found


def show_matches(invocation: Invocation, text: str, *, name: str | None, since: str | None, limit: int) -> None:
    """Print the lines that hold `text`, of one run, of a job's runs or of all, newest runs first."""
    from rota.operations.jobs import project_timezone
    from rota.operations.searching import search_output
    from rota.rules.times import read_instant

    with invocation.store() as (place, store):
        start = read_instant(since, project_timezone(store), now=invocation.now()) if since else None
        found = search_output(store, place.state, text, name=name, labels=invocation.labels(), since=start, limit=limit)
    if invocation.as_json:
        matches = [{"run": match.run.handle, "line": match.line, "text": match.text} for match in found.matches]
        print_json({"matches": matches, "runs": found.runs, "stopped": found.stopped})
        return
    _print(found, text)


def _print(found: "Found", text: str) -> None:
    from rota.cli.words import counted, plain

    for match in found.matches:
        click.echo(f"{match.run.handle}:{match.line}: {plain(match.text)}")
    if not found.matches:
        click.echo(f"rota: no output of {counted(found.runs, 'run')} holds {plain(text)!r}", err=True)
    if found.stopped:
        click.echo(f"rota: {found.stopped}", err=True)
