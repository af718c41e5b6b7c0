"""Liveness: leases, clock jumps, crash loops and the gap between ticks."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from rota.model.clock import say_duration

LEASE = timedelta(seconds=30)
"""How long a process counts as alive after it last said so."""
RENEW_EVERY = timedelta(seconds=10)
LOOK_EVERY = timedelta(seconds=10)
"""How often a process looks for others whose lease is over."""
TRY_AGAIN = timedelta(seconds=1)
"""After how long a renewal that the database refused is tried again."""


@dataclass(frozen=True, slots=True)
class Renewals:
    """An unbroken series of renewals, in seconds since boot: its first and its newest."""

    first: float
    last: float


def renewed(series: Renewals | None, at: float) -> Renewals:
    """Return the series after a renewal; one that comes so late that the lease was over begins a new series.

    >>> renewed(Renewals(0.0, 10.0), 20.0)
    Renewals(first=0.0, last=20.0)
    >>> renewed(Renewals(0.0, 10.0), 50.0)
    Renewals(first=50.0, last=50.0)
    """
    if series is None or at - series.last > LEASE.total_seconds():
        return Renewals(at, at)
    return replace(series, last=at)


def next_renewal(series: Renewals | None, *, refused: bool, at: float) -> float:
    """Return when to renew next, in seconds since boot: at once where none was, soon after a refusal."""
    if refused:
        return at + TRY_AGAIN.total_seconds()
    return at if series is None else series.last + RENEW_EVERY.total_seconds()


def may_judge(series: Renewals | None, at: float) -> bool:
    """Tell whether a process may say of others that they are lost.

    Only who has renewed its own lease without a break for as long as one lasts: after an outage of the database, or
    when the machines slept, every lease is over at once, and nobody is lost.
    """
    if series is None or at - series.last > 2 * RENEW_EVERY.total_seconds():
        return False
    return at - series.first >= LEASE.total_seconds()


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


WINDOW = timedelta(minutes=5)
STARTS = 5
REASON = "crash_loop"


def crash_loop(unclean_starts: int) -> bool:
    """Tell whether the scheduler must start paused: more than five starts after an unclean stop within the window.

    `unclean_starts` counts the processes of the window that were lost; the start at hand follows the last of them.
    """
    return unclean_starts > STARTS


LONGEST_UNSEEN = timedelta(minutes=15)
KEPT = 10
MISSING = 3
LEAST = timedelta(seconds=10)
UNKNOWN = timedelta(minutes=1)
"""Taken for the usual distance while there was only one tick."""


@dataclass(frozen=True, slots=True)
class Ticks:
    """When the last ticks looked, oldest first, and how many slots they share."""

    looks: tuple[datetime, ...] = ()
    slots: int = 0

    @property
    def last(self) -> datetime | None:
        """When the last tick looked."""
        return self.looks[-1] if self.looks else None

    @property
    def usual(self) -> timedelta:
        """The usual distance: the median of the last ones, since some ticks are started by hand."""
        gaps = sorted(later - earlier for earlier, later in zip(self.looks, self.looks[1:], strict=False))
        return max(gaps[len(gaps) // 2], LEAST) if gaps else UNKNOWN

    def still_come(self, now: datetime) -> bool:
        """Tell whether another tick is to be expected: the last one is younger than three usual distances."""
        return self.last is not None and now - self.last < MISSING * self.usual

    def unseen(self, now: datetime) -> timedelta:
        """Return how long nobody looked, up to 15 minutes: an instant is not late before that (R-10)."""
        return min(max(now - self.last, timedelta()), LONGEST_UNSEEN) if self.last is not None else timedelta()

    def looked(self, now: datetime, *, slots: int) -> "Ticks":
        """Return the ticks with one more; looks in the future are from before the clock was set back."""
        known = [look for look in self.looks if look < now]
        return replace(self, looks=(*known[-KEPT + 1 :], now), slots=slots)
