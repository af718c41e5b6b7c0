"""Deliveries, endpoints that fail, jobs that keep failing, and deadlines, as they are stored (DEC-009)."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.model.clock import MILLISECOND, from_ms, from_ms_or_none, to_ms, to_ms_or_none
from rota.model.ids import new_id
from rota.model.notifications import Delivery, DeliveryResult, DeliveryStatus, Event, Target
from rota.model.serialize import decode, encode
from rota.store.driver import Database, Row
from rota.store.rows import write_json

KEPT = timedelta(days=30)
"""How long deliveries that are over stay."""
TARGETS_KEY = "targets"
TARGETS_AT_KEY = "targets_at"
"""When the targets became what they are."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint that failed of late: it is left alone until a moment, or for good."""

    failures: int = 0
    closed_until: datetime | None = None
    disabled_at: datetime | None = None
    error: str | None = None


def targets(db: Database) -> dict[str, Target]:
    """Return the declared targets by name."""
    row = db.row("meta_get", key=TARGETS_KEY)
    found: dict[str, object] = json.loads(row[0]) if row else {}
    return {name: decode(Target, value) for name, value in found.items()}


def declare_targets(db: Database, declared: Mapping[str, Target], *, now: datetime) -> None:
    """Set the declared targets."""
    if targets(db) != dict(declared):
        written = {name: encode(target) for name, target in declared.items()}
        db.execute("meta_set", key=TARGETS_KEY, value=write_json(written))
        db.execute("meta_set", key=TARGETS_AT_KEY, value=str(to_ms(now)))


def insert(db: Database, target: Target, event: Event, *, run_id: str, handle: str, own: bool, now: datetime) -> None:
    """Store what a target is to be told; what it was told already is not told again."""
    db.execute(
        "delivery_insert",
        id=f"msg_{new_id(now)}",
        run_id=run_id,
        handle=handle,
        event=event,
        target=target.name,
        own=write_json(encode(target)) if own else None,
        endpoint=target.endpoint,
        now=to_ms(now),
    )


def due(db: Database, *, now: datetime, busy: Collection[str], limit: int) -> list[Delivery]:
    """Return deliveries that are due, the longest due first; those to `busy` endpoints and closed ones wait."""
    found = db.rows("delivery_due", now=to_ms(now), busy=json.dumps(sorted(busy)), limit=limit)
    return [_delivery(row) for row in found]


def next_due(db: Database, *, busy: Collection[str] = ()) -> datetime | None:
    """Return when the next delivery is due to an endpoint that is not busy."""
    row = db.row("delivery_next_due", busy=json.dumps(sorted(busy)))
    return from_ms_or_none(row[0]) if row else None


def take(db: Database, delivery: str, *, now: datetime, until: datetime) -> bool:
    """Count an attempt, so that no other process makes it too; one that dies is followed by the next at `until`."""
    return db.execute("delivery_take", id=delivery, now=to_ms(now), until=to_ms(until)) == 1


def done(db: Database, delivery: str, status: DeliveryStatus, *, receipt: DeliveryResult, now: datetime) -> None:
    """Store how a delivery ended."""
    db.execute("delivery_done", id=delivery, status=status, now=to_ms(now), answer=receipt.answer, error=receipt.error)


def again(db: Database, delivery: str, *, receipt: DeliveryResult, at: datetime) -> None:
    """Store that an attempt failed, and when the next one comes."""
    db.execute("delivery_again", id=delivery, next_at=to_ms(at), answer=receipt.answer, error=receipt.error)


def listed(
    db: Database,
    *,
    status: DeliveryStatus | None = None,
    run_id: str | None = None,
    job_id: str | None = None,
    target: str | None = None,
    limit: int,
) -> list[Delivery]:
    """Return deliveries, newest first."""
    found = db.rows("delivery_list", status=status, run_id=run_id, job_id=job_id, target=target, limit=limit)
    return [_delivery(row) for row in found]


def of_run(db: Database, run_id: str) -> list[Delivery]:
    """Return the deliveries about a run, the oldest first."""
    return [_delivery(row) for row in db.rows("delivery_of_run", run_id=run_id)]


def named(db: Database, text: str) -> list[Delivery]:
    """Return the deliveries whose id ends so: one, none, or two for a text that is not clear."""
    return [_delivery(row) for row in db.rows("delivery_find", id=text)]


@dataclass(frozen=True, slots=True)
class FailedDeliveries:
    """How many deliveries to a target failed of late, what one of them said, and when the newest did."""

    target: str
    count: int
    error: str
    newest: datetime


