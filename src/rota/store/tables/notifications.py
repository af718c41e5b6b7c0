"""Rows of deliveries, failing endpoints, failing jobs and deadlines."""

import json
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from rota.model.clock import MILLISECOND, from_ms, to_ms, to_ms_or_none
from rota.model.ids import new_id
from rota.model.notifications import Delivery, DeliveryResult, DeliveryStatus, Event, Target
from rota.model.serialize import decode, encode
from rota.store.driver import Database
from rota.store.rows import instant_of, record_or_none, records_of, value_of, write_json

DELIVERY_RETENTION = timedelta(days=30)
TARGETS_KEY = "targets"
TARGETS_AT_KEY = "targets_at"
"""The time of the last change of the targets."""


class Endpoint(Struct, frozen=True):
    """A failing endpoint: it gets no deliveries until `closed_until`, or is disabled."""

    failures: int = 0
    closed_until: datetime | None = None
    disabled_at: datetime | None = None
    error: str | None = None


def targets(db: Database) -> dict[str, Target]:
    """Return the declared targets by name."""
    stored: dict[str, object] = json.loads(value_of(db, "meta_get", key=TARGETS_KEY) or "{}")
    return {name: decode(Target, value) for name, value in stored.items()}


def declared_at(db: Database) -> str | None:
    """Return the mark of the last change of the declared targets, None before the first."""
    found = value_of(db, "meta_get", key=TARGETS_AT_KEY)
    return None if found is None else str(found)


def declare_targets(db: Database, declared: Mapping[str, Target], *, now: datetime) -> None:
    """Set the declared targets."""
    if targets(db) != dict(declared):
        written = {name: encode(target) for name, target in declared.items()}
        db.execute("meta_set", key=TARGETS_KEY, value=write_json(written))
        db.execute("meta_set", key=TARGETS_AT_KEY, value=str(to_ms(now)))


def insert(db: Database, target: Target, event: Event, *, run_id: str, handle: str, own: bool, now: datetime) -> None:
    """Store a delivery of an event to a target; an existing one is not repeated."""
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
        subject=run_id,
        payload=None,
        line=None,
    )


def insert_message(
    db: Database,
    target: Target,
    event: Event,
    *,
    subject: str,
    payload: Mapping[str, Any],
    now: datetime,
    handle: str = "",
    run_id: str | None = None,
    line: str | None = None,
    own: bool = False,
) -> None:
    """Store a delivery of a message to a target; one about the same subject is not repeated."""
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
        subject=subject,
        payload=write_json(payload),
        line=line,
    )


def due(db: Database, *, now: datetime, busy: Collection[str], limit: int) -> list[Delivery]:
    """Return due deliveries, longest due first, without those to `busy` or closed endpoints."""
    return records_of(Delivery, db.rows("delivery_due", now=to_ms(now), busy=json.dumps(sorted(busy)), limit=limit))


def next_due(db: Database, *, busy: Collection[str] = ()) -> datetime | None:
    """Return the time of the next delivery to an endpoint that is not busy."""
    return instant_of(db, "delivery_next_due", busy=json.dumps(sorted(busy)))


def take(db: Database, delivery: str, *, now: datetime, until: datetime) -> bool:
    """Count an attempt and reserve it for this process; if the process dies, the next attempt comes at `until`."""
    return db.execute("delivery_take", id=delivery, now=to_ms(now), until=to_ms(until)) == 1


def done(db: Database, delivery: str, status: DeliveryStatus, *, receipt: DeliveryResult, now: datetime) -> None:
    """Store the end of a delivery."""
    db.execute("delivery_done", id=delivery, status=status, now=to_ms(now), answer=receipt.answer, error=receipt.error)


def again(db: Database, delivery: str, *, receipt: DeliveryResult, at: datetime) -> None:
    """Store a failed attempt and the time of the next one."""
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
    rows = db.rows("delivery_list", status=status, run_id=run_id, job_id=job_id, target=target, limit=limit)
    return records_of(Delivery, rows)


def of_run(db: Database, run_id: str) -> list[Delivery]:
    """Return the deliveries about a run, oldest first."""
    return records_of(Delivery, db.rows("delivery_of_run", run_id=run_id))


def named(db: Database, text: str) -> list[Delivery]:
    """Return the deliveries whose id ends with a text: none, one, or two if it is ambiguous."""
    return records_of(Delivery, db.rows("delivery_find", id=text))


class FailedDeliveries(Struct, frozen=True):
    """The number of recently failed deliveries to a target, the error of one of them, and the time of the newest."""

    target: str
    count: int
    error: str
    newest: datetime


