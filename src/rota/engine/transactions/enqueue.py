"""Enqueue: insert runs by schedule, hand or in bulk, and move queued ones."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.engine.transactions import groups as groups_transactions
from rota.engine.transactions.finish import end_run, end_runs
from rota.engine.transactions.insert import RunRef, create_run, create_runs
from rota.model.ids import leave, new_id, new_ids, stay_above
from rota.model.records import Group, Job, Outcome, Run
from rota.model.spec import Kind, OverlapPolicy
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.rules.admission import (
    ActiveRun,
    After,
    Allow,
    PendingRetry,
    Refuse,
    Replace,
    TooMany,
    judge_many,
    replaced_retries,
)
from rota.rules.queue_order import Spread, spread
from rota.rules.schedule.plan import PlannedSkip
from rota.store.driver import Database
from rota.store.tables import groups, queue, run_queries, runs
from rota.store.tables.processes import CriticalSection, lock_jobs_of_runs, lock_section
from rota.store.tables.queue import QueueSpot


class ManualStart(Struct, frozen=True):
    """How overlap judges a manual start, and the retries in backoff whose place it takes."""

    verdict: Allow | After | Replace | Refuse | TooMany
    replaces: tuple[PendingRetry, ...] = ()

    @property
    def decisions(self) -> dict[str, Any]:
        """The record of replaced retries in the new run."""
        return {"replaced": [retry.handle for retry in self.replaces]} if self.replaces else {}


def judge_start(
    db: Database,
    job: Job,
    params: Sequence[Mapping[str, Any]],
    *,
    force: bool = False,
    chain_id: str | None = None,
) -> ManualStart:
    """Judge a manual start of one run for each of `params`; with `force` overlap does not count.

    `chain_id`: the chain that is repeated, whose own retry is replaced in any case.
    """
    pending = run_queries.pending_retries(db, job)
    replaces = replaced_retries(job.spec.overlap, pending, params=params, chain_id=chain_id) if pending else ()
    if force:
        return ManualStart(Allow(), replaces)
    gone = {retry.id for retry in replaces}
    active = [run for run in active_for(db, job) if run.id not in gone]
    return ManualStart(judge_many(job.spec.overlap, active, count=len(params)), replaces)


def replace_retries(db: Database, replaces: Sequence[PendingRetry], *, by: RunRef, now: datetime) -> None:
    """Cancel the retries whose place the run `by` takes; each of them names it."""
    for retry in replaces:
        cancel(db, retry.id, reason=Reason.REPLACED, now=now, error=f"{by.handle} was started by hand and replaces it")


def enqueue(
    db: Database,
    job: Job,
    verdict: Allow | After | Replace,
    *,
    trigger: Trigger,
    now: datetime,
    slot_key: str | None = None,
    scheduled_for: datetime | None = None,
    params: Mapping[str, Any] | None = None,
    forced: bool = False,
    retry_of: str | None = None,
    decisions: Mapping[str, Any] | None = None,
    replaces: Sequence[PendingRetry] = (),
) -> RunRef:
    """Store a new run in the queue, as the overlap verdict says, and cancel what it replaces."""
    expires_after = job.spec.gates.expires_after
    run = runs.NewRun(
        id=new_id(now),
        job=job,
        trigger=trigger,
        created_at=now,
        slot_key=slot_key,
        scheduled_for=scheduled_for,
        expires_at=now + expires_after if expires_after else None,
        params=params,
        forced=forced,
        retry_of=retry_of,
        decisions=decisions,
    )
    if isinstance(verdict, After):
        run = replace(run, waiting_for=WaitingFor.PREDECESSOR, predecessor_id=verdict.predecessor_id)
    if isinstance(verdict, Replace) and _stop_replaced(db, verdict.run_ids, now=now):
        run = replace(run, waiting_for=WaitingFor.REPLACED_RUN)
    born = _bear_group(db, run) if job.spec.work.kind is Kind.GROUP else create_run(db, run)
    replace_retries(db, replaces, by=born, now=now)
    return born


def _bear_group(db: Database, run: runs.NewRun) -> RunRef:
    """Store the run of a group; unless it waits it begins at once, with all of its members."""
    begins = run.waiting_for is None
    born = create_run(db, replace(run, begins=begins))
    if begins:
        end_runs(db, groups_transactions.begin(db, born.id, now=run.created_at), epoch=None, now=run.created_at)
    return born


def skip(
    db: Database,
    job: Job,
    reason: Reason,
    *,
    now: datetime,
    slot_key: str,
    scheduled_for: datetime,
    covers_to: datetime | None = None,
    count: int | None = 1,
    error: str | None = None,
    decisions: Mapping[str, Any] | None = None,
) -> RunRef:
    """Store the row of one or more instants that do not run."""
    return create_run(
        db,
        runs.NewRun(
            id=new_id(now),
            job=job,
            trigger=Trigger.SCHEDULE,
            created_at=now,
            slot_key=slot_key,
            scheduled_for=scheduled_for,
            covers_to=covers_to,
            count=count,
            reason=reason,
            error=error,
            decisions=decisions,
        ),
    )


def skip_planned(
    db: Database,
    job: Job,
    planned: PlannedSkip,
    *,
    now: datetime,
    error: str | None,
    decisions: Mapping[str, Any] | None = None,
) -> RunRef:
    """Store the row of the instants that a plan leaves out."""
    return skip(
        db,
        job,
        planned.reason,
        now=now,
        slot_key=planned.slot_key,
        scheduled_for=planned.scheduled_for,
        covers_to=planned.covers_to,
        count=planned.count,
        error=error,
        decisions=decisions,
    )


def _stop_replaced(db: Database, run_ids: tuple[str, ...], *, now: datetime) -> bool:
    """Cancel the runs that a new one replaces; return whether some of them must first be stopped."""
    final = [cancel(db, run_id, reason=Reason.REPLACED, now=now) for run_id in run_ids]
    return not all(final)


def cancel(db: Database, run_id: str, *, reason: Reason, now: datetime, error: str | None = None) -> bool:
    """Cancel a run: at once if it is queued, else ask its holder to stop it. Return whether it is final."""
    lock_jobs_of_runs(db, [run_id])
    run = runs.run_by_id(db, run_id)
    if run is None or run.status.final:
        return True
    if run.status is Status.QUEUED:
        outcome = Outcome(Status.CANCELLED, reason, error=error)
        return end_run(db, run_id, outcome, expected=Status.QUEUED, epoch=None, now=now)
    begun = groups.group_of_run(db, run_id)
    if begun is not None:
        return cancel_group(db, begun, reason=reason, now=now)
    runs.ask_cancel(db, run_id, reason=reason, now=now)
    return False


def cancel_group(db: Database, begun: Group, *, reason: Reason, now: datetime) -> bool:
    """Cancel a group: its queued members at once, the others when they have stopped. Return whether it is final."""
    end_runs(db, groups_transactions.cancel(db, begun, reason=reason, now=now), epoch=None, now=now)
    after = groups.group_by_id(db, begun.id)
    return after is None or after.finished_at is not None


def active_for(db: Database, job: Job) -> tuple[ActiveRun, ...]:
    """Return what overlap looks at: nothing where any number may run, so that a long queue costs nothing."""
    return () if job.spec.overlap.policy is OverlapPolicy.ALLOW else active_runs(db, job.id)


def active_runs(db: Database, job_id: str) -> tuple[ActiveRun, ...]:
    """Return the job's unfinished runs as the overlap rule looks at them, oldest first: a retry is as old as its chain.

    A new run waits for the last one in line, so a retry must not stand behind runs that wait for it.
    """
    run_list = sorted(run_queries.unfinished_runs(db, job_id), key=lambda run: (run.chain_id or run.id, run.id))
    if run_list:
        stay_above(max(run.id for run in run_list))  # another machine's clock may be ahead, and older means a lower one
    return tuple(ActiveRun(run.id, run.handle, run.status, run.waiting_for) for run in run_list)


Verdict = Allow | After | Replace


class Wanted(Struct, frozen=True):
    """One of many runs to be made; `params` None: the job's."""

    params: Mapping[str, Any] | None = None
    scheduled_for: datetime | None = None


