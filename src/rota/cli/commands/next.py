"""`rota next`: the coming fires of all jobs, of one job, or of a schedule that is not saved anywhere."""

from datetime import datetime, timedelta
from typing import Any

import click
from msgspec import Struct

from rota.cli.invocation import Invocation, RotaCommand, print_json, read_duration
from rota.model.clock import iso, say_duration
from rota.model.errors import RotaError, UnknownJob, nearest
from rota.model.spec import Schedule
from rota.rules.schedule.blackouts import waiting_run
from rota.rules.schedule.cron import check_cron
from rota.rules.schedule.preview import UpcomingFire, coming_fires, next_fires
from rota.rules.schedule.timezone import zone as zone_of
from rota.text.format import from_now, full_time, read_instant
from rota.text.schedule import next_fire, say_deferred

MAX_FIRES = 10_000


class Coming(Struct, frozen=True):
    """One line of the answer."""

    at: datetime
    nominal: datetime
    timezone: str
    job: str = ""
    deferred: bool = False


@click.command("next", cls=RotaCommand)
@click.argument("job", required=False)
@click.option(
    "-n", "count", type=click.IntRange(1, MAX_FIRES), help="Number of fires to show; default 5, with --days all."
)
@click.option("--days", type=click.IntRange(1, 3660), help="Only fires within the next N days.")
@click.option("--cron", metavar="EXPR", multiple=True, help="Preview a cron expression instead of a job. Repeatable.")
@click.option("--interval", metavar="D", help="Preview an interval instead of a job: 30s, 5m, 1h, 1d.")
@click.option("--at", "instant", metavar="TIME", help="Preview one instant instead of a job: 2026-11-16T02:30.")
@click.option(
    "--timezone",
    metavar="ZONE",
    help="Time zone of the schedule and of the output; default: the time zone of the project, or UTC.",
)
@click.option("--after", metavar="TIME", help="Show fires after this time; default: now.")
@click.pass_obj
def next_command(
    invocation: Invocation,
    *,
    job: str | None,
    count: int | None,
    days: int | None,
    cron: tuple[str, ...],
    interval: str | None,
    instant: str | None,
    timezone: str | None,
    after: str | None,
) -> None:
    """Show the next fires: of all jobs by time, of one JOB, or of a schedule given by --cron, --interval or --at."""
    limit = count or (MAX_FIRES if days else 5)
    given = [name for name, value in (("--cron", cron), ("--interval", interval), ("--at", instant)) if value]
    if len(given) > 1 or (given and job):
        raise click.UsageError(f"{' and '.join([*given, *(['a job'] if job else [])])} cannot be combined")
    now = invocation.now()
    own = timezone or (_project_zone(invocation) if given or after else "UTC")
    since = now if after is None else read_instant(after, own, now=now)
    if given:
        schedule = _schedule(cron, interval, instant, own, since=since)
        fires = next_fires(schedule, since, limit)
        found = [Coming(fire.at, fire.nominal, schedule.timezone) for fire in fires]
    else:
        found = _of_project(invocation, job, since=since if after else None, limit=limit)
    if days:
        found = [fire for fire in found if fire.at <= since + timedelta(days=days)]
    if job and not found and not invocation.as_json:
        click.echo(_why_none(invocation, job))
        return
    if not given and not job:
        invocation.tell_scope()
    _answer(invocation, found[:limit], now=now, zone=timezone, single=bool(given or job))
    if not given and not invocation.as_json:
        _tell_pauses(invocation, job)


def _project_zone(invocation: Invocation) -> str:
    """Return the project's time zone; UTC outside a project or if the file is broken."""
    from rota.operations.project.load import load_project

    try:
        place = invocation.place()
        if invocation.applied():
            with invocation.store() as (_, store):
                return invocation.zone(store)
        loaded = load_project(place.folder, invocation.environ, state=place.state, now=invocation.now())
    except RotaError:
        return "UTC"
    return loaded.declared.settings.timezone


def _schedule(
    cron: tuple[str, ...], interval: str | None, instant: str | None, timezone: str, *, since: datetime
) -> "Schedule":
    tz = zone_of(timezone).key
    if cron:
        return Schedule(cron=tuple(map(check_cron, cron)), timezone=tz)
    if interval:
        return Schedule(interval=read_duration(interval), timezone=tz)
    return Schedule(at=read_instant(instant or "", tz, now=since), timezone=tz)


def _of_project(invocation: Invocation, name: str | None, *, since: datetime | None, limit: int) -> list[Coming]:
    """Return the fires of stored jobs, or of the file before the first apply."""
    if invocation.applied():
        found = _of_stored(invocation, name, since=since, limit=limit)
        if found is not None:
            return found
    return _of_file(invocation, name, since=since, limit=limit)