def failed_since(db: Database, since: datetime, *, prefix: str = "") -> list[FailedDeliveries]:
    """Return the failed deliveries since an instant by target."""
    rows = db.rows("deliveries_failed", since=to_ms(since), prefix=prefix)
    return [FailedDeliveries(target, count, error or "", from_ms(newest)) for target, count, error, newest in rows]


def counted_since(db: Database, since: datetime) -> list[tuple[str, DeliveryStatus, int]]:
    """Return the number of deliveries since an instant by target and status."""
    rows = db.rows("deliveries_counted", since=to_ms(since))
    return [(target, DeliveryStatus(status), number) for target, status, number in rows]


def shift(db: Database, back: timedelta) -> None:
    """Move the waits of deliveries and endpoints back with the clock."""
    db.execute("deliveries_shift", back=back // MILLISECOND)
    db.execute("endpoints_shift", back=back // MILLISECOND)


def leave_all(db: Database, why: str, *, now: datetime) -> None:
    """Drop pending deliveries and deadlines in a copy of the database: the original sends them."""
    db.execute("deliveries_leave", error=why, now=to_ms(now))
    db.execute("deadlines_forget")


def repeat(db: Database, delivery: str, *, now: datetime) -> bool:
    """Restart a finished delivery under its own id."""
    return db.execute("delivery_repeat", id=delivery, now=to_ms(now)) == 1


def old(db: Database, *, before: datetime) -> bool:
    """Return whether there are deliveries that ended before an instant."""
    return bool(value_of(db, "deliveries_old", before=to_ms(before)))


def prune(db: Database, *, before: datetime, limit: int) -> int:
    """Delete deliveries that ended before an instant; return the number."""
    return db.execute("delivery_prune", before=to_ms(before), limit=limit)


def endpoint(db: Database, name: str) -> Endpoint:
    """Return the failures of an endpoint."""
    return record_or_none(Endpoint, db.row("endpoint_get", endpoint=name)) or Endpoint()


def disabled(db: Database) -> dict[str, Endpoint]:
    """Return the disabled endpoints."""
    return {name: Endpoint(0, None, from_ms(at), error) for name, at, error in db.rows("endpoints_disabled")}


def endpoint_failed(db: Database, name: str, failures: int, *, closed_until: datetime | None, error: str) -> None:
    """Store the failures of an endpoint, and the end of its pause."""
    until = to_ms_or_none(closed_until)
    db.execute("endpoint_fail", endpoint=name, failures=failures, closed_until=until, error=error)


def endpoint_gone(db: Database, name: str, *, error: str, now: datetime) -> None:
    """Disable an endpoint."""
    db.execute("endpoint_disable", endpoint=name, error=error, now=to_ms(now))


def endpoint_works(db: Database, name: str) -> bool:
    """Delete the failures of an endpoint; return whether it had any."""
    return db.execute("endpoint_works", endpoint=name) == 1


def failing(db: Database, job_id: str) -> dict[str, datetime]:
    """Return the last failure notification of a job by target."""
    return {target: from_ms(at) for target, at in db.rows("failing_of", job_id=job_id)}


def set_failing(db: Database, job_id: str, *, target: str, told_at: datetime | None) -> None:
    """Store the last failure notification of a job to a target; None: the job no longer fails."""
    if told_at is None:
        db.execute("failing_over", job_id=job_id, target=target)
    else:
        db.execute("failing_set", job_id=job_id, target=target, told_at=to_ms(told_at))


def set_deadline(db: Database, run_id: str, at: datetime) -> None:
    """Store the deadline of a run."""
    db.execute("deadline_set", run_id=run_id, at=to_ms(at))


def pass_deadline_on(db: Database, failed: str, run_id: str) -> None:
    """Move the deadline of a failed attempt to the next one."""
    db.execute("deadline_pass_on", failed=failed, run_id=run_id)


def deadline_over(db: Database, run_id: str) -> datetime | None:
    """Delete and return the deadline of a finished run; None: it has none, or was reported late."""
    return instant_of(db, "deadline_over", run_id=run_id)


def next_deadline(db: Database) -> datetime | None:
    """Return the next deadline of an unfinished run."""
    return instant_of(db, "deadline_next")


def missed_deadlines(db: Database, *, now: datetime, limit: int) -> list[str]:
    """Return the late runs, each only once."""
    return [run_id for (run_id,) in db.rows("deadlines_missed", now=to_ms(now), limit=limit)]
