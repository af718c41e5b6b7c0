"""What the store asks of a database: named queries inside a transaction, written inline or by the writer thread."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Row = tuple[Any, ...]
Counts = dict[tuple[str, str], int]
"""How many runs more there are, or fewer, by status and worker."""


class Database(Protocol):
    """One transaction: named queries with named parameters."""

    counted: Counts
    """What it adds to the counters, stored once when it ends."""

    announces: bool
    """Whether schedulers on other machines look again when it is committed: inline writes do unless they say no."""

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

    def later(self, query: str, /, **params: Any) -> None:
        """Run a named statement whose answer nobody looks at; the next one, or the commit, says if it was refused."""
        ...

    def ahead(self, query: str, /, **params: Any) -> None:
        """Ask now, without waiting, what `rows` or `row` of the same operation soon asks in the same words.

        Only for what no statement in between can change.
        """
        ...

    def send(self) -> None:
        """Let a server begin with what was told and asked so far, while we go on."""
        ...

    def ask_next(self) -> None:
        """Let a server be asked already what the operation behind this one asks first, if there is one.

        For who expects to write nothing more; where something is written after all, it is asked again.
        """
        ...


Operation = Callable[[Database], T]


@dataclass(frozen=True, slots=True)
class Manner:
    """How an operation that is submitted may be hastened, where a server is at work.

    `aside`: it need not come after what was submitted before, nor before what comes after: where others write at the
    same time anyway, so may we. `asks`: what it asks first, and holds; the server is asked before it begins.
    `foretold`: is told on the event loop what comes of it while the server commits; it may yet come otherwise.
    """

    aside: bool = False
    asks: Operation[None] | None = None
    foretold: Callable[[Any], None] | None = None


PLAIN = Manner()


def store_counts(db: Database) -> None:
    """Add what was counted to the counters by one statement: one for each run would cost 4 % of the throughput."""
    counts = [(*key, by) for key, by in sorted(db.counted.items()) if by]
    if counts:
        db.later("counter_add", counts=json.dumps(counts))


class Store(Protocol):
    """A place that keeps everything. An operation is a plain function of a transaction, without BEGIN or COMMIT."""

    def read(self, operation: Operation[T]) -> T:
        """Run `operation` on one consistent snapshot, on the calling thread."""
        ...

    def write(self, operation: Operation[T]) -> T:
        """Run `operation` in a transaction of its own on the calling thread; return after the commit."""
        ...

    def submit(self, operation: Operation[T], manner: Manner = PLAIN) -> "asyncio.Future[T]":
        """Hand `operation` to the writer thread; the future ends after the commit. Call from the event loop."""
        ...

    def close(self) -> None:
        """Finish what was submitted and let go of the database."""
        ...


class OpenStore(Store, Protocol):
    """A store as it was opened, with what can be told of it."""

    copied_to: Path | None
    """The copy that was made before opening upgraded the database, None for none."""

    @property
    def place(self) -> str:
        """Where it is, as it may be shown: a path, or an address without its password."""
        ...

    @property
    def problem(self) -> str | None:
        """Why it cannot be reached, and since when; None while it can."""
        ...

    def listening(self, heard: Callable[[], None]) -> AbstractAsyncContextManager[None]:
        """Call `heard` on the event loop meanwhile, whenever another machine may have changed something."""
        ...
