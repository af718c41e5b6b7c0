"""Digests, written with the end of the time that they cover."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from rota.model.clock import iso
from rota.model.ids import new_id
from rota.model.notifications import Event, Target
from rota.rules.notifications import LONGEST_DIGEST, digest_due, next_digest
from rota.store.driver import Database
from rota.store.tables import digests, notifications
from rota.store.tables.jobs import timezone_of

BuildDigest = Callable[[Database, datetime, datetime], Mapping[str, Any]]
"""Returns what happened from one instant to another, as a message."""


class DigestPlan(Struct, frozen=True):
    """The targets whose digest is due, those that are new, and the next time of any."""

    due: tuple[Target, ...] = ()
    new: tuple[str, ...] = ()
    next_at: datetime | None = None


def plan(db: Database, *, now: datetime) -> DigestPlan:
    """Return which digests are due."""
    targets = [target for target in notifications.targets(db).values() if target.digest]
    if not targets:
        return DigestPlan()
    zone, last = timezone_of(db), digests.last_digests(db)
    times = [next_digest(target.digest, zone, now=now) for target in targets]
    return DigestPlan(
        due=tuple(
            target
            for target in targets
            if target.name in last and digest_due(target.digest, zone, last=last[target.name], now=now)
        ),
        new=tuple(target.name for target in targets if target.name not in last),
        next_at=min((at for at in times if at is not None), default=None),
    )


def write_due(db: Database, build: BuildDigest, *, now: datetime) -> int:
    """Store the due digests and that they are written; return their number. A new target begins now."""
    digest_plan, last = plan(db, now=now), digests.last_digests(db)
    for target in digest_plan.due:
        since = max(last[target.name], now - LONGEST_DIGEST)
        payload = {"event": Event.DIGEST.value, "id": new_id(now), "at": iso(now), **build(db, since, now)}
        subject = f"digest:{iso(now)}"
        notifications.insert_message(db, target, Event.DIGEST, subject=subject, payload=payload, now=now)
    if digest_plan.due or digest_plan.new:
        begun = {target.name: now for target in digest_plan.due} | dict.fromkeys(digest_plan.new, now)
        digests.set_last_digests(db, {**last, **begun})
    return len(digest_plan.due)
