"""The JSON views of jobs and runs."""

import os
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.engine.activity import PauseState, everything_paused, paused_jobs
from rota.model.clock import iso
from rota.model.records import Claim, Job
from rota.model.serialize import delivery_json, encode, iso_or_none, run_json
from rota.model.spec import JobSpec, QuietHours
from rota.model.states import Held, Status
from rota.operations.jobs import JobView
from rota.operations.runs import RunView
from rota.rules.schedule.instants import explain_schedule
from rota.rules.schedule.preview import coming_fires
from rota.store.driver import Database, Store
from rota.store.tables.jobs import digest_of
from rota.text.jobs import workspace_of
from rota.text.runs import attempts_of


def job_json(view: JobView, *, fires: int = 5) -> dict[str, Any]:
    """Return a job with its state, newest runs and next fires."""
    job = view.job
    return {
        "name": job.name,
        "state": view.state,
        "enabled": job.enabled,
        "paused": pause_json(job.paused_at, job.paused_until, reason=job.pause_reason),
        "source": job.source,
        "made": made_json(job),
        "provisional_since": iso_or_none(job.provisional_at),
        "version": job.version,
        "kind": job.spec.work.kind.value,
        "description": job.spec.description,
        "labels": list(job.spec.labels),
        "pools": {draw.pool: draw.cost for draw in job.spec.pools},
        "schedule": explain_schedule(job.spec.schedule),
        "timezone": job.spec.schedule.timezone,
        "quiet_hours": quiet_json(job.spec.schedule.quiet),
        "except": list(job.spec.schedule.excluded),
        "next": [
            {"at": iso(fire.at), "scheduled_for": iso(fire.nominal), "deferred": fire.deferred}
            for fire in coming_fires(job, n=fires)
        ],
        "unfinished": [run_json(run) for run in view.unfinished],
        "last": [run_json(run) for run in view.last],
        "created_at": iso(job.created_at),
        "updated_at": iso(job.updated_at),
    }


def spec_json(spec: JobSpec) -> dict[str, Any]:
    """Return the definition of a job; the values of `env` are left out, they may be private."""
    told: dict[str, Any] = encode(spec)
    told["work"]["env"] = [variable["name"] for variable in told["work"]["env"]]
    return told


def made_json(job: Job) -> dict[str, Any] | None:
    """Return who made a job with the tools, None for others."""
    made = job.made
    if made is None:
        return None
    return {
        "by": made.by,
        "run_id": made.run_id,
        "depth": made.depth,
        "at": iso(made.at),
        "expires_at": iso_or_none(made.expires_at),
    }


def quiet_json(quiet: QuietHours | None) -> dict[str, Any] | None:
    """Return quiet hours as JSON, None for none."""
    if quiet is None:
        return None
    return {"windows": list(quiet.windows), "timezone": quiet.timezone, "policy": quiet.policy.value}


def pause_json(since: datetime | None, until: datetime | None, *, reason: str | None) -> dict[str, Any] | None:
    """Return a pause as JSON, None for none."""
    return None if since is None else {"since": iso(since), "until": iso_or_none(until), "reason": reason or ""}


def is_failing(view: JobView) -> bool:
    """Tell whether the newest finished run of a job failed."""
    finished = [run for run in view.last if run.status in (Status.COMPLETED, Status.FAILED)]
    return bool(finished) and finished[0].status is Status.FAILED


def _held(view: RunView) -> Held | None:
    """Return whether the hold of its provider keeps a queued run, as far as stored data tells (R-02)."""
    return Held.PROVIDER_HOLD if view.hold is not None and view.run.status is Status.QUEUED else None


def whole_run_json(view: RunView) -> dict[str, Any]:
    """Return what is stored about a run beyond its fixed shape."""
    run, execution = view.run, view.execution
    return {
        "params": dict(run.params),
        "forced": run.forced,
        "pools": {draw.pool: draw.cost for draw in view.spec.pools},
        "version": run.version,
        "max_attempts": attempts_of(run, view.spec),
        "chain": [one.handle for one in view.chain],
        "not_before": iso_or_none(run.not_before),
        "held": _held(view),
        "held_until": iso_or_none(view.hold.until if _held(view) and view.hold else None),
        "expires_at": iso_or_none(run.expires_at),
        "cancel_requested_at": iso_or_none(run.cancel_requested_at),
        "work": None if view.work is None else work_json(view.work),
        "workspace": workspace_json(view),
        "worker": None if view.worker is None else view.worker.called,
        "decisions": dict(run.decisions),
        "deliveries": [delivery_json(one) for one in view.deliveries],
        "execution": None
        if execution is None
        else {
            "id": execution.id,
            "pid": execution.pid,
            "slot": execution.slot,
            "epoch": execution.epoch,
            "started_at": iso(execution.started_at),
            "finished_at": iso_or_none(execution.finished_at),
            "artifacts": dict(execution.artifacts),
        },
    }


def workspace_json(view: RunView) -> dict[str, Any] | None:
    """Return the folder of its own that an agent worked in, and whether it is still there."""
    told, worktree = workspace_of(view.run), view.worktree
    if told is None:
        return None
    return {**told, "there": os.path.isdir(told["path"]), "kept": None if worktree is None else worktree.kept_why}


def work_json(claim: Claim) -> dict[str, Any]:
    """Return what a run asked of its work source."""
    item = claim.item
    return {
        "source": claim.source.title,
        "claim": claim.claim,
        "state": claim.state.value,
        "item": None if item is None else {"id": item.id, "title": item.title, "url": item.url},
        "asked_at": iso(claim.asked_at),
        "claimed_at": iso_or_none(claim.claimed_at),
        "told_at": iso_or_none(claim.told_at),
        "tries": claim.attempts,
        "error": claim.error,
    }


def provisional_json(job: Job) -> dict[str, Any]:
    """Return a job that waits, or waited, for approval: exactly what is approved."""
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


@dataclass(frozen=True, slots=True)
class Pauses:
    """What is paused now: everything, and each job."""

    everything: PauseState | None
    jobs: tuple[PauseState, ...]


def pauses(store: Store) -> Pauses:
    """Return what is paused."""
    return store.read(pauses_in)


def pauses_in(db: Database) -> Pauses:
    """Return what is paused, inside a transaction."""
    return Pauses(everything_paused(db), tuple(paused_jobs(db)))
