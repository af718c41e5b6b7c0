"""`rota import`: a crontab, or an older jobs file, as a rota.yaml on stdout; what changed, on stderr."""  # noqa: N999 - the command's name

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json

if TYPE_CHECKING:
    from rota.declare.importing.report import Remark
    from rota.operations.importing import Imported

KINDS = ("crontab", "jobs")


@click.command("import", cls=RotaCommand)
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("file", required=False, metavar="[FILE|-]")
@click.option("--system", is_flag=True, help="The crontab has a user before each command, as /etc/crontab has.")
@click.pass_obj
def command(invocation: Invocation, *, kind: str, file: str | None, system: bool) -> None:
    """Turn a crontab (or a jobs.yaml of document 000) into a rota.yaml on stdout; the report is on stderr.

    rota import crontab - < FILE, or: crontab -l | rota import crontab > rota.yaml
    """
    from rota.operations.importing import import_crontab, import_jobs

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
        print_json(_as_json(found))
        return
    click.echo(found.translation.text, nl=False)
    _report(found, kind=kind)
    if kind == "crontab":
        _warn_of_doubles(found, file=None if name == kind else name, system=system)


def _read(invocation: Invocation, file: str | None, *, kind: str) -> tuple[bytes, str]:
    from rota.model.errors import FileProblems, Problem

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
    from rota.cli.words import counted, plain

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
    """Say how the crontab is taken out: by its own means, and without what stays with cron."""
    from rota.cli.words import plain

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
    from rota.rules.cron_peer import COMPARED

    if not found.differences:
        _say(f"checked: the next {COMPARED} fires of each job are the same instants as cron's")
        return
    same = found.compared - len(found.differences)
    _say(f"checked: the next {COMPARED} fires are the same instants as cron's for {same} of {found.compared} jobs")
    _say_remarks("not the same:", found.differences)


def _say_remarks(heading: str, remarks: "tuple[Remark, ...]") -> None:
    from rota.cli.words import plain

    if remarks:
        _say(heading)
    for remark in remarks:
        place = f"line {remark.line:<4}" if remark.line else ""
        _say(f"  {place}{plain(remark.text)}")


def _say(text: str) -> None:
    click.echo(text, err=True)


def _as_json(found: "Imported") -> dict[str, Any]:
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


def _remarks(remarks: "tuple[Remark, ...]") -> list[dict[str, Any]]:
    return [{"line": remark.line, "text": remark.text} for remark in remarks]
