"""A small account of a job's due instants, without any of rota's planning: for grids of one step."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

Read = Callable[..., list[tuple[Any, ...]]]
"""Returns the rows of a statement with `?` for each value that follows it."""
ROWS = "SELECT scheduled_for, covers_to, count FROM run_now WHERE job_id = ? AND trigger = 'schedule' ORDER BY 1"
JOB = "SELECT id, COALESCE(next_for, held_for), ledger_from FROM job WHERE name = ?"


class Account(Struct, frozen=True):
    """Instants without a row, instants with more than one, and rows with a count that is not theirs."""

    missing: list[int] = field(default_factory=list)
    doubled: list[int] = field(default_factory=list)
    miscounted: list[int] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether every instant is accounted for exactly once."""
        return not (self.missing or self.doubled or self.miscounted)


def account(read: Read, job: str, *, step: int) -> Account:
    """Return the account of a job whose instants are `step` milliseconds apart, from its first row to its cursor."""
    found = read(JOB, job)
    assert found, f"there is no job {job}"
    job_id, cursor, _ = found[0]
    rows = read(ROWS, job_id)
    if not rows or cursor is None:
        return Account()
    covered: Counter[int] = Counter()
    miscounted = []
    for first, last, count in rows:
        instants = range(first, (last or first) + 1, step)
        covered.update(instants)
        if count is not None and count != len(instants):
            miscounted.append(first)
    due = range(rows[0][0], cursor, step)
    return Account(
        missing=[at for at in due if at not in covered],
        doubled=[at for at, times in covered.items() if times > 1 or at >= cursor],
        miscounted=miscounted,
    )
