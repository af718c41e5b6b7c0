"""`rota pause` and `resume`."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json, read_duration, tell_unchanged
from rota.model.amounts import counted
from rota.model.clock import cut_to_ms
from rota.text.format import read_coming

if TYPE_CHECKING:
    from rota.engine.activity import PauseState
    from rota.engine.transactions.pause import PauseEnded
    from rota.operations.pause import JobSelection, Paused


MAX_NAMES = 5


@click.command("pause", cls=RotaCommand)
@click.argument("jobs", metavar="[JOB…]", nargs=-1)
@click.option(
    "--all", "everything", is_flag=True, help="Pause all jobs and start no run at all; triggered runs stay queued."
)
@click.option("--label", "labels", metavar="L", multiple=True, help="Jobs with this label. Repeatable.")
@click.option("--for", "duration", metavar="D", help="Resume automatically after this long: 30m, 2h, 1d.")
@click.option("--until", metavar="TIME", help="Resume automatically at this time: 22:43, or 2026-11-15T22:43.")
@click.option("--reason", metavar="TEXT", default="", help="Reason for the pause, shown with it.")
@dry_run_option
@click.pass_obj
def pause_command(
    invocation: Invocation,
    *,
    jobs: tuple[str, ...],
    everything: bool,
    labels: tuple[str, ...],
    duration: str | None,
    until: str | None,
    reason: str,
    dry_run: bool,
) -> None:
    """Pause JOBs: they do not fire until they are resumed, or until the given time.

    Running and queued runs continue, and manual starts still work. With --all no run starts at all.
    Instants in the pause are recorded as SKIPPED with the reason `paused`. Pausing again changes end and reason.
    """
    from rota.operations.pause import pause

    chosen = chosen_jobs(invocation, jobs, labels, everything=everything)
    if duration and until:
        raise click.UsageError("--for and --until cannot be combined")
    now = invocation.now()
    with invocation.store() as (place, store):
        zone = invocation.zone(store)
        end = _end(duration, until, zone=zone, now=now)
        told = pause(store, chosen, until=end, reason=reason, now=now, dry_run=dry_run)
    if not dry_run:
        tell_scheduler(place.state)
    _tell(invocation, told, end, zone=zone, reason=reason, everything=chosen.everything, dry_run=dry_run)


def chosen_jobs(
    invocation: Invocation, names: tuple[str, ...], labels: tuple[str, ...], *, everything: bool
) -> "JobSelection":
    """Return the selected jobs; exactly one kind of selection is allowed.

    Inside an included project --all selects its own jobs.
    """
    from rota.operations.pause import JobSelection

    given = [way for way, used in (("jobs", names), ("--label", labels), ("--all", everything)) if used]
    if not given:
        raise click.UsageError("no job is named; name jobs, a --label, or --all")
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} cannot be combined")
    within = () if names else invocation.labels(labels)
    return JobSelection(names, within, everything and not within)


def tell_scheduler(state: Path) -> None:
    """Notify a running scheduler of changed pauses."""
    from rota.engine.membership.control import ask

    ask(state, {"ask": "pauses"})


def _end(duration: str | None, until: str | None, *, zone: str, now: datetime) -> datetime | None:
    if duration:
        return cut_to_ms(now + read_duration(duration))
    return cut_to_ms(read_coming(until, zone, now=now)) if until else None


def _tell(
    invocation: Invocation,
    told: "Paused",
    end: datetime | None,
    *,
    zone: str,
    reason: str,
    everything: bool,
    dry_run: bool,
) -> None:
    from rota.operations.bulk import paused_json
    from rota.operations.text import pause_words

    if invocation.as_json:
        print_json(paused_json(told, until=end, reason=reason, everything=everything, dry_run=dry_run))
        return
    names = f" ({', '.join(told.jobs)})" if not everything and len(told.jobs) <= MAX_NAMES else ""
    what = f"{counted(len(told.jobs), 'job')}{names}{pause_words(end, reason, zone=zone, now=invocation.now())}"
    running = f" Running: {', '.join(told.running)}, which may finish." if told.running else ""
    click.echo(f"{'would pause' if dry_run else 'paused'} {what}.{running} {_account(told, end)}")
    if end is None and not dry_run:
        click.echo(f"the pause lasts until `rota resume{' --all' if everything else ''}`")
    tell_unchanged(dry_run=dry_run)


def _account(told: "Paused", end: datetime | None) -> str:
    if end is None:
        return "Instants in the pause are recorded as SKIPPED paused."
    count = f"{told.instants:,}" if told.instants is not None else "more than 10,000"
    return f"Instants in the pause: {count}, recorded as SKIPPED paused."


@click.command("resume", cls=RotaCommand)
@click.argument("jobs", metavar="[JOB…]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Resume all jobs and start queued runs again.")
@click.option("--label", "labels", metavar="L", multiple=True, help="Jobs with this label. Repeatable.")
@click.option(
    "--catch-up",
    type=click.Choice(["none", "once"]),
    default="none",
    help="Missed instants of the pause: skip all (none), or run the latest of each job (once).",
)
@dry_run_option
@click.pass_obj
def resume_command(
    invocation: Invocation,
    *,
    jobs: tuple[str, ...],
    everything: bool,
    labels: tuple[str, ...],
    catch_up: str,
    dry_run: bool,
) -> None:
    """Resume paused JOBs: they fire again from now on. The instants of the pause become one SKIPPED row per job."""
    from rota.operations.activity import pauses
    from rota.operations.bulk import resumed_json
    from rota.operations.pause import resume

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
    for one in ended:
        click.echo(f"{one.job}  {'would be resumed' if dry_run else 'resumed'}; {_resume_account(one)}")
    _tell_rest(ended, still, was=before if chosen.everything else None, now=now)
    tell_unchanged(dry_run=dry_run)


def _resume_account(one: "PauseEnded") -> str:
    caught = f", {one.caught_up.handle} catches up the latest" if one.caught_up else ""
    if one.count == 0 or (one.count is None and one.skipped is None):
        return f"no other instant fell into the pause{caught}" if caught else "no instant fell into the pause"
    count = f"{one.count:,}" if one.count is not None else "more than 10,000"
    row = f" as {one.skipped.handle}" if one.skipped else ""
    return f"instants in the pause: {count}, SKIPPED paused{row}{caught}"


def _tell_rest(
    ended: "tuple[PauseEnded, ...]", still: "PauseState | None", *, was: "PauseState | None", now: datetime
) -> None:
    if was is not None:
        click.echo("queued runs start again")
    elif not ended:
        click.echo("nothing was paused")
    if still is not None and (still.until is None or still.until > now):
        click.echo("everything else is still paused and nothing starts: runs that fire are queued   rota resume --all")
