"""The sequence of changes of runs and jobs, written by triggers: what those follow who watch live."""

from dataclasses import dataclass

from rota.store.driver import Database


@dataclass(frozen=True, slots=True)
class Change:
    """Something that changed: a run or a job, by its identifier."""

    seq: int
    kind: str
    subject: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """The oldest and the newest change that is kept; both 0 before the first."""

    first: int
    last: int


def bounds(db: Database) -> Bounds:
    """Return which changes are kept."""
    row = db.row("change_bounds")
    assert row is not None
    return Bounds(*row)


def ended_aside(db: Database, after: int, *, last: int, limit: int) -> list[str]:
    """Return runs that changed in between and ended in no slot: cancelled while queued; then those of groups."""
    rows = db.rows("runs_ended_aside", after=after, last=last, limit=limit)
    return [run_id for (run_id,) in rows]


def changes_after(db: Database, seq: int, *, limit: int) -> list[Change]:
    """Return changes in order."""
    return [Change(*row) for row in db.rows("changes_after", seq=seq, limit=limit)]
