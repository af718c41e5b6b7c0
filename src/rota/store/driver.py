"""The protocol of a database, its writer thread, the invariants that it reports, and rolled-back trials."""

import contextlib
import json
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct

from rota.model.errors import InvariantRefused

if TYPE_CHECKING:
    import asyncio

    from rota.store.tallies import Ended

T = TypeVar("T")
Row = tuple[Any, ...]
Counts = dict[tuple[str, str], int]
"""Changes of the number of runs by status and worker."""


class Database(Protocol):
    """One transaction: named queries with named parameters."""

    counted: Counts
    """The changes of the counters; they are stored once, at the end of the transaction."""

    ended: "list[Ended]"
    """The ends of the transaction, for the statistics; they are summed and stored once, at its end."""

    announces: bool
    """Whether the commit wakes the schedulers on other machines: inline writes do unless they set it to False."""

    def rows(self, query: str, /, **params: Any) -> list[Row]:
        """Return all rows of a named query."""

    def row(self, query: str, /, **params: Any) -> Row | None:
        """Return the first row of a named query, None for none."""

    def execute(self, query: str, /, **params: Any) -> int:
        """Run a named statement and return the number of changed rows."""

    def records(self, query: str, /, **params: Any) -> list[dict[str, Any]]:
        """Return all rows of a named query by column name."""

    def defer(self, query: str, /, **params: Any) -> None:
        """Run a named statement without waiting for its result; the next statement or the commit reports a failure."""

    def prefetch(self, query: str, /, **params: Any) -> None:
        """Send a query whose answer `rows` or `row` of this operation will read with the same parameters.

        No statement in between may change the answer.
        """

    def send(self) -> None:
        """Send all queued statements, so that the server starts on them."""

    def prefetch_next(self) -> None:
        """Send the prefetches of the next operation of the batch, if there is one.

        Call it when this operation expects no further write; a later write makes them be sent again.
        """


Operation = Callable[[Database], T]


class WriteOptions(Struct, frozen=True):
    """Options of a submitted operation that save time.

    `concurrent`: may run on the second writer connection, unordered with other submitted operations. `prefetch`: sends
    the first queries and locks of the operation before it starts. `on_precommit`: is called on the event loop with the
    result while the commit is under way; it may still fail.
    """

    concurrent: bool = False
    prefetch: Operation[None] | None = None
    on_precommit: Callable[[Any], None] | None = None


PLAIN = WriteOptions()


def store_counts(db: Database) -> None:
    """Add the counted changes and the ends by a statement each: one for each run would cost 4 % of the throughput."""
    counts = [(*key, by) for key, by in sorted(db.counted.items()) if by]
    if counts:
        db.defer("counter_add", counts=json.dumps(counts))
    if db.ended:
        from rota.store.tallies import store_ends

        store_ends(db)


class Store(Protocol):
    """A database. An operation is a plain function of a transaction, without BEGIN or COMMIT."""

    def read(self, operation: Operation[T]) -> T:
        """Run `operation` on one consistent snapshot, on the calling thread."""

    def write(self, operation: Operation[T]) -> T:
        """Run `operation` in its own transaction on the calling thread; return after the commit."""

    def submit(self, operation: Operation[T], options: WriteOptions = PLAIN) -> "asyncio.Future[T]":
        """Hand `operation` to the writer thread; the future ends after the commit. Call from the event loop."""

    def close(self) -> None:
        """Finish the submitted operations and close the database."""


class OpenStore(Store, Protocol):
    """An open store and its properties."""

    copied_to: Path | None
    """The copy from before the upgrade of the database, None for none."""

    patient: bool
    """Whether `submit` waits while the server is away; `read` and `write` report that at once."""

    @property
    def place(self) -> str:
        """The path, or the address without its password."""

    @property
    def problem(self) -> str | None:
        """The reason and start of an outage; None while the server is reachable."""

    def commits(self) -> Callable[[], int | None] | None:
        """Return a reader of a number that changes with each commit to the database; None if reading it is not cheap.

        The reader returns None if the number cannot be read just then. Call it from one thread.
        """

    def listening(self, heard: Callable[[], None]) -> AbstractAsyncContextManager[None]:
        """Call `heard` on the event loop whenever another machine may have changed something."""


