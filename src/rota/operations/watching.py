"""What those who watch a scheduler are told of a run that ended."""

from functools import partial

from rota.model.records import Run
from rota.store import groups, runs
from rota.store.driver import Database, Store


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
