"""What is worth telling about a valid file: readings of cron that surprise, instants far away or gone."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from rota.model.clock import iso
from rota.model.spec import FirstRun, JobSpec
from rota.rules.coming import next_fires, wholly_quiet
from rota.rules.instants import next_instant
from rota.rules.lull import defers, has_lulls

FAR = timedelta(days=366)


def notes_on(jobs: Sequence[JobSpec], *, now: datetime | None = None) -> tuple[str, ...]:
    """Return the notes on `jobs`; those that depend on the time only when `now` is given."""
    notes = [note for spec in jobs for note in _on_cron(spec)]
    if now is not None:
        notes += [note for spec in jobs if (note := _on_time(spec, now) or _on_lulls(spec, now))]
    return (*notes, *_on_first_runs(jobs, now))


def _on_cron(spec: JobSpec) -> list[str]:
    return [
        f'{spec.name}: "{cron}" fires on each day that matches its day of month or its weekday, as cron does, '
        "not only where both match"
        for cron in spec.schedule.cron
        if _restricts_both_days(cron)
    ]


def _restricts_both_days(cron: str) -> bool:
    fields = cron.split()
    return len(fields) == 5 and not fields[2].startswith("*") and not fields[4].startswith("*")


def _on_time(spec: JobSpec, now: datetime) -> str | None:
    at = spec.schedule.at
    if at is not None and at <= now:
        return f"{spec.name}: {iso(at)} is in the past; `misfire: {spec.misfire.policy}` decides whether it still runs"
    if spec.schedule.end_at is not None and spec.schedule.end_at <= now:
        return f"{spec.name}: ended {iso(spec.schedule.end_at)} and does not fire any more"
    if not spec.schedule.cron:
        return None
    fires = next_fires(spec.schedule, now, 1, name=spec.name)
    if fires and fires[0].nominal - now > FAR:
        return f"{spec.name}: fires next on {fires[0].nominal.date()}, more than a year from now"
    return None


def _on_lulls(spec: JobSpec, now: datetime) -> str | None:
    """Return that a job runs later than it says, or never, by quiet hours (R-17) and excluded dates."""
    schedule = spec.schedule
    if not has_lulls(schedule) or schedule.follows_runs:
        return None
    if defers(schedule) and wholly_quiet(schedule, since=now, created_at=now):
        return f"{spec.name}: every instant lies in quiet hours and waits for their end; `quiet_hours: ignore` runs it"
    instant = next_instant(schedule, after=now, created_at=now)
    if instant is not None and not next_fires(schedule, now, 1, name=spec.name):
        return f"{spec.name}: never runs, as quiet hours and `except` leave none of its instants"
    return None


def _on_first_runs(jobs: Sequence[JobSpec], now: datetime | None) -> list[str]:
    names = [
        spec.name
        for spec in jobs
        if spec.schedule.repeats and spec.schedule.first_run is FirstRun.NOW and spec.enabled
        if spec.schedule.start_at is None or (now is not None and spec.schedule.start_at <= now)
    ]
    if not names:
        return []
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    start = "starts as soon as it is" if len(names) == 1 else "start as soon as they are"
    return [f"{listed}: {start} new and applied; `first_run: after_interval` waits"]