INVARIANTS = {
    "INV-001": "the params of a run are frozen from its first dispatch on",
    "INV-002": "an execution changes once, when it ends",
    "INV-005": "a run keeps its identity and the version of its job",
    "INV-006": "a group ends when all of its members have, and then never changes",
    "a finished run never changes": "it is final",
    "a finished question never changes": "its first end counts",
    "no such transition": "the run cannot go from its status to that one",
}


def refused(message: str) -> InvariantRefused | None:
    """Return the error of a trigger's message, None if another constraint failed."""
    rule = next((rule for rule in INVARIANTS if rule in message), None)
    return None if rule is None else InvariantRefused(rule, INVARIANTS[rule])


class _Rollback(Exception):
    """Rolls a transaction back; it never leaves this module."""


def rolled_back(store: Store, operation: Operation[T]) -> T:
    """Return the result of `operation` and roll its transaction back."""
    results: list[T] = []

    def attempt(db: Database) -> None:
        results.append(operation(db))
        raise _Rollback

    with contextlib.suppress(_Rollback):
        store.write(attempt)
    return results[0]


MAX_BATCH = 512


class Submitted(Struct, frozen=True):
    """An operation and its future."""

    operation: Callable[[Any], Any]
    future: "asyncio.Future[Any]"
    options: WriteOptions = PLAIN


class Done(Struct, frozen=True):
    """The result or error of an operation."""

    future: "asyncio.Future[Any]"
    value: Any = None
    error: BaseException | None = None


class Writer:
    """A thread that commits the queued operations in batches and returns their results to the event loops."""

    def __init__(self, commit: Callable[[list[Submitted]], list[Done]], *, end: Callable[[], None]) -> None:
        self._commit = commit
        self._end = end
        self._submitted: SimpleQueue[Submitted | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write_batches, name="rota-writer", daemon=True)
        self._thread.start()

    def submit(self, operation: Operation[T], options: WriteOptions = PLAIN) -> "asyncio.Future[T]":
        """Queue an operation; the future of the calling loop ends after the commit."""
        from asyncio import get_running_loop

        future: asyncio.Future[T] = get_running_loop().create_future()
        self._submitted.put(Submitted(operation, future, options))
        return future

    def close(self) -> None:
        """Finish the queued operations and stop the thread."""
        self._submitted.put(None)
        self._thread.join()

    def _write_batches(self) -> None:
        while (first := self._submitted.get()) is not None:
            batch, ended = self._drain(first)
            try:
                done = self._commit(batch)
            except Exception as error:  # no caller may wait for ever; the next batch tries again
                done = failed(batch, error)
            hand_back(done)
            if ended:
                break
        self._end()

    def _drain(self, first: Submitted) -> tuple[list[Submitted], bool]:
        batch = [first]
        while len(batch) < MAX_BATCH:
            try:
                following = self._submitted.get_nowait()
            except Empty:
                return batch, False
            if following is None:
                return batch, True
            batch.append(following)
        return batch, False


def failed(batch: list[Submitted], error: BaseException) -> list[Done]:
    """Return the same error for a whole batch."""
    return [Done(item.future, error=error) for item in batch]


def call_precommit(batch: list[Submitted], done: list[Done]) -> None:
    """Call the `on_precommit` callbacks on their event loops."""
    for item, ended in zip(batch, done, strict=True):
        if item.options.on_precommit is not None and ended.error is None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                item.future.get_loop().call_soon_threadsafe(item.options.on_precommit, ended.value)


def hand_back(done: list[Done]) -> None:
    """Pass the results to the event loops of their operations."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Done]] = {}
    for item in done:
        by_loop.setdefault(item.future.get_loop(), []).append(item)
    for loop, items in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_acknowledge, items)


def _acknowledge(done: list[Done]) -> None:
    for item in done:
        if item.future.done():
            continue  # the caller was cancelled; the write is committed
        if item.error is not None:
            item.future.set_exception(item.error)
        else:
            item.future.set_result(item.value)
