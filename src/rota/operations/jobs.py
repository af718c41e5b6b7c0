"""Jobs as they are stored: find, list and show them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any

from rota.model.errors import UnknownJob
from rota.model.records import Job, Run
from rota.model.states import Status
from rota.store import finding, jobs
from rota.store.driver import Database, Store

TIMEZONE_KEY = "timezone"
HELD = "held: "
"""How the problem of a file begins whose change waits for a person."""
ENABLED_KEY = "scheduler_enabled"
LAST_OUTCOMES = 10
UNFINISHED_SHOWN = 100


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as lists show it: with its unfinished and its newest runs; of a long queue the oldest ones."""

    job: Job
    unfinished: tuple[Run, ...]
    last: tuple[Run, ...]

    @property
    def state(self) -> str:
        """Derived, never stored: retired, provisional, disabled, used up, paused, running, idle."""
        if self.job.retired_at is not None:
            return "retired"
        if self.job.provisional_at is not None:
            return "provisional"
        if not self.job.enabled:
            return "disabled"
        if self.job.used_up_at is not None:
            return "used up"
        if self.job.paused_at is not None:
            return "paused"
        return "running" if any(run.status is not Status.QUEUED for run in self.unfinished) else "idle"


def find_job(db: Database, name: str) -> Job:
    """Return the job of this name, or raise UnknownJob with the nearest name."""
    job = jobs.job_by_name(db, name)
    if job is None:
        known = {one.lower(): one for one in jobs.job_names(db)}
        raise UnknownJob(name, [known[one] for one in get_close_matches(name.lower(), known, n=1)])
    return job


def list_jobs(store: Store, *, labels: Sequence[str] = (), retired: bool = False) -> list[JobView]:
    """Return the jobs that carry all of `labels`, by name."""
    return store.read(partial(_list_jobs, labels=labels, retired=retired))


def _list_jobs(db: Database, *, labels: Sequence[str], retired: bool) -> list[JobView]:
    chosen = [job for job in jobs.all_jobs(db) if has_labels(job, labels) and (retired or job.retired_at is None)]
    return [job_view(db, job) for job in chosen]


def has_labels(job: Job, labels: Sequence[str]) -> bool:
    """Tell whether a job carries all of these labels."""
    return set(labels) <= set(job.spec.labels)


def job_view(db: Database, job: Job) -> JobView:
    """Return a job with its unfinished and newest runs."""
    newest = finding.newest_runs(db, job.id, limit=LAST_OUTCOMES)
    return JobView(job, tuple(finding.some_unfinished_runs(db, job.id, limit=UNFINISHED_SHOWN)), tuple(newest))


def show_job(store: Store, name: str) -> JobView:
    """Return one job by name."""
    return store.read(lambda db: job_view(db, find_job(db, name)))


def job_data(store: Store, job_id: str) -> Mapping[str, Any]:
    """Return what the functions of a job have stored for its next run."""
    return store.read(lambda db: jobs.job_state(db, job_id))


def project_timezone(store: Store) -> str:
    """Return the zone in which people of this project read times."""
    row = store.read(lambda db: db.row("meta_get", key=TIMEZONE_KEY))
    return str(row[0]) if row else "UTC"
