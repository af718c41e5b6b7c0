"""Notification targets and deliveries: list, test, enable and retry."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from msgspec import Struct

from rota.engine.loops.notifier import ThreadedPost
from rota.engine.ports import Message
from rota.model.clock import iso
from rota.model.errors import RotaError, UnknownDelivery, UnknownTarget, nearest
from rota.model.ids import new_id
from rota.model.notifications import Delivery, DeliveryResult, DeliveryStatus, Event, Target
from rota.model.serialize import delivery_json, iso_or_none
from rota.operations.jobs import find_job
from rota.operations.runs import find_run
from rota.settings import Settings
from rota.store.driver import Database, Store, rolled_back
from rota.store.tables import notifications
from rota.store.tables.notifications import Endpoint

MAX_RETRIED_DELIVERIES = 1000


class TargetView(Struct, frozen=True):
    """A target, the state of its endpoint, and its newest delivery."""

    target: Target
    endpoint: Endpoint
    last: Delivery | None


def list_targets(store: Store) -> list[TargetView]:
    """Return the applied targets by name."""
    return store.read(_targets)


def _targets(db: Database) -> list[TargetView]:
    views = []
    for name, target in sorted(notifications.targets(db).items()):
        last = next(iter(notifications.listed(db, target=name, limit=1)), None)
        views.append(TargetView(target, notifications.endpoint(db, target.endpoint), last))
    return views


def find_target(targets: Mapping[str, Target], name: str) -> Target:
    """Return a target by name, or raise UnknownTarget with the nearest name."""
    if name not in targets:
        raise UnknownTarget(name, nearest(name, targets))
    return targets[name]


def try_target(target: Target, settings: Settings, *, environ: Mapping[str, str], now: datetime) -> DeliveryResult:
    """Send a test to a target at once, and return the result."""
    message_id = new_id(now)
    message = Message(f"msg_{message_id}", target, trial_payload(message_id, now=now), at=now)
    try:
        post = ThreadedPost(settings, environ)
        checked = post.check(target)
        return post.deliver(message) if checked.ok else checked
    except RotaError as error:
        return DeliveryResult(ok=False, error=str(error), hopeless=True)


def trial_payload(message: str, *, now: datetime) -> dict[str, Any]:
    """Return the payload of a test: an invented run in the usual shape."""
    nothing = ("waiting_for", "scheduled_for", "covers_to", "count", "retry_of", "exit_code", "error", "usage")
    return {
        "id": message,
        "run": "test:1",
        "job": "test",
        "status": "COMPLETED",
        "reason": None,
        "trigger": "manual",
        **dict.fromkeys(nothing),
        "created_at": iso(now),
        "started_at": iso(now),
        "finished_at": iso(now),
        "attempt": 1,
        "result_summary": "sent by `rota notify test`",
        "denied_tools": [],
        "session_id": None,
        "event": Event.TEST.value,
    }


def enable_target(store: Store, name: str, *, dry_run: bool = False) -> bool:
    """Enable an endpoint after failures; return whether it was disabled or closed."""
    target = find_target(store.read(notifications.targets), name)
    operation = partial(notifications.endpoint_works, name=target.endpoint)
    return rolled_back(store, operation) if dry_run else store.write(operation)


def list_deliveries(
    store: Store, *, status: DeliveryStatus | None, about: str | None, target: str | None, limit: int
) -> list[Delivery]:
    """Return deliveries, newest first; `about` is a job or a run."""
    run_id = job_id = None
    if about is not None and ":" in about:
        run_id = store.read(partial(find_run, handle=about)).id
    elif about is not None:
        job_id = store.read(partial(find_job, name=about)).id
    return store.read(
        partial(notifications.listed, status=status, run_id=run_id, job_id=job_id, target=target, limit=limit)
    )


def retry_deliveries(
    store: Store, names: Sequence[str], *, failed: bool, now: datetime, dry_run: bool
) -> list[Delivery]:
    """Retry deliveries under their own ids: the named ones, or all failed ones. Return them."""
    operation = partial(_retry, names=names, failed=failed, now=now)
    return rolled_back(store, operation) if dry_run else store.write(operation)


def _retry(db: Database, *, names: Sequence[str], failed: bool, now: datetime) -> list[Delivery]:
    deliveries = []
    for name in names:
        matches = notifications.named(db, name)
        if len(matches) != 1:
            raise UnknownDelivery(name, several=bool(matches))
        deliveries += matches
    if failed:
        deliveries += notifications.listed(db, status=DeliveryStatus.FAILED, limit=MAX_RETRIED_DELIVERIES)
    return [
        delivery
        for delivery in {one.id: one for one in deliveries}.values()
        if notifications.repeat(db, delivery.id, now=now)
    ]


def target_json(view: TargetView) -> dict[str, Any]:
    """Return a target as JSON; a secret address by the secret's name."""
    target, endpoint = view.target, view.endpoint
    return {
        "name": target.name,
        "channel": target.channel.value,
        "on": [event.value for event in target.on],
        "address": target.address or None,
        "secret": target.address_secret or None,
        "command": list(target.command) or None,
        "signed": bool(target.signing),
        "disabled_at": iso_or_none(endpoint.disabled_at),
        "closed_until": iso_or_none(endpoint.closed_until),
        "failures": endpoint.failures,
        "error": endpoint.error,
        "last": None if view.last is None else delivery_json(view.last),
    }


def receipt_json(target: Target, receipt: DeliveryResult) -> dict[str, Any]:
    """Return the result of a test as JSON."""
    return {"target": target.name, "ok": receipt.ok, "answer": receipt.answer, "error": receipt.error}
