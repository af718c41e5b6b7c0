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

INSERTED = {"run.skipped": ("run.created", "run.finished"), "run.begun": ("run.created", "run.started")}
"""The events of runs that are finished, or running as those of groups are, when they are inserted."""


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
    """Return what happened after a change, in order, each with the run or job as it is now."""
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
    last = {one.subject: one.seq for one in found}
    moved = dict.fromkeys(one.subject for one in found if one.kind != "job")
    runs = {run.id: run for run in order.runs_of(db, list(moved))}
    events: list[Event] = []
    for one in found:
        if one.kind == "job":
            if one.seq == last[one.subject]:
                view = JobView(jobs.job_by_id(db, one.subject), (), ())
                events.append(Event(one.seq, "job.changed", job_json(view, fires=1)))
        elif run := runs.get(one.subject):  # pruned meanwhile
            newest = one.seq == last[one.subject]
            events += [Event(one.seq, name, run_json(run)) for name in _names(one.kind, run, newest=newest)]
    return events


def _names(kind: str, run: Run, *, newest: bool) -> tuple[str, ...]:
    """Return the events of a change; one without an event of its own is named by the state, where no other follows."""
    if kind not in ("run", "run.changed"):
        return INSERTED.get(kind, (kind,))
    if not newest or (kind == "run.changed" and run.status.final):
        return ()
    if run.status.final:  # a change from before changes said what happened
        return ("run.finished",)
    return ("run.started" if run.status is Status.RUNNING else "run.waiting",)
