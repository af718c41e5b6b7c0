"""`rota approve` and `remove`."""

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json
from rota.cli.output import Column, print_pairs, print_table
from rota.model.amounts import counted, say_dollars
from rota.model.clock import iso
from rota.model.questions import Door
from rota.model.records import cut
from rota.rules.schedule.instants import explain_schedule
from rota.rules.schedule.preview import coming_fires, next_fires
from rota.text.ansi import clean_for_terminal, plain
from rota.text.format import full_time
from rota.text.jobs import say_made
from rota.text.schedule import next_fire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.model.records import Job
    from rota.rules.schedule.preview import UpcomingFire
    from rota.store.driver import Store


MAX_FIRES = 5


@click.command("approve", cls=RotaCommand)
@click.argument("job", required=False)
@click.option("--yes", is_flag=True, help="Skip the confirmation prompt.")
@dry_run_option
@click.pass_obj
def approve_command(invocation: Invocation, *, job: str | None, yes: bool, dry_run: bool) -> int:
    """Show a proposed JOB and approve it; without JOB, list the jobs that wait for approval.

    A later change of the job voids the approval. To reject a job: `rota remove JOB`.
    """
    with invocation.store() as (_, store):
        if job is None:
            _list(invocation, store)
            return 0
        return _approve(invocation, store, job, yes=yes, dry_run=dry_run)


def _list(invocation: Invocation, store: "Store") -> None:
    from rota.operations.jobs import project_timezone, waiting
    from rota.operations.views import provisional_json

    found = [job for job in store.read(waiting) if invocation.covers(job.name)]
    if invocation.listed(found, provisional_json, none="no job is waiting for approval", scoped=True):
        return
    zone, now = project_timezone(store), invocation.now()
    rows = []
    for job in found:
        since = full_time(job.provisional_at, zone, now=now) if job.provisional_at else ""
        task = cut(plain(job.spec.work.agent.prompt), 80) if job.spec.work.agent else ""
        rows.append([job.name, job.made.by if job.made else "", since, task or ""])
    titles = [Column("JOB"), Column("AUTHOR"), Column(f"SINCE ({zone})"), Column("TASK", flexible=True)]
    print_table(titles, rows)
    click.echo("show and approve one: rota approve JOB   reject it: rota remove JOB")


def _approve(invocation: Invocation, store: "Store", name: str, *, yes: bool, dry_run: bool) -> int:
    from rota.engine.membership.control import wake
    from rota.operations.admin.audit import person
    from rota.operations.jobs import proposal
    from rota.operations.questions.answers import Answerer, approve
    from rota.store.tables.jobs import digest_of

    now = invocation.now()
    job = store.read(partial(proposal, name=name))
    digest = digest_of(job.spec)
    if not invocation.as_json:
        show_proposal(job, now)
    if dry_run:
        return _tell(invocation, job, approved=False, note="nothing was changed (--dry-run)")
    needs = f"approval needs confirmation: read the job with `rota approve {name} --dry-run`, then pass --yes"
    if not yes and not invocation.confirm("approve it?", needs=needs):
        click.echo("not approved; the job stays proposed", err=True)
        return 1
    after = store.write(partial(approve, name=name, digest=digest, by=Answerer(person(), Door.CLI), now=now))
    wake(invocation.place().state)
    return _tell(invocation, after, approved=True, note=f"{name} is approved; {next_fire(after, now=now)}")


def _tell(invocation: Invocation, job: "Job", *, approved: bool, note: str) -> int:
    from rota.operations.views import provisional_json

    if invocation.as_json:
        print_json({**provisional_json(job), "approved": approved, "next_fires": _fires(job, invocation.now())})
    else:
        click.echo(note)
    return 0


