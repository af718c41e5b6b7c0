"""The feed of changes, for followers and observers."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

from msgspec import Struct

from rota.model.records import Run
from rota.model.serialize import run_json
from rota.model.states import Status
from rota.operations.jobs import JobView
from rota.operations.questions.views import question_json
from rota.operations.runs import RunFilter, chosen_of, wanted_text
from rota.operations.views import job_json
from rota.store.driver import Database, Store
from rota.store.tables import audit, groups, jobs, questions, queue, runs
from rota.store.tables.audit import Change
from rota.store.tables.run_queries import RunSelection

MAX_CHANGES = 1000
"""With more changes than this, a follower reads everything again."""

INSERTED = {"run.skipped": ("run.created", "run.finished"), "run.begun": ("run.created", "run.started")}
"""The events of runs that are inserted as finished, or as running, such as runs of groups."""


class FeedEvent(Struct, frozen=True):
    """One event: `seq` is the position from which to continue."""

    seq: int
    name: str
    data: Mapping[str, Any]


class Followed(Struct, frozen=True):
    """The events since a position; `reset`: too many, or the position was pruned."""

    seq: int
    events: tuple[FeedEvent, ...] = ()
    reset: bool = False


def newest(store: Store) -> int:
    """Return the sequence number of the newest change."""
    return store.read(audit.bounds).last


def follow_from(store: Store, seq: int) -> Followed:
    """Return the events after a position, in order, each with the current run or job."""

    def read(db: Database) -> Followed:
        bounds = audit.bounds(db)
        if not bounds.first - 1 <= seq <= bounds.last:
            return Followed(bounds.last, reset=True)
        changes = audit.changes_after(db, seq, limit=MAX_CHANGES + 1)
        if len(changes) > MAX_CHANGES:
            return Followed(bounds.last, reset=True)
        return Followed(changes[-1].seq if changes else seq, tuple(_events(db, changes)))

    return store.read(read)


def _events(db: Database, changes: Sequence[Change]) -> list[FeedEvent]:
    last = {change.subject: change.seq for change in changes}
    moved = dict.fromkeys(change.subject for change in changes if change.kind.startswith("run"))
    runs = {run.id: run for run in queue.runs_of(db, list(moved))}
    events: list[FeedEvent] = []
    for change in changes:
        newest = change.seq == last[change.subject]
        if change.kind == "job" and newest:
            view = JobView(jobs.job_by_id(db, change.subject), (), ())
            events.append(FeedEvent(change.seq, "job.changed", job_json(view, fires=1)))
        elif change.kind.startswith("question."):
            question = questions.by_number(db, int(change.subject))
            if question is not None:  # a pruned one has no event
                events.append(FeedEvent(change.seq, change.kind, question_json(question)))
        elif run := runs.get(change.subject):  # a pruned run has no event
            events += [FeedEvent(change.seq, name, run_json(run)) for name in _names(change.kind, run, newest=newest)]
    return events


def _names(kind: str, run: Run, *, newest: bool) -> tuple[str, ...]:
    """Return the events of a change; the newest change without an own event is named by the state of the run."""
    if kind not in ("run", "run.changed"):
        return INSERTED.get(kind, (kind,))
    if not newest or (kind == "run.changed" and run.status.final):
        return ()
    if run.status.final:  # a change of an older version, without the name of its event
        return ("run.finished",)
    return ("run.started" if run.status is Status.RUNNING else "run.waiting",)


READS_KEPT = 10
"""So many earlier reads are repeated: PostgreSQL numbers changes before they are committed."""


class HistoryFollower:
    """Finds the runs that end, each once, without those that a filter leaves out."""

    def __init__(self, store: Store, text: str | None = None, **asked: Unpack[RunFilter]) -> None:
        self._store = store
        self._text = None if text is None else wanted_text(text)
        self._asked = asked
        store.read(partial(chosen_of, asked=asked))  # refuses unknown names before anything is printed
        self._floors = deque([newest(store)], maxlen=READS_KEPT)
        self._seen: dict[str, int] = {}
        self.missed = False
        """Whether changes were pruned before they were read; the caller resets it."""

    def skip(self, shown: Iterable[Run]) -> None:
        """Note runs that are shown already."""
        self._seen.update((run.id, self._floors[-1]) for run in shown)

    def look(self) -> list[Run]:
        """Return the runs that ended since the last call, the first one first."""
        ended, last = self._store.read(self._read)
        floor = self._floors[0]
        self._floors.append(last)
        self._seen = {run_id: seq for run_id, seq in self._seen.items() if seq >= floor}
        return sorted(ended, key=lambda run: (run.finished_at or run.created_at, run.id))

    def _read(self, db: Database) -> tuple[list[Run], int]:
        bounds, at = audit.bounds(db), self._floors[0]
        if bounds.last and at < bounds.first - 1:
            self.missed, at = True, bounds.first - 1
        fresh: dict[str, int] = {}
        while changes := audit.changes_after(db, at, limit=MAX_CHANGES):
            at = changes[-1].seq
            moved = [one for one in changes if one.kind.startswith("run") and one.kind != "run.changed"]
            fresh.update((change.subject, change.seq) for change in moved)
        new = [run_id for run_id in fresh if run_id not in self._seen]
        ended = [run for run in queue.runs_of(db, new) if run.status.final]
        self._seen.update((run.id, fresh[run.id]) for run in ended)
        chosen = chosen_of(db, self._asked)
        return [run for run in ended if chosen is not None and self._matches(run, chosen)], max(at, self._floors[-1])

    def _matches(self, run: Run, chosen: RunSelection) -> bool:
        job_id, job_ids, statuses = chosen.get("job_id"), chosen.get("job_ids"), chosen.get("statuses")
        reasons, triggers = chosen.get("reasons"), chosen.get("triggers")
        words = {run.status.value, f"{run.status}/{run.reason}"}
        said = f"{run.result_summary or ''}\n{run.error or ''}".casefold()
        return (
            job_id in (None, run.job_id)
            and (job_ids is None or run.job_id in job_ids)
            and (statuses is None or not words.isdisjoint(statuses))
            and (reasons is None or run.reason in reasons)
            and (triggers is None or run.trigger in triggers)
            and (self._text is None or self._text in said)
        )


READS_AFTER_CHANGE = 3
MAX_SHOWN_RUNS = 1000


def ended_with(store: Store, run_ids: Sequence[str]) -> list[Run]:
    """Return runs that ended or wait again, each with the run of its group if that ended at the same time."""

    def read(db: Database) -> list[Run]:
        return [told for run in queue.runs_of(db, run_ids) for told in (run, _group_run(db, run)) if told is not None]

    return store.read(read)


def _group_run(db: Database, run: Run) -> Run | None:
    group = groups.group_by_id(db, run.group_id) if run.group_id is not None else None
    if group is None or group.run_id is None or group.finished_at != run.finished_at:
        return None
    found = runs.run_by_id(db, group.run_id)
    return found if found is not None and found.status.final else None


class QueueWatch:
    """Finds runs that ended without a slot and so without a notification: cancelled in the queue, or of a group.

    It reads a few times after each change, as PostgreSQL numbers changes before they are committed.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._after = 0
        self._reads_left = 0
        self._notified: set[str] = set()
        self._shown: set[str] = set()

    async def begin(self) -> None:
        """Skip all earlier changes."""
        self._after = self._store.read(audit.bounds).last

    def stir(self) -> None:
        """Read again: a run may have been cancelled."""
        self._reads_left = READS_AFTER_CHANGE

    @property
    def stirred(self) -> bool:
        """Whether there may be something to read."""
        return self._reads_left > 0

    def tells(self, run: Run) -> bool:
        """Record that another path notifies of this run; return False if `look` has returned it already."""
        aside = run.status.final and run.epoch is None
        if aside and run.id in self._shown:
            return False
        if aside:
            self._notified.add(run.id)
        return True

    def look(self) -> list[Run]:
        """Return the runs without a notification since the last call."""
        if not self._reads_left:
            return []

        def read(db: Database) -> tuple[int, list[Run]]:
            last = audit.bounds(db).last
            return last, queue.runs_of(db, audit.ended_aside(db, self._after, last=last, limit=MAX_SHOWN_RUNS))

        last, ended = self._store.read(read)
        notified, self._notified = self._notified, set()
        runs = [run for run in ended if run.id not in notified]
        self._after, self._shown = last, {run.id for run in runs}
        self._reads_left -= 1
        return runs
