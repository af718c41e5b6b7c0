"""The JSON views of jobs and runs."""

import os
from functools import lru_cache
from typing import Any, TypedDict

from rota.model.clock import iso
from rota.model.records import Claim, Job
from rota.model.serialize import (
    DeliveryJson,
    RunJson,
    delivery_json,
    encode,
    fields_json,
    iso_or_none,
    run_json,
    to_shape,
)
from rota.model.states import Held, Status
from rota.operations.activity import PauseJson, pause_json
from rota.operations.groups import GroupJson, GroupView, group_json
from rota.operations.jobs import JobView
from rota.operations.runs import RunView
from rota.rules.params import params_schema
from rota.rules.schedule.instants import explain_schedule
from rota.rules.schedule.preview import UpcomingFire, coming_fires
from rota.store.tables.jobs import digest_of
from rota.text.jobs import workspace_of
from rota.text.runs import attempts_of


class FireJson(TypedDict):
    """A coming fire."""

    at: str
    scheduled_for: str
    deferred: bool


class ProvenanceJson(TypedDict):
    """The author of a job that was created with the tools."""

    by: str
    run_id: str | None
    depth: int
    at: str
    expires_at: str | None


class QuietHoursJson(TypedDict):
    """Hours without runs, and their effect on the instants within."""

    windows: list[str]
    timezone: str
    policy: str


JobJson = TypedDict(
    "JobJson",
    {
        "name": str,
        "state": str,
        "enabled": bool,
        "paused": PauseJson | None,
        "source": str,
        "made": ProvenanceJson | None,
        "provisional_since": str | None,
        "version": int,
        "kind": str,
        "description": str,
        "labels": list[str],
        "pools": dict[str, int],
        "schedule": str,
        "timezone": str,
        "quiet_hours": QuietHoursJson | None,
        "except": list[str],
        "next": list[FireJson],
        "unfinished": list[RunJson],
        "last": list[RunJson],
        "created_at": str,
        "updated_at": str,
    },
)
JobJson.__doc__ = "A job, as `rota list --json` tells it."


class WholeJobJson(JobJson):
    """A job with its definition, as `rota show JOB --json`."""

    spec: dict[str, Any]
    params_schema: dict[str, Any]
    data: Any


class ExecutionJson(TypedDict):
    """The start of a run: its process and slot."""

    id: str
    pid: int
    slot: int
    epoch: int
    started_at: str
    finished_at: str | None
    artifacts: dict[str, Any]


class WholeRunJson(RunJson):
    """A run with everything that is stored about it, as `rota show RUN --json`."""

    params: dict[str, Any]
    forced: bool
    pools: dict[str, int]
    version: int
    max_attempts: int
    chain: list[str]
    not_before: str | None
    held: str | None
    held_until: str | None
    expires_at: str | None
    cancel_requested_at: str | None
    work: Any
    workspace: Any
    worker: str | None
    decisions: dict[str, Any]
    deliveries: list[DeliveryJson]
    execution: ExecutionJson | None
    group: GroupJson | None
    result: str | None


def job_json(view: JobView, *, fires: int = 5) -> JobJson:
    """Return a job with its state, newest runs and next fires."""
    job, spec = view.job, view.job.spec
    return {
        "name": job.name,
        "state": view.state,
        "enabled": job.enabled,
        "paused": pause_json(job.paused_at, job.paused_until, reason=job.pause_reason),
        "source": job.source,
        "made": made_json(job),
        "provisional_since": iso_or_none(job.provisional_at),
        "version": job.version,
        "kind": spec.work.kind.value,
        "description": spec.description,
        "labels": list(spec.labels),
        "pools": {draw.pool: draw.cost for draw in spec.pools},
        "schedule": explain_schedule(spec.schedule),
        "timezone": spec.schedule.timezone,
        "quiet_hours": None if spec.schedule.quiet is None else to_shape(QuietHoursJson, spec.schedule.quiet),
        "except": list(spec.schedule.excluded),
        "next": fires_json(job, n=fires),
        "unfinished": [run_json(run) for run in view.unfinished],
        "last": [run_json(run) for run in view.last],
        "created_at": iso(job.created_at),
        "updated_at": iso(job.updated_at),
    }


def fires_json(job: Job, *, n: int) -> list[FireJson]:
    """Return the next fires of a job."""
    return [_fire_json(fire) for fire in coming_fires(job, n=n)]


@lru_cache(maxsize=10_000)
def _fire_json(fire: UpcomingFire) -> FireJson:
    return to_shape(FireJson, fire, scheduled_for=fire.nominal)


def whole_job_json(view: JobView, *, data: Any) -> WholeJobJson:
    """Return a job with its definition; the values of `env` are left out, they may be private."""
    spec: dict[str, Any] = encode(view.job.spec)
    spec["work"]["env"] = [variable["name"] for variable in spec["work"]["env"]]
    return {**job_json(view), "spec": spec, "params_schema": params_schema(view.job.spec.work), "data": data}


def made_json(job: Job) -> ProvenanceJson | None:
    """Return the author of a job that was created with the tools, None for others."""
    return None if job.made is None else to_shape(ProvenanceJson, job.made)


def whole_run_json(view: RunView, group: GroupView | None) -> WholeRunJson:
    """Return a run with everything that is stored about it, and its group."""
    run = view.run
    hold = view.hold if run.status is Status.QUEUED else None
    return to_shape(
        WholeRunJson,
        run,
        **run_json(run),
        pools={draw.pool: draw.cost for draw in view.spec.pools},
        max_attempts=attempts_of(run, view.spec),
        chain=[attempt.handle for attempt in view.chain],
        held=None if hold is None else Held.PROVIDER_HOLD,
        held_until=None if hold is None else hold.until,
        work=None if view.work is None else _work_json(view.work),
        workspace=_workspace_json(view),
        worker=None if view.worker is None else view.worker.called,
        deliveries=[delivery_json(delivery) for delivery in view.deliveries],
        execution=None if view.execution is None else to_shape(ExecutionJson, view.execution),
        group=None if group is None else group_json(group),
        result=view.result,
    )


def _workspace_json(view: RunView) -> dict[str, Any] | None:
    workspace, worktree = workspace_of(view.run), view.worktree
    if workspace is None:
        return None
    kept = None if worktree is None else worktree.kept_why
    return {**workspace, "there": os.path.isdir(workspace["path"]), "kept": kept}


def _work_json(claim: Claim) -> dict[str, Any]:
    item = claim.item
    return {
        "source": claim.source.title,
        **fields_json(claim, "claim", "state"),
        "item": None if item is None else fields_json(item, "id", "title", "url"),
        **fields_json(claim, "asked_at", "claimed_at", "told_at"),
        "tries": claim.attempts,
        "error": claim.error,
    }


def provisional_json(job: Job) -> dict[str, Any]:
    """Return a job that waits, or waited, for approval: exactly the definition that is approved."""
    work = job.spec.work.agent
    return {
        "id": job.id,
        "job": job.name,
        "digest": digest_of(job.spec),
        "provisional_since": iso_or_none(job.provisional_at),
        "made": made_json(job),
        "prompt": work.prompt if work else "",
        "agent": work.agent if work else None,
        "model": work.model if work else None,
        "access": work.access.value if work else None,
        "allowed_tools": list(work.allowed_tools) if work else [],
        "max_usd": work.max_usd if work else None,
        "budgets": [spend.account for spend in job.spec.budgets],
        "schedule": explain_schedule(job.spec.schedule),
    }
