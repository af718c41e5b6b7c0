"""`rota check`, `apply`, `add`, `schema` and `export`."""

import os
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from rota.cli.invocation import UNCHANGED, Invocation, RotaCommand, dry_run_option, print_json, tell_unchanged
from rota.model.amounts import counted
from rota.model.serialize import iso_or_none
from rota.model.spec import Kind
from rota.rules.schedule.blackouts import has_blackouts
from rota.rules.schedule.cursor import first_cursor
from rota.rules.schedule.instants import explain_schedule
from rota.rules.schedule.preview import fires_from
from rota.text.format import from_now, full_time

if TYPE_CHECKING:
    from rota.declare.plan import JobChange, Plan
    from rota.declare.project import Declared
    from rota.model.spec import JobSpec
    from rota.operations.project.edit import Added


@click.command("check", cls=RotaCommand)
@click.pass_obj
def check_command(invocation: Invocation) -> None:
    """Check rota.yaml: print all problems with line and column, or each job in plain English with its next fire."""
    from rota.operations.admin.secrets import notes_on_targets
    from rota.operations.project.load import load_project, refuse_served

    place, now = invocation.place(), invocation.now()
    loaded = load_project(place.folder, invocation.environ, state=place.state, now=now)
    declared = loaded.declared
    if any(spec.work.sandbox or spec.work.limits for spec in declared.jobs):
        from rota.operations.admin.doctor import refuse_unkept_sandboxes

        refuse_unkept_sandboxes(declared)
    untold = notes_on_targets(
        declared.jobs,
        declared.settings.notify,
        place.state,
        invocation.environ,
        ping=declared.settings.scheduler.ping,
        origins=declared.settings.secrets,
    )
    declared = replace(declared, notes=(*declared.notes, *untold, *filter(None, [loaded.trust_note])))
    refuse_served(declared.projects, place.state)
    if invocation.as_json:
        print_json(_as_json(declared, now))
        return
    _show(invocation, declared, now)


def _show(invocation: Invocation, declared: "Declared", now: datetime) -> None:
    from rota.text.jobs import limit_words

    click.echo(f"{declared.settings.file.name}: {_counts(declared)}: {click.style('ok', fg='green')}")
    for one in declared.included:
        click.echo(f"  includes {one.file}{f', its jobs as {one.name}/…' if one.name else ''}")
    invocation.tell_scope()
    jobs = [spec for spec in declared.jobs if invocation.covers(spec.name)]
    names = max((len(spec.name) for spec in jobs), default=0)
    schedules = {spec.name: explain_schedule(spec.schedule) for spec in jobs}
    width = max((len(text) for text in schedules.values()), default=0)
    coming = {spec.name: coming_words(spec, now) for spec in jobs}
    latest = max((len(text) for text in coming.values()), default=0)
    for spec in jobs:
        line = f"  {spec.name:{names}}  {schedules[spec.name]:{min(width, 60)}}  {coming[spec.name]:{latest}}"
        click.echo(f"{line}  {limit_words(spec)}".rstrip())
    for note in declared.notes:
        click.echo(f"note: {note}")


def _counts(declared: "Declared") -> str:
    """Return counts of the file: `2 groups, 6 jobs`."""
    groups = sum(spec.work.kind is Kind.GROUP for spec in declared.jobs)
    jobs = counted(len(declared.jobs) - groups, "job")
    return f"{counted(groups, 'group')}, {jobs}" if groups else jobs


def coming_words(spec: "JobSpec", now: datetime) -> str:
    """Return the first fire of a new job, or why it has none."""
    if not spec.enabled:
        return "disabled"
    if spec.schedule.manual or spec.schedule.reboot:
        return "next boot" if spec.schedule.reboot else ""
    at = first_fire(spec, now)
    if at is None:
        return "never again"
    if spec.schedule.at is not None and at < now - spec.misfire.grace:
        return "the time has passed"
    if at <= now:
        return "next: now, when first applied"
    return f"next {full_time(at, spec.schedule.timezone, now=now)}, {from_now(at, now)}"


def first_fire(spec: "JobSpec", now: datetime) -> datetime | None:
    """Return the first fire of a new job."""
    cursor = first_cursor(spec, created_at=now)
    if cursor.next_for is None or not has_blackouts(spec.schedule):
        return cursor.next_at
    fires = fires_from(spec.schedule, cursor.next_for, 1, created_at=now, name=spec.name)
    return fires[0].at if fires else None


