"""`rota status --poll` for people."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from rota.operations.summary import Summary, WorkerView, summary_json
from rota.rules.times import day_time

ORDER = ("incoming", "claimed", "provisional", "done", "failed", "skipped", "cancelled")


def summary_lines(found: Summary, zone: str, *, now: datetime) -> Iterator[str]:
    """Return the summary in a few lines."""
    told = summary_json(found)
    yield f"queue     {_counts(told['queue_counts'])}"
    yield f"claimable {'yes' if found.claimable else 'no'}"
    for worker, counts in zip(found.workers, (one["counts"] for one in told["workers"]), strict=True):
        yield f"worker    {_worker(worker)}: {_counts(counts)}"
    if found.registered is False:
        yield "          the worker that you named is not registered"
    yield f"mode      {found.mode}"
    due = day_time(found.next_due_at, zone, now=now, seconds=True) + f"   ({zone})" if found.next_due_at else "nothing"
    yield f"next due  {due}"
    yield f"ask again in {found.suggested_poll_seconds} s"


def _counts(counts: Mapping[str, Any]) -> str:
    return " · ".join(f"{name} {counts[name]:,}" for name in ORDER if name in counts)


def _worker(worker: WorkerView) -> str:
    return f"{worker.name} ({worker.id}), {'registered' if worker.registered else 'not registered'}"
