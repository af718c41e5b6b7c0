"""Jobs for the tests of rules: a stored job in one line."""

from datetime import UTC, datetime, timedelta
from typing import Any

from rota.model.records import Job
from rota.model.spec import JobSpec, Kind, Misfire, Overlap, Schedule, Work
from rota.rules.schedule.cursor import Cursor, cursor_at, first_cursor
from rota.rules.schedule.instants import first_instant

CREATED = datetime(2026, 11, 15, 12, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def spec(schedule: Schedule, **policies: Any) -> JobSpec:
    return JobSpec("backup", Work(Kind.COMMAND, command=("true",)), schedule, **policies)


def _cursor(definition: JobSpec, created_at: datetime) -> Cursor:
    """Return the cursor of a job whose first instant may be the creation itself, also for cron."""
    if definition.schedule.cron and definition.enabled:
        first = first_instant(definition.schedule, since=created_at, created_at=created_at)
        return cursor_at(definition.schedule, first, name="backup", created_at=created_at)
    return first_cursor(definition, created_at=created_at)


def job(
    schedule: Schedule,
    *,
    misfire: Misfire | None = None,
    overlap: Overlap | None = None,
    enabled: bool = True,
    **stored: Any,
) -> Job:
    definition = spec(schedule, misfire=misfire or Misfire(), overlap=overlap or Overlap(), enabled=enabled)
    created_at = stored.pop("created_at", CREATED)
    cursor = _cursor(definition, created_at)
    fields: dict[str, Any] = {
        "id": "job-1",
        "name": "backup",
        "source": "file",
        "version": 1,
        "spec": definition,
        "created_at": created_at,
        "updated_at": created_at,
        "enabled": enabled,
        "retired_at": None,
        "used_up_at": None,
        "next_for": cursor.next_for,
        "next_at": cursor.next_at,
        "anchored_at": None,
        "fire_number": 0,
        "run_number": 0,
        "ledger_from": created_at,
    }
    return Job(**(fields | stored))
