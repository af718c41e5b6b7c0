"""Stopping runs: whoever holds them is asked to; the keepers of those that no scheduler carries are signalled."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from rota import faults
from rota.engine.cadence import touching
from rota.engine.enqueue import cancel
from rota.model.errors import RunIsFinal
from rota.model.records import ProcessIdentity, Run
from rota.model.states import Reason, Status
from rota.operations.runs import find_unfinished, show_run
from rota.operations.system import carried, serves
from rota.runners.processes import send_signal
from rota.store import groups, jobs, runs
from rota.store.driver import Database, Store


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What a cancel did: the run is final now, or its processes are being stopped."""

    run: Run
    final: bool


def cancel_run(store: Store, handle: str, *, now: datetime, dry_run: bool = False) -> Cancelled:
    """Cancel a run: at once if it is queued, else by asking its holder to stop it."""
    if dry_run:
        run = store.read(partial(_cancellable, handle=handle))
        return Cancelled(run, final=run.status is Status.QUEUED)
    cancelled = store.write(touching(partial(_cancel_run, handle=handle, now=now), what="cancel", now=now))
    faults.point("cancel.asked")
    return cancelled


def _cancellable(db: Database, *, handle: str) -> Run:
    run = find_unfinished(db, handle)
    if run.status.final:
        raise RunIsFinal(run.handle, run.status)
    return run


def _cancel_run(db: Database, *, handle: str, now: datetime) -> Cancelled:
    run = _cancellable(db, handle=handle)
    final = cancel(db, run.id, reason=Reason.REQUESTED, now=now)
    after = runs.run_by_id(db, run.id)
    assert after is not None
    return Cancelled(after, final)


def stop_keeper(store: Store, run: Run) -> bool:
    """Signal the keepers of a run or of a group's members that no scheduler carries; tell whether there were any."""
    group = store.read(partial(groups.group_of_run, run_id=run.id))
    if group is not None:
        members = store.read(partial(groups.member_runs, group_id=group.id))
        stopped = [stop_keeper(store, member) for member in members if not member.status.final]
        return any(stopped)
    execution = store.read(partial(runs.execution_of_run, run_id=run.id))
    spec = store.read(partial(jobs.version_spec, job_id=run.job_id, version=run.version))
    if execution is None or execution.finished_at is not None or spec.work.in_process:
        return False
    keeper = ProcessIdentity(execution.boot_id, execution.pid, execution.pid_start)
    return send_signal(keeper, signal.SIGTERM)


def stop_unattended(store: Store, state: Path, run_ids: Sequence[str]) -> None:
    """Signal the keepers of runs that were asked to stop where nobody else will."""
    if serves(state):
        return
    for run_id in run_ids:
        run = show_run(store, run_id).run
        if not carried(store, state, run):
            stop_keeper(store, run)
