"""`rota add` and `rota import`."""

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json
from rota.model.amounts import counted
from rota.model.errors import FileProblems, Problem
from rota.model.serialize import iso_or_none
from rota.rules.schedule.instants import explain_schedule
from rota.rules.schedule.preview import COMPARED_FIRES
from rota.text.ansi import plain

if TYPE_CHECKING:
    from rota.operations.project.edit import Added
    from rota.operations.project.transfer import Imported


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


KINDS = ("crontab", "jobs")


@click.command("import", cls=RotaCommand)
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("file", required=False, metavar="[FILE|-]")
@click.option("--system", is_flag=True, help="The crontab has a user column, like /etc/crontab.")
@click.pass_obj
def import_command(invocation: Invocation, *, kind: str, file: str | None, system: bool) -> None:
    """Convert a crontab or a jobs.yaml file to rota.yaml on stdout; the report goes to stderr."""
    from rota.operations.project.transfer import import_crontab, import_jobs

    if system and kind != "crontab":
        raise click.UsageError("--system belongs to `rota import crontab`")
    content, name = _read(invocation, file, kind=kind)
    if kind == "crontab":
        found = import_crontab(
            content, file=name, system=system, environ=invocation.environ, folder=invocation.cwd, now=invocation.now()
        )
    else:
        found = import_jobs(content, file=name, environ=invocation.environ, folder=invocation.cwd)
    if invocation.as_json:
        print_json(_import_json(found))
        return
    click.echo(found.translation.text, nl=False)
    _report(found, kind=kind)
    if kind == "crontab":
        _warn_of_doubles(found, file=None if name == kind else name, system=system)


def _read(invocation: Invocation, file: str | None, *, kind: str) -> tuple[bytes, str]:
    if file in (None, "-"):
        if file is None and sys.stdin.isatty():
            example = (
                "crontab -l | rota import crontab" if kind == "crontab" else "rota import jobs .octopoid/jobs.yaml"
            )
            raise click.UsageError(f"name a file, or pipe one in: {example}")
        return sys.stdin.buffer.read(), kind
    assert file is not None
    path = invocation.cwd / Path(file).expanduser()
    try:
        return path.read_bytes(), file
    except OSError as error:
        why = error.strerror or str(error)
        raise FileProblems([Problem(f"cannot be read: {why}", "file_unreadable", file)]) from None


def _report(found: "Imported", *, kind: str) -> None:
    translation = found.translation
    noun = "line" if kind == "crontab" else "job"
    written, left_out = counted(len(translation.jobs), "job"), len(translation.left_out)
    _say(f"{counted(translation.read, noun)} read, {written} written, {left_out} left out")
    width = max((len(kept.key) for kept in translation.kept), default=0)
    for kept in translation.kept:
        _say(f"  {plain(kept.key):{min(width, 30)}}  {plain(kept.why)}")
    if found.compared:
        _tell_compared(found)
    _say_remarks("cannot be mapped:", translation.left_out)
    _say_remarks("changed, or needed by hand:", translation.by_hand)


def _warn_of_doubles(found: "Imported", *, file: str | None, system: bool) -> None:
    """Print how to remove the imported lines from the crontab."""
    if system:
        place = plain(file) if file else "the file that they are from, such as /etc/crontab"
        remove = f"put a `#` before its lines in {place}"
    elif file:
        remove = f"put a `#` before its lines with `crontab -e`, or in {plain(file)} where cron reads that file"
    elif found.translation.left_out:
        remove = "put a `#` before the lines that were written with `crontab -e`"
    else:
        remove = "take it out with `crontab -r`"
    _say(f"double runs: the crontab is still active; once rota serves, {remove}")


def _tell_compared(found: "Imported") -> None:
    if not found.differences:
        _say(f"checked: the next {COMPARED_FIRES} fires of each job are the same instants as cron's")
        return
    same = found.compared - len(found.differences)
    jobs = counted(found.compared, "job")
    _say(f"checked: the next {COMPARED_FIRES} fires are the same instants as cron's for {same} of {jobs}")
    _say_remarks("not the same:", found.differences)


def _say_remarks(heading: str, remarks: "tuple[Problem, ...]") -> None:
    if remarks:
        _say(heading)
    for remark in remarks:
        place = f"line {remark.line:<4}" if remark.line else ""
        _say(f"  {place}{plain(remark.message)}")


def _say(text: str) -> None:
    click.echo(text, err=True)


def _import_json(found: "Imported") -> dict[str, Any]:
    translation = found.translation
    return {
        "yaml": translation.text,
        "read": translation.read,
        "jobs": [{"name": job.name, "line": job.line} for job in translation.jobs],
        "kept": [{"key": kept.key, "why": kept.why} for kept in translation.kept],
        "by_hand": _remarks(translation.by_hand),
        "left_out": _remarks(translation.left_out),
        "compared": found.compared,
        "differences": _remarks(found.differences),
    }


def _remarks(remarks: "tuple[Problem, ...]") -> list[dict[str, Any]]:
    return [{"line": remark.line, "text": remark.message} for remark in remarks]
