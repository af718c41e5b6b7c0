"""When a job is due, from its keys: zones by name, instants, days left out and quiet hours."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from rota.declare.excluding import KEY as EXCEPT
from rota.declare.excluding import Calendars, resolve_except
from rota.declare.fields import REBOOT, Refused, shown, to_datetime
from rota.declare.fitting import Keys
from rota.declare.quiet_hours import WrittenQuiet, quiet_of
from rota.declare.surroundings import Surroundings
from rota.declare.troubles import Trouble, troubles_below
from rota.model.clock import cut_to_ms
from rota.model.errors import RotaError
from rota.model.spec import Anchor, ByMode, FirstRun, Schedule
from rota.rules.timezone import localize


def except_troubles(keys: dict[str, Any], calendars: Calendars) -> list[Trouble]:
    """Put the days that `except` names into `keys`; return what is wrong with them."""
    return troubles_below(EXCEPT, resolve_except(keys, calendars))


def resolve_times(keys: dict[str, Any], around: Surroundings) -> list[Trouble]:
    """Put the zone's name and instants in the place of what was written, in `keys`; return what cannot be."""
    troubles: list[Trouble] = []
    try:
        zone = keys.get("timezone", around.timezone)
        keys["timezone"] = around.local_zone() if zone == "local" else zone
    except RotaError as error:
        keys["timezone"] = "UTC"
        troubles.append(Trouble(("timezone",), error.message, "timezone", error.hint))
    for key in ("at", "start_at", "end_at"):
        if key in keys:
            keys[key], wrong = _instant(key, keys[key], keys["timezone"])
            troubles += wrong
    start_at, end_at = keys.get("start_at"), keys.get("end_at")
    if start_at and end_at and end_at <= start_at:
        troubles.append(Trouble(("end_at",), "is not after `start_at`", hint="no instant lies between them"))
    return troubles + _resolve_quiet(keys, around)


def _resolve_quiet(keys: dict[str, Any], around: Surroundings) -> list[Trouble]:
    written: WrittenQuiet | None = keys.get("quiet_hours")
    try:
        if written is not None and written.timezone == "local":
            written = replace(written, timezone=around.local_zone())
        keys["quiet"] = quiet_of(written, around.quiet, schedule_of(keys))
    except (Refused, RotaError) as error:
        code = error.code if isinstance(error, Refused) else "timezone"
        return [Trouble(("quiet_hours",), error.message, code, error.hint, ("cron", "interval", "at"))]
    return []


def _instant(key: str, text: str, zone: str) -> tuple[datetime | None, list[Trouble]]:
    if key == "at" and len(text) <= len("2026-11-15"):
        message = f"{shown(text)} names a day but no time"
        return None, [Trouble((key,), message, "instant", "add one: 2026-11-15 08:30")]
    try:
        return cut_to_ms(localize(to_datetime(text), zone)), []
    except RotaError as error:
        return None, [Trouble((key,), error.message, "instant", error.hint)]


def schedule_of(keys: Keys) -> Schedule:
    """Return the schedule that keys say whose times were resolved."""
    jitter, interval, cron = keys.get("jitter"), keys.get("interval"), keys.get("cron", ())
    return Schedule(
        cron=() if cron == (REBOOT,) else cron,
        reboot=cron == (REBOOT,),
        interval=None if isinstance(interval, ByMode) else interval,
        by_mode=interval if isinstance(interval, ByMode) else None,
        at=keys.get("at"),
        timezone=keys["timezone"],
        start_at=keys.get("start_at"),
        end_at=keys.get("end_at"),
        anchor=keys.get("anchor", Anchor.COMPLETION),
        first_run=keys.get("first_run", FirstRun.NOW),
        jitter=jitter if jitter and (jitter.up_to or jitter.percent) else None,
        run_once=keys.get("run_once", False),
        quiet=keys.get("quiet"),
        excluded=keys.get("except", ()),
    )
