"""The fixed JSON shape of a run, which every face and every notification has in common."""

from datetime import datetime
from typing import Any

from rota.model.clock import iso
from rota.model.notify import Delivery
from rota.model.records import Run


def run_json(run: Run) -> dict[str, Any]:
    """Return a run in the fixed shape that others build on."""
    return {
        "id": run.id,
        "run": run.handle,
        "job": run.job,
        "status": run.status.shown.value,
        "reason": run.reason,
        "waiting_for": run.waiting_for,
        "trigger": run.trigger.value,
        "scheduled_for": iso_or_none(run.scheduled_for),
        "covers_to": iso_or_none(run.covers_to),
        "count": run.count,
        "created_at": iso(run.created_at),
        "started_at": iso_or_none(run.started_at),
        "finished_at": iso_or_none(run.finished_at),
        "attempt": run.attempt,
        "retry_of": run.retry_of,
        "exit_code": run.exit_code,
        "error": run.error,
        "result_summary": run.result_summary,
        "usage": dict(run.usage) or None,
        "denied_tools": list(run.denied_tools),
        "session_id": run.session_id,
    }


def iso_or_none(at: datetime | None) -> str | None:
    """Return an instant as ISO 8601, None for none."""
    return None if at is None else iso(at)


def delivery_json(delivery: Delivery) -> dict[str, Any]:
    """Return a delivery; its status is its own, never that of the run."""
    return {
        "id": delivery.id,
        "run": delivery.handle,
        "run_id": delivery.run_id,
        "event": delivery.event.value,
        "target": delivery.target,
        "status": delivery.status.value,
        "attempts": delivery.attempts,
        "created_at": iso(delivery.created_at),
        "next_at": iso_or_none(delivery.next_at),
        "finished_at": iso_or_none(delivery.finished_at),
        "answer": delivery.answer,
        "error": delivery.error,
    }
