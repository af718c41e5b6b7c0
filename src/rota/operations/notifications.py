"""Who is told of runs, what was delivered, and doing it by hand: the same for every face (DEC-009)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from typing import Any

from rota.engine.loops.notifier import ThreadedPost
from rota.engine.ports import Message
from rota.model.clock import iso
from rota.model.errors import RotaError, UnknownDelivery, UnknownTarget
from rota.model.ids import new_id
from rota.model.notifications import Delivery, DeliveryResult, DeliveryStatus, Event, Target
from rota.model.serialize import delivery_json, iso_or_none
from rota.operations.jobs import find_job
from rota.operations.runs import find_run
from rota.settings import Settings
from rota.store.driver import Database, Store, rolled_back
from rota.store.tables import notifications
from rota.store.tables.notifications import Endpoint

MOST_RETRIED = 1000


@dataclass(frozen=True, slots=True)
class TargetView:
    """A target, what is known of its endpoint, and its newest delivery."""

    target: Target
    endpoint: Endpoint
    last: Delivery | None


def list_targets(store: Store) -> list[TargetView]:
    """Return the applied targets by name."""
    return store.read(_targets)


def _targets(db: Database) -> list[TargetView]:
    found = notifications.targets(db)
    last = {name: notifications.listed(db, target=name, limit=1) for name in found}
    return [
        TargetView(target, notifications.endpoint(db, target.endpoint), next(iter(last[name]), None))
        for name, target in sorted(found.items())
    ]


def find_target(targets: Mapping[str, Target], name: str) -> Target:
    """Return a target by name; UnknownTarget says which is near."""
    if name not in targets:
        raise UnknownTarget(name, get_close_matches(name, targets, n=1))
    return targets[name]


def try_target(target: Target, settings: Settings, *, environ: Mapping[str, str], now: datetime) -> DeliveryResult:
    """Send a test to a target at once, and return what became of it."""
    message = new_id(now)
    letter = Message(f"msg_{message}", target, trial_payload(message, now=now), at=now)
    try:
        return ThreadedPost(settings, environ).deliver(letter)
    except RotaError as error:
        return DeliveryResult(ok=False, error=str(error), hopeless=True)


def trial_payload(message: str, *, now: datetime) -> dict[str, Any]:
    """Return what a test sends: a run that never was, in the shape of all others."""
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
    """Send to an endpoint again that was switched off or left alone; tell whether it was."""
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
    found = partial(notifications.listed, status=status, run_id=run_id, job_id=job_id, target=target, limit=limit)
    return store.read(found)


def retry_deliveries(
    store: Store, names: Sequence[str], *, failed: bool, now: datetime, dry_run: bool
) -> list[Delivery]:
    """Send deliveries again under their own ids: those that are named, or all that failed. Return them."""
    operation = partial(_retry, names=names, failed=failed, now=now)
    return rolled_back(store, operation) if dry_run else store.write(operation)


def _retry(db: Database, *, names: Sequence[str], failed: bool, now: datetime) -> list[Delivery]:
    found = [_named(db, name) for name in names]
    if failed:
        found += notifications.listed(db, status=DeliveryStatus.FAILED, limit=MOST_RETRIED)
    return [one for one in dict.fromkeys(found) if notifications.repeat(db, one.id, now=now)]


def _named(db: Database, name: str) -> Delivery:
    found = notifications.named(db, name)
    if len(found) != 1:
        raise UnknownDelivery(name, several=bool(found))
    return found[0]


def target_json(view: TargetView) -> dict[str, Any]:
    """Return a target; an address that is a secret by the secret's name."""
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
    """Return what became of a test."""
    return {"target": target.name, "ok": receipt.ok, "answer": receipt.answer, "error": receipt.error}