def _as_json(declared: "Declared", now: datetime) -> dict[str, Any]:
    return {
        "file": str(declared.settings.file),
        "ok": True,
        "timezone": declared.settings.timezone,
        "jobs": [
            {
                "name": spec.name,
                "kind": spec.work.kind.value,
                "enabled": spec.enabled,
                "schedule": explain_schedule(spec.schedule),
                "timezone": spec.schedule.timezone,
                "next_at": iso_or_none(first_fire(spec, now)),
                **_limits(spec),
            }
            for spec in declared.jobs
        ],
        "included": [{"file": str(one.path), "project": one.name or None} for one in declared.included],
        "notes": list(declared.notes),
    }


def _limits(spec: "JobSpec") -> dict[str, Any]:
    agent, timeout = spec.work.agent, spec.work.timeout
    return {
        "timeout_seconds": timeout.total_seconds() if timeout is not None else None,
        "max_attempts": spec.retry.max_attempts,
        "max_turns": agent.max_turns if agent is not None else None,
        "max_usd": agent.max_usd if agent is not None else None,
    }


@click.command("apply", cls=RotaCommand)
@click.option("--adopt", metavar="NAME", multiple=True, help="Take over jobs of the same name from another source.")
@click.option("--allow-empty", is_flag=True, help="Allow a file without jobs to retire all of its jobs.")
@click.option("--cancel-queued", is_flag=True, help="Also cancel queued runs of changed and retired jobs.")
@dry_run_option
@click.pass_obj
def apply_command(
    invocation: Invocation, *, adopt: tuple[str, ...], allow_empty: bool, cancel_queued: bool, dry_run: bool
) -> None:
    """Apply rota.yaml to the stored jobs and print the changes; a running scheduler uses them immediately."""
    options = {"adopt": adopt, "allow_empty": allow_empty, "cancel_queued": cancel_queued}
    plan = _apply(invocation, dry_run=dry_run, options=options)
    if invocation.as_json:
        print_json(plan_json(plan, dry_run=dry_run))
        return
    show_plan(plan)
    tell_unchanged(dry_run=dry_run)


def _apply(invocation: Invocation, *, dry_run: bool, options: dict[str, Any]) -> "Plan":
    from rota.cli.commands.init import ensure_taken_over, ensure_trust
    from rota.declare.plan import first_plan
    from rota.operations.project.load import load_project, refuse_served

    place, now = invocation.place(), invocation.now()
    if not dry_run:
        ensure_trust(invocation)
        ensure_taken_over(invocation)
    acts = not dry_run
    declared = load_project(place.folder, invocation.environ, state=place.state, now=now, acts=acts).declared
    refuse_served(declared.projects, place.state)
    if dry_run and not invocation.applied():
        return first_plan(declared)
    from rota.operations.project.apply import apply

    with invocation.store(create=True) as (_, store):
        plan = apply(store, declared, now=now, dry_run=dry_run, **options)
    if not dry_run:
        invocation.wake()
        _remember(invocation, declared)
    return plan


def _remember(invocation: Invocation, declared: "Declared") -> None:
    """Record this project for commands inside included projects; a failure is only printed."""
    from rota.operations.project.locate import remember_host

    try:
        remember_host(declared.settings.folder, invocation.environ, includes=bool(declared.projects))
    except OSError as error:
        click.echo(f"rota: commands inside included projects may not find this one: {error}", err=True)


def show_plan(plan: "Plan") -> None:
    """Print a plan: one line per change, with its differences below."""
    from rota.declare.plan import ChangeKind

    for change in plan.changing:
        mark, colour, words = _MARKS[change.kind.value]
        click.echo(click.style(f"{mark} {change.name}", fg=colour) + f"  {words}{_reading(change)}")
        for difference in change.differences if change.kind is not ChangeKind.CREATE else ():
            click.echo(f"    {difference.replace(' -> ', ' → ')}")
    for difference in plan.settings:
        click.echo(click.style(f"~ {difference.replace(' -> ', ' → ')}", fg="yellow"))
    same = len(plan.changes) - len(plan.changing)
    if same or not plan.changes:
        click.echo(f"= {counted(same, 'job')} unchanged" if plan.changes else "= no jobs")


_MARKS = {
    "create": ("+", "green", "created"),
    "update": ("~", "yellow", "changed"),
    "revive": ("+", "green", "revived, its history continues"),
    "retire": ("-", "red", "retired: the file no longer has it; its history stays"),
    "adopt": ("~", "yellow", "adopted"),
}


def _reading(change: "JobChange") -> str:
    if change.kind.value not in ("create", "revive") or change.spec is None:
        return ""
    return f", {explain_schedule(change.spec.schedule)}" + ("" if change.spec.enabled else ", disabled")


