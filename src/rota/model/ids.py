"""Identifiers: UUIDv7, strictly increasing within one process."""

import os
import random
import threading
import uuid
from collections.abc import Callable
from datetime import datetime

from rota.model.clock import from_ms, to_ms

_RANDOM_BITS = 74
_RANDOM_MASK = (1 << _RANDOM_BITS) - 1
_STEP_BYTES = 4


_own = random.Random()  # noqa: S311  # identifiers are not secret; a system call for each would be slow
os.register_at_fork(after_in_child=_own.seed)


class IdSource:
    """Generates UUIDv7 texts in increasing order, even if the clock stands still or steps back."""

    def __init__(self, randomness: Callable[[int], bytes] = _own.randbytes) -> None:
        self._lock = threading.Lock()
        self._randomness = randomness
        self._ms = 0
        self._random = 0

    def begin_again(self, randomness: Callable[[int], bytes]) -> None:
        """Restart with another source of randomness: the same source gives the same identifiers."""
        with self._lock:
            self._randomness, self._ms, self._random = randomness, 0, 0

    def stay_above(self, identifier: str) -> None:
        """Make every new identifier sort after this one, even if the clock was set back."""
        with self._lock:
            if identifier > _text(self._ms, self._random):
                self._begin(created_ms(identifier) + 1)

    def leave(self, identifier: str) -> None:
        """Give every new identifier a later millisecond than this one."""
        with self._lock:
            if created_ms(identifier) >= self._ms:
                self._begin(created_ms(identifier) + 1)

    def new(self, now: datetime) -> str:
        """Return a new identifier for an event at `now`."""
        with self._lock:
            ms = to_ms(now)
            if ms == self._ms:
                self._step(self._randomness(_STEP_BYTES))
            else:
                # After a step back it continues after the last one: later identifiers have later milliseconds.
                self._begin(max(ms, self._ms + 1))
            return _text(self._ms, self._random)

    def many(self, now: datetime, count: int) -> list[str]:
        """Return new identifiers for events at the same time."""
        with self._lock:
            ms = to_ms(now)
            made: list[str] = []
            if ms != self._ms and count:
                self._begin(max(ms, self._ms + 1))
                made.append(_text(self._ms, self._random))
            left = count - len(made)
            steps = self._randomness(_STEP_BYTES * left)
            for start in range(0, _STEP_BYTES * left, _STEP_BYTES):
                self._step(steps[start : start + _STEP_BYTES])
                made.append(_text(self._ms, self._random))
            return made

    def _begin(self, ms: int) -> None:
        self._ms = ms
        # The top bit is free, so that counting from here does not overflow.
        self._random = int.from_bytes(self._randomness(10)) & (_RANDOM_MASK >> 1)

    def _step(self, by: bytes) -> None:
        self._random += 1 + int.from_bytes(by)
        if self._random > _RANDOM_MASK:
            self._begin(self._ms + 1)


def _text(ms: int, random: int) -> str:
    high = (ms & (1 << 48) - 1) << 16 | 0x7000 | random >> 62
    low = 1 << 63 | random & (1 << 62) - 1
    digits = f"{high:016x}{low:016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def created_ms(identifier: str) -> int:
    """Return the milliseconds of a UUIDv7."""
    return int(identifier[:8] + identifier[9:13], 16)


def created_at(identifier: str) -> datetime:
    """Return the instant of a UUIDv7."""
    return from_ms(created_ms(identifier))


def is_id(text: str) -> bool:
    """Return whether `text` is a UUID in its canonical spelling."""
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


_default = IdSource()
new_id = _default.new
new_ids = _default.many
stay_above = _default.stay_above
leave = _default.leave
begin_again = _default.begin_again
