"""What happens, as it happens: changes of runs and jobs as events in the shapes that every face has."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rota.model.records import Run
from rota.model.states import Status
from rota.operations.jobs import JobView
from rota.operations.views import job_json, run_json
from rota.store import changes, jobs, order
from rota.store.changes import Change
from rota.store.driver import Database, Store

AT_ONCE = 1000
"""More changes than this at once are not told one by one: whoever follows reads everything again."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event: `seq` is where to go on after it."""

    seq: int
    name: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Followed:
    """What happened since a moment; `reset`: too much, or that moment is no longer known."""

    seq: int
    events: tuple[Event, ...] = ()
    reset: bool = False


def newest(store: Store) -> int:
    """Return the sequence number of the newest change."""
    return store.read(changes.bounds).last


def follow_from(store: Store, seq: int) -> Followed:
    """Return what happened after a change; several changes of one run or job are one event, its state of now."""
    return store.read(partial(_follow, seq=seq))


def _follow(db: Database, *, seq: int) -> Followed:
    kept = changes.bounds(db)
    if not kept.first - 1 <= seq <= kept.last:
        return Followed(kept.last, reset=True)
    found = changes.changes_after(db, seq, limit=AT_ONCE + 1)
    if len(found) > AT_ONCE:
        return Followed(kept.last, reset=True)
    return Followed(found[-1].seq if found else seq, tuple(_events(db, found)))


def _events(db: Database, found: Sequence[Change]) -> list[Event]:
    last = {(one.kind, one.subject): one.seq for one in found}
    runs = {run.id: run for run in order.runs_of(db, [one for kind, one in last if kind == "run"])}
    events = [Event(last["run", run.id], _name(run), run_json(run)) for run in runs.values()]
    for kind, subject in last:
        if kind == "job":
            job = jobs.job_by_id(db, subject)
            view = JobView(job, (), ())
            events.append(Event(last[kind, subject], "job.changed", job_json(view, fires=1)))
    return sorted(events, key=lambda event: event.seq)


def _name(run: Run) -> str:
    """Return the name of the event: document 001 calls these created, submitted and finished."""
    if run.status is Status.QUEUED:
        return "run.created" if run.first_dispatched_at is None and run.waiting_for is None else "run.waiting"
    return "run.finished" if run.status.final else "run.started"
