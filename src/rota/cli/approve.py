"""`rota approve`: allow a job that an agent proposed, after a look at exactly what it would do."""

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.model.records import Job
    from rota.rules.coming import Fire
    from rota.store.driver import Store

FIRES = 5


@click.command("approve", cls=RotaCommand)
@click.argument("job", required=False)
@click.option("--yes", is_flag=True, help="Do not ask: what is shown is approved.")
@dry_run_option
@click.pass_obj
def command(invocation: Invocation, *, job: str | None, yes: bool, dry_run: bool) -> int:
    """Show what JOB would do, and let it begin; without JOB list the jobs that wait for approval.

    Whatever changes the job voids the approval: it then waits again. To turn a job down: `rota remove JOB`.
    """
    with invocation.store() as (_, store):
        if job is None:
            _list(invocation, store)
            return 0
        return _approve(invocation, store, job, yes=yes, dry_run=dry_run)


def _list(invocation: Invocation, store: "Store") -> None:
    from rota.cli.tables import Column, print_table
    from rota.cli.words import plain
    from rota.model.records import cut
    from rota.operations.jobs import project_timezone
    from rota.operations.made import waiting
    from rota.operations.views import provisional_json
    from rota.rules.times import full_time

    found = [job for job in store.read(waiting) if invocation.covers(job.name)]
    if invocation.as_json:
        print_json([provisional_json(job) for job in found])
        return
    invocation.tell_scope()
    if not found:
        click.echo("no job waits for approval")
        return
    zone, now = project_timezone(store), invocation.now()
    rows = []
    for job in found:
        since = full_time(job.provisional_at, zone, now=now) if job.provisional_at else ""
        task = cut(plain(job.spec.work.agent.prompt), 80) if job.spec.work.agent else ""
        rows.append([job.name, job.made.by if job.made else "", since, task or ""])
    titles = [Column("JOB"), Column("MADE BY"), Column(f"SINCE ({zone})"), Column("TASK", flexible=True)]
    print_table(titles, rows)
    click.echo("look at one and allow it: rota approve JOB   turn it down: rota remove JOB")


def _approve(invocation: Invocation, store: "Store", name: str, *, yes: bool, dry_run: bool) -> int:
    from functools import partial

    from rota.engine.wake import wake
    from rota.operations.made import proposal
    from rota.operations.making import approve
    from rota.store.making import digest_of

    now = invocation.now()
    job = store.read(partial(proposal, name=name))
    digest = digest_of(job.spec)
    if not invocation.as_json:
        _show(job, now)
    if dry_run:
        return _tell(invocation, job, approved=False, note="nothing was changed (--dry-run)")
    if not yes and not _confirmed(invocation, name):
        click.echo("not approved; it goes on waiting", err=True)
        return 1
    after = store.write(partial(approve, name=name, digest=digest, now=now))
    wake(invocation.place().state)
    return _tell(invocation, after, approved=True, note=f"{name} is approved{_first(after, now)}")


def _first(job: "Job", now: datetime) -> str:
    from rota.rules.next_words import next_fire

    return "; " + next_fire(job, now=now)


def _confirmed(invocation: Invocation, name: str) -> bool:
    """Ask whether it is meant; where nobody can be asked, it must be said beforehand."""
    if invocation.as_json or not sys.stdin.isatty():
        raise click.UsageError(f"approving needs a yes; look with `rota approve {name} --dry-run`, then pass --yes")
    return click.confirm("approve it?", default=False)


def _tell(invocation: Invocation, job: "Job", *, approved: bool, note: str) -> int:
    from rota.operations.views import provisional_json

    if invocation.as_json:
        print_json({**provisional_json(job), "approved": approved, "next_fires": _fires(job, invocation.now())})
    else:
        click.echo(note)
    return 0


def _show(job: "Job", now: datetime) -> None:
    """Print all that an approval is for: the exact prompt, access, budget and the next fires."""
    from rota.cli.tables import print_pairs
    from rota.operations.spec_words import spec_pairs
    from rota.rules.ansi import clean_for_terminal
    from rota.rules.instants import explain_schedule
    from rota.rules.making_words import say_made

    work = job.spec.work.agent
    assert work is not None, "only tasks for agents wait for approval"
    click.echo(f"{job.name}  provisional")
    print_pairs([("made", say_made(job, now=now) or ""), ("schedule", explain_schedule(job.spec.schedule))])
    tools = ", ".join(work.allowed_tools) or f"what access {work.access} gives"
    most = "no limit of its own" if work.max_usd is None else f"${work.max_usd:g} a run at most"
    print_pairs([("access", work.access.value), ("tools", tools + (", rota's own" if work.rota_tools else ""))])
    print_pairs([("money", most), *spec_pairs(job.spec)])
    click.echo(f"  prompt, {len(work.prompt):,} characters:")
    for line in clean_for_terminal(work.prompt).splitlines():
        click.echo(f"  │ {line}")
    for fire in _coming(job, now):
        print_pairs([("would start", _start(fire, job.spec.schedule.timezone, now=now))])


def _start(fire: "Fire", zone: str, *, now: datetime) -> str:
    from rota.model.clock import iso
    from rota.rules.times import full_time

    told = f"{full_time(fire.at, zone, now=now)} ({zone})"
    return told if zone == "UTC" else f"{told}, {iso(fire.at)}"


def _fires(job: "Job", now: datetime) -> list[dict[str, Any]]:
    from rota.operations.tools.answers import fires_answer

    return fires_answer(_coming(job, now), job.spec.schedule.timezone)


def _coming(job: "Job", now: datetime) -> "Sequence[Fire]":
    """Return when a job would start if it was approved now, or does since it is."""
    from rota.rules.coming import coming_fires, next_fires

    if job.provisional_at is None:
        return coming_fires(job, n=FIRES)
    return next_fires(job.spec.schedule, now, FIRES, created_at=now, name=job.name)
