"""Pause and resume: hold jobs back, and let them go (R-20)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from rota.engine.pause import (
    PauseEnded,
    end_pause_of_everything,
    pause_everything,
    pause_job,
    resume_job,
)
from rota.model.errors import InvalidValue
from rota.model.records import Job, Run
from rota.operations.jobs import find_job, has_labels
from rota.rules.instants import count_instants, next_instant
from rota.store import events, jobs, runs
from rota.store.driver import Database, Store


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which jobs a pause or resume is about: by name, by label, or all."""

    names: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Paused:
    """What a pause did: the jobs it holds back, what still runs, and how many instants fall into it."""

    jobs: tuple[str, ...]
    running: tuple[str, ...]
    instants: int | None


def pause(
    store: Store, chosen: Chosen, *, until: datetime | None, reason: str, now: datetime, dry_run: bool = False
) -> Paused:
    """Hold jobs back until resumed or until `until`; with everything, claiming stops too."""
    if until is not None and until <= now:
        raise InvalidValue(f"a pause until {until.isoformat()} is over already", hint="name a time in the future")
    operation = partial(_pause, chosen=chosen, until=until, reason=reason, now=now)
    if dry_run:
        return store.read(partial(_would_pause, chosen=chosen, until=until, now=now))
    return store.write(operation)


def _pause(db: Database, *, chosen: Chosen, until: datetime | None, reason: str, now: datetime) -> Paused:
    told = _would_pause(db, chosen=chosen, until=until, now=now)
    if chosen.everything:
        pause_everything(db, until=until, reason=reason, now=now)
    else:
        for job in choose(db, chosen):
            pause_job(db, job.id, until=until, reason=reason, now=now)
    events.note(db, "paused", now=now, jobs=len(told.jobs), everything=chosen.everything, reason=reason)
    return told


def _would_pause(db: Database, *, chosen: Chosen, until: datetime | None, now: datetime) -> Paused:
    found = choose(db, chosen)
    running = tuple(run.handle for job in found for run in runs.unfinished_runs(db, job.id) if _runs(run))
    counts = [_instants(job, until, now) for job in found]
    total = None if until is None or None in counts else sum(count or 0 for count in counts)
    return Paused(tuple(job.name for job in found), running, total)


def _runs(run: Run) -> bool:
    return run.first_dispatched_at is not None


def _instants(job: Job, until: datetime | None, now: datetime) -> int | None:
    """Return how many instants fall into a pause, as far as that is known beforehand."""
    schedule = job.spec.schedule
    if until is None or job.next_for is None or job.next_for > until:
        return 0
    if schedule.follows_runs:
        return 1
    first = next_instant(schedule, after=now, created_at=job.created_at)
    return count_instants(schedule, first=first, last=until, created_at=job.created_at) if first else 0


def resume(
    store: Store, chosen: Chosen, *, catch_up: bool, now: datetime, dry_run: bool = False
) -> tuple[PauseEnded, ...]:
    """Let jobs go: the instants in the pause become one counted row each; with `catch_up` the latest runs."""
    if dry_run:
        found = store.read(partial(choose, chosen=chosen))
        return tuple(PauseEnded(job.name, None, None, None) for job in found if job.paused_at is not None)
    return store.write(partial(_resume, chosen=chosen, catch_up=catch_up, now=now))


def _resume(db: Database, *, chosen: Chosen, catch_up: bool, now: datetime) -> tuple[PauseEnded, ...]:
    if chosen.everything:
        end_pause_of_everything(db)
    ended = [resume_job(db, job.id, end=now, catch_up=catch_up, now=now) for job in choose(db, chosen)]
    told = tuple(one for one in ended if one is not None)
    events.note(db, "resumed", now=now, jobs=len(told), everything=chosen.everything)
    return told


def choose(db: Database, chosen: Chosen) -> list[Job]:
    """Return the jobs that are meant, by name; retired ones are not."""
    if chosen.names:
        return [find_job(db, name) for name in chosen.names]
    if not chosen.labels and not chosen.everything:
        raise InvalidValue("no job is named", hint="name jobs, a --label, or --all")
    return [job for job in jobs.all_jobs(db) if job.retired_at is None and _meant(job, chosen.labels)]


def _meant(job: Job, labels: Sequence[str]) -> bool:
    return not labels or has_labels(job, labels)
