"""The summary for clients that poll: counts, mode and next due time, in one cheap read."""

from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from msgspec import Struct

from rota.engine.activity import project_mode
from rota.model.records import Job
from rota.model.serialize import iso_or_none
from rota.model.spec import Mode
from rota.model.states import SHOWN, Status
from rota.operations.status.heartbeat import Heartbeat, Liveness, heartbeat, with_ticks
from rota.operations.workers import Presence, WorkerState, remote_workers, worker_json, worker_states
from rota.rules.activity import suggested_poll
from rota.store.driver import Database, Store
from rota.store.tables import activity, jobs, runs

WORDS = {
    Status.QUEUED: "incoming",
    Status.RUNNING: "claimed",
    Status.COMPLETED: "done",
    Status.FAILED: "failed",
    Status.SKIPPED: "skipped",
    Status.CANCELLED: "cancelled",
}
"""The names of statuses in the summary."""

Counts = dict[Status, int]


class WorkerView(Struct, frozen=True):
    """A worker, whether it is present, and the numbers of its runs."""

    id: str
    name: str
    registered: bool
    counts: Counts
    state: WorkerState


class SchedulerSummary(Struct, frozen=True):
    """The summary of the scheduler. `registered` is None unless the query names a worker."""

    heartbeat: Heartbeat
    counts: Counts
    claimable: bool
    registered: bool | None
    workers: tuple[WorkerView, ...]
    mode: Mode
    next_due_at: datetime | None
    suggested_poll_seconds: int
    provisional: tuple[Job, ...] = ()
    """The jobs that wait for approval."""


def summarise(store: Store, state: Path, *, now: datetime, worker: str | None = None) -> SchedulerSummary:
    """Return the summary; `worker` is the identifier or name of a worker to look up."""
    return store.read(partial(summarise_in, state=state, beat=heartbeat(state), now=now, worker=worker))


def summarise_in(
    db: Database, *, state: Path, beat: Heartbeat, now: datetime, worker: str | None = None
) -> SchedulerSummary:
    """Return the summary inside a transaction."""
    from rota.engine.transactions.claim import anything_goes

    beat = with_ticks(db, beat, now=now)
    counts = runs.counts(db)
    workers = tuple(
        WorkerView(
            seen.worker.id,
            seen.worker.called,
            registered=beat.liveness is Liveness.TICKING or seen.presence is not Presence.GONE,
            counts={
                status: counts.get(status, {}).get(seen.worker.id, 0) for status in SHOWN if status != Status.QUEUED
            },
            state=seen,
        )
        for seen in worker_states(db, state)
    )
    mode, due = project_mode(db, now=now).mode, jobs.next_due_but(db, activity.POLL)
    return SchedulerSummary(
        heartbeat=beat,
        counts={status: sum(counts.get(status, {}).values()) for status in SHOWN},
        claimable=(beat.alive and bool(beat.answer.get("enabled", True)) and beat.slots > beat.slots_taken)
        and anything_goes(db, now=now),
        registered=None if worker is None else _registered(db, worker, workers, now=now),
        workers=workers,
        mode=mode,
        next_due_at=due,
        suggested_poll_seconds=suggested_poll(mode, next_due_at=due, now=now),
        provisional=tuple(jobs.provisional_jobs(db)),
    )


def _registered(db: Database, worker: str, workers: tuple[WorkerView, ...], *, now: datetime) -> bool:
    """Return whether a worker is present: one of this database, or a registered remote scheduler."""
    here = any(view.registered for view in workers if worker in (view.id, view.name))
    return here or any(remote.registered(now) for remote in remote_workers(db) if worker in (remote.id, remote.name))


class SummaryJson(TypedDict):
    """A summary for pollers, as `rota status --poll --json`."""

    queue_counts: dict[str, int]
    claimable: bool
    provisional_tasks: list[dict[str, Any]]
    orchestrator_registered: bool | None
    workers: list[dict[str, Any]]
    state: str
    mode: str
    next_due_at: str | None
    suggested_poll_seconds: int


def summary_json(found: SchedulerSummary) -> SummaryJson:
    """Return the summary as JSON."""
    provisional = [_provisional_json(job) for job in found.provisional]
    return {
        "queue_counts": {**_counts_json(found.counts), "provisional": len(provisional)},
        "claimable": found.claimable,
        "provisional_tasks": provisional,
        "orchestrator_registered": found.registered,
        "workers": [
            {**worker_json(worker.state, counts=_counts_json(worker.counts)), "registered": worker.registered}
            for worker in found.workers
        ],
        "state": found.heartbeat.liveness.value,
        "mode": found.mode.value,
        "next_due_at": iso_or_none(found.next_due_at),
        "suggested_poll_seconds": found.suggested_poll_seconds,
    }


def _provisional_json(job: Job) -> dict[str, Any]:
    from hashlib import sha256

    work = job.spec.work.agent
    return {
        "id": job.id,
        "job": job.name,
        "prompt_digest": sha256(work.prompt.encode()).hexdigest() if work else None,
        "digest": jobs.digest_of(job.spec),
        "made_by": job.made.by if job.made else None,
        "waiting_since": iso_or_none(job.provisional_at),
    }


def _counts_json(counts: Counts) -> dict[str, int]:
    return {WORDS[status]: number for status, number in counts.items()}
