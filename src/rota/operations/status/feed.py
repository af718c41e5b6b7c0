"""The feed of changes, for followers and observers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rota.model.records import Run
from rota.model.serialize import run_json
from rota.model.states import Status
from rota.operations.jobs import JobView
from rota.operations.views import job_json
from rota.store.driver import Database, Store
from rota.store.tables import audit, groups, jobs, queue, runs
from rota.store.tables.audit import Change

AT_ONCE = 1000
"""More changes than this at once are not told one by one: whoever follows reads everything again."""

INSERTED = {"run.skipped": ("run.created", "run.finished"), "run.begun": ("run.created", "run.started")}
"""The events of runs that are finished, or running as those of groups are, when they are inserted."""


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """One event: `seq` is where to go on after it."""

    seq: int
    name: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Followed:
    """What happened since a moment; `reset`: too much, or that moment is no longer known."""

    seq: int
    events: tuple[FeedEvent, ...] = ()
    reset: bool = False


def newest(store: Store) -> int:
    """Return the sequence number of the newest change."""
    return store.read(audit.bounds).last


def follow_from(store: Store, seq: int) -> Followed:
    """Return what happened after a change, in order, each with the run or job as it is now."""
    return store.read(partial(_follow, seq=seq))


def _follow(db: Database, *, seq: int) -> Followed:
    kept = audit.bounds(db)
    if not kept.first - 1 <= seq <= kept.last:
        return Followed(kept.last, reset=True)
    found = audit.changes_after(db, seq, limit=AT_ONCE + 1)
    if len(found) > AT_ONCE:
        return Followed(kept.last, reset=True)
    return Followed(found[-1].seq if found else seq, tuple(_events(db, found)))


def _events(db: Database, found: Sequence[Change]) -> list[FeedEvent]:
    last = {one.subject: one.seq for one in found}
    moved = dict.fromkeys(one.subject for one in found if one.kind != "job")
    runs = {run.id: run for run in queue.runs_of(db, list(moved))}
    events: list[FeedEvent] = []
    for one in found:
        if one.kind == "job":
            if one.seq == last[one.subject]:
                view = JobView(jobs.job_by_id(db, one.subject), (), ())
                events.append(FeedEvent(one.seq, "job.changed", job_json(view, fires=1)))
        elif run := runs.get(one.subject):  # pruned meanwhile
            newest = one.seq == last[one.subject]
            events += [FeedEvent(one.seq, name, run_json(run)) for name in _names(one.kind, run, newest=newest)]
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


LOOKS = 3
"""How often is looked after something stirred."""
SHOWN_AT_ONCE = 1000


def ended_with(store: Store, run_id: str) -> tuple[Run, ...]:
    """Return a run that ended, or went back to wait, and the run of its group if that ended with it."""
    return store.read(partial(_ended_with, run_id=run_id))


def _ended_with(db: Database, *, run_id: str) -> tuple[Run, ...]:
    run = runs.run_by_id(db, run_id)
    if run is None:
        return ()
    group = groups.group_by_id(db, run.group_id) if run.group_id is not None else None
    if group is None or group.run_id is None or group.finished_at != run.finished_at:
        return (run,)
    whole = runs.run_by_id(db, group.run_id)
    return (run, whole) if whole is not None and whole.status.final else (run,)


class QueueWatch:
    """Finds runs that ended in no slot, so that nobody hears of it: cancelled while they were queued, or of a group.

    It looks only after something stirred, and a few times, since PostgreSQL numbers changes before they are committed.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._after = 0
        self._looks = 0
        self._told: set[str] = set()
        self._shown: set[str] = set()

    async def begin(self) -> None:
        """Pass over what was before."""
        self._after = self._store.read(audit.bounds).last

    def stir(self) -> None:
        """Something may have been cancelled."""
        self._looks = LOOKS

    def tells(self, run: Run) -> bool:
        """Note that somebody else tells of this run, unless a look has found it: tell whether that is so."""
        aside = run.status.final and run.epoch is None
        if aside and run.id in self._shown:
            return False
        if aside:
            self._told.add(run.id)
        return True

    def look(self) -> list[Run]:
        """Return the runs that nobody was told of since the last look."""
        if not self._looks:
            return []
        last, ended = self._store.read(partial(_ended_aside, after=self._after))
        told, self._told = self._told, set()
        found = [run for run in ended if run.id not in told]
        self._after, self._shown = last, {run.id for run in found}
        self._looks -= 1
        return found


def _ended_aside(db: Database, *, after: int) -> tuple[int, list[Run]]:
    last = audit.bounds(db).last
    return last, queue.runs_of(db, audit.ended_aside(db, after, last=last, limit=SHOWN_AT_ONCE))
