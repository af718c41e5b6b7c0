"""`rota trigger`: start a job now, once or many times, and do not wait."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json
from rota.cli.run import force_option, param_option, read_params, rehearse_run, start

if TYPE_CHECKING:
    from rota.engine.birth import Born


@click.command("trigger", cls=RotaCommand)
@click.argument("job")
@param_option
@force_option
@click.option(
    "--each", "file", metavar="FILE|-", help="One run for each line of this file, a JSON object of params; all or none."
)
@dry_run_option
@click.pass_obj
def command(
    invocation: Invocation, *, job: str, params: tuple[str, ...], force: bool, file: str | None, dry_run: bool
) -> int:
    """Start JOB now and do not wait for it; a failure is retried as the job says. With --each, once for each line."""
    given = read_params(params)
    if file is not None:
        return _start_each(invocation, job, read_lines(_text(invocation, file)), given, force=force, dry_run=dry_run)
    if dry_run:
        return rehearse_run(invocation, job, given, force=force, retry=True)
    return start(invocation, job, given, force=force, detach=True, retry=True)


def _text(invocation: Invocation, file: str) -> str:
    from rota.model.errors import InvalidValue

    if file == "-":
        return sys.stdin.read()
    try:
        return (invocation.cwd / Path(file)).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(
            f"{file} cannot be read: {error}", hint="name a file of JSON lines, or - for stdin"
        ) from None


def read_lines(text: str) -> dict[int, dict[str, Any]]:
    """Return the params of each line by its number; empty lines are left out."""
    return {number: _params(line, number) for number, line in enumerate(text.split("\n"), start=1) if line.strip()}


def _params(line: str, number: int) -> dict[str, Any]:
    from rota.model.errors import InvalidValue

    try:
        found = json.loads(line, parse_constant=_no_number)
    except ValueError as error:
        raise InvalidValue(
            f"line {number} is no JSON: {error}", hint='write one object a line: {"name": "x"}'
        ) from None
    if not isinstance(found, dict):
        raise InvalidValue(f"line {number} is no JSON object", hint='write one object a line: {"name": "x"}')
    return found


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number in JSON")


def _start_each(
    invocation: Invocation,
    job: str,
    lines: dict[int, dict[str, Any]],
    params: dict[str, Any],
    *,
    force: bool,
    dry_run: bool,
) -> int:
    from rota.engine.wake import wake
    from rota.operations.bulk import enqueue_many

    wanted = [{**params, **line} for line in lines.values()]
    titles = [f"line {number}" for number in lines]
    with invocation.store() as (place, store):
        born = enqueue_many(store, job, wanted, now=invocation.now(), force=force, titles=titles, dry_run=dry_run)
        if not dry_run:
            wake(place.state)
    _tell(invocation, job, born, dry_run=dry_run)
    return 0


def _tell(invocation: Invocation, job: str, born: "list[Born]", *, dry_run: bool) -> None:
    first, last = born[0].handle, born[-1].handle
    if invocation.as_json:
        runs = [{"id": one.id, "run": one.handle} for one in born]
        print_json({"dry_run": dry_run, "job": job, "count": len(born), "first": first, "last": last, "runs": runs})
        return
    from rota.cli.words import counted

    named = first if len(born) == 1 else f"{first} … {last}"
    click.echo(f"{'would queue' if dry_run else 'queued'} {counted(len(born), 'run')}: {named}   rota queue")
    if dry_run:
        click.echo("nothing was changed (--dry-run)")