def failed_since(db: Database, since: datetime, *, prefix: str = "") -> list[FailedDeliveries]:
    """Return by target which of the deliveries made since then failed."""
    found = db.rows("deliveries_failed", since=to_ms(since), prefix=prefix)
    return [FailedDeliveries(target, count, error or "", from_ms(newest)) for target, count, error, newest in found]


def shift(db: Database, back: timedelta) -> None:
    """Move the waits of deliveries and endpoints back by as much as the clock was set back (R-26)."""
    db.execute("deliveries_shift", back=back // MILLISECOND)
    db.execute("endpoints_shift", back=back // MILLISECOND)


def leave_all(db: Database, why: str, *, now: datetime) -> None:
    """Send nothing of what waits: whoever made the copy sends it; nobody is late for what he runs."""
    db.execute("deliveries_leave", error=why, now=to_ms(now))
    db.execute("deadlines_forget")


def repeat(db: Database, delivery: str, *, now: datetime) -> bool:
    """Let a delivery that is over begin again, under its own id."""
    return db.execute("delivery_repeat", id=delivery, now=to_ms(now)) == 1


def old(db: Database, *, before: datetime) -> bool:
    """Tell whether there are deliveries that are long over."""
    row = db.row("deliveries_old", before=to_ms(before))
    return bool(row and row[0])


def prune(db: Database, *, before: datetime, limit: int) -> int:
    """Drop deliveries that are long over; return how many."""
    return db.execute("delivery_prune", before=to_ms(before), limit=limit)


def endpoint(db: Database, name: str) -> Endpoint:
    """Return what is known of an endpoint."""
    row = db.row("endpoint_get", endpoint=name)
    if row is None:
        return Endpoint()
    return Endpoint(row[0], from_ms_or_none(row[1]), from_ms_or_none(row[2]), row[3])


def endpoint_failed(db: Database, name: str, failures: int, *, closed_until: datetime | None, error: str) -> None:
    """Count a failure of an endpoint, and until when it is left alone."""
    until = to_ms_or_none(closed_until)
    db.execute("endpoint_fail", endpoint=name, failures=failures, closed_until=until, error=error)


def endpoint_gone(db: Database, name: str, *, error: str, now: datetime) -> None:
    """Leave an endpoint alone for good."""
    db.execute("endpoint_disable", endpoint=name, error=error, now=to_ms(now))


def endpoint_works(db: Database, name: str) -> bool:
    """Forget what was wrong with an endpoint; tell whether something was."""
    return db.execute("endpoint_works", endpoint=name) == 1


def failing(db: Database, job_id: str) -> dict[str, datetime]:
    """Return by target when it was told last that a job fails."""
    return {target: from_ms(at) for target, at in db.rows("failing_of", job_id=job_id)}


def set_failing(db: Database, job_id: str, *, target: str, told_at: datetime | None) -> None:
    """Store when a target was told last that a job fails; None: it does not any more."""
    if told_at is None:
        db.execute("failing_over", job_id=job_id, target=target)
    else:
        db.execute("failing_set", job_id=job_id, target=target, told_at=to_ms(told_at))


def set_deadline(db: Database, run_id: str, at: datetime) -> None:
    """Store by when a run must have finished."""
    db.execute("deadline_set", run_id=run_id, at=to_ms(at))


def pass_deadline_on(db: Database, failed: str, run_id: str) -> None:
    """Let the next attempt have the deadline of the failed one."""
    db.execute("deadline_pass_on", failed=failed, run_id=run_id)


def deadline_over(db: Database, run_id: str) -> datetime | None:
    """Forget the deadline of a run that has finished, and return it; None: it has none, or was told to be late."""
    row = db.row("deadline_over", run_id=run_id)
    return from_ms(row[0]) if row else None


def next_deadline(db: Database) -> datetime | None:
    """Return when the next unfinished run is late."""
    row = db.row("deadline_next")
    return from_ms_or_none(row[0]) if row else None


def missed_deadlines(db: Database, *, now: datetime, limit: int) -> list[str]:
    """Return the runs that are late, each only once."""
    return [run_id for (run_id,) in db.rows("deadlines_missed", now=to_ms(now), limit=limit)]


def _delivery(row: Row) -> Delivery:
    own = decode(Target, json.loads(row[5])) if row[5] else None
    return Delivery(
        id=row[0],
        run_id=row[1],
        handle=row[2],
        event=Event(row[3]),
        target=row[4],
        own=own,
        endpoint=row[6],
        status=DeliveryStatus(row[7]),
        attempts=row[8],
        next_at=from_ms_or_none(row[9]),
        created_at=from_ms(row[10]),
        finished_at=from_ms_or_none(row[11]),
        answer=row[12],
        error=row[13],
    )
