"""Actions on many runs: bulk trigger, backfill and their answers."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Any

from msgspec import Struct

from rota import faults
from rota.engine.activity import PauseState, touching
from rota.engine.transactions.enqueue import Order, Wanted, cancel_many, enqueue_many, judge_start, replace_retries
from rota.engine.transactions.insert import RunRef
from rota.engine.transactions.pause import PauseEnded
from rota.model.amounts import counted
from rota.model.clock import iso
from rota.model.errors import InvalidValue, RotaError, SetRefused, StateError
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

MAX_TRIGGERED_RUNS = 10_000
CANCEL_BATCH = 1_000


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
    """Start a job by hand once for each of the params, all or none, in their order.

    Errors name an item by its title, such as a line of a file.
    """
    if not params_list:
        raise InvalidValue(f"no runs of {name!r} were requested", hint="name at least one set of params")
    if len(params_list) > MAX_TRIGGERED_RUNS:
        hint = f"create at most {MAX_TRIGGERED_RUNS:,} per call"
        raise InvalidValue(f"{len(params_list):,} runs are too many for one call", hint=hint)
    titles = titles or [f"item {index}" for index in range(1, len(params_list) + 1)]
    operation = partial(_trigger_many, name=name, params_list=params_list, titles=titles, force=force, now=now)
    if dry_run:
        return rolled_back(store, operation)
    refs = store.write(touching(operation, what="trigger", now=now))
    faults.point("bulk.committed")
    return refs


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
    merged = []
    for params, title in zip(params_list, titles, strict=True):
        try:
            merged.append(merged_params(job.spec, params))
        except InvalidValue as error:
            raise InvalidValue(f"{title}: {error.message}", hint=error.hint) from None
    start = judge_start(db, job, merged, force=force)
    if isinstance(start.verdict, TooMany):
        raise SetRefused(job.name, len(merged), room=start.verdict.room, policy=policy.value)
    verdict = admitted(job, start)
    order = Order(job, Trigger.MANUAL, chained=chained, forced=force, decisions=start_decisions(job, start))
    refs = enqueue_many(db, order, [Wanted(params) for params in merged], verdict=verdict, now=now)
    replace_retries(db, start.replaces, by=refs[0], now=now)
    return refs


class Filter(Struct, frozen=True):
    """A selection of unfinished runs. Without jobs and labels: of all jobs. Neither queued nor running: both."""

    jobs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    queued: bool = False
    running: bool = False
    waiting_for: WaitingFor | None = None
    older_than: timedelta | None = None

    def wish(self, now: datetime) -> run_queries.UnfinishedFilter:
        """Return the filter of each job's runs; it never selects runs created after `now`."""
        queued = (Status.QUEUED,) if self.queued or not self.running else ()
        running = (Status.DISPATCHED, Status.RUNNING) if self.running or not self.queued else ()
        statuses = queued if self.waiting_for else (*queued, *running)
        return run_queries.UnfinishedFilter(now - (self.older_than or timedelta()), statuses, self.waiting_for)


class Matched(Struct, frozen=True):
    """The number of unfinished runs of a job that a filter selects."""

    job: str
    queued: int
    running: int


class Swept(Struct, frozen=True):
    """The result of a cancel by filter: the number of dequeued runs, and the runs asked to stop."""

    cancelled: int
    asked: tuple[str, ...]


def match_runs(store: Store, chosen: Filter, *, now: datetime) -> list[Matched]:
    """Return the number of unfinished runs that a filter selects, by job."""

    def read(db: Database) -> list[Matched]:
        counted = [(job.name, run_queries.count_matching(db, job.id, chosen.wish(now))) for job in _jobs(db, chosen)]
        return [Matched(name, queued, running) for name, (queued, running) in counted if queued or running]

    return store.read(read)


def _jobs(db: Database, chosen: Filter) -> list[Job]:
    """Return the selected jobs, also retired ones: they may have queued runs."""
    named = [find_job(db, name) for name in dict.fromkeys(chosen.jobs)] or jobs.all_jobs(db)
    return [job for job in named if has_labels(job, chosen.labels)]


