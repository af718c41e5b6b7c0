"""`rota check`: is the file right, what does it mean, and when does it fire next."""

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json

if TYPE_CHECKING:
    from rota.declare.validate import Declared
    from rota.model.spec import JobSpec


@click.command("check", cls=RotaCommand)
@click.pass_obj
def command(invocation: Invocation) -> None:
    """Check rota.yaml: every problem with line and column, else each job in plain English with its next fire."""
    from rota.operations.hosting import refuse_served
    from rota.operations.loading import load_project
    from rota.operations.secrets import notes_on_targets

    place, now = invocation.place(), invocation.now()
    loaded = load_project(place.folder, invocation.environ, state=place.state, now=now)
    declared = loaded.declared
    untold = notes_on_targets(declared.jobs, declared.settings.notify, place.state, invocation.environ)
    declared = replace(declared, notes=(*declared.notes, *untold, *filter(None, [loaded.trust_note])))
    refuse_served(declared.projects, place.state)
    if invocation.as_json:
        print_json(_as_json(declared, now))
        return
    _show(invocation, declared, now)


def _show(invocation: Invocation, declared: "Declared", now: datetime) -> None:
    from rota.operations.spec_words import limit_words
    from rota.rules.instants import explain_schedule

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
    """Return how much the file declares: `2 groups, 6 jobs`."""
    from rota.cli.words import counted
    from rota.model.spec import Kind

    groups = sum(spec.work.kind is Kind.GROUP for spec in declared.jobs)
    jobs = counted(len(declared.jobs) - groups, "job")
    return f"{counted(groups, 'group')}, {jobs}" if groups else jobs


def coming_words(spec: "JobSpec", now: datetime) -> str:
    """Return when a job that is new now would first fire, or why it would not."""
    from rota.rules.times import from_now, full_time

    if not spec.enabled:
        return "disabled"
    if spec.schedule.manual or spec.schedule.reboot:
        return "next boot" if spec.schedule.reboot else ""
    at = first_fire(spec, now)
    if at is None:
        return "never again"
    if spec.schedule.at is not None and at < now - spec.misfire.grace:
        return "its time has passed"
    if at <= now:
        return "next now, when it is new"
    return f"next {full_time(at, spec.schedule.timezone, now=now)}, {from_now(at, now)}"


def first_fire(spec: "JobSpec", now: datetime) -> datetime | None:
    """Return when a job that is new now would first fire."""
    from rota.rules.coming import fires_from
    from rota.rules.cursor import first_cursor
    from rota.rules.lull import has_lulls

    cursor = first_cursor(spec, created_at=now)
    if cursor.next_for is None or not has_lulls(spec.schedule):
        return cursor.next_at
    fires = fires_from(spec.schedule, cursor.next_for, 1, created_at=now, name=spec.name)
    return fires[0].at if fires else None


def _as_json(declared: "Declared", now: datetime) -> dict[str, Any]:
    from rota.operations.views import iso_or_none
    from rota.rules.instants import explain_schedule

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
