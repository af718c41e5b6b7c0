"""Actions on many runs: bulk trigger, backfill and their answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

from rota import faults
from rota.engine.activity import PauseState, touching
from rota.engine.transactions.enqueue import Order, Wanted, cancel_many, enqueue_many, judge_start, replace_retries
from rota.engine.transactions.enqueue import enqueue_many as engine_enqueue_many
from rota.engine.transactions.insert import RunRef
from rota.engine.transactions.pause import PauseEnded
from rota.model.clock import iso
from rota.model.errors import InvalidValue, SetRefused
from rota.model.records import Job
from rota.model.serialize import iso_or_none, run_json
from rota.model.spec import Kind, OverlapPolicy
from rota.model.states import Status, Trigger, WaitingFor
from rota.operations.jobs import find_job, has_labels
from rota.operations.pause import Paused
from rota.operations.run_actions import Edited, ReorderedRun, admitted, merged_params, refuse_disabled, start_decisions
from rota.rules.admission import After, Allow, TooMany
from rota.rules.schedule.blackouts import excluded_until
from rota.rules.schedule.instants import instants_between
from rota.store.driver import Database, Store, rolled_back
from rota.store.tables import audit, jobs, run_queries
from rota.store.tables.run_queries import LAST_ID

AT_ONCE = 10_000
CANCELLED_AT_ONCE = 1_000
STARTED = (Status.DISPATCHED, Status.RUNNING)


def trigger_many(
    store: Store,
    name: str,
    params_list: Sequence[Mapping[str, Any]],
    *,
    now: datetime,
    force: bool = False,
    titles: Sequence[str] = (),
    dry_run: bool = False,
) -> list[RunRef]:
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
    operation = partial(_trigger_many, name=name, params_list=params_list, titles=named, force=force, now=now)
    if dry_run:
        return rolled_back(store, operation)
    born = store.write(touching(operation, what="trigger", now=now))
    faults.point("bulk.committed")
    return born


def _trigger_many(
    db: Database,
    *,
    name: str,
    params_list: Sequence[Mapping[str, Any]],
    titles: Sequence[str],
    force: bool,
    now: datetime,
) -> list[RunRef]:
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

    def wish(self, now: datetime) -> run_queries.UnfinishedFilter:
        """Return what this means of each job; runs made after `now` are never meant."""
        queued = (Status.QUEUED,) if self.queued or not self.running else ()
        running = STARTED if self.running or not self.queued else ()
        statuses = queued if self.waiting_for else (*queued, *running)
        return run_queries.UnfinishedFilter(now - (self.older_than or timedelta()), statuses, self.waiting_for)


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
        counted = [(job.name, run_queries.count_matching(db, job.id, chosen.wish(now))) for job in _jobs(db, chosen)]
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
    db: Database, *, job_id: str, wish: run_queries.UnfinishedFilter, below: str, now: datetime
) -> tuple[int, list[str], str | None]:
    """Cancel the next runs of a job; return how many are final, which are asked, and from which one to go on."""
    found = run_queries.matching(db, job_id, wish, below=below, limit=CANCELLED_AT_ONCE)
    if not found:
        return 0, [], None
    asked = cancel_many(db, found, now=now)
    audit.insert_event(db, "cancelled", now=now, job_id=job_id, runs=len(found), asked=len(asked))
    return len(found) - len(asked), asked, found[-1].id if len(found) == CANCELLED_AT_ONCE else None


MOST = 10_000
LOOKED_BACK = 30


@dataclass(frozen=True, slots=True)
class Range:
    """The past range [since, until) to fill. `only_missed`: leave out instants that ran when they were due."""

    since: datetime
    until: datetime
    parallel: bool = False
    only_missed: bool = False


@dataclass(frozen=True, slots=True)
class Backfilled:
    """What a backfill made: runs in order of their instants, how many instants it left out, how long one takes."""

    job: Job
    born: tuple[RunRef, ...]
    instants: tuple[datetime, ...]
    existing: int
    ran: int
    each: timedelta | None

    @property
    def members(self) -> int:
        """How many runs there are in all, the members of groups counted."""
        return len(self.born) * (len(self.job.spec.work.members) or 1)


def backfill(store: Store, name: str, wanted: Range, *, now: datetime, dry_run: bool = False) -> Backfilled:
    """Make a run for each instant of the job's schedule in a past range that has none from a backfill yet."""
    if wanted.until > now:
        raise InvalidValue(
            f"{iso(wanted.until)} is in the future", hint="a backfill is of the past; end it now or earlier"
        )
    if wanted.since >= wanted.until:
        raise InvalidValue(
            f"the range from {iso(wanted.since)} to {iso(wanted.until)} is empty", hint="--from must lie before --to"
        )
    operation = partial(_backfill, name=name, wanted=wanted, now=now)
    if dry_run:
        return rolled_back(store, operation)
    done = store.write(touching(operation, what="backfill", now=now))
    faults.point("backfill.committed")
    return done