def _tell_pauses(invocation: Invocation, name: str | None) -> None:
    """Print the paused jobs, whose fires are omitted."""
    from rota.operations.activity import pauses
    from rota.operations.text import jobs_paused_words

    if not invocation.applied():
        return
    with invocation.store() as (_, store):
        pause_states, zone = pauses(store).jobs, invocation.zone(store)
    paused = [
        pause for pause in pause_states if (invocation.covers(pause.job or "") if name is None else pause.job == name)
    ]
    if paused:
        told = jobs_paused_words(paused, zone=zone, now=invocation.now())
        click.echo(f"fires during a pause are omitted; paused: {told}")


def _why_none(invocation: Invocation, name: str) -> str:
    from rota.operations.jobs import show_job

    if not invocation.applied():
        return "no future fires"
    with invocation.store() as (_, store):
        view = show_job(store, name)
    return next_fire(view.job, now=invocation.now(), unfinished=view.unfinished)


def _of_stored(invocation: Invocation, name: str | None, *, since: datetime | None, limit: int) -> list[Coming] | None:
    from rota.operations.jobs import list_jobs

    with invocation.store() as (_, store):
        stored = [view.job for view in list_jobs(store)]
    chosen = [job for job in stored if (invocation.covers(job.name) if name is None else job.name == name)]
    if not chosen:
        return None
    found: list[Coming] = []
    for job in chosen:
        schedule = job.spec.schedule
        if since is None or job.paused_at is not None:
            fires = coming_fires(job, n=limit)  # fires inside a pause are left out
        else:
            fires = (
                next_fires(schedule, _begin(schedule, since), limit, created_at=job.created_at, name=job.name)
                if job.schedules
                else []
            )
        fires = [fire for fire in fires if since is None or fire.at > since]
        found += [Coming(fire.at, fire.nominal, schedule.timezone, job.name, fire.deferred) for fire in fires]
    return sorted(found, key=lambda fire: (fire.at, fire.job))


def _begin(schedule: "Schedule", since: datetime) -> datetime:
    """Return the start of the search: instants in quiet hours fire at their end."""
    quiet = waiting_run(schedule, since)
    return since if quiet is None else quiet.since - timedelta(milliseconds=1)


def _of_file(invocation: Invocation, name: str | None, *, since: datetime | None, limit: int) -> list[Coming]:
    from rota.cli.commands.check import first_fire
    from rota.operations.project.load import load_project

    place, now = invocation.place(), invocation.now()
    specs = load_project(place.folder, invocation.environ, state=place.state, now=now).declared.jobs
    chosen = [spec for spec in specs if (invocation.covers(spec.name) if name is None else spec.name == name)]
    if name is not None and not chosen:
        raise UnknownJob(name, nearest(name, [spec.name for spec in specs]))
    found: list[Coming] = []
    for spec in (spec for spec in chosen if spec.enabled):
        fires = next_fires(spec.schedule, since or now, limit, name=spec.name)
        first = first_fire(spec, now)
        if since is None and first is not None and first <= now:
            fires = [UpcomingFire(first, first), *fires]
        zone = spec.schedule.timezone
        found += [Coming(fire.at, fire.nominal, zone, spec.name, fire.deferred) for fire in fires[:limit]]
    return sorted(found, key=lambda fire: (fire.at, fire.job))


def _answer(invocation: Invocation, found: list[Coming], *, now: datetime, zone: str | None, single: bool) -> None:
    if invocation.as_json:
        print_json([_as_json(fire, zone, single=single) for fire in found])
        return
    if not found:
        click.echo("no future fires")
    width = max((len(fire.job) for fire in found), default=0)
    for fire in found:
        click.echo(_line(fire, zone, now=now, width=width))


def _line(fire: Coming, zone: str | None, *, now: datetime, width: int) -> str:
    tz = zone or fire.timezone
    local = f"{full_time(fire.at, tz, now=now, seconds=True)} {tz}"
    utc = "" if tz == "UTC" else f"  {iso(fire.at)}"
    jitter = f"  jitter +{say_duration(fire.at - fire.nominal)}" if fire.at > fire.nominal else ""
    if fire.deferred:
        jitter = say_deferred(UpcomingFire(fire.nominal, fire.at, deferred=True), tz, now=now)
    name = f"{fire.job:{width}}  " if width else ""
    return f"{name}{local}{utc}  {from_now(fire.at, now)}{jitter}"


def _as_json(fire: Coming, zone: str | None, *, single: bool) -> dict[str, Any]:
    local = fire.at.astimezone(zone_of(zone or fire.timezone))
    told = {"at": iso(fire.at), "local": local.isoformat(timespec="milliseconds" if local.microsecond else "seconds")}
    if fire.deferred:
        told["deferred_from"] = iso(fire.nominal)
    return told if single else {"job": fire.job, **told}
