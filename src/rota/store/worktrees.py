"""The git worktrees of runs: stored before they are made, until they are removed, or kept for good."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.model.clock import from_ms, from_ms_or_none, to_ms
from rota.model.states import Status
from rota.model.workspaces import Worktree
from rota.store.driver import Database


@dataclass(frozen=True, slots=True)
class LeftWorktree:
    """A worktree whose run is over; `status` None: it never started, or is gone too."""

    worktree: Worktree
    status: Status | None


def store_worktree(db: Database, worktree: Worktree) -> None:
    """Note a worktree that is about to be made."""
    db.execute(
        "worktree_store",
        run_id=worktree.run_id,
        handle=worktree.handle,
        repository=worktree.repository,
        path=worktree.path,
        branch=worktree.branch,
        base=worktree.base,
        made_at=to_ms(worktree.made_at),
    )


def worktree_of_run(db: Database, run_id: str) -> Worktree | None:
    """Return the newest worktree of a run, None where it has none, or none any more."""
    row = db.row("worktree_of_run", run_id=run_id)
    return None if row is None else _worktree(row)


def unused_worktrees(db: Database, run_id: str) -> list[Worktree]:
    """Return what earlier starts of a run made that never came to its work."""
    return [_worktree(row) for row in db.rows("worktrees_unused", run_id=run_id)]


def kept_worktrees(db: Database) -> list[Worktree]:
    """Return the worktrees that were kept, oldest first."""
    return [_worktree(row) for row in db.rows("worktrees_kept")]


def left_worktrees(db: Database) -> list[LeftWorktree]:
    """Return the worktrees whose runs are over and that nobody has looked at since."""
    found = []
    for row in db.rows("worktrees_ended"):
        status = None if row[9] is None or row[10] is None else Status(row[9])
        found.append(LeftWorktree(_worktree(row[:9]), status))
    return found


def known_paths(db: Database) -> set[str]:
    """Return where there is, or was to be, a worktree."""
    return {path for (path,) in db.rows("worktree_paths")}


def keep_worktree(db: Database, worktree: Worktree, *, why: str, now: datetime) -> bool:
    """Note that a worktree stays, and why."""
    return db.execute("worktree_keep", path=worktree.path, at=to_ms(now), why=why) == 1


def forget_worktree(db: Database, worktree: Worktree) -> bool:
    """Note that a worktree is gone."""
    return db.execute("worktree_forget", path=worktree.path) == 1


def _worktree(row: Any) -> Worktree:
    run_id, handle, repository, path, branch, base, made_at, kept_at, kept_why = row
    kept = from_ms_or_none(kept_at)
    return Worktree(run_id, handle, repository, path, branch, base, from_ms(made_at), kept, kept_why)
