"""The folders of their own that agents work in."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Worktree:
    """A git worktree: whose it is, where, and the commit that it began at. `kept_why`: its run is over and it stays."""

    run_id: str
    handle: str
    repository: str
    path: str
    branch: str
    base: str
    made_at: datetime
    kept_at: datetime | None = None
    kept_why: str | None = None
