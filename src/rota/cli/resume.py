"""`rota resume`: let paused jobs go."""

from datetime import datetime
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json
from rota.cli.pause import chosen_jobs, tell_scheduler

if TYPE_CHECKING:
    from rota.engine.pause import PauseEnded
    from rota.engine.pauses import Pause


@click.command("resume", cls=RotaCommand)
@click.argument("jobs", metavar="[JOB…]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every job, and start again what waits in the queue.")
@click.option("--label", "labels", metavar="L", multiple=True, help="Jobs that carry this label; may be repeated.")
@click.option(
    "--catch-up",
    type=click.Choice(["none", "once"]),
    default="none",
    help="Make up nothing of the pause (none), or each job's latest instant (once).",
)
@dry_run_option
@click.pass_obj
def command(
    invocation: Invocation,
    *,
    jobs: tuple[str, ...],
    everything: bool,
    labels: tuple[str, ...],
    catch_up: str,
    dry_run: bool,
) -> None:
    """Let paused JOBs go: they fire again from now on, and the instants of the pause become one SKIPPED row a job."""
    from rota.operations.answers import resumed_json
    from rota.operations.pauses import pauses
    from rota.operations.pausing import resume

    chosen = chosen_jobs(invocation, jobs, labels, everything=everything)
    now = invocation.now()
    with invocation.store() as (place, store):
        before = pauses(store).everything
        ended = resume(store, chosen, catch_up=catch_up == "once", now=now, dry_run=dry_run)
    if not dry_run:
        tell_scheduler(place.state)
    still = None if chosen.everything else before
    if invocation.as_json:
        print_json(resumed_json(ended, still, was=before, dry_run=dry_run))
        return
    for line in _lines(ended, dry_run=dry_run):
        click.echo(line)
    _tell_rest(ended, still, was=before if chosen.everything else None, now=now)
    if dry_run:
        click.echo("nothing was changed (--dry-run)")


def _lines(ended: "tuple[PauseEnded, ...]", *, dry_run: bool) -> list[str]:
    return [f"{one.job}  {'would be resumed' if dry_run else 'resumed'}; {_account(one)}" for one in ended]


def _account(one: "PauseEnded") -> str:
    caught = f", {one.caught_up.handle} makes up the latest" if one.caught_up else ""
    if one.count == 0 or (one.count is None and one.skipped is None):
        return f"no other instant fell into the pause{caught}" if caught else "no instant fell into the pause"
    count = f"{one.count:,}" if one.count is not None else "more than 10,000"
    row = f" as {one.skipped.handle}" if one.skipped else ""
    return f"instants in the pause: {count}, SKIPPED paused{row}{caught}"


def _tell_rest(ended: "tuple[PauseEnded, ...]", still: "Pause | None", *, was: "Pause | None", now: datetime) -> None:
    if was is not None:
        click.echo("what waits in the queue is started again")
    elif not ended:
        click.echo("nothing was paused")
    if still is not None and (still.until is None or still.until > now):
        click.echo("everything else is still paused, and nothing is started: what fires waits   rota resume --all")