class Order(Struct, frozen=True):
    """The common part of many runs of one job. `chained`: each waits for the previous one."""

    job: Job
    trigger: Trigger
    chained: bool
    forced: bool = False
    decisions: Mapping[str, Any] | None = None


def enqueue_many(
    db: Database, order: Order, wanted: Sequence[Wanted], *, verdict: Verdict, now: datetime
) -> list[RunRef]:
    """Store runs in the queue, in their order, the first as `verdict` says."""
    one_by_one = order.job.spec.work.kind is Kind.GROUP or isinstance(verdict, Replace)
    if one_by_one or len(wanted) == 1:
        return _one_by_one(db, order, wanted, verdict=verdict, now=now)
    siblings = _siblings(wanted, verdict, chained=order.chained, now=now)
    expires_after = order.job.spec.gates.expires_after
    shared = runs.NewRun(
        id=siblings[0].id,
        job=order.job,
        trigger=order.trigger,
        created_at=now,
        expires_at=now + expires_after if expires_after else None,
        forced=order.forced,
        decisions=order.decisions,
    )
    return create_runs(db, shared, siblings)


def _siblings(wanted: Sequence[Wanted], verdict: Verdict, *, chained: bool, now: datetime) -> list[runs.NewRunVariant]:
    before = verdict.predecessor_id if isinstance(verdict, After) else None
    siblings: list[runs.NewRunVariant] = []
    for identifier, one in zip(new_ids(now, len(wanted)), wanted, strict=True):
        siblings.append(runs.NewRunVariant(identifier, one.params, one.scheduled_for, before))
        before = siblings[-1].id if chained else None
    leave(siblings[-1].id)  # these fill their millisecond: the next run stands behind all of them
    return siblings


