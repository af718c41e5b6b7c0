"""`rota check`: is the file right, what does it mean, and when does it fire next."""

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
    from rota.operations.loading import load_project

    place, now = invocation.place(), invocation.now()
    declared = load_project(place.folder, invocation.environ, state=place.state, now=now).declared
    if invocation.as_json:
        print_json(_as_json(declared, now))
        return
    _show(declared, now)


def _show(declared: "Declared", now: datetime) -> None:
    from rota.rules.instants import explain_schedule

    click.echo(f"{declared.settings.file.name}: {_counts(declared)}: {click.style('ok', fg='green')}")
    names = max((len(spec.name) for spec in declared.jobs), default=0)
    schedules = {spec.name: explain_schedule(spec.schedule) for spec in declared.jobs}
    width = max((len(text) for text in schedules.values()), default=0)
    for spec in declared.jobs:
        line = f"  {spec.name:{names}}  {schedules[spec.name]:{min(width, 60)}}  {coming_words(spec, now)}"
        click.echo(line.rstrip())
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
    if spec.schedule.manual:
        return ""
    at = first_fire(spec, now)
    if at is None:
        return "never again"
    if at <= now:
        return "next now, when it is new"
    return f"next {full_time(at, spec.schedule.timezone, now=now)}, {from_now(at, now)}"


def first_fire(spec: "JobSpec", now: datetime) -> datetime | None:
    """Return when a job that is new now would first fire."""
    from rota.rules.cursor import first_cursor

    return first_cursor(spec, created_at=now).next_at if spec.enabled else None


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
            }
            for spec in declared.jobs
        ],
        "notes": list(declared.notes),
    }
