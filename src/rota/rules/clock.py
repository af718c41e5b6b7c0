"""Whether the wall clock was set back, judged beside a clock that never steps (R-26)."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

TOLERANCE = timedelta(seconds=1)
AMONG_MACHINES = timedelta(minutes=1)
"""How far the clocks of machines may be apart without anybody having set one."""


def stepped_back(before: timedelta, after: timedelta, *, tolerance: timedelta = TOLERANCE) -> timedelta | None:
    """Return how far the wall clock was set back, None if it was not.

    Both are wall time minus time since boot: constant while the clock runs, also over suspend; smaller after a step
    back. A step of a second or less is taken as ordinary drift.
    """
    back = before - after
    return back if back > tolerance else None


@dataclass(frozen=True, slots=True)
class Firing:
    """A living process that fires what is due, and the machine on whose clock it does."""

    epoch: int
    boot_id: str


def keeps_time(own: Firing, others: Collection[Firing]) -> bool:
    """Tell whether what counts elapsed time follows the clock of this process.

    Where other machines fire too, their clocks did not move, and nothing waits longer than it should. Of several
    processes of one machine, which all see the step, the oldest moves what waits.

    >>> here, beside, elsewhere = Firing(7, "a"), Firing(8, "a"), Firing(3, "b")
    >>> keeps_time(here, []), keeps_time(here, [beside]), keeps_time(beside, [here]), keeps_time(here, [elsewhere])
    (True, True, False, False)
    """
    return all(one.boot_id == own.boot_id and one.epoch > own.epoch for one in others)
