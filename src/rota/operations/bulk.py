"""Many runs at once: made from a list of params, and cancelled by what they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from rota import faults
from rota.engine.birth import Born
from rota.engine.bulk import Order, Wanted, cancel_many
from rota.engine.bulk import enqueue_many as engine_enqueue_many
from rota.engine.cadence import touching
from rota.engine.enqueue import judge_start, replace_retries
from rota.model.errors import InvalidValue, SetRefused
from rota.model.records import Job
from rota.model.spec import OverlapPolicy
from rota.model.states import Status, Trigger, WaitingFor
from rota.operations.dry import tried
from rota.operations.jobs import find_job, has_labels
from rota.operations.starting import admitted, merged_params, refuse_disabled, start_decisions
from rota.rules.overlap import TooMany
from rota.store import events, finding, jobs
from rota.store.driver import Database, Store
from rota.store.finding import LAST_ID

AT_ONCE = 10_000
CANCELLED_AT_ONCE = 1_000
STARTED = (Status.DISPATCHED, Status.RUNNING)


def enqueue_many(
    store: Store,
    name: str,
    params_list: Sequence[Mapping[str, Any]],
    *,
    now: datetime,
    force: bool = False,
    titles: Sequence[str] = (),
    dry_run: bool = False,
) -> list[Born]:
    """Start a job by hand once for each of the params, all of them or none, in their order (R-29).

    `titles` is what errors call each item, such as a line of a file.
    """
    if not params_list:
        raise InvalidValue(f"no runs of {name!r} are asked for", hint="name at least one set of params")
    if len(params_list) > AT_ONCE:
        raise InvalidValue(
            f"{len(params_list):,} runs are too many at once", hint=f"make {AT_ONCE:,} at most, then the next ones"
        )
    named = titles or [f"item {index}" for index in range(1, len(params_list) + 1)]
    operation = partial(_enqueue_many, name=name, params_list=params_list, titles=named, force=force, now=now)
    if dry_run:
        return tried(store, operation)
    born = store.write(touching(operation, what="trigger", now=now))
    faults.point("bulk.committed")
    return born


def _enqueue_many(
    db: Database,
    *,
    name: str,
    params_list: Sequence[Mapping[str, Any]],
    titles: Sequence[str],
    force: bool,
    now: datetime,
) -> list[Born]:
    job = find_job(db, name)
    refuse_disabled(job)
    policy = job.spec.overlap.policy
    chained = policy is not OverlapPolicy.ALLOW and not force
    wanted = [_merged(job, params, title) for params, title in zip(params_list, titles, strict=True)]
    start = judge_start(db, job, wanted, force=force)
    if isinstance(start.verdict, TooMany):
        raise SetRefused(job.name, len(wanted), room=start.verdict.room, policy=policy.value)
    verdict = admitted(job, start)
    order = Order(job, Trigger.MANUAL, chained=chained, forced=force, decisions=start_decisions(job, start))
    born = engine_enqueue_many(db, order, [Wanted(params) for params in wanted], verdict=verdict, now=now)
    replace_retries(db, start.replaces, by=born[0], now=now)
    return born


def _merged(job: Job, params: Mapping[str, Any], title: str) -> Mapping[str, Any]:
    try:
        return merged_params(job.spec, params)
    except InvalidValue as error:
        raise InvalidValue(f"{title}: {error.message}", hint=error.hint) from None


@dataclass(frozen=True, slots=True)
class Filter:
    """Which unfinished runs are meant. No jobs and labels: those of all jobs. Neither queued nor running: both."""

    jobs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    queued: bool = False
    running: bool = False
    waiting_for: WaitingFor | None = None
    older_than: timedelta | None = None

    def wish(self, now: datetime) -> finding.Wish:
        """Return what this means of each job; runs made after `now` are never meant."""
        queued = (Status.QUEUED,) if self.queued or not self.running else ()
        running = STARTED if self.running or not self.queued else ()
        statuses = queued if self.waiting_for else (*queued, *running)
        return finding.Wish(now - (self.older_than or timedelta()), statuses, self.waiting_for)


@dataclass(frozen=True, slots=True)
class Matched:
    """How many unfinished runs of a job a filter names."""

    job: str
    queued: int
    running: int


@dataclass(frozen=True, slots=True)
class Swept:
    """What a cancel by filter did: how many runs it took out of the queue, and which it asked to stop."""

    cancelled: int
    asked: tuple[str, ...]


def match_runs(store: Store, chosen: Filter, *, now: datetime) -> list[Matched]:
    """Return, by job, how many unfinished runs a filter names."""

    def read(db: Database) -> list[Matched]:
        counted = [(job.name, finding.count_matching(db, job.id, chosen.wish(now))) for job in _jobs(db, chosen)]
        return [Matched(name, queued, running) for name, (queued, running) in counted if queued or running]

    return store.read(read)


def _jobs(db: Database, chosen: Filter) -> list[Job]:
    """Return the jobs that a filter names, retired ones too: what they left in the queue may be what is meant."""
    named = [find_job(db, name) for name in dict.fromkeys(chosen.jobs)] or jobs.all_jobs(db)
    return [job for job in named if has_labels(job, chosen.labels)]


def cancel_matching(store: Store, chosen: Filter, *, now: datetime) -> Swept:
    """Cancel the unfinished runs that a filter names, a thousand in a transaction at most.

    The newest go first: else the end of one batch would let go those of the next that wait for it.
    """
    cancelled, asked = 0, list[str]()
    for job in store.read(partial(_jobs, chosen=chosen)):
        below: str | None = LAST_ID
        while below is not None:
            sweep = partial(_sweep, job_id=job.id, wish=chosen.wish(now), below=below, now=now)
            count, stopping, below = store.write(touching(sweep, what="cancel", now=now))
            cancelled, asked = cancelled + count, [*asked, *stopping]
    faults.point("bulk.cancelled")
    return Swept(cancelled, tuple(asked))


def _sweep(
    db: Database, *, job_id: str, wish: finding.Wish, below: str, now: datetime
) -> tuple[int, list[str], str | None]:
    """Cancel the next runs of a job; return how many are final, which are asked, and from which one to go on."""
    found = finding.matching(db, job_id, wish, below=below, limit=CANCELLED_AT_ONCE)
    if not found:
        return 0, [], None
    asked = cancel_many(db, found, now=now)
    events.note(db, "cancelled", now=now, job_id=job_id, runs=len(found), asked=len(asked))
    return len(found) - len(asked), asked, found[-1].id if len(found) == CANCELLED_AT_ONCE else None