def _one_by_one(
    db: Database, order: Order, wanted: Sequence[Wanted], *, verdict: Verdict, now: datetime
) -> list[RunRef]:
    born: list[RunRef] = []
    for one in wanted:
        ref = enqueue(
            db,
            order.job,
            _following(db, born, chained=order.chained) if born else verdict,
            trigger=order.trigger,
            now=now,
            scheduled_for=one.scheduled_for,
            params=one.params,
            forced=order.forced,
            decisions=order.decisions,
        )
        born.append(ref)
    return born


def _following(db: Database, born: Sequence[RunRef], *, chained: bool) -> Allow | After:
    """Return how the next of many runs stands to the one before, which may have ended at its birth already."""
    unfinished = chained and run_queries.is_unfinished(db, born[-1].id)
    return After(born[-1].id) if unfinished else Allow()


def cancel_many(db: Database, statuses: Mapping[str, Status], *, now: datetime) -> list[str]:
    """Cancel runs: queued ones at once, all by one statement, others by asking; return those that are asked."""
    outcome = Outcome(Status.CANCELLED, Reason.REQUESTED)
    queued = [run_id for run_id, status in statuses.items() if status is Status.QUEUED]
    end_runs(db, [runs.RunEnd(run_id, outcome, Status.QUEUED, now) for run_id in queued], epoch=None, now=now)
    others = [run_id for run_id, status in statuses.items() if status is not Status.QUEUED]
    return [run_id for run_id in others if not cancel(db, run_id, reason=Reason.REQUESTED, now=now)]


FIRST_WINDOW = 4
FETCH = 8
"""A neighbour, the first window and one behind it are found by one look."""


class Where(StrEnum):
    """Where runs are moved to."""

    FIRST = "first"
    LAST = "last"
    BEFORE = "before"
    TO = "to"


class Aim(Struct, frozen=True):
    """A place to move to: `other` of `before`, `place` of `to`."""

    where: Where
    other: Run | None = None
    place: int = 0


def move(db: Database, moved: Sequence[Run], aim: Aim) -> None:
    """Move queued runs of one rank to a place, in their given order; at a border of their rank they stop."""
    lock_section(db, CriticalSection.ORDER)
    rank, moving = moved[0].rank, {run.seq for run in moved}
    _QueueGap(db, rank, _spot(db, rank, aim, moving), moving).fill(moved)


def _spot(db: Database, rank: int, aim: Aim, moving: set[int]) -> QueueSpot:
    if aim.where is Where.FIRST:
        return queue.START
    if aim.where is Where.LAST:
        return queue.END
    if aim.other is not None:
        return queue.spot_of(aim.other)
    reached = queue.at_place(db, aim.place, without=moving)
    if reached is None or reached[0] < rank:
        return queue.END
    return reached[1] if reached[0] == rank else queue.START


class _QueueGap:
    """The place before a spot, with those around it, nearest first; read as far as is needed."""

    def __init__(self, db: Database, rank: int, spot: QueueSpot, moving: set[int]) -> None:
        self._db = db
        self._before: list[QueueSpot] = []
        self._after: list[QueueSpot] = [] if spot in (queue.START, queue.END) else [spot]
        self._back = self._others(rank, spot, moving, back=True) if spot != queue.START else iter(())
        self._ahead = self._others(rank, spot, moving, back=False) if spot != queue.END else iter(())

    def _others(self, rank: int, spot: QueueSpot, moving: set[int], *, back: bool) -> Iterator[QueueSpot]:
        spots = queue.walk(self._db, rank, spot, back=back, fetch=FETCH)
        return (queue_spot for queue_spot in spots if queue_spot.run not in moving)

    def fill(self, moved: Sequence[Run]) -> None:
        """Give the runs positions in the gap; where it is too narrow, spread those around it anew."""
        window, found = 0, self._spread(moved, 0)
        while found is None:
            window = window * 2 or FIRST_WINDOW
            found = self._spread(moved, window)
        before = zip([spot.run for spot in reversed(self._before[:window])], found.before, strict=True)
        after = zip([spot.run for spot in self._after[:window]], found.after, strict=True)
        middle = zip([run.seq for run in moved], found.moved, strict=True)
        queue.place(self._db, dict([*before, *middle, *after]))

    def _spread(self, moved: Sequence[Run], window: int) -> Spread | None:
        self._before += islice(self._back, max(window + 1 - len(self._before), 0))
        self._after += islice(self._ahead, max(window + 1 - len(self._after), 0))
        around = [spot.position for spot in (*self._before, *self._after)]
        return spread(
            [spot.position for spot in self._before],
            [spot.position for spot in self._after],
            moved=len(moved),
            window=window,
            origin=min([*around, *(run.position for run in moved)]),
        )
