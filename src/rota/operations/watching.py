"""What those who watch a scheduler are told of a run that ended."""

from functools import partial

from rota.model.records import Run
from rota.store import changes, groups, order, runs
from rota.store.driver import Database, Store

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
        self._after = self._store.read(changes.bounds).last

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
    last = changes.bounds(db).last
    return last, order.runs_of(db, changes.ended_aside(db, after, last=last, limit=SHOWN_AT_ONCE))
