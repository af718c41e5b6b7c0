"""Digests: what ran, what agents did, what failed and what waits for a person, from stored rows alone."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict

from rota.model.attention import Attention
from rota.model.clock import iso
from rota.model.records import Job, Run, cut
from rota.model.serialize import to_shape
from rota.operations.budgets import AccountView, account_views
from rota.operations.status.heartbeat import Heartbeat
from rota.operations.status.status import needs_at
from rota.rules.budgets import say_used
from rota.rules.notifications import LONGEST_DIGEST
from rota.store.driver import Database, Store
from rota.store.tables import digests, jobs, queue, work_items
from rota.store.tables.jobs import timezone_of

JOBS, AGENT_RUNS, FAILURES, ITEMS, BUDGETS = 30, 20, 20, 20, 20
"""How many entries of each part a digest names; it counts the others."""
TEXT = 300
DAY = timedelta(days=1)
STATUSES = {4: "completed", 5: "failed", 6: "skipped", 7: "cancelled"}


class JobCountJson(TypedDict):
    """The numbers of ended runs of a job."""

    job: str
    completed: int
    failed: int
    skipped: int
    cancelled: int


class AgentRunJson(TypedDict):
    """A run of an agent."""

    run: str
    job: str
    agent: str
    status: str
    reason: str | None
    summary: str | None
    branch: str | None
    tokens: int | None
    usd_millionths: int | None


class FailureJson(TypedDict):
    """A failed run that was not retried."""

    run: str
    reason: str | None
    error: str | None


class ItemJson(TypedDict):
    """An item that needs attention and is not acknowledged."""

    topic: str
    name: str
    kind: str
    what: str
    command: str
    about: str | None


class BudgetUseJson(TypedDict):
    """The use of a budget in its current window."""

    name: str
    unit: str
    used: int
    limit: int
    text: str


class DigestJson(TypedDict):
    """A digest, as `rota digest --json`; money in millionths of a dollar. `more_…` counts what it does not name."""

    since: str
    until: str
    timezone: str
    counts: dict[str, int]
    jobs: list[JobCountJson]
    more_jobs: int
    agents: list[AgentRunJson]
    more_agents: int
    failed: list[FailureJson]
    more_failed: int
    attention: list[ItemJson]
    more_attention: int
    budgets: list[BudgetUseJson]


def look_at_digest(
    store: Store, *, beat: Heartbeat, since: datetime | None, zone: str, now: datetime, target: str | None = None
) -> DigestJson:
    """Return the digest since an instant; without one since the last digest of a target, else of a day."""

    def read(db: Database) -> DigestJson:
        needs = needs_at(db, beat=beat, zone=zone, now=now)
        items = [need.attention for need in needs if need.seen is None]
        return build(db, since or _last(db, target, now=now), now, items=items)

    return store.read(read)


def _last(db: Database, target: str | None, *, now: datetime) -> datetime:
    last = digests.last_digests(db)
    found = last.get(target) if target is not None else max(last.values(), default=None)
    return found if found is not None and now - LONGEST_DIGEST <= found < now else now - DAY


def build(db: Database, since: datetime, until: datetime, *, items: Sequence[Attention]) -> DigestJson:
    """Return the digest of a time."""
    by_job = _by_job(db, since=since, until=until)
    agents = _agent_runs(db, by_job, since=since, until=until)
    failed = digests.failed(db, since=since, until=until, limit=FAILURES + 1)
    failures = sum(one["failed"] for one in by_job)
    return {
        "since": iso(since),
        "until": iso(until),
        "timezone": timezone_of(db),
        "counts": {status: sum(one[status] for one in by_job) for status in STATUSES.values()},  # type: ignore[literal-required]
        "jobs": by_job[:JOBS],
        "more_jobs": max(len(by_job) - JOBS, 0),
        "agents": [_agent_json(db, job, run) for job, run in agents[:AGENT_RUNS]],
        "more_agents": max(len(agents) - AGENT_RUNS, 0),
        "failed": [_failure_json(run) for run in queue.runs_of(db, failed[:FAILURES])],
        "more_failed": max(failures - FAILURES, 0) if len(failed) > FAILURES else 0,
        "attention": [
            to_shape(ItemJson, item, what=cut(item.what, TEXT) or "", about=item.subject or None)
            for item in items[:ITEMS]
        ],
        "more_attention": max(len(items) - ITEMS, 0),
        "budgets": [_budget_json(view) for view in account_views(db, now=until)[:BUDGETS] if view.declared],
    }


def _by_job(db: Database, *, since: datetime, until: datetime) -> list[JobCountJson]:
    found: dict[str, JobCountJson] = {}
    for job, status, count in digests.counts(db, since=since, until=until):
        none: JobCountJson = {"job": job, "completed": 0, "failed": 0, "skipped": 0, "cancelled": 0}
        found.setdefault(job, none)[STATUSES[status]] = count  # type: ignore[literal-required]
    return sorted(found.values(), key=lambda one: (-one["failed"], one["job"]))


def _agent_runs(
    db: Database, by_job: Sequence[JobCountJson], *, since: datetime, until: datetime
) -> list[tuple[Job, Run]]:
    names = {one["job"] for one in by_job}
    found = []
    for job in jobs.all_jobs(db):
        if job.name in names and job.spec.work.agent is not None:
            ids = digests.runs_of(db, job.id, since=since, until=until, limit=AGENT_RUNS + 1)
            found += [(job, run) for run in queue.runs_of(db, ids)]
    return sorted(found, key=lambda pair: pair[1].finished_at or since, reverse=True)


def _agent_json(db: Database, job: Job, run: Run) -> AgentRunJson:
    worktree, usage, agent = work_items.worktree_of_run(db, run.id), run.usage, job.spec.work.agent
    tokens = [usage[key] for key in ("tokens_in", "tokens_out") if usage.get(key) is not None]
    return {
        "run": run.handle,
        "job": job.name,
        "agent": agent.agent if agent is not None else "",
        "status": run.status.shown,
        "reason": run.reason.value if run.reason else None,
        "summary": cut(run.result_summary or run.error or "", TEXT) or None,
        "branch": worktree.branch if worktree is not None and worktree.kept_at is not None else None,
        "tokens": sum(tokens) if tokens else None,
        "usd_millionths": usage.get("usd_millionths"),
    }


def _failure_json(run: Run) -> FailureJson:
    reason = run.reason.value if run.reason else None
    return {"run": run.handle, "reason": reason, "error": cut(run.error or "", TEXT) or None}


def _budget_json(view: AccountView) -> BudgetUseJson:
    account = view.account
    text = say_used(view.used, account.limit, account.unit)
    return {"name": account.name, "unit": account.unit.value, "used": view.used, "limit": account.limit, "text": text}


def digest_of(db: Database, since: datetime, until: datetime, *, items: Sequence[Attention]) -> dict[str, Any]:
    """Return a digest as the payload of a message."""
    return dict(build(db, since, until, items=items))
