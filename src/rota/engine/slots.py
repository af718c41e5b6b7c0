"""The slots of a worker: which run sits where (R-04). In memory; the database's unique index has the last word."""

from collections.abc import Iterator
from contextlib import contextmanager


class Slots:
    """Slots 0 … concurrency-1, and those beyond that adopted runs kept."""

    def __init__(self, concurrency: int) -> None:
        self.concurrency = concurrency
        self._taken: dict[int, str] = {}
        self._shut = 0

    @contextmanager
    def shut(self) -> Iterator[None]:
        """Have no free slot meanwhile: what sits in them is being found out."""
        self._shut += 1
        try:
            yield
        finally:
            self._shut -= 1

    def free(self) -> list[int]:
        """Return the free slots, lowest first."""
        return [] if self._shut else [slot for slot in range(self.concurrency) if slot not in self._taken]

    def take(self, slot: int, run_id: str) -> None:
        """Note that a slot holds a run, or is being filled."""
        self._taken[slot] = run_id

    def give_back(self, slot: int) -> None:
        """Note that a slot is free again."""
        self._taken.pop(slot, None)

    def slot_of(self, run_id: str) -> int | None:
        """Return the slot that holds a run."""
        return next((slot for slot, holder in self._taken.items() if holder == run_id), None)

    @property
    def taken(self) -> int:
        """How many slots hold a run."""
        return len(self._taken)
