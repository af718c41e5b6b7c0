"""When a scheduler that keeps crashing starts paused instead of starting the same work again (R-23)."""

from datetime import timedelta

WINDOW = timedelta(minutes=5)
STARTS = 5
REASON = "crash_loop"


def crash_loop(unclean_starts: int) -> bool:
    """Tell whether the scheduler must start paused: more than five starts after an unclean stop within the window.

    `unclean_starts` counts the processes of the window that were lost; the start at hand follows the last of them.
    """
    return unclean_starts > STARTS
