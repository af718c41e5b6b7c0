"""The JSON shapes of what changes did, the same in every face."""

from datetime import datetime
from typing import Any

from rota.engine.pause import PauseEnded
from rota.engine.pauses import Pause
from rota.model.clock import iso
from rota.operations.backfilling import Backfilled
from rota.operations.changing import Edited, Moved
from rota.operations.pausing import Paused
from rota.operations.views import iso_or_none, run_json


def paused_json(
    told: Paused, *, until: datetime | None, reason: str, everything: bool, dry_run: bool
) -> dict[str, Any]:
    """Return what a pause did."""
    return {
        "dry_run": dry_run,
        "everything": everything,
        "jobs": list(told.jobs),
        "until": iso_or_none(until),
        "reason": reason,
        "running": list(told.running),
        "instants": told.instants,
    }


def resumed_json(
    ended: tuple[PauseEnded, ...], still: Pause | None, *, was: Pause | None, dry_run: bool
) -> dict[str, Any]:
    """Return what a resume did; `still` is the pause of everything that goes on."""
    return {
        "dry_run": dry_run,
        "everything_was_paused": was is not None,
        "everything_is_paused": still is not None,
        "jobs": [
            {
                "job": one.job,
                "skipped": one.skipped.handle if one.skipped else None,
                "count": one.count,
                "caught_up": one.caught_up.handle if one.caught_up else None,
            }
            for one in ended
        ],
    }


def moved_json(moved: list[Moved], *, dry_run: bool) -> dict[str, Any]:
    """Return where runs stand that were moved."""
    runs = [{**run_json(one.run), "place": one.place, "note": one.note} for one in moved]
    return {"dry_run": dry_run, "runs": runs}


def edited_json(edited: Edited, *, dry_run: bool) -> dict[str, Any]:
    """Return a run that was edited."""
    run = edited.run
    told = {**run_json(run), "params": dict(run.params), "priority": run.priority, "place": edited.place}
    return {"dry_run": dry_run, **told}


def backfilled_json(done: Backfilled, *, parallel: bool, dry_run: bool) -> dict[str, Any]:
    """Return the runs that a backfill made."""
    paired = zip(done.born, done.instants, strict=True)
    return {
        "dry_run": dry_run,
        "job": done.job.name,
        "parallel": parallel,
        "count": len(done.born),
        "runs_in_all": done.members,
        "existing": done.existing,
        "ran": done.ran,
        "seconds_each": done.each.total_seconds() if done.each is not None else None,
        "runs": [{"run": born.handle, "id": born.id, "scheduled_for": iso(at)} for born, at in paired],
    }
