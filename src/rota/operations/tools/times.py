"""The times that a tool was given, as a schedule or as the keys of a job."""

from datetime import datetime, timedelta
from typing import Any

from rota.model.errors import InvalidInstant, ToolArguments
from rota.model.spec import FirstRun, Schedule
from rota.operations.tools.arguments import Times
from rota.rules.cron import check_cron
from rota.rules.timezone import localize, zone

ONE = "give exactly one of `schedule` (cron), `interval_seconds` and `at`"


def keys_of(wanted: Times) -> dict[str, Any]:
    """Return the keys of a job that say when; raise ToolArguments unless exactly one way was chosen."""
    found: dict[str, Any] = {}
    if wanted.schedule.strip():
        found["cron"] = wanted.schedule.strip()
    if wanted.interval_seconds:
        found |= {"interval": wanted.interval_seconds, "first_run": FirstRun.AFTER_INTERVAL.value}
    if wanted.at.strip():
        found["at"] = wanted.at.strip()
    if len(found) - ("first_run" in found) != 1:
        raise ToolArguments("the times are not clear", hint=ONE)
    if wanted.schedule.strip().startswith("@reboot"):
        raise ToolArguments("schedule: a start at boot has no times", hint=ONE)
    return found | ({"timezone": wanted.timezone} if wanted.timezone else {})


def schedule_of(wanted: Times, *, default_zone: str) -> Schedule:
    """Return the schedule of times that are only looked at."""
    keys = keys_of(wanted)
    timezone = zone(wanted.timezone or default_zone).key
    if "cron" in keys:
        return Schedule(cron=(check_cron(keys["cron"]),), timezone=timezone)
    if "interval" in keys:
        interval = timedelta(seconds=wanted.interval_seconds)
        return Schedule(interval=interval, timezone=timezone, first_run=FirstRun.AFTER_INTERVAL)
    return Schedule(at=_instant(keys["at"], timezone), timezone=timezone)


def _instant(text: str, timezone: str) -> datetime:
    try:
        return localize(datetime.fromisoformat(text), timezone)
    except ValueError:
        raise InvalidInstant(f"{text!r} is no time", hint="write 2026-12-01T09:00 or 2026-12-01T09:00:00Z") from None
