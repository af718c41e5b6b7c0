"""`rota backup`, `restore` and `migrate`."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli.errors import INTERRUPTED
from rota.cli.invocation import UNCHANGED, Invocation, RotaCommand, dry_run_option, print_json
from rota.cli.output import direct_stream
from rota.model.amounts import counted, sized
from rota.model.clock import say_duration
from rota.model.errors import NotApplied, ProjectMissing
from rota.model.serialize import fields_json
from rota.operations.verify.report import report_json
from rota.text.ansi import plain

if TYPE_CHECKING:
    from rota.operations.admin.backup import Restored
    from rota.operations.admin.migrate import MigrationEnd, MigrationResult, Telling


@click.command("backup", cls=RotaCommand)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--with-output", is_flag=True, help="Include the output of runs.")
@click.pass_obj
def backup_command(invocation: Invocation, *, file: Path, with_output: bool) -> None:
    """Write the database and rota.yaml to FILE (.tar.gz, or .tar without compression); the scheduler may keep running.

    A backup contains no secrets. `rota restore` restores it, on this machine or another, with all jobs paused.
    """
    from rota.operations.admin.backup import back_up

    place = invocation.place()
    if not place.shared and not invocation.applied():
        raise NotApplied(str(place.folder))
    target = (invocation.cwd / file.expanduser()).absolute()
    made = back_up(place, target, clock=invocation.clock, with_output=with_output)
    if invocation.as_json:
        told = {"host": made.manifest.host, "made_at": made.manifest.made_at, "outputs": made.outputs}
        print_json({"file": str(made.path), "size": made.size, **told})
        return
    outputs = f", {counted(made.outputs, 'output file')}" if with_output else ", without output (--with-output)"
    click.echo(f"wrote {made.path}  {sized(made.size)}: the database and rota.yaml{outputs}; secrets are not in it")
    if made.scheduler:
        click.echo("a scheduler is running here: to move to another machine, stop it and back up again")


@click.command("restore", cls=RotaCommand)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Move an existing state folder aside and restore.")
@dry_run_option
@click.pass_obj
def restore_command(invocation: Invocation, *, file: Path, force: bool, dry_run: bool) -> None:
    """Check the backup FILE and restore it into this folder (or --dir), with all jobs paused.

    No job fires and no run starts before `rota resume --all`, so that two machines never do the same work. Stop the
    scheduler of this folder first. An existing state folder is replaced only with --force.
    """
    from rota.operations.admin.backup import find_target, restore

    archive = (invocation.cwd / file.expanduser()).absolute()
    place = find_target(archive, invocation.directory, invocation.environ, invocation.cwd)
    told = restore(archive, place, clock=invocation.clock, force=force, dry_run=dry_run)
    if invocation.as_json:
        print_json(
            {
                "dry_run": dry_run,
                "state": str(told.state),
                "host": told.manifest.host,
                "made_at": told.manifest.made_at,
                **fields_json(told, "jobs", "instants", "queued"),
                "aside": str(told.aside) if told.aside else None,
                "file_kept": told.file_kept,
            }
        )
        return
    _tell(told, dry_run=dry_run)


def _tell(told: "Restored", *, dry_run: bool) -> None:
    passed = counted(told.instants, "instant") if told.instants is not None else "more than 10,000 instants"
    age = f"from {told.manifest.host}, {say_duration(told.age)} old, {passed} passed"
    click.echo(f"{'would restore' if dry_run else 'restored'} {counted(told.jobs, 'job')} into {told.state}: {age}")
    if told.aside is not None:
        click.echo(f"the previous state was moved to {told.aside}")
    if told.file_kept:
        click.echo("rota.yaml here differs from the backup; it is unchanged, and `rota serve` applies it")
    if told.queued:
        click.echo(f"{counted(told.queued, 'run')} queued in the backup; check them before you resume   rota status")
    if dry_run:
        click.echo(UNCHANGED)
    else:
        click.echo("everything is paused; resume with rota resume --all --catch-up none")


MAX_VIOLATIONS = 10
"""So many violations are shown."""


@click.command("migrate", cls=RotaCommand)
@click.option(
    "--from",
    "source",
    metavar="STORE",
    help="Source: sqlite:PATH or postgresql://…; default: the store of this project.",
)
@click.option("--to", "target", metavar="STORE", required=True, help="Target: sqlite:PATH or postgresql://….")
@click.option("--restart", is_flag=True, help="Delete the partial copy of an interrupted migration and start over.")
@dry_run_option
@click.pass_obj
def migrate_command(invocation: Invocation, *, source: str | None, target: str, restart: bool, dry_run: bool) -> int:
    """Copy all tables from one database to another in batches, and compare both; the source does not change.

    PATH is a state folder or a project. Stop the schedulers of both databases first. The target must be empty. To
    continue an interrupted migration, run the same command again.
    """
    from rota.operations.admin.migrate import move, preview

    begins, ends = _spot(invocation, source), _spot(invocation, target)
    if dry_run:
        _tell_counts(invocation, begins, ends, preview(begins, ends, clock=invocation.clock))
        return 0
    try:
        with _progress(invocation) as tell:
            moved = move(begins, ends, clock=invocation.clock, tell=tell, restart=restart)
    except KeyboardInterrupt:
        click.echo("interrupted; the same command continues where it stopped", err=True)
        return INTERRUPTED
    if invocation.as_json:
        _print(moved)
    else:
        _print_migrated(invocation, moved)
    return 0 if moved.report.clean else 1


def _spot(invocation: Invocation, text: str | None) -> "MigrationEnd":
    """Return one end of the migration; outside a project both need a full address."""
    from rota.operations.admin.migrate import MigrationEnd, read_spot

    state: Path | None
    try:
        place = invocation.own_place("migrate")
        state = place.state
        if text is None:
            return MigrationEnd(state, place.store)
    except ProjectMissing:
        if text is None:
            raise
        state = None
    return read_spot(text, cwd=invocation.cwd, state=state, environ=invocation.environ)


@contextlib.contextmanager
def _progress(invocation: Invocation) -> "Iterator[Telling]":
    """Print progress: a bar on a terminal, else a line per table; nothing with --json."""
    if invocation.as_json:
        yield lambda *_: None
    elif sys.stdout.isatty():
        with _bar() as tell:
            yield tell
    else:
        yield _tell_line


def _tell_line(doing: str, table: str, done: int, total: int) -> None:
    if done == total > 0 and doing == "copies":
        click.echo(f"{table:<16} {total:>10,} {'row' if total == 1 else 'rows'}")


@contextlib.contextmanager
def _bar() -> "Iterator[Callable[[str, str, int, int], None]]":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:<26}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=direct_stream(sys.stdout)), transient=True) as progress:
        task = progress.add_task("", total=None)

        def tell(doing: str, table: str, done: int, total: int) -> None:
            progress.update(task, description=f"{doing} {table}", completed=done, total=total)

        yield tell


def _tell_counts(
    invocation: Invocation, source: "MigrationEnd", target: "MigrationEnd", counts: dict[str, int]
) -> None:
    if invocation.as_json:
        print_json({"dry_run": True, "from": source.place, "to": target.place, "tables": counts})
        return
    for name, count in counts.items():
        _tell_line("copies", name, count, count)
    total = sum(counts.values())
    click.echo(f"would copy {counted(total, 'row')} from {source.place} to {target.place}; {UNCHANGED}")


def _print(moved: "MigrationResult") -> None:
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


def _print_migrated(invocation: Invocation, moved: "MigrationResult") -> None:
    again = ", continuing an earlier migration" if moved.resumed else ""
    rows = f"{counted(moved.rows, 'row')} in {counted(len(moved.tables), 'table')}"
    click.echo(f"copied {rows}{again}; checksums are equal on both sides")
    if moved.replaced:
        had = counted(moved.replaced, "row")
        click.echo(f"{had} had NUL characters in texts; PostgreSQL cannot store them, so U+FFFD replaces them")
    violations = moved.report.violations
    click.echo(
        f"rota verify on {moved.target.place}: {counted(len(violations), 'violation') if violations else 'clean'}"
    )
    for violation in violations[:MAX_VIOLATIONS]:
        click.echo(f"  {violation.check.value}  {violation.where}  {plain(violation.text)}")
    if violations:
        click.echo("the source has the same rows, so this migration did not cause them; `rota verify` shows all")
    click.echo("now write in rota.yaml, or set ROTA_STORE:\n")
    click.echo(f"    store: {moved.target.written}")
    if not moved.target.shared and moved.target.state != _own_state(invocation):
        click.echo(f"    state: {moved.target.state}")
    click.echo(f"\n{moved.source.place} is unchanged; a scheduler that serves it logs a warning")
    if not moved.source.shared:
        click.echo(f"output files stay where they are, in {moved.source.state}")


def _own_state(invocation: Invocation) -> "Path | None":
    try:
        return invocation.place().state
    except ProjectMissing:
        return None
