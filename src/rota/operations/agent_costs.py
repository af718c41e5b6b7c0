"""What agents used, by day, job and agent. Only executions of agent jobs are looked at, so that others cost nothing."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from rota.operations.usage import by_day, total_of
from rota.rules.timezone import zone
from rota.store import jobs
from rota.store.driver import Database, Store
from rota.store.usage import Began, Used, used_by_agent, used_by_job, used_by_quarter


@dataclass(frozen=True, slots=True)
class AgentCosts:
    """What agents used since a moment: each day in order, days without a run too; who cost most first."""

    days: tuple[Used, ...]
    jobs: tuple[Used, ...]
    agents: tuple[Used, ...]
    total: Used


def look_at_agent_costs(store: Store, *, since: datetime, tz: str, now: datetime) -> AgentCosts:
    """Return what the runs of agent jobs used from the day of `since` on; `tz` is where days begin."""
    return store.read(partial(_look, since=since, tz=tz, now=now))


def _look(db: Database, *, since: datetime, tz: str, now: datetime) -> AgentCosts:
    first = since.astimezone(zone(tz)).replace(hour=0, minute=0, second=0, microsecond=0)
    asked = [job.id for job in jobs.all_jobs(db) if job.spec.work.agent is not None]
    began = Began(first, asked)
    found = by_day(used_by_quarter(db, began, now=now), tz) if asked else []
    told = {used.name: used for used in found}
    names = [(first + timedelta(days=day)).date().isoformat() for day in range((now - first).days + 1)]
    return AgentCosts(
        days=tuple(told.get(name, replace(total_of([]), name=name)) for name in names),
        jobs=tuple(sorted(used_by_job(db, began, now=now), key=_most)) if asked else (),
        agents=tuple(sorted(used_by_agent(db, began, now=now), key=_most)) if asked else (),
        total=total_of(found),
    )


def _most(used: Used) -> tuple[int, int, str]:
    return -used.usd.total, -(used.tokens_in.total + used.tokens_out.total), used.name or ""
