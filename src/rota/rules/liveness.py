"""Liveness: leases, clock jumps, crash loops and the gap between ticks."""

from collections.abc import Collection
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from rota.model.clock import say_duration

LEASE = timedelta(seconds=30)
RENEW_EVERY = timedelta(seconds=10)
LOOK_EVERY = timedelta(seconds=10)
"""The interval at which a process checks the leases of others."""
RETRY_AFTER = timedelta(seconds=1)
"""The wait after a failed renewal."""


class Renewals(Struct, frozen=True):
    """The first and the last of consecutive renewals, in seconds since boot."""

    first: float
    last: float


def renewed(series: Renewals | None, at: float) -> Renewals:
    """Return the series after a renewal; a renewal after the end of the lease begins a new series.

    >>> renewed(Renewals(0.0, 10.0), 20.0)
    Renewals(first=0.0, last=20.0)
    >>> renewed(Renewals(0.0, 10.0), 50.0)
    Renewals(first=50.0, last=50.0)
    """
    if series is None or at - series.last > LEASE.total_seconds():
        return Renewals(at, at)
    return replace(series, last=at)


def next_renewal(series: Renewals | None, *, refused: bool, at: float) -> float:
    """Return the time of the next renewal, in seconds since boot: at once the first time, soon after a failure."""
    if refused:
        return at + RETRY_AFTER.total_seconds()
    return at if series is None else series.last + RENEW_EVERY.total_seconds()


def may_judge(series: Renewals | None, at: float) -> bool:
    """Return whether a process may declare others lost.

    It must have held its own lease without a break for the length of a lease: after an outage of the database, or
    when the machines slept, all leases expire at once although no process is lost.
    """
    if series is None or at - series.last > 2 * RENEW_EVERY.total_seconds():
        return False
    return at - series.first >= LEASE.total_seconds()


TOLERANCE = timedelta(seconds=1)
AMONG_MACHINES = timedelta(minutes=1)
"""The maximum difference between the clocks of machines, and the default `misfire_grace`.

A machine whose clock differs more from the server's does not schedule: it would fire too early or miss instants.
"""


def stepped_back(before: timedelta, after: timedelta, *, tolerance: timedelta = TOLERANCE) -> timedelta | None:
    """Return the size of a clock step back, None without one.

    Both values are wall time minus time since boot: constant while the clock runs, also over suspend; smaller after a
    step back. A step of a second or less counts as drift.
    """
    back = before - after
    return back if back > tolerance else None


def skew_of(server: datetime, *, before: datetime, after: datetime) -> timedelta:
    """Return the minimum lead of a clock, read before and after, over a server's; negative: behind.

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
    """Return a difference of clocks in words.

    >>> say_skew(timedelta(hours=1)), say_skew(timedelta(minutes=-2))
    ("1 h ahead of the database server's", "2 min behind the database server's")
    """
    size = say_duration(timedelta(seconds=round(abs(skew.total_seconds()))))
    return f"{size} {'ahead of' if skew > timedelta() else 'behind'} the database server's"


class Firing(Struct, frozen=True):
    """A live process that fires, and the boot of its machine."""

    epoch: int
    boot_id: str


def keeps_time(own: Firing, others: Collection[Firing]) -> bool:
    """Return whether waits follow a clock step of this process.

    If other machines fire too, their clocks did not move and no wait is too long. Of several processes of one
    machine, which all see the step, the oldest moves the waits.

    >>> here, beside, elsewhere = Firing(7, "a"), Firing(8, "a"), Firing(3, "b")
    >>> keeps_time(here, []), keeps_time(here, [beside]), keeps_time(beside, [here]), keeps_time(here, [elsewhere])
    (True, True, False, False)
    """
    return all(other.boot_id == own.boot_id and other.epoch > own.epoch for other in others)


WINDOW = timedelta(minutes=5)
STARTS = 5
REASON = "crash_loop"


def crash_loop(unclean_starts: int) -> bool:
    """Return whether the scheduler must start paused: more than five unclean starts within the window.

    `unclean_starts`: the number of lost processes of the window.
    """
    return unclean_starts > STARTS


MAX_UNSEEN = timedelta(minutes=15)
STORED_TICKS = 10
MISSED_TICKS = 3
MIN_INTERVAL = timedelta(seconds=10)
DEFAULT_INTERVAL = timedelta(minutes=1)
"""The assumed interval after a single tick."""


class Ticks(Struct, frozen=True):
    """The times of the last ticks, oldest first, and their shared slots."""

    looks: tuple[datetime, ...] = ()
    slots: int = 0

    @property
    def last(self) -> datetime | None:
        """The time of the last tick."""
        return self.looks[-1] if self.looks else None

    @property
    def usual(self) -> timedelta:
        """The usual interval: the median of the last ones, as some ticks are started by hand."""
        gaps = sorted(later - earlier for earlier, later in zip(self.looks, self.looks[1:], strict=False))
        return max(gaps[len(gaps) // 2], MIN_INTERVAL) if gaps else DEFAULT_INTERVAL

    def still_come(self, now: datetime) -> bool:
        """Return whether another tick is expected: the last one is younger than three usual intervals."""
        return self.last is not None and now - self.last < MISSED_TICKS * self.usual

    def unseen(self, now: datetime) -> timedelta:
        """Return the time since the last tick, up to 15 minutes: instants in it are not late."""
        return min(max(now - self.last, timedelta()), MAX_UNSEEN) if self.last is not None else timedelta()

    def looked(self, now: datetime, *, slots: int) -> "Ticks":
        """Return the ticks with one more; ticks in the future are from before a clock step back."""
        past = [look for look in self.looks if look < now]
        return replace(self, looks=(*past[-STORED_TICKS + 1 :], now), slots=slots)
