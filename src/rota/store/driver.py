"""What the store asks of a database: named queries inside a transaction, written inline or by the writer thread."""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Row = tuple[Any, ...]
Counts = dict[tuple[str, str], int]
"""How many runs more there are, or fewer, by status and worker."""


class Database(Protocol):
    """One transaction: named queries with named parameters."""

    counted: Counts
    """What it adds to the counters, stored once when it ends."""

    def rows(self, query: str, /, **params: Any) -> list[Row]:
        """Return all rows of a named query."""
        ...

    def row(self, query: str, /, **params: Any) -> Row | None:
        """Return the first row of a named query, None for none."""
        ...

    def execute(self, query: str, /, **params: Any) -> int:
        """Run a named statement and return how many rows it changed."""
        ...

    def records(self, query: str, /, **params: Any) -> list[dict[str, Any]]:
        """Return all rows of a named query by column name."""
        ...


Operation = Callable[[Database], T]


class Store(Protocol):
    """A place that keeps everything. An operation is a plain function of a transaction, without BEGIN or COMMIT."""

    def read(self, operation: Operation[T]) -> T:
        """Run `operation` on one consistent snapshot, on the calling thread."""
        ...

    def write(self, operation: Operation[T]) -> T:
        """Run `operation` in a transaction of its own on the calling thread; return after the commit."""
        ...

    def submit(self, operation: Operation[T]) -> "asyncio.Future[T]":
        """Hand `operation` to the writer thread; the future ends after the commit. Call from the event loop."""
        ...

    def close(self) -> None:
        """Finish what was submitted and let go of the database."""
        ...
