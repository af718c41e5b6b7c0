"""Whether the wall clock was set back, judged beside a clock that never steps (R-26)."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.model.durations import say_duration

TOLERANCE = timedelta(seconds=1)
AMONG_MACHINES = timedelta(minutes=1)
"""How far the clocks of machines may be apart; the `misfire_grace` of a job that names none.

A machine whose clock differs more from the server's takes no part: it would fire too early or miss instants (R-41).
"""


def stepped_back(before: timedelta, after: timedelta, *, tolerance: timedelta = TOLERANCE) -> timedelta | None:
    """Return how far the wall clock was set back, None if it was not.

    Both are wall time minus time since boot: constant while the clock runs, also over suspend; smaller after a step
    back. A step of a second or less is taken as ordinary drift.
    """
    back = before - after
    return back if back > tolerance else None


def skew_of(server: datetime, *, before: datetime, after: datetime) -> timedelta:
    """Return by how much a clock is ahead of a server's at least; negative: behind. It was read before and after.

    >>> at = datetime(2026, 1, 1, 12)
    >>> second = timedelta(seconds=1)
    >>> skew_of(at, before=at - second, after=at + second) == timedelta()
    True
    >>> skew_of(at, before=at + 60 * second, after=at + 62 * second) / second
    60.0
    >>> skew_of(at, before=at - 62 * second, after=at - 60 * second) / second
    -60.0
    """
    return max(before - server, timedelta()) + min(after - server, timedelta())


def say_skew(skew: timedelta) -> str:
    """Return a difference of clocks for reading.

    >>> say_skew(timedelta(hours=1)), say_skew(timedelta(minutes=-2))
    ("1 h ahead of the database server's", "2 min behind the database server's")
    """
    told = say_duration(timedelta(seconds=round(abs(skew.total_seconds()))))
    return f"{told} {'ahead of' if skew > timedelta() else 'behind'} the database server's"


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