def cancel_matching(store: Store, chosen: Filter, *, now: datetime) -> Swept:
    """Cancel the unfinished runs that a filter selects, a thousand in a transaction at most.

    The newest runs come first: otherwise the end of one batch would release runs of the next that wait for it.
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
    """Cancel the next runs of a job; return the number of final runs, the runs asked to stop, and the next position."""
    statuses = run_queries.matching(db, job_id, wish, below=below, limit=CANCEL_BATCH)
    if not statuses:
        return 0, [], None
    asked = cancel_many(db, statuses, now=now)
    audit.insert_event(db, "cancelled", now=now, job_id=job_id, runs=len(statuses), asked=len(asked))
    return len(statuses) - len(asked), asked, [*statuses][-1] if len(statuses) == CANCEL_BATCH else None


MAX_CHOSEN = 1_000


class JobAction(StrEnum):
    """An action on chosen jobs."""

    RUN = "run"
    PAUSE = "pause"
    RESUME = "resume"
    ACKNOWLEDGE = "acknowledge"


class JobResult(Struct, frozen=True):
    """What an action did to one job: `told` in words, or the refusal. Neither: there was nothing to do."""

    job: str
    told: str = ""
    refusal: RotaError | None = None


def act_on_each(names: Sequence[str], act: Callable[[str], str]) -> list[JobResult]:
    """Do something to each job, each in a transaction of its own: a refusal of one costs the others nothing."""
    chosen = list(dict.fromkeys(names))
    if not chosen:
        raise InvalidValue("no job is chosen", hint="choose at least one")
    if len(chosen) > MAX_CHOSEN:
        raise InvalidValue(f"{len(chosen):,} jobs are too many for one request", hint=f"name at most {MAX_CHOSEN:,}")
    return [_act_on_one(name, act) for name in chosen]


def _act_on_one(name: str, act: Callable[[str], str]) -> JobResult:
    try:
        return JobResult(name, act(name))
    except StateError:
        raise  # the database itself: the others would fail too
    except RotaError as error:
        return JobResult(name, refusal=error)


def resume_words(ended: Sequence[PauseEnded]) -> str:
    """Return what the end of a job's pause did; empty if it was not paused."""
    counts = [end.count for end in ended if end.count]
    skipped = f"; {counted(counts[0], 'instant')} in the pause skipped" if counts else ""
    caught = next((f"; {end.caught_up.handle} catches up" for end in ended if end.caught_up), "")
    return f"is resumed{skipped}{caught}" if ended else ""


MAX_INSTANTS = 10_000
DURATION_SAMPLES = 30


class Range(Struct, frozen=True):
    """The past range [since, until) to fill. `only_missed`: skip instants that ran when they were due."""

    since: datetime
    until: datetime
    parallel: bool = False
    only_missed: bool = False


class Backfilled(Struct, frozen=True):
    """The result of a backfill: runs by instant, the numbers of skipped instants, and the usual duration."""

    job: Job
    born: tuple[RunRef, ...]
    instants: tuple[datetime, ...]
    existing: int
    ran: int
    each: timedelta | None

    @property
    def members(self) -> int:
        """The number of runs, including members of groups."""
        return len(self.born) * (len(self.job.spec.work.members) or 1)


def backfill(store: Store, name: str, wanted: Range, *, now: datetime, dry_run: bool = False) -> Backfilled:
    """Insert a run for each instant of the job's schedule in a past range without a backfilled run."""
    since, until = iso(wanted.since), iso(wanted.until)
    if wanted.until > now:
        raise InvalidValue(f"{until} is in the future", hint="a backfill covers the past; use an earlier end")
    if wanted.since >= wanted.until:
        raise InvalidValue(f"the range from {since} to {until} is empty", hint="--from must lie before --to")
    operation = partial(_backfill, name=name, wanted=wanted, now=now)
    if dry_run:
        return rolled_back(store, operation)
    done = store.write(touching(operation, what="backfill", now=now))
    faults.point("backfill.committed")
    return done


