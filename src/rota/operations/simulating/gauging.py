"""How full something is over time: the share of time it was full, its peak, and its mean in each part of the span."""

from dataclasses import dataclass, field
from itertools import accumulate

PARTS = 480
"""Into how many equal parts a span is cut for a drawing."""


@dataclass(slots=True)
class Gauge:
    """A level between `since` and `until`, in milliseconds; it counts as full from `capacity` on.

    A change counts for the rest of its part, and as a step for all parts behind it: so each costs the same.
    """

    capacity: int
    since: int
    until: int
    level: int = 0
    peak: int = 0
    full_for: int = 0
    _full_since: int | None = None
    _rests: list[float] = field(default_factory=lambda: [0.0] * (PARTS + 1))
    _steps: list[int] = field(default_factory=lambda: [0] * (PARTS + 2))
    _scale: float = field(init=False)

    def __post_init__(self) -> None:
        self._scale = PARTS / (self.until - self.since)

    def note(self, level: int, at: int) -> None:
        """Note that the level is another one from `at` on."""
        change = level - self.level
        if not change:
            return
        self.level = level
        place = (at - self.since) * self._scale
        part = int(place)
        self._rests[part] += change * (part + 1 - place)
        self._steps[part + 1] += change
        if level > self.peak:
            self.peak = level
        if level >= self.capacity:
            if self._full_since is None:
                self._full_since = at
        elif self._full_since is not None:
            self.full_for += at - self._full_since
            self._full_since = None

    def close(self) -> None:
        """Count up to the end of the span."""
        self.note(0, self.until)

    @property
    def parts(self) -> tuple[float, ...]:
        """The mean level in each part."""
        steps = accumulate(self._steps[:PARTS])
        return tuple(max(step + rest, 0.0) for step, rest in zip(steps, self._rests[:PARTS], strict=True))

    @property
    def share_full(self) -> float:
        """The share of the time in which nothing more had room."""
        return self.full_for / (self.until - self.since)

    @property
    def mean(self) -> float:
        """The level that it had on average."""
        return sum(self.parts) / PARTS
