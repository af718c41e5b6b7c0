"""Whether the wall clock was set back, judged beside a clock that never steps (R-26)."""

from datetime import timedelta

TOLERANCE = timedelta(seconds=1)


def stepped_back(before: timedelta, after: timedelta) -> timedelta | None:
    """Return how far the wall clock was set back, None if it was not.

    Both are wall time minus time since boot: constant while the clock runs, also over suspend; smaller after a step
    back. A step of a second or less is taken as ordinary drift.
    """
    back = before - after
    return back if back > TOLERANCE else None
