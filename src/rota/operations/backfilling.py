"""Backfill: create the runs of a past range (R-05)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import islice

from rota import faults
from rota.engine.birth import Born
from rota.engine.bulk import Order, Wanted, enqueue_many
from rota.engine.cadence import touching
from rota.model.clock import iso
from rota.model.errors import InvalidValue
from rota.model.records import Job
from rota.model.spec import Kind
from rota.model.states import Trigger
from rota.operations.dry import tried
from rota.operations.jobs import find_job
from rota.operations.starting import refuse_disabled
from rota.rules.exclusion import excluded_until
from rota.rules.instants import instants_between
from rota.rules.overlap import After, Go
from rota.store import events, finding
from rota.store.driver import Database, Store

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
    born: tuple[Born, ...]
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
        return tried(store, operation)
    done = store.write(touching(operation, what="backfill", now=now))
    faults.point("backfill.committed")
    return done


def _backfill(db: Database, *, name: str, wanted: Range, now: datetime) -> Backfilled:
    job = find_job(db, name)
    refuse_disabled(job)
    found = instants_of(job, wanted)
    existing = finding.backfilled(db, job.id, since=wanted.since, until=wanted.until)
    ran = finding.fired(db, job.id, found) - existing if wanted.only_missed else set()
    left = tuple(at for at in found if at not in existing and at not in ran)
    born = _bear(db, job, left, parallel=wanted.parallel, now=now) if left else []
    events.note(
        db, "backfilled", now=now, job_id=job.id, runs=len(born), since=iso(wanted.since), until=iso(wanted.until)
    )
    took = finding.durations(db, job.id, limit=LOOKED_BACK)
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


def _bear(db: Database, job: Job, instants: Sequence[datetime], *, parallel: bool, now: datetime) -> list[Born]:
    last = None if parallel else finding.last_backfill(db, job.id)
    order = Order(job, Trigger.BACKFILL, chained=not parallel, decisions={"backfill": {"parallel": parallel}})
    wanted = [Wanted(scheduled_for=at) for at in instants]
    return enqueue_many(db, order, wanted, verdict=Go() if last is None else After(last), now=now)


def is_group(done: Backfilled) -> bool:
    """Tell whether what was filled are groups."""
    return done.job.spec.work.kind is Kind.GROUP
