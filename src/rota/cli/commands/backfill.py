"""`rota backfill`: create the runs of a past range."""

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json
from rota.model.amounts import counted
from rota.model.clock import cut_to_ms
from rota.text.format import full_time, read_instant, roughly

if TYPE_CHECKING:
    from rota.operations.bulk import Backfilled, Range

DATE = re.compile(r"\d{4}-\d\d-\d\d")
MAX_INSTANTS = 3


@click.command("backfill", cls=RotaCommand)
@click.argument("job")
@click.option(
    "--from",
    "since",
    metavar="TIME",
    required=True,
    help="Start of the range, included: 30d, 2026-11-01, 2026-11-01T06:00.",
)
@click.option(
    "--to", "until", metavar="TIME", required=True, help="End of the range, excluded; a date includes its whole day."
)
@click.option("--parallel", is_flag=True, help="Allow the runs to overlap; by default each waits for the previous one.")
@click.option("--only-missed", is_flag=True, help="Skip instants that already ran on time.")
@dry_run_option
@click.pass_obj
def backfill_command(
    invocation: Invocation, *, job: str, since: str, until: str, parallel: bool, only_missed: bool, dry_run: bool
) -> None:
    """Create a run of JOB for each instant of a past range; they run in sequence unless --parallel is set."""
    from rota.engine.membership.control import wake
    from rota.operations.bulk import backfill, backfilled_json
    from rota.operations.jobs import show_job

    now = invocation.now()
    with invocation.store() as (place, store):
        zone = show_job(store, job).job.spec.schedule.timezone
        wanted = _range(since, until, zone, now=now, parallel=parallel, only_missed=only_missed)
        done = backfill(store, job, wanted, now=now, dry_run=dry_run)
        if not dry_run:
            wake(place.state)
    if invocation.as_json:
        print_json(backfilled_json(done, parallel=parallel, dry_run=dry_run))
        return
    for line in _lines(done, zone, parallel=parallel, dry_run=dry_run, now=now):
        click.echo(line)


def _range(since: str, until: str, zone: str, *, now: datetime, parallel: bool, only_missed: bool) -> "Range":
    from rota.operations.bulk import Range

    begin = cut_to_ms(read_instant(since, zone, now=now))
    if DATE.fullmatch(until.strip()):
        following = datetime.fromisoformat(until.strip()) + timedelta(days=1)
        end = min(now, read_instant(f"{following:%Y-%m-%d}", zone, now=now))
    else:
        end = read_instant(until, zone, now=now)
    return Range(begin, cut_to_ms(end), parallel=parallel, only_missed=only_missed)


def _lines(done: "Backfilled", zone: str, *, parallel: bool, dry_run: bool, now: datetime) -> list[str]:
    left_out = [
        *([f"{counted(done.existing, 'instant')} with a run of an earlier backfill"] if done.existing else []),
        *([f"{counted(done.ran, 'instant')} that ran when due"] if done.ran else []),
    ]
    told = f"{_amount(done)}{_manner(done, parallel=parallel)}" if done.born else "no instant to fill"
    lines = [f"{told}. {'Nothing was created.' if dry_run else _named(done)}".rstrip()]
    if done.instants:
        shown = [full_time(at, zone, now=now) for at in done.instants[:MAX_INSTANTS]]
        more = f" … {full_time(done.instants[-1], zone, now=now)}" if len(done.instants) > MAX_INSTANTS else ""
        lines.append(f"for {', '.join(shown)}{more} ({zone})")
    return [*lines, *([f"left out: {', '.join(left_out)}"] if left_out else [])]


def _amount(done: "Backfilled") -> str:
    from rota.operations.bulk import is_group

    if is_group(done):
        return f"{counted(len(done.born), 'group')}, {counted(done.members, 'run')}"
    return counted(len(done.born), "run")


def _manner(done: "Backfilled", *, parallel: bool) -> str:
    from rota.operations.bulk import is_group

    manner = "all at once" if parallel else f"one {'group' if is_group(done) else 'run'} at a time"
    if done.each is None:
        return f", {manner}"
    whole = f"about {roughly(done.each)} each" if parallel else f"about {roughly(done.each * len(done.born))}"
    return f", {manner}, {whole} (median of the last 30)"


def _named(done: "Backfilled") -> str:
    if not done.born:
        return ""
    first, last = done.born[0].handle, done.born[-1].handle
    return f"Queued as {first if first == last else f'{first} … {last}'}."