def _backfill(db: Database, *, name: str, wanted: Range, now: datetime) -> Backfilled:
    job = find_job(db, name)
    refuse_disabled(job)
    instants = instants_of(job, wanted)
    existing = run_queries.backfilled(db, job.id, since=wanted.since, until=wanted.until)
    ran = run_queries.fired(db, job.id, instants) - existing if wanted.only_missed else set()
    missing = tuple(at for at in instants if at not in existing and at not in ran)
    refs = _insert(db, job, missing, parallel=wanted.parallel, now=now) if missing else []
    since, until = iso(wanted.since), iso(wanted.until)
    audit.insert_event(db, "backfilled", now=now, job_id=job.id, runs=len(refs), since=since, until=until)
    took = run_queries.durations(db, job.id, limit=DURATION_SAMPLES)
    each = sorted(took)[len(took) // 2] if took else None
    return Backfilled(job, tuple(refs), missing, len(existing & set(instants)), len(ran), each)


def instants_of(job: Job, wanted: Range) -> list[datetime]:
    """Return the instants of a job's schedule in a range; refuse a schedule whose instants depend on runs.

    Excluded days have no instants; quiet hours do not apply to a manual request.
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
    instants = list(islice((at for at in coming if excluded_until(schedule, at) is None), MAX_INSTANTS + 1))
    if len(instants) > MAX_INSTANTS:
        message = f"the range holds more than {MAX_INSTANTS:,} instants of {job.name!r}"
        raise InvalidValue(message, hint="use a shorter range")
    return instants


def _insert(db: Database, job: Job, instants: Sequence[datetime], *, parallel: bool, now: datetime) -> list[RunRef]:
    last = None if parallel else run_queries.last_backfill(db, job.id)
    order = Order(job, Trigger.BACKFILL, chained=not parallel, decisions={"backfill": {"parallel": parallel}})
    wanted = [Wanted(scheduled_for=at) for at in instants]
    return enqueue_many(db, order, wanted, verdict=Allow() if last is None else After(last), now=now)


def is_group(done: Backfilled) -> bool:
    """Return whether the backfilled job is a group."""
    return done.job.spec.work.kind is Kind.GROUP


def paused_json(
    paused: Paused, *, until: datetime | None, reason: str, everything: bool, dry_run: bool
) -> dict[str, Any]:
    """Return the result of a pause as JSON."""
    return {
        "dry_run": dry_run,
        "everything": everything,
        "jobs": list(paused.jobs),
        "until": iso_or_none(until),
        "reason": reason,
        "running": list(paused.running),
        "instants": paused.instants,
    }


def resumed_json(
    ended: tuple[PauseEnded, ...], still: PauseState | None, *, was: PauseState | None, dry_run: bool
) -> dict[str, Any]:
    """Return the result of a resume as JSON; `still` is the remaining pause of everything."""
    return {
        "dry_run": dry_run,
        "everything_was_paused": was is not None,
        "everything_is_paused": still is not None,
        "jobs": [
            {
                "job": pause.job,
                "skipped": pause.skipped.handle if pause.skipped else None,
                "count": pause.count,
                "caught_up": pause.caught_up.handle if pause.caught_up else None,
            }
            for pause in ended
        ],
    }


def moved_json(moved: list[ReorderedRun], *, dry_run: bool) -> dict[str, Any]:
    """Return moved runs with their places as JSON."""
    runs = [{**run_json(row.run), "place": row.place, "note": row.note} for row in moved]
    return {"dry_run": dry_run, "runs": runs}


def edited_json(edited: Edited, *, dry_run: bool) -> dict[str, Any]:
    """Return an edited run as JSON."""
    run, place = edited.run, edited.place
    return {"dry_run": dry_run, **run_json(run), "params": dict(run.params), "priority": run.priority, "place": place}


def backfilled_json(done: Backfilled, *, parallel: bool, dry_run: bool) -> dict[str, Any]:
    """Return the runs of a backfill as JSON."""
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
        "runs": [{"run": run.handle, "id": run.id, "scheduled_for": iso(at)} for run, at in paired],
    }
