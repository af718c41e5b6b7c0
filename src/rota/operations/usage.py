"""What runs and direct calls used: time, tokens, requests and money, by job, agent, model or day."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from itertools import groupby
from typing import Any

from rota.model.clock import iso
from rota.operations.jobs import find_job
from rota.operations.project import in_scope
from rota.rules.timezone import zone
from rota.store import jobs
from rota.store.driver import Database, Store
from rota.store.usage import AMOUNTS, Amount, Began, Used, used_by_agent, used_by_job, used_by_model, used_by_quarter


class By(StrEnum):
    """What usage is told by."""

    JOB = "job"
    AGENT = "agent"
    MODEL = "model"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class UsageView:
    """What was used since a moment: by day in order, else the one that took longest first."""

    by: By
    since: datetime
    until: datetime
    rows: tuple[Used, ...]
    total: Used


def look_at_usage(
    store: Store, *, by: By, since: datetime, tz: str, now: datetime, job: str | None = None, scope: str = ""
) -> UsageView:
    """Return what was used from `since` to now; `tz` is where days begin, `scope` an included project."""
    return store.read(partial(_look, by=by, since=since, tz=tz, now=now, job=job, scope=scope))


def _look(db: Database, *, by: By, since: datetime, tz: str, now: datetime, job: str | None, scope: str) -> UsageView:
    began = Began(since, _chosen(db, job, scope))
    if by is By.DAY:
        rows = by_day(used_by_quarter(db, began, now=now), tz)
    else:
        found = _READERS[by](db, began, now=now)
        rows = sorted(found, key=lambda used: (-used.took, used.name or ""))
    return UsageView(by, since, now, tuple(rows), total_of(rows))


_READERS = {By.JOB: used_by_job, By.AGENT: used_by_agent, By.MODEL: used_by_model}


def _chosen(db: Database, job: str | None, scope: str) -> list[str] | None:
    if job is not None:
        return [find_job(db, job).id]
    return [one.id for one in jobs.all_jobs(db) if in_scope(one.name, scope)] if scope else None


def by_day(quarters: Sequence[tuple[datetime, Used]], tz: str) -> list[Used]:
    """Return what was used on each day of a zone that has runs, in order."""
    days = groupby(quarters, key=lambda one: one[0].astimezone(zone(tz)).date().isoformat())
    return [replace(total_of([used for _, used in alike]), name=day) for day, alike in days]


def total_of(rows: Sequence[Used]) -> Used:
    """Return all of them together."""
    amounts = {name: sum((getattr(used, name) for used in rows), Amount()) for name in AMOUNTS}
    return Used(None, sum(used.runs for used in rows), sum((used.took for used in rows), timedelta()), **amounts)


def usage_json(view: UsageView) -> dict[str, Any]:
    """Return usage as JSON."""
    return {
        "by": view.by.value,
        "since": iso(view.since),
        "until": iso(view.until),
        "rows": [{view.by.value: used.name, **used_json(used)} for used in view.rows],
        "total": used_json(view.total),
    }


def used_json(used: Used) -> dict[str, Any]:
    """Return sums; null where no run tells, and how many do not tell beside each."""
    found: dict[str, Any] = {"runs": used.runs, "seconds": round(used.took.total_seconds(), 3)}
    amounts = {name: getattr(used, name) for name in AMOUNTS}
    amounts["usd_millionths"] = amounts.pop("usd")
    for name, amount in amounts.items():
        found[name] = amount.total if amount.told else None
        found[f"{name}_unknown_runs"] = used.runs - amount.told
    return found
