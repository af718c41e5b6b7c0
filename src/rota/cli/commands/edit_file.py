"""`rota add`."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json
from rota.model.serialize import iso_or_none
from rota.rules.schedule.instants import explain_schedule

if TYPE_CHECKING:
    from rota.operations.project.edit import Added


@click.command("add", cls=RotaCommand)
@click.argument("name")
@click.argument("words", nargs=-1, metavar="[-- COMMAND…]", type=click.UNPROCESSED)
@click.option(
    "--cron", "crons", metavar="EXPR", multiple=True, help="Schedule: a cron expression with five fields. Repeatable."
)
@click.option("--interval", metavar="D", help="Schedule: time between runs (30s, 5m, 1h, 1d).")
@click.option("--at", metavar="TIME", help="Schedule: once, at this time (2026-11-15 08:30).")
@click.option("--timezone", metavar="ZONE", help="Time zone of the job; default: the time zone of the file.")
@click.option("--shell", metavar="TEXT", help="Shell script to run instead of a command.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Set another job key. Repeatable.")
@dry_run_option
@click.pass_obj
def add_command(
    invocation: Invocation,
    *,
    name: str,
    words: tuple[str, ...],
    crons: tuple[str, ...],
    interval: str | None,
    at: str | None,
    timezone: str | None,
    shell: str | None,
    settings: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Add a job NAME to rota.yaml. A job without a schedule is started manually."""
    from rota.operations.project.edit import add_job, read_settings

    schedule = {
        "cron": crons[0] if len(crons) == 1 else list(crons),
        "interval": interval,
        "at": at,
        "timezone": timezone,
    }
    keys: dict[str, Any] = {key: value for key, value in {**schedule, "shell": shell}.items() if value}
    others = read_settings(settings)
    if words:
        keys["command"] = list(words)
    if twice := sorted(set(keys) & set(others)):
        raise click.UsageError(f"{twice[0]} is given twice, by its own option and by --set")
    place, now = invocation.place(), invocation.now()
    added = add_job(place, name, {**keys, **others}, environ=invocation.environ, now=now, dry_run=dry_run)
    if invocation.as_json:
        print_json(_as_json(added, now, dry_run=dry_run))
        return
    _show(added, now, dry_run=dry_run)


def _show(added: "Added", now: datetime, *, dry_run: bool) -> None:
    from rota.cli.commands.check import coming_words

    name, line = added.spec.name, added.insertion.line
    schedule = explain_schedule(added.spec.schedule)
    if dry_run:
        click.echo(f"would add at line {line} of {added.file.name}:")
        click.echo(added.insertion.added, nl=False)
        _tell_notes(added)
        click.echo("nothing was changed (--dry-run)")
        return
    coming = coming_words(added.spec, now)
    click.echo(f"added {name} at line {line} of {added.file.name}: {schedule}{f', {coming}' if coming else ''}")
    _tell_notes(added)
    click.echo("a running scheduler applies it by itself; else: rota apply")


def _tell_notes(added: "Added") -> None:
    for note in added.notes:
        click.echo(f"note: {note}")


def _as_json(added: "Added", now: datetime, *, dry_run: bool) -> dict[str, Any]:
    from rota.cli.commands.check import first_fire

    return {
        "dry_run": dry_run,
        "name": added.spec.name,
        "file": str(added.file),
        "line": added.insertion.line,
        "lines": added.insertion.added,
        "schedule": explain_schedule(added.spec.schedule),
        "next_at": iso_or_none(first_fire(added.spec, now)),
        "notes": list(added.notes),
    }
