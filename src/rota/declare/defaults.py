"""The sections that every job is seen against: what they all share, the defaults and the quiet hours."""

from dataclasses import replace
from typing import Any

from rota.declare.contradictions import draw_troubles, name_troubles, target_troubles
from rota.declare.excluding import Calendars
from rota.declare.findings import Findings
from rota.declare.fitting import Keys
from rota.declare.job_keys import DefaultsSection
from rota.declare.quiet_hours import WrittenQuiet
from rota.declare.reading import read_map
from rota.declare.schedules import except_troubles
from rota.declare.sections import Origin, Sections, named_zone
from rota.declare.spelling import one_spelling
from rota.declare.surroundings import Surroundings
from rota.model.spec import QuietHours, QuietPolicy
from rota.settings import Settings

UNREADABLE = QuietHours(("00:00-00:01",))
"""Stands for quiet hours that have a problem of their own, so that jobs which refer to them have none."""


def read_surroundings(
    sections: Sections, settings: Settings, *, origin: Origin, calendars: Calendars, findings: Findings
) -> Surroundings:
    """Return what the project gives to each of its jobs, all but its agents."""
    around = Surroundings(
        folder=str(origin.folder),
        home=origin.home,
        timezone=settings.timezone,
        local_zone=origin.local_zone,
        timeout=settings.scheduler.timeout,
        python=settings.python,
        retention=settings.retention,
        pools=None if findings.told(("pools",)) else settings.pools,
        budgets=None if findings.told(("budgets",)) else settings.budgets,
        targets=None if findings.told(("notify",)) else settings.notify,
        calendars=calendars,
        included=origin.host is not None,
    )
    defaults = _defaults(findings.document.data.get("defaults", {}), around, findings=findings)
    quiet = _quiet_hours(sections.get("quiet_hours"), origin, findings=findings, zone=settings.timezone)
    return replace(around, defaults=defaults, quiet=quiet)


def _defaults(written: Any, around: Surroundings, *, findings: Findings) -> Keys:
    """Return the keys that jobs have where they do not write them."""
    keys, unreadable = read_map(DefaultsSection, written)
    keys, twice = one_spelling(keys)
    troubles = [*unreadable, *except_troubles(keys, around.calendars), *twice]
    troubles += draw_troubles(keys, around.pools) + name_troubles(keys, around.budgets)
    findings.tell(("defaults",), troubles + target_troubles(keys, around.targets))
    return keys


def _quiet_hours(written: WrittenQuiet | None, origin: Origin, *, findings: Findings, zone: str) -> QuietHours | None:
    """Return the file's quiet hours, in a zone that is known by name."""
    if written is None:
        return UNREADABLE if "quiet_hours" in findings.document.data else None
    key = ("quiet_hours", "timezone")
    named = named_zone(written.timezone or zone, origin, findings=findings, key=key, otherwise=zone)
    return QuietHours(written.windows, named, written.policy or QuietPolicy.DORMANT)
