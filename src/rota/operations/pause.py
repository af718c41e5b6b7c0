"""Pause and resume jobs."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from msgspec import Struct

from rota import faults
from rota.engine.activity import touching
from rota.engine.transactions import pause as pause_transactions
from rota.engine.transactions.pause import PauseEnded
from rota.model.errors import InvalidValue
from rota.model.records import Job
from rota.operations.jobs import find_job, has_labels
from rota.rules.pause import plan_pause_end
from rota.rules.schedule.instants import count_instants, next_instant
from rota.store.driver import Database, Store
from rota.store.tables import audit, jobs, processes, run_queries


class JobSelection(Struct, frozen=True):
    """The jobs of a pause or resume: by name, by label, or all."""

    names: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    everything: bool = False


class Paused(Struct, frozen=True):
    """The result of a pause: its jobs, their running runs, and the number of instants in it, if known."""

    jobs: tuple[str, ...]
    running: tuple[str, ...]
    instants: int | None


def pause(
    store: Store, chosen: JobSelection, *, until: datetime | None, reason: str, now: datetime, dry_run: bool = False
) -> Paused:
    """Pause jobs until they are resumed or until `until`; a pause of everything also stops claims."""
    if until is not None and until <= now:
        raise InvalidValue(f"{until.isoformat()} is in the past", hint="name a time in the future")

    def change(db: Database) -> Paused:
        chosen_jobs = choose(db, chosen)
        paused = _result(db, chosen_jobs, until=until, now=now)
        if dry_run:
            return paused
        if chosen.everything:
            pause_transactions.pause_everything(db, until=until, reason=reason, now=now)
        else:
            for job in chosen_jobs:
                pause_transactions.pause_job(db, job.id, until=until, reason=reason, now=now)
        audit.insert_event(db, "paused", now=now, jobs=len(paused.jobs), everything=chosen.everything, reason=reason)
        return paused

    if dry_run:
        return store.read(change)
    paused = store.write(touching(change, what="pause", now=now))
    faults.point("pause.committed")
    return paused


def _result(db: Database, chosen: Sequence[Job], *, until: datetime | None, now: datetime) -> Paused:
    job_ids = {job.id for job in chosen}
    running = tuple(run.handle for run in run_queries.running_runs(db) if run.job_id in job_ids)
    counts = [] if until is None else [_instants(job, until, now) for job in chosen]
    total = None if until is None or None in counts else sum(count or 0 for count in counts)
    return Paused(tuple(job.name for job in chosen), running, total)


def _instants(job: Job, until: datetime, now: datetime) -> int | None:
    """Return the number of instants from now on in a pause, if it is known beforehand."""
    schedule, cursor = job.spec.schedule, job.next_for or job.held_for
    if cursor is None or cursor > until or not job.schedules:
        return 0
    if schedule.follows_runs:
        return 1
    first = next_instant(schedule, after=now, created_at=job.created_at)
    return count_instants(schedule, first=first, last=until, created_at=job.created_at) if first else 0


def resume(
    store: Store, chosen: JobSelection, *, catch_up: bool, now: datetime, dry_run: bool = False
) -> tuple[PauseEnded, ...]:
    """Resume jobs: the instants in the pause become one counted row each; with `catch_up` the latest runs."""
    if dry_run:
        return store.read(partial(_would_resume, chosen=chosen, catch_up=catch_up, now=now))
    ended = store.write(touching(partial(_resume, chosen=chosen, catch_up=catch_up, now=now), what="resume", now=now))
    faults.point("resume.committed")
    return ended


def _would_resume(db: Database, *, chosen: JobSelection, catch_up: bool, now: datetime) -> tuple[PauseEnded, ...]:
    ended = []
    for job in choose(db, chosen):
        if job.paused_at is not None:
            end = now if job.paused_until is None else min(now, job.paused_until)
            plan = plan_pause_end(job, end=end, catch_up=catch_up and job.schedules, now=now)
            ended.append(PauseEnded(job.name, None, plan.skip.count if plan.skip else 0, None))
    return tuple(ended)


def _resume(db: Database, *, chosen: JobSelection, catch_up: bool, now: datetime) -> tuple[PauseEnded, ...]:
    if chosen.everything:
        pause_transactions.end_pause_of_everything(db)
        processes.forgive_crashes(db)
        for job in jobs.all_jobs(db):
            if job.retired_at is not None:  # otherwise a revived job would be paused
                _resume_job(db, job, catch_up=False, now=now)
    results = [_resume_job(db, job, catch_up=catch_up, now=now) for job in choose(db, chosen)]
    ended = tuple(result for result in results if result is not None)
    audit.insert_event(db, "resumed", now=now, jobs=len(ended), everything=chosen.everything)
    return ended


def _resume_job(db: Database, job: Job, *, catch_up: bool, now: datetime) -> PauseEnded | None:
    over = pause_transactions.end_pause_if_over(db, job.id, now=now)
    return over or pause_transactions.resume_job(db, job.id, end=now, catch_up=catch_up, now=now)


def choose(db: Database, chosen: JobSelection) -> list[Job]:
    """Return the selected jobs, each once; refuse a retired one."""
    if chosen.names:
        named = [find_job(db, name) for name in dict.fromkeys(chosen.names)]
        for job in named:
            if job.retired_at is not None:
                hint = "its file no longer has it, so it does not fire"
                raise InvalidValue(f"job {job.name!r} is retired", hint=hint)
        return named
    if not chosen.labels and not chosen.everything:
        raise InvalidValue("no job is named", hint="name jobs, a --label, or --all")
    matches = [job for job in jobs.all_jobs(db) if job.retired_at is None and has_labels(job, chosen.labels)]
    if chosen.labels and not matches:
        raise InvalidValue(f"no job has the label {' and '.join(chosen.labels)}", hint="`rota list` shows the jobs")
    return matches
