"""What executions used, added up by the database. A run that does not tell is counted as such, never as nothing."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rota.model.clock import MILLISECOND, from_ms, to_ms
from rota.store.driver import Database
from rota.store.rows import Record

AMOUNTS = ("tokens_in", "tokens_out", "requests", "usd")
QUARTER = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Amount:
    """A sum over those of the runs that tell, and how many do."""

    told: int = 0
    total: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.told + other.told, self.total + other.total)


@dataclass(frozen=True, slots=True)
class Used:
    """What runs and direct calls used; `usd` in millionths. `name` None: those of no job, or of no known model."""

    name: str | None
    runs: int
    took: timedelta
    tokens_in: Amount
    tokens_out: Amount
    requests: Amount
    usd: Amount


@dataclass(frozen=True, slots=True)
class Began:
    """Which executions are looked at: those that began at `since` or later, of these jobs; None: of all."""

    since: datetime
    job_ids: Sequence[str] | None = None


def used_by_job(db: Database, began: Began, *, now: datetime) -> list[Used]:
    """Return what each job used."""
    return [_used(row) for row in db.records("usage_by_job", **_params(began, now))]


def used_by_agent(db: Database, began: Began, *, now: datetime) -> list[Used]:
    """Return what each agent used; what no agent did stands alone, without a name."""
    return [_used(row) for row in db.records("usage_by_agent", **_params(began, now))]


def used_by_model(db: Database, began: Began, *, now: datetime) -> list[Used]:
    """Return what was used of each model."""
    return [_used(row) for row in db.records("usage_by_model", **_params(began, now))]


def used_by_quarter(db: Database, began: Began, *, now: datetime) -> list[tuple[datetime, Used]]:
    """Return what was used in each quarter of an hour, in order: a day of any time zone is made of whole ones."""
    rows = db.records("usage_by_quarter", quarter=QUARTER // MILLISECOND, **_params(began, now))
    return [(from_ms(row["name"] * (QUARTER // MILLISECOND)), _used({**row, "name": None})) for row in rows]


def _params(began: Began, now: datetime) -> dict[str, Any]:
    jobs = None if began.job_ids is None else json.dumps(list(began.job_ids))
    return {"since": to_ms(began.since), "jobs": jobs, "now": to_ms(now)}


def _used(row: Record) -> Used:
    amounts = {name: Amount(row[f"{name}_told"], row[name]) for name in AMOUNTS}
    return Used(name=row["name"], runs=row["runs"], took=row["took"] * MILLISECOND, **amounts)
