"""A clock for tests: it moves only when told."""

from datetime import datetime, timedelta

from rota.model.clock import cut_to_ms
from rota.model.durations import parse_duration


class FakeClock:
    """A clock that moves only when told."""

    def __init__(self, now: datetime) -> None:
        self._now = cut_to_ms(now)
        self._monotonic = 1000.0
        self._suspended = 0.0

    def now(self) -> datetime:
        """Return the wall time."""
        return self._now

    def monotonic(self) -> float:
        """Return elapsed seconds without suspended ones."""
        return self._monotonic

    def boottime(self) -> float:
        """Return elapsed seconds with suspended ones."""
        return self._monotonic + self._suspended

    def advance(self, duration: timedelta | str) -> None:
        """Let time pass."""
        passed = parse_duration(duration) if isinstance(duration, str) else duration
        self._now += passed
        self._monotonic += passed.total_seconds()

    def step(self, duration: timedelta) -> None:
        """Set the wall clock forward or back; no time passes."""
        self._now += duration

    def suspend(self, duration: timedelta) -> None:
        """Let the machine sleep: the wall clock moves, the monotonic one does not."""
        self._now += duration
        self._suspended += duration.total_seconds()
