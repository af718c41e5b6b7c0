"""Waiting for what another process or thread brings about: for the event, never for an amount of time."""

import threading
from collections.abc import Callable
from typing import Any

from rota.engine.clock import SystemClock

LONGEST_WAIT = 150.0
"""Seconds after which nothing is expected any more. No test may need to come near it, and none may measure by it."""
LOOK_AGAIN = 0.02
LOOK_AGAIN_AT_LAST = 0.1
"""Seconds between two looks: more after a look that took long, so that looking does not slow what it waits for."""


def until(condition: Callable[[], Any], *, what: str | Callable[[], str], timeout: float = LONGEST_WAIT) -> Any:
    """Return the first true value of `condition`, which another process brings about."""
    pause, clock = threading.Event(), SystemClock()
    deadline = clock.monotonic() + timeout
    while True:
        looked_at = clock.monotonic()
        late = looked_at >= deadline
        found = condition()
        if found:
            return found
        if late:
            raise AssertionError(f"waited {timeout} s for {what if isinstance(what, str) else what()}")
        took = clock.monotonic() - looked_at
        pause.wait(min(max(LOOK_AGAIN, 4 * took), LOOK_AGAIN_AT_LAST))
