"""The JSON shapes of jobs and runs, the same in every face."""

from datetime import datetime
from typing import Any

from rota.model.clock import iso
from rota.model.records import Run
from rota.model.spec import QuietHours
from rota.model.states import Status
from rota.operations.jobs import JobView
from rota.operations.runs import RunView
from rota.rules.coming import coming_fires
from rota.rules.instants import explain_schedule


def run_json(run: Run) -> dict[str, Any]:
    """Return a run in the fixed shape that others build on."""
    return {
        "id": run.id,
        "run": run.handle,
        "job": run.job,
        "status": run.status.shown.value,
        "reason": run.reason,
        "waiting_for": run.waiting_for,
        "trigger": run.trigger.value,
        "scheduled_for": iso_or_none(run.scheduled_for),
        "covers_to": iso_or_none(run.covers_to),
        "count": run.count,
        "created_at": iso(run.created_at),
        "started_at": iso_or_none(run.started_at),
        "finished_at": iso_or_none(run.finished_at),
        "attempt": run.attempt,
        "retry_of": run.retry_of,
        "exit_code": run.exit_code,
        "error": run.error,
        "result_summary": run.result_summary,
    }


def iso_or_none(at: datetime | None) -> str | None:
    """Return an instant as ISO 8601, None for none."""
    return None if at is None else iso(at)


def job_json(view: JobView, *, fires: int = 5) -> dict[str, Any]:
    """Return a job with its state, newest runs and next fires."""
    job = view.job
    return {
        "name": job.name,
        "state": view.state,
        "enabled": job.enabled,
        "paused": pause_json(job.paused_at, job.paused_until, reason=job.pause_reason),
        "source": job.source,
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


def whole_run_json(view: RunView) -> dict[str, Any]:
    """Return what is stored about a run beyond its fixed shape."""
    run, execution = view.run, view.execution
    return {
        "params": dict(run.params),
        "forced": run.forced,
        "pools": {draw.pool: draw.cost for draw in view.spec.pools},
        "version": run.version,
        "max_attempts": view.spec.retry.max_attempts,
        "chain": [one.handle for one in view.chain],
        "not_before": iso_or_none(run.not_before),
        "expires_at": iso_or_none(run.expires_at),
        "cancel_requested_at": iso_or_none(run.cancel_requested_at),
        "decisions": dict(run.decisions),
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
