"""Places between places: the arithmetic of positions, which are integers with gaps (DEC-005, R-03)."""

from collections.abc import Sequence
from dataclasses import dataclass

STEP = 1 << 10
"""The gap behind the last run and before the first. New runs come a whole millisecond, 2^20, further behind."""
ROOM = 16
"""The gap left between runs that were spread anew: less than that of runs made in bulk, so a window is soon found."""


@dataclass(frozen=True, slots=True)
class Spread:
    """New positions: of the runs just before the gap, in order, of those that are moved, and of those just after."""

    before: tuple[int, ...]
    moved: tuple[int, ...]
    after: tuple[int, ...]


def between(low: int | None, high: int | None, count: int, *, least: int = 1, origin: int = 0) -> list[int] | None:
    """Return `count` rising positions strictly between `low` and `high`; None where they would lie closer than `least`.

    A bound that is None is open; where both are, positions begin at `origin`.

    >>> between(0, 100, 3)
    [25, 50, 75]
    >>> between(7, 8, 1) is None
    True
    """
    if low is None and high is None:
        return [origin + STEP * index for index in range(count)]
    if low is None:
        assert high is not None
        return [high - STEP * (count - index) for index in range(count)]
    if high is None:
        return [low + STEP * (index + 1) for index in range(count)]
    step = (high - low) // (count + 1)
    return None if step < least else [low + step * (index + 1) for index in range(count)]


def spread(before: Sequence[int], after: Sequence[int], *, moved: int, window: int, origin: int = 0) -> Spread | None:
    """Place `moved` runs into a gap, spreading up to `window` runs on each side of it anew; None: there is no room.

    `before` and `after` are the positions around the gap, nearest first; where one holds no more than `window`, the
    queue ends there and everything beyond is free.
    """
    low = before[window] if len(before) > window else None
    high = after[window] if len(after) > window else None
    left, right = min(len(before), window), min(len(after), window)
    found = between(low, high, left + moved + right, least=ROOM if window else 1, origin=origin)
    if found is None:
        return None
    return Spread(tuple(found[:left]), tuple(found[left : left + moved]), tuple(found[left + moved :]))
