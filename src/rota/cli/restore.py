"""`rota restore`: put a backup back; everything in it starts paused."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json

if TYPE_CHECKING:
    from rota.operations.restoring import Restored


@click.command("restore", cls=RotaCommand)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Move the state that is there aside, into its own folder.")
@dry_run_option
@click.pass_obj
def command(invocation: Invocation, *, file: Path, force: bool, dry_run: bool) -> None:
    """Check the backup FILE and put it into this folder (or that of --dir), with everything in it paused.

    Nothing fires or starts until `rota resume --all`, so that no two machines do the same work. A scheduler must not
    run here, and a state that is there is replaced with --force alone.
    """
    from rota.operations.restoring import find_target, restore

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
                "jobs": told.jobs,
                "instants": told.instants,
                "queued": told.queued,
                "aside": str(told.aside) if told.aside else None,
                "file_kept": told.file_kept,
            }
        )
        return
    _tell(told, dry_run=dry_run)


def _tell(told: "Restored", *, dry_run: bool) -> None:
    from rota.cli.words import counted
    from rota.model.durations import say_duration

    passed = counted(told.instants, "instant") if told.instants is not None else "more than 10,000 instants"
    age = f"from {told.manifest.host}, {say_duration(told.age)} old, {passed} passed"
    click.echo(f"{'would restore' if dry_run else 'restored'} {counted(told.jobs, 'job')} into {told.state}: {age}")
    if told.aside is not None:
        click.echo(f"what was there is in {told.aside}")
    if told.file_kept:
        click.echo("rota.yaml here is not the one in the backup; it was left as it is and is applied by `rota serve`")
    if told.queued:
        click.echo(f"{counted(told.queued, 'run')} waited in the queue; look at them before you resume   rota status")
    if dry_run:
        click.echo("nothing was changed (--dry-run)")
    else:
        click.echo("everything is paused; resume with rota resume --all --catch-up none")
