"""`rota import` and `rota takeover`."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import UNCHANGED, Invocation, RotaCommand, dry_run_option, print_json
from rota.cli.main import RotaGroup
from rota.model.amounts import counted
from rota.model.errors import CronInCharge, FileProblems, InvalidValue, Problem
from rota.rules.schedule.preview import COMPARED_FIRES
from rota.text.ansi import plain

if TYPE_CHECKING:
    from rota.declare.importers.translation import Remark
    from rota.operations.project.imports import Imported, ImportKind, InputFile
    from rota.operations.project.locate import ProjectPaths
    from rota.operations.project.takeover import Standing

KINDS = (*("crontab", "anacron", "systemd", "launchd", "github"), *("claude", "openclaw", "hermes", "herdctl", "jobs"))


@click.command("import", cls=RotaCommand)
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("files", nargs=-1, metavar="[FILE|-]…")
@click.option("--system", is_flag=True, help="The crontab has a user column, like /etc/crontab and /etc/cron.d.")
@click.pass_obj
def import_command(invocation: Invocation, *, kind: str, files: tuple[str, ...], system: bool) -> None:
    """Convert the jobs of another scheduler to rota.yaml on stdout; the report goes to stderr.

    KIND is crontab, anacron, systemd (timers), launchd (plists), github (workflows), claude (scheduled tasks), openclaw
    or hermes (jobs.json), herdctl (fleet or agent), or jobs (octopoid).
    """
    from rota.operations.project import imports

    if system and kind != "crontab":
        raise click.UsageError("--system belongs to `rota import crontab`")
    chosen = imports.KINDS[kind]
    inputs = _inputs(invocation, files, kind=kind, chosen=chosen)
    found = imports.import_files(
        kind, inputs, environ=invocation.environ, folder=invocation.cwd, now=invocation.now(), system=system
    )
    if invocation.as_json:
        print_json(_import_json(found))
    else:
        click.echo(found.translation.text, nl=False)
        _report(found, chosen=chosen, file=inputs[0].file if len(inputs) == 1 else "")
        one = None if not files or files[0] == "-" else ", ".join(files)
        _warn_of_doubles(found, chosen=chosen, file=one, system=system, many=len(inputs) > 1)


def _inputs(invocation: Invocation, files: tuple[str, ...], *, kind: str, chosen: "ImportKind") -> "list[InputFile]":
    from rota.operations.project.imports import InputFile

    if files in ((), ("-",)):
        if not files and sys.stdin.isatty():
            raise click.UsageError(f"name a file, or pipe one in: {_EXAMPLES.get(kind, f'rota import {kind} FILE')}")
        return [InputFile(kind, sys.stdin.buffer.read())]
    paths = [path for name in files for path in _paths(invocation, name, chosen)]
    if len(paths) > 1 and not chosen.pattern:
        raise click.UsageError(f"`rota import {kind}` takes one file")
    return [_input(invocation, path) for path in paths]


_EXAMPLES = {
    "crontab": "crontab -l | rota import crontab",
    "systemd": "rota import systemd /etc/systemd/system",
    "jobs": "rota import jobs .octopoid/jobs.yaml",
    "claude": "rota import claude .claude/scheduled_tasks.json",
    "openclaw": "rota import openclaw ~/.openclaw/cron/jobs.json",
    "hermes": "rota import hermes ~/.hermes/cron/jobs.json",
}


def _paths(invocation: Invocation, name: str, chosen: "ImportKind") -> list[str]:
    path = invocation.cwd / Path(name).expanduser()
    if not path.is_dir():
        return [name]
    inside = path.glob(chosen.pattern) if chosen.pattern else ()
    names = [one.name for one in inside if one.is_file() and re.fullmatch(chosen.names, one.name)]
    found = sorted(str(Path(name) / own) for own in names)
    if not found:
        wanted = f"no {chosen.pattern} in it" if chosen.pattern else "a folder, where a file is needed"
        raise FileProblems([Problem(f"cannot be read: {wanted}", "file_unreadable", name)])
    return found


def _input(invocation: Invocation, name: str) -> "InputFile":
    from rota.operations.project.imports import InputFile

    path = invocation.cwd / Path(name).expanduser()

    def beside(other: str) -> bytes | None:
        try:
            return (path.parent / other).read_bytes()
        except (OSError, ValueError):  # ValueError: a name with a zero byte
            return None

    try:
        return InputFile(name, path.read_bytes(), beside)
    except OSError as error:
        why = error.strerror or str(error)
        raise FileProblems([Problem(f"cannot be read: {why}", "file_unreadable", name)]) from None


def _report(found: "Imported", *, chosen: "ImportKind", file: str) -> None:
    """Print the report; a remark names its file unless that is `file`, the only one."""
    translation = found.translation
    written, left_out = counted(len(translation.jobs), "job"), len(translation.left_out)
    _say(f"{counted(translation.read, chosen.noun)} read, {written} written, {left_out} left out")
    width = max((len(kept_key.key) for kept_key in translation.kept), default=0)
    for kept_key in translation.kept:
        _say(f"  {plain(kept_key.key):{min(width, 30)}}  {plain(kept_key.why)}")
    if found.compared:
        _tell_compared(found, peer=chosen.peer, file=file)
    _say_remarks("cannot be mapped:", translation.left_out, file=file)
    _say_remarks("changed, or needed by hand:", translation.by_hand, file=file)


def _warn_of_doubles(found: "Imported", *, chosen: "ImportKind", file: str | None, system: bool, many: bool) -> None:
    """Print how to switch the imported jobs off where they are from."""
    if not found.translation.jobs:
        return
    if chosen.off:
        _say(f"double runs: {chosen.peer} still runs these jobs; once rota serves, switch them off: {chosen.off}")
        return
    if system:
        place = plain(file) if file else "the file that they are from, such as /etc/crontab"
        remove = f"put a `#` before {'their' if many else 'its'} lines in {place}"
    elif file:
        remove = f"put a `#` before its lines with `crontab -e`, or in {plain(file)} where cron reads that file"
    elif found.translation.left_out:
        remove = "run `crontab -e` and put a `#` before the lines that became jobs"
    else:
        remove = "take it out with `crontab -r`"
    _say(f"double runs: the crontab is still active; once rota serves, {remove}")


def _tell_compared(found: "Imported", *, peer: str, file: str) -> None:
    if not found.differences:
        _say(f"checked: the next {COMPARED_FIRES} fires of each job are the same instants as {peer}'s")
        return
    same = found.compared - len(found.differences)
    jobs = counted(found.compared, "job")
    _say(f"checked: the next {COMPARED_FIRES} fires are the same instants as {peer}'s for {same} of {jobs}")
    _say_remarks("not the same:", found.differences, file=file)


def _say_remarks(heading: str, remarks: "tuple[Remark, ...]", *, file: str) -> None:
    if remarks:
        _say(heading)
    for remark in remarks:
        elsewhere = remark.file not in ("", file)
        place = f"{plain(remark.file)}:{remark.line}  " if elsewhere else f"line {remark.line:<4}"
        _say(f"  {place if remark.line else ''}{plain(remark.message)}")


def _say(text: str) -> None:
    click.echo(text, err=True)


def _import_json(found: "Imported") -> dict[str, Any]:
    translation = found.translation
    return {
        "yaml": translation.text,
        "read": translation.read,
        "jobs": [{"name": job.name, "line": job.line} for job in translation.jobs],
        "kept": [{"key": kept_key.key, "why": kept_key.why} for kept_key in translation.kept],
        "by_hand": _remarks(translation.by_hand),
        "left_out": _remarks(translation.left_out),
        "compared": found.compared,
        "differences": _remarks(found.differences),
    }


def _remarks(remarks: "tuple[Remark, ...]") -> list[dict[str, Any]]:
    return [{"file": remark.file, "line": remark.line, "text": remark.message} for remark in remarks]


@click.group("takeover", cls=RotaGroup, invoke_without_command=True, subcommand_metavar="[COMMAND …]")
@click.pass_context
def takeover_command(ctx: click.Context) -> int:
    """Give the lines of your crontab to rota, or back to cron. Without a command show which of the two runs them."""
    return _status(ctx.ensure_object(Invocation)) if ctx.invoked_subcommand is None else 0


@takeover_command.command("crontab", cls=RotaCommand)
@dry_run_option
@click.pass_obj
def takeover_crontab(invocation: Invocation, *, dry_run: bool) -> None:
    """Import your crontab into rota.yaml here, comment its lines out, and let rota run them.

    One write of the crontab moves the lines, so cron and rota never both run them. In the same write cron gets a line
    that starts `rota tick` every minute; it does nothing while `rota serve` runs.
    """
    from rota.operations.project import imports, takeover

    place = _place(invocation)
    found = takeover.standing(place.state, invocation.environ)
    if found is not None and found.owner is takeover.Owner.BOTH and found.journal.phase is takeover.Phase.DONE:
        raise CronInCharge(len(found.active), str(place.folder), again=True)
    if found is not None and found.owner is takeover.Owner.ROTA and found.journal.phase is not takeover.Phase.UNDONE:
        if found.journal.phase is takeover.Phase.PREPARED and not dry_run:
            takeover.finish(place, found.journal, environ=invocation.environ, clock=invocation.clock)
        _tell_standing(invocation, takeover.standing(place.state, invocation.environ))
        return
    planned = takeover.plan_takeover(place, environ=invocation.environ, now=invocation.now())
    fresh = not (place.folder / "rota.yaml").exists()
    _refuse_stored(invocation, place, [job.name for job in planned.imported.translation.jobs])
    if not dry_run:
        while invocation.now().second >= takeover.LATEST_SECOND:
            invocation.pause(0.5)
        takeover.carry_out(place, planned, environ=invocation.environ, clock=invocation.clock, fresh=fresh)
    if invocation.as_json:
        print_json(
            {"dry_run": dry_run, "lines": list(planned.lines), "crontab": planned.after}
            | _import_json(planned.imported)
        )
        return
    _report(planned.imported, chosen=imports.KINDS["crontab"], file="crontab")
    what = "would comment out" if dry_run else "commented out"
    click.echo(f"{what} {counted(len(planned.lines), 'line')} of the crontab with #rota#")
    click.echo(f"{'would add' if dry_run else 'added'} a line: {plain(planned.tick)}")
    if dry_run:
        click.echo(UNCHANGED)
        return
    click.echo(f"{'wrote' if fresh else 'kept'} {place.folder / 'rota.yaml'}")
    _tell_standing(invocation, takeover.standing(place.state, invocation.environ))


@takeover_command.command("status", cls=RotaCommand)
@click.pass_obj
def takeover_status(invocation: Invocation) -> int:
    """Show whether cron or rota runs the lines. Exit 1 if both do, or a takeover is not finished."""
    return _status(invocation)


@takeover_command.command("undo", cls=RotaCommand)
@dry_run_option
@click.pass_obj
def takeover_undo(invocation: Invocation, *, dry_run: bool) -> None:
    """Give the lines back to cron: restore them in the crontab, and remove the line that starts rota.

    Stop `rota serve` first. rota.yaml and the history stay.
    """
    from rota.operations.project import takeover

    place = _place(invocation)
    journal = takeover.read_journal(place.state)
    if journal is None:
        raise InvalidValue(f"nothing was taken over in {place.folder}", hint="`rota takeover crontab` does it")
    text = takeover.read_crontab(invocation.environ)
    after = takeover.restored(text, journal)
    if not dry_run:
        after = takeover.undo(place, journal, environ=invocation.environ, clock=invocation.clock)
    if invocation.as_json:
        print_json({"dry_run": dry_run, "lines": list(journal.lines), "crontab": after})
        return
    would = "would run" if dry_run else "runs"
    click.echo(f"cron {would} {counted(len(journal.lines), 'line')} again; rota.yaml and the history stay")
    click.echo(UNCHANGED if dry_run else "remove a service of this project with `rota service remove`")


def _place(invocation: Invocation) -> "ProjectPaths":
    """Return the project here, or the one that this folder becomes."""
    from rota.operations.project.locate import ProjectPaths
    from rota.settings import STATE_NAME

    given = invocation.directory or invocation.environ.get("ROTA_DIR")
    folder = (invocation.cwd / Path(given).expanduser()).absolute() if given else invocation.cwd
    if (folder / "rota.yaml").exists():
        return invocation.own_place("takeover")
    state = invocation.environ.get("ROTA_STATE")
    return ProjectPaths(folder, (folder / Path(state).expanduser()).absolute() if state else folder / STATE_NAME)


def _refuse_stored(invocation: Invocation, place: "ProjectPaths", names: list[str]) -> None:
    """Refuse jobs that are stored already: rota might make up instants that cron has run."""
    from rota.operations.project.locate import is_applied, open_place
    from rota.operations.project.transfer import stored_names

    if not is_applied(place, invocation.clock):
        return
    store = open_place(place, invocation.clock, create=False)
    try:
        known = sorted(set(names) & set(stored_names(store)))
    finally:
        store.close()
    if known:
        hint = "take over in an empty folder; these jobs have due instants that cron runs"
        raise InvalidValue(f"rota already has {', '.join(known)} in {place.folder}", hint=hint)


def _status(invocation: Invocation) -> int:
    from rota.operations.project import takeover

    found = takeover.standing(_place(invocation).state, invocation.environ)
    _tell_standing(invocation, found)
    unfinished = found is not None and found.journal.phase is takeover.Phase.PREPARED
    return 1 if unfinished or (found is not None and found.owner is takeover.Owner.BOTH) else 0


def _tell_standing(invocation: Invocation, found: "Standing | None") -> None:
    from rota.model.clock import iso
    from rota.operations.project.takeover import Owner, Phase, standing_json

    if invocation.as_json:
        print_json(standing_json(found))
        return
    if found is None:
        click.echo("nothing was taken over here; `rota takeover crontab --dry-run` shows what would be")
        return
    lines, since = counted(len(found.journal.lines), "line"), iso(found.journal.cutoff)
    if found.owner is Owner.ROTA:
        click.echo(f"rota runs {lines} of the crontab, from {since} on; cron starts `rota tick` every minute")
        if found.journal.phase is Phase.PREPARED:
            click.echo("the takeover is not finished: the next tick stores the jobs")
        if found.others:
            click.echo(f"cron runs {counted(found.others, 'other line')} itself, which rota does not know")
        click.echo("next: `rota service install` for a resident scheduler; back: `rota takeover undo`")
    elif found.owner is Owner.CRON:
        ended = "was undone" if found.journal.phase in (Phase.UNDONE, Phase.UNDOING) else "is not finished"
        click.echo(f"cron runs {lines}; the takeover {ended}: `rota takeover crontab` starts it again")
    else:
        click.echo(f"cron runs {counted(len(found.active), 'line')} that rota runs too; remove them with `crontab -e`:")
        for line in found.active:
            click.echo(f"  {plain(line)}")