def plan_json(plan: "Plan", *, dry_run: bool) -> dict[str, Any]:
    """Return a plan as JSON."""
    return {
        "dry_run": dry_run,
        "changed": len(plan.changing),
        "settings": list(plan.settings),
        "changes": [
            {"kind": change.kind.value, "name": change.name, "differences": list(change.differences)}
            for change in plan.changes
        ],
    }


@click.command("schema", cls=RotaCommand)
def schema_command() -> None:
    """Print the JSON Schema of rota.yaml, for editors. `rota init` writes it to .rota/schema.json."""
    from rota.declare.schema import json_schema

    print_json(json_schema())


@click.command("export", cls=RotaCommand)
@click.argument("jobs", nargs=-1, metavar="[JOB…]")
@click.pass_obj
def export_command(invocation: Invocation, *, jobs: tuple[str, ...]) -> None:
    """Print stored jobs as rota.yaml, including jobs that no file declares; all jobs, or each JOB named."""
    from rota.operations.project.transfer import export_jobs, stored_names

    home = invocation.environ.get("HOME") or os.path.expanduser("~")
    with invocation.store() as (place, store):
        named = jobs or (tuple(job for job in stored_names(store) if invocation.covers(job)) if place.scope else ())
        exported = export_jobs(store, named, place=place, home=home)
    if invocation.as_json:
        print_json({"yaml": exported.text, "jobs": list(exported.names), "notes": list(exported.notes)})
        return
    click.echo(exported.text, nl=False)
    for note in exported.notes:
        click.echo(f"note: {note}", err=True)


@click.command("add", cls=RotaCommand)
@click.argument("name")
@click.argument("words", nargs=-1, metavar="[-- COMMAND…]", type=click.UNPROCESSED)
@click.option(
    "--cron", "crons", metavar="EXPR", multiple=True, help="Schedule: a cron expression with five fields. Repeatable."
)
@click.option("--interval", metavar="D", help="Schedule: time between runs (30s, 5m, 1h, 1d).")
@click.option("--at", metavar="TIME", help="Schedule: once, at this time (2026-11-15 08:30).")
@click.option("--timezone", metavar="ZONE", help="Time zone of the job; default: the time zone of the file.")
@click.option("--shell", metavar="TEXT", help="Shell script to run instead of a command.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Set another job key. Repeatable.")
@dry_run_option
@click.pass_obj
def add_command(
    invocation: Invocation,
    *,
    name: str,
    words: tuple[str, ...],
    crons: tuple[str, ...],
    interval: str | None,
    at: str | None,
    timezone: str | None,
    shell: str | None,
    settings: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Add a job NAME to rota.yaml. A job without a schedule is started manually."""
    from rota.operations.project.edit import add_job, read_settings

    schedule = {
        "cron": crons[0] if len(crons) == 1 else list(crons),
        "interval": interval,
        "at": at,
        "timezone": timezone,
    }
    keys: dict[str, Any] = {key: value for key, value in {**schedule, "shell": shell}.items() if value}
    others = read_settings(settings)
    if words:
        keys["command"] = list(words)
    if twice := sorted(set(keys) & set(others)):
        raise click.UsageError(f"{twice[0]} is given twice, by its own option and by --set")
    place, now = invocation.place(), invocation.now()
    added = add_job(place, name, {**keys, **others}, environ=invocation.environ, now=now, dry_run=dry_run)
    if invocation.as_json:
        print_json(_added_json(added, now, dry_run=dry_run))
        return
    _show_added(added, now, dry_run=dry_run)


def _show_added(added: "Added", now: datetime, *, dry_run: bool) -> None:
    name, line = added.spec.name, added.insertion.line
    schedule = explain_schedule(added.spec.schedule)
    if dry_run:
        click.echo(f"would add at line {line} of {added.file.name}:")
        click.echo(added.insertion.added, nl=False)
        _tell_notes(added)
        click.echo(UNCHANGED)
        return
    coming = coming_words(added.spec, now)
    click.echo(f"added {name} at line {line} of {added.file.name}: {schedule}{f', {coming}' if coming else ''}")
    _tell_notes(added)
    click.echo("a running scheduler applies it by itself; else: rota apply")


def _tell_notes(added: "Added") -> None:
    for note in added.notes:
        click.echo(f"note: {note}")


def _added_json(added: "Added", now: datetime, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "name": added.spec.name,
        "file": str(added.file),
        "line": added.insertion.line,
        "lines": added.insertion.added,
        "schedule": explain_schedule(added.spec.schedule),
        "next_at": iso_or_none(first_fire(added.spec, now)),
        "notes": list(added.notes),
    }
