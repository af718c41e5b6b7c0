"""Ticks: how far apart they come, whether they still come, and what is not late between two of them (R-10, R-24)."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

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
