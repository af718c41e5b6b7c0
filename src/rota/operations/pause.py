"""Pause and resume: hold jobs back, and let them go (R-20)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from rota import faults
from rota.engine.activity import touching
from rota.engine.transactions.pause import (
    PauseEnded,
    end_pause_if_over,
    end_pause_of_everything,
    pause_everything,
    pause_job,
    resume_job,
)
from rota.model.errors import InvalidValue
from rota.model.records import Job
from rota.operations.jobs import find_job, has_labels
from rota.rules.pause import plan_pause_end
from rota.rules.schedule.instants import count_instants, next_instant
from rota.store.driver import Database, Store
from rota.store.tables import audit, jobs, processes, run_queries


@dataclass(frozen=True, slots=True)
class JobSelection:
    """Which jobs a pause or resume is about: by name, by label, or all."""

    names: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Paused:
    """What a pause did: the jobs it holds back, what still runs, and how many instants fall into it, if known."""

    jobs: tuple[str, ...]
    running: tuple[str, ...]
    instants: int | None


def pause(
    store: Store, chosen: JobSelection, *, until: datetime | None, reason: str, now: datetime, dry_run: bool = False
) -> Paused:
    """Hold jobs back until resumed or until `until`; with everything, claiming stops too."""
    if until is not None and until <= now:
        raise InvalidValue(f"a pause until {until.isoformat()} is over already", hint="name a time in the future")
    if dry_run:
        return store.read(partial(_would_pause, chosen=chosen, until=until, now=now))
    paused = store.write(
        touching(partial(_pause, chosen=chosen, until=until, reason=reason, now=now), what="pause", now=now)
    )
    faults.point("pause.committed")
    return paused


def _pause(db: Database, *, chosen: JobSelection, until: datetime | None, reason: str, now: datetime) -> Paused:
    told = _would_pause(db, chosen=chosen, until=until, now=now)
    if chosen.everything:
        pause_everything(db, until=until, reason=reason, now=now)
    else:
        for job in choose(db, chosen):
            pause_job(db, job.id, until=until, reason=reason, now=now)
    audit.insert_event(db, "paused", now=now, jobs=len(told.jobs), everything=chosen.everything, reason=reason)
    return told


def _would_pause(db: Database, *, chosen: JobSelection, until: datetime | None, now: datetime) -> Paused:
    found = choose(db, chosen)
    meant = {job.id for job in found}
    running = tuple(run.handle for run in run_queries.running_runs(db) if run.job_id in meant)
    counts = [_instants(job, until, now) for job in found]
    total = None if until is None or None in counts else sum(count or 0 for count in counts)
    return Paused(tuple(job.name for job in found), running, total)


def _instants(job: Job, until: datetime | None, now: datetime) -> int | None:
    """Return how many instants from now on fall into a pause, as far as that is known beforehand."""
    schedule, cursor = job.spec.schedule, job.next_for or job.held_for
    if until is None or cursor is None or cursor > until or not job.schedules:
        return 0
    if schedule.follows_runs:
        return 1
    first = next_instant(schedule, after=now, created_at=job.created_at)
    return count_instants(schedule, first=first, last=until, created_at=job.created_at) if first else 0


def resume(
    store: Store, chosen: JobSelection, *, catch_up: bool, now: datetime, dry_run: bool = False
) -> tuple[PauseEnded, ...]:
    """Let jobs go: the instants in the pause become one counted row each; with `catch_up` the latest runs."""
    if dry_run:
        return store.read(partial(_would_resume, chosen=chosen, catch_up=catch_up, now=now))
    ended = store.write(touching(partial(_resume, chosen=chosen, catch_up=catch_up, now=now), what="resume", now=now))
    faults.point("resume.committed")
    return ended


def _would_resume(db: Database, *, chosen: JobSelection, catch_up: bool, now: datetime) -> tuple[PauseEnded, ...]:
    paused = [job for job in choose(db, chosen) if job.paused_at is not None]
    return tuple(PauseEnded(job.name, None, _would_count(job, catch_up=catch_up, now=now), None) for job in paused)


def _would_count(job: Job, *, catch_up: bool, now: datetime) -> int | None:
    plan = plan_pause_end(job, end=_end(job, now), catch_up=catch_up and job.schedules, now=now)
    return plan.skip.count if plan.skip else 0


def _end(job: Job, now: datetime) -> datetime:
    """Return when a job's pause ends that is ended now: no later than its stored end."""
    return now if job.paused_until is None else min(now, job.paused_until)


def _resume(db: Database, *, chosen: JobSelection, catch_up: bool, now: datetime) -> tuple[PauseEnded, ...]:
    if chosen.everything:
        end_pause_of_everything(db)
        processes.forgive_crashes(db)
        _resume_retired(db, now)
    ended = [_resume_job(db, job, catch_up=catch_up, now=now) for job in choose(db, chosen)]
    told = tuple(one for one in ended if one is not None)
    audit.insert_event(db, "resumed", now=now, jobs=len(told), everything=chosen.everything)
    return told


def _resume_retired(db: Database, now: datetime) -> None:
    """Let retired jobs go as well, so that none of them comes back into a pause that is long over."""
    for job in jobs.all_jobs(db):
        if job.retired_at is not None:
            _resume_job(db, job, catch_up=False, now=now)


def _resume_job(db: Database, job: Job, *, catch_up: bool, now: datetime) -> PauseEnded | None:
    over = end_pause_if_over(db, job.id, now=now)
    return over or resume_job(db, job.id, end=now, catch_up=catch_up, now=now)


def choose(db: Database, chosen: JobSelection) -> list[Job]:
    """Return the jobs that are meant, each once; a retired one cannot be meant."""
    if chosen.names:
        return [_living(find_job(db, name)) for name in dict.fromkeys(chosen.names)]
    if not chosen.labels and not chosen.everything:
        raise InvalidValue("no job is named", hint="name jobs, a --label, or --all")
    found = [job for job in jobs.all_jobs(db) if job.retired_at is None and _meant(job, chosen.labels)]
    if chosen.labels and not found:
        raise InvalidValue(f"no job carries the label {' and '.join(chosen.labels)}", hint="`rota list` shows the jobs")
    return found


def _living(job: Job) -> Job:
    if job.retired_at is not None:
        raise InvalidValue(f"job {job.name!r} is retired", hint="its file no longer has it, so it does not fire")
    return job


def _meant(job: Job, labels: Sequence[str]) -> bool:
    return not labels or has_labels(job, labels)
