"""`rota remove`: take away jobs that no file declares, such as all that agents made."""

import sys
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.model.records import Job


@click.command("remove", cls=RotaCommand)
@click.argument("jobs", nargs=-1, metavar="[JOB…]")
@click.option("--made-by", "maker", metavar="MAKER", help="All that this maker made; `agent` for all makers.")
@click.option("--cancel-queued", is_flag=True, help="Also cancel their runs that have not started.")
@click.option("--yes", is_flag=True, help="Do not ask whether that is meant.")
@dry_run_option
@click.pass_obj
def command(
    invocation: Invocation, *, jobs: tuple[str, ...], maker: str | None, cancel_queued: bool, yes: bool, dry_run: bool
) -> int:
    """Remove jobs that agents or programs made: they start no more, their history stays.

    Jobs of rota.yaml are taken out of that file. Runs that are under way go on: `rota cancel --job JOB` stops them.
    """
    from rota.engine.wake import wake
    from rota.operations.making import removable, remove_all

    if bool(jobs) == (maker is not None):
        raise click.UsageError("name jobs, or a maker with --made-by")
    with invocation.store() as (place, store):
        found = store.read(lambda db: removable(db, names=jobs, maker=maker, covers=invocation.covers))
        if maker is not None and not invocation.as_json:
            _preview(found)
        if found and not dry_run:
            if maker is not None and not yes and not _confirmed(invocation):
                click.echo("nothing was removed", err=True)
                return 1
            now = invocation.now()
            names = [job.name for job in found]
            store.write(lambda db: remove_all(db, names, now=now, cancel_queued=cancel_queued))
            wake(place.state)
    _tell(invocation, found, dry_run=dry_run)
    return 0


def _confirmed(invocation: Invocation) -> bool:
    """Ask whether it is meant; where nobody can be asked, it must be said beforehand."""
    if invocation.as_json or not sys.stdin.isatty():
        raise click.UsageError("removing all of a maker needs a yes; pass --yes, or look first with --dry-run")
    return click.confirm("remove them?", default=False)


def _preview(found: "Sequence[Job]") -> None:
    from rota.cli.tables import Column, print_table
    from rota.rules.instants import explain_schedule

    if not found:
        click.echo("that maker has no jobs")
        return
    rows = [[job.name, job.made.by if job.made else "", explain_schedule(job.spec.schedule)] for job in found]
    print_table([Column("JOB"), Column("MADE BY"), Column("SCHEDULE", flexible=True)], rows)


def _tell(invocation: Invocation, found: "Sequence[Job]", *, dry_run: bool) -> None:
    if invocation.as_json:
        print_json({"dry_run": dry_run, "removed": [job.name for job in found]})
        return
    for job in found:
        click.echo(f"- {job.name}  {'would be removed' if dry_run else 'removed'}")
    if dry_run:
        click.echo("nothing was changed (--dry-run)")
