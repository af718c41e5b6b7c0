"""A cancel by filter: a preview, a question, and what was done."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, print_json

if TYPE_CHECKING:
    from rota.operations.bulk import Filter, Matched, Swept
    from rota.operations.project import Place
    from rota.store.driver import Store

SHOWN = 20


def sweep(invocation: Invocation, chosen: "Filter", *, yes: bool, dry_run: bool) -> int:
    """Show what a filter names, ask, and cancel it; return the exit code."""
    from rota.operations.bulk import cancel_matching, match_runs

    now = invocation.now()
    with invocation.store() as (place, store):
        found = match_runs(store, chosen, now=now)
        if not invocation.as_json:
            _preview(found)
        if not found or dry_run:
            _tell(invocation, found, None, dry_run=dry_run)
            return 0
        if not yes and not _confirmed(invocation):
            click.echo("nothing was cancelled", err=True)
            return 1
        swept = cancel_matching(store, chosen, now=now)
        _stop(place, store, swept)
    _tell(invocation, found, swept, dry_run=False)
    return 0


def _confirmed(invocation: Invocation) -> bool:
    """Ask whether it is meant; where nobody can be asked, it must be said beforehand."""
    if invocation.as_json or not sys.stdin.isatty():
        raise click.UsageError("cancelling by filter needs a yes; pass --yes, or look first with --dry-run")
    return click.confirm("cancel them?", default=False)


def _stop(place: "Place", store: "Store", swept: "Swept") -> None:
    """Let the scheduler stop what runs; without one signal the keepers ourselves."""
    from rota.engine.wake import wake
    from rota.operations.runs import show_run
    from rota.operations.stopping import stop_keeper
    from rota.operations.system import serves

    wake(place.state)
    if not serves(place.state):
        for run_id in swept.asked:
            stop_keeper(store, show_run(store, run_id).run)


def _preview(found: "Sequence[Matched]") -> None:
    from rota.cli.tables import Column, print_table

    if not found:
        click.echo("no unfinished run is meant by that")
        return
    rows = [[one.job, f"{one.queued:,}", f"{one.running:,}"] for one in found[:SHOWN]]
    print_table([Column("JOB"), Column("QUEUED"), Column("RUNNING")], rows)
    if len(found) > SHOWN:
        click.echo(f"and of {len(found) - SHOWN:,} more jobs")


def _tell(invocation: Invocation, found: "Sequence[Matched]", swept: "Swept | None", *, dry_run: bool) -> None:
    if invocation.as_json:
        print_json(
            {
                "dry_run": dry_run,
                "jobs": [{"job": one.job, "queued": one.queued, "running": one.running} for one in found],
                "cancelled": swept.cancelled if swept else 0,
                "stopping": len(swept.asked) if swept else 0,
            }
        )
    elif swept is not None:
        stopping = f"; {len(swept.asked):,} running ones are being stopped" if swept.asked else ""
        click.echo(f"{swept.cancelled:,} CANCELLED, they had not started{stopping}")
    elif dry_run:
        click.echo("nothing was changed (--dry-run)")
