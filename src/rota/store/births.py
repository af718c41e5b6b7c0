"""Runs as they enter the database, one at a time or many by one statement."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.model.clock import to_ms, to_ms_or_none
from rota.model.ids import created_ms
from rota.model.records import Job
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.rules.lanes import NO_POOLS
from rota.rules.order import POSITION_GAP
from rota.store import counters
from rota.store.driver import Database
from rota.store.rows import write_json

SIBLING_GAP = 64
"""Places between runs made at once: 10,000 of them fit into one millisecond, with room for moves between them."""


@dataclass(frozen=True, slots=True)
class Newborn:
    """A run as it enters the database: queued, skipped from the start (`reason`), or a group's, which `begins` at once.

    `rank` and `position` None: at the end of its priority. `priority` None: the job's. `lane_id` None: no pools.
    """

    id: str
    job: Job
    trigger: Trigger
    created_at: datetime
    slot_key: str | None = None
    scheduled_for: datetime | None = None
    covers_to: datetime | None = None
    count: int | None = None
    reason: Reason | None = None
    waiting_for: WaitingFor | None = None
    not_before: datetime | None = None
    predecessor_id: str | None = None
    expires_at: datetime | None = None
    lane_id: int | None = None
    priority: int | None = None
    rank: int | None = None
    position: int | None = None
    params: Mapping[str, Any] | None = None
    attempt: int = 1
    retry_of: str | None = None
    chain_id: str | None = None
    group_id: str | None = None
    place: int | None = None
    always: bool = False
    forced: bool = False
    begins: bool = False
    error: str | None = None
    decisions: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Sibling:
    """One of many runs made at once: what it does not share with the others. `params` None: the job's."""

    id: str
    params: Mapping[str, Any] | None = None
    scheduled_for: datetime | None = None
    predecessor_id: str | None = None


def insert_run(db: Database, run: Newborn, *, number: int) -> None:
    """Store a newborn run."""
    skipped = run.reason is not None
    status = Status.SKIPPED if skipped else Status.RUNNING if run.begins else Status.QUEUED
    priority = run.job.spec.priority if run.priority is None else run.priority
    db.execute(
        "run_insert",
        id=run.id,
        job_id=run.job.id,
        number=number,
        version=run.job.version,
        trigger=run.trigger,
        slot_key=run.slot_key,
        scheduled_for=to_ms_or_none(run.scheduled_for),
        covers_to=to_ms_or_none(run.covers_to),
        count=run.count,
        status=status,
        reason=run.reason,
        waiting_for=run.waiting_for,
        not_before=to_ms_or_none(run.not_before),
        expires_at=to_ms_or_none(run.expires_at),
        predecessor_id=run.predecessor_id,
        lane_id=NO_POOLS if run.lane_id is None else run.lane_id,
        priority=priority,
        rank=priority if run.rank is None else run.rank,
        position=created_ms(run.id) * POSITION_GAP if run.position is None else run.position,
        params=write_json(run.job.spec.work.params if run.params is None else run.params),
        attempt=run.attempt,
        retry_of=run.retry_of,
        chain_id=run.chain_id,
        group_id=run.group_id,
        place=run.place,
        always=int(run.always),
        forced=int(run.forced),
        created_at=to_ms(run.created_at),
        started_at=to_ms(run.created_at) if run.begins else None,
        finished_at=to_ms(run.created_at) if skipped else None,
        error=run.error,
        decisions=write_json(run.decisions or {}),
    )
    counters.count(db, status, 1)


def insert_runs(db: Database, shared: Newborn, siblings: Sequence[Sibling], *, first: int) -> None:
    """Store many newborn runs of one job by one statement, numbered from `first` on and one behind the other."""
    spec = shared.job.spec
    db.execute(
        "run_insert_many",
        job_id=shared.job.id,
        first=first,
        version=shared.job.version,
        trigger=shared.trigger,
        expires_at=to_ms_or_none(shared.expires_at),
        lane_id=NO_POOLS if shared.lane_id is None else shared.lane_id,
        priority=spec.priority if shared.priority is None else shared.priority,
        rank=spec.priority if shared.rank is None else shared.rank,
        position=created_ms(shared.id) * POSITION_GAP if shared.position is None else shared.position,
        gap=SIBLING_GAP,
        params=write_json(spec.work.params),
        forced=int(shared.forced),
        created_at=to_ms(shared.created_at),
        decisions=write_json(shared.decisions or {}),
        siblings=json.dumps([_sibling(one) for one in siblings], separators=(",", ":"), ensure_ascii=False),
    )
    counters.count(db, Status.QUEUED, len(siblings))


def _sibling(one: Sibling) -> tuple[Any, ...]:
    params = None if one.params is None else write_json(one.params)
    return (one.id, params, to_ms_or_none(one.scheduled_for), one.predecessor_id)