def show_proposal(job: "Job", now: datetime) -> None:
    """Print the approved content: exact prompt, access, budget and next fires."""
    from rota.operations.text import spec_pairs

    work = job.spec.work.agent
    assert work is not None, "only tasks for agents wait for approval"
    click.echo(f"{job.name}  provisional")
    print_pairs([("created", say_made(job, now=now) or ""), ("schedule", explain_schedule(job.spec.schedule))])
    tools = ", ".join(work.allowed_tools) or f"all tools of access {work.access}"
    most = "no limit" if work.max_usd is None else f"{say_dollars(work.max_usd)} a run at most"
    print_pairs([("access", work.access.value), ("tools", tools + (", rota's own" if work.rota_tools else ""))])
    print_pairs([("money", most), *spec_pairs(job.spec)])
    click.echo(f"  prompt, {counted(len(work.prompt), 'character')}:")
    for line in clean_for_terminal(work.prompt).splitlines():
        click.echo(f"  │ {line}")
    for fire in _coming(job, now):
        print_pairs([("would start", _start(fire, job.spec.schedule.timezone, now=now))])


def _start(fire: "UpcomingFire", zone: str, *, now: datetime) -> str:
    told = f"{full_time(fire.at, zone, now=now)} ({zone})"
    return told if zone == "UTC" else f"{told}, {iso(fire.at)}"


def _fires(job: "Job", now: datetime) -> list[dict[str, Any]]:
    from rota.operations.tools.reads import fires_answer

    return fires_answer(_coming(job, now), job.spec.schedule.timezone)


def _coming(job: "Job", now: datetime) -> "Sequence[UpcomingFire]":
    """Return the next fires of a job, as if it was approved now."""
    if job.provisional_at is None:
        return coming_fires(job, n=MAX_FIRES)
    return next_fires(job.spec.schedule, now, MAX_FIRES, created_at=now, name=job.name)


@click.command("remove", cls=RotaCommand)
@click.argument("jobs", nargs=-1, metavar="[JOB…]")
@click.option(
    "--made-by", "maker", metavar="AUTHOR", help="All jobs of this author; `agent` means all agents and programs."
)
@click.option("--cancel-queued", is_flag=True, help="Also cancel the queued runs of these jobs.")
@click.option("--yes", is_flag=True, help="Skip the confirmation prompt.")
@dry_run_option
@click.pass_obj
def remove_command(
    invocation: Invocation, *, jobs: tuple[str, ...], maker: str | None, cancel_queued: bool, yes: bool, dry_run: bool
) -> int:
    """Remove jobs that agents or programs created. They start no more runs; their history stays.

    To remove a job of rota.yaml, edit that file. Running runs continue; `rota cancel --job JOB` stops them.
    """
    from rota.engine.membership.control import wake
    from rota.operations.agents.proposals import removable, remove_all

    if bool(jobs) == (maker is not None):
        raise click.UsageError("name jobs, or an author with --made-by")
    with invocation.store() as (place, store):
        found = store.read(lambda db: removable(db, names=jobs, maker=maker, covers=invocation.covers))
        if maker is not None and not invocation.as_json:
            _preview(found)
        if found and not dry_run:
            needs = "removing all jobs of an author needs confirmation: pass --yes, or try --dry-run first"
            if maker is not None and not yes and not invocation.confirm("remove them?", needs=needs):
                click.echo("nothing was removed", err=True)
                return 1
            now = invocation.now()
            names = [job.name for job in found]
            store.write(lambda db: remove_all(db, names, now=now, cancel_queued=cancel_queued))
            wake(place.state)
    _print_removed(invocation, found, dry_run=dry_run)
    return 0


def _preview(found: "Sequence[Job]") -> None:
    if not found:
        click.echo("that author has no jobs")
        return
    rows = [[job.name, job.made.by if job.made else "", explain_schedule(job.spec.schedule)] for job in found]
    print_table([Column("JOB"), Column("AUTHOR"), Column("SCHEDULE", flexible=True)], rows)


def _print_removed(invocation: Invocation, found: "Sequence[Job]", *, dry_run: bool) -> None:
    if invocation.as_json:
        print_json({"dry_run": dry_run, "removed": [job.name for job in found]})
        return
    for job in found:
        click.echo(f"- {job.name}  {'would be removed' if dry_run else 'removed'}")
    if dry_run:
        click.echo("nothing was changed (--dry-run)")