def _backfill(db: Database, *, name: str, wanted: Range, now: datetime) -> Backfilled:
    job = find_job(db, name)
    refuse_disabled(job)
    found = instants_of(job, wanted)
    existing = run_queries.backfilled(db, job.id, since=wanted.since, until=wanted.until)
    ran = run_queries.fired(db, job.id, found) - existing if wanted.only_missed else set()
    left = tuple(at for at in found if at not in existing and at not in ran)
    born = _bear(db, job, left, parallel=wanted.parallel, now=now) if left else []
    audit.insert_event(
        db, "backfilled", now=now, job_id=job.id, runs=len(born), since=iso(wanted.since), until=iso(wanted.until)
    )
    took = run_queries.durations(db, job.id, limit=LOOKED_BACK)
    each = sorted(took)[len(took) // 2] if took else None
    return Backfilled(job, tuple(born), left, len(existing & set(found)), len(ran), each)


def instants_of(job: Job, wanted: Range) -> list[datetime]:
    """Return the instants of a job's schedule in a range; refuse where its schedule does not say them beforehand.

    Those of excluded days are none; quiet hours do not matter to what a person asks for.
    """
    schedule = job.spec.schedule
    if schedule.manual:
        raise InvalidValue(f"job {job.name!r} has no schedule", hint=f"start it with `rota run {job.name}`")
    if schedule.follows_runs:
        raise InvalidValue(
            f"the instants of {job.name!r} depend on its runs (`anchor: {schedule.anchor}`), so a past range has none",
            hint="only cron, at, and an interval with `anchor: fixed` can be backfilled",
        )
    coming = instants_between(schedule, since=wanted.since, until=wanted.until, created_at=job.created_at)
    found = list(islice((at for at in coming if excluded_until(schedule, at) is None), MOST + 1))
    if len(found) > MOST:
        raise InvalidValue(f"the range holds more than {MOST:,} instants of {job.name!r}", hint="take a shorter range")
    return found


def _bear(db: Database, job: Job, instants: Sequence[datetime], *, parallel: bool, now: datetime) -> list[RunRef]:
    last = None if parallel else run_queries.last_backfill(db, job.id)
    order = Order(job, Trigger.BACKFILL, chained=not parallel, decisions={"backfill": {"parallel": parallel}})
    wanted = [Wanted(scheduled_for=at) for at in instants]
    return enqueue_many(db, order, wanted, verdict=Allow() if last is None else After(last), now=now)


def is_group(done: Backfilled) -> bool:
    """Tell whether what was filled are groups."""
    return done.job.spec.work.kind is Kind.GROUP


def paused_json(
    told: Paused, *, until: datetime | None, reason: str, everything: bool, dry_run: bool
) -> dict[str, Any]:
    """Return what a pause did."""
    return {
        "dry_run": dry_run,
        "everything": everything,
        "jobs": list(told.jobs),
        "until": iso_or_none(until),
        "reason": reason,
        "running": list(told.running),
        "instants": told.instants,
    }


def resumed_json(
    ended: tuple[PauseEnded, ...], still: PauseState | None, *, was: PauseState | None, dry_run: bool
) -> dict[str, Any]:
    """Return what a resume did; `still` is the pause of everything that goes on."""
    return {
        "dry_run": dry_run,
        "everything_was_paused": was is not None,
        "everything_is_paused": still is not None,
        "jobs": [
            {
                "job": one.job,
                "skipped": one.skipped.handle if one.skipped else None,
                "count": one.count,
                "caught_up": one.caught_up.handle if one.caught_up else None,
            }
            for one in ended
        ],
    }


def moved_json(moved: list[ReorderedRun], *, dry_run: bool) -> dict[str, Any]:
    """Return where runs stand that were moved."""
    runs = [{**run_json(one.run), "place": one.place, "note": one.note} for one in moved]
    return {"dry_run": dry_run, "runs": runs}


def edited_json(edited: Edited, *, dry_run: bool) -> dict[str, Any]:
    """Return a run that was edited."""
    run = edited.run
    told = {**run_json(run), "params": dict(run.params), "priority": run.priority, "place": edited.place}
    return {"dry_run": dry_run, **told}


def backfilled_json(done: Backfilled, *, parallel: bool, dry_run: bool) -> dict[str, Any]:
    """Return the runs that a backfill made."""
    paired = zip(done.born, done.instants, strict=True)
    return {
        "dry_run": dry_run,
        "job": done.job.name,
        "parallel": parallel,
        "count": len(done.born),
        "runs_in_all": done.members,
        "existing": done.existing,
        "ran": done.ran,
        "seconds_each": done.each.total_seconds() if done.each is not None else None,
        "runs": [{"run": born.handle, "id": born.id, "scheduled_for": iso(at)} for born, at in paired],
    }
