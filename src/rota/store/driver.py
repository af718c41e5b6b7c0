"""The protocol of a database, its writer thread, the invariants that it reports, and rolled-back trials."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from rota.model.errors import InvariantRefused

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
class WriteOptions:
    """How an operation that is submitted may be hastened, where a server is at work.

    `aside`: it need not come after what was submitted before, nor before what comes after: where others write at the
    same time anyway, so may we. `asks`: what it asks first, and holds; the server is asked before it begins.
    `foretold`: is told on the event loop what comes of it while the server commits; it may yet come otherwise.
    """

    aside: bool = False
    asks: Operation[None] | None = None
    foretold: Callable[[Any], None] | None = None


PLAIN = WriteOptions()


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

    def submit(self, operation: Operation[T], manner: WriteOptions = PLAIN) -> "asyncio.Future[T]":
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


INVARIANTS = {
    "INV-001": "the params of a run are frozen from its first dispatch on",
    "INV-002": "an execution changes once, when it ends",
    "INV-005": "a run keeps its identity and the version of its job",
    "INV-006": "a group ends when all of its members have, and then never changes",
    "a finished run never changes": "it is final",
    "no such transition": "the run cannot go from its status to that one",
}


def refused(message: str) -> InvariantRefused | None:
    """Return what a trigger refused, None where the message is of another constraint."""
    rule = next((rule for rule in INVARIANTS if rule in message), None)
    return None if rule is None else InvariantRefused(rule, INVARIANTS[rule])


class _TakenBack(Exception):
    """Ends a transaction without keeping it; it never leaves this module."""


def rolled_back(store: Store, operation: Operation[T]) -> T:
    """Return what `operation` would do; nothing of it is kept."""
    done: list[T] = []

    def attempt(db: Database) -> None:
        done.append(operation(db))
        raise _TakenBack

    try:
        store.write(attempt)
    except _TakenBack:
        pass
    return done[0]


BATCH = 512


@dataclass(frozen=True, slots=True)
class Submitted:
    """An operation, and who waits for it."""

    operation: Callable[[Any], Any]
    future: "asyncio.Future[Any]"
    manner: WriteOptions = PLAIN


@dataclass(frozen=True, slots=True)
class Done:
    """What became of an operation."""

    future: "asyncio.Future[Any]"
    value: Any = None
    error: BaseException | None = None


class Writer:
    """A thread that hands what has queued up to `commit`, and each loop what became of its operations."""

    def __init__(self, commit: Callable[[list[Submitted]], list[Done]], *, end: Callable[[], None]) -> None:
        self._commit = commit
        self._end = end
        self._submitted: SimpleQueue[Submitted | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write_batches, name="rota-writer", daemon=True)
        self._thread.start()

    def submit(self, operation: Operation[T], manner: WriteOptions = PLAIN) -> "asyncio.Future[T]":
        """Queue an operation; the future of the calling loop ends after the commit."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._submitted.put(Submitted(operation, future, manner))
        return future

    def close(self) -> None:
        """Finish what was submitted and end the thread."""
        self._submitted.put(None)
        self._thread.join()

    def _write_batches(self) -> None:
        while (first := self._submitted.get()) is not None:
            batch, ended = self._drain(first)
            try:
                done = self._commit(batch)
            except Exception as error:  # nobody may wait for ever; the next batch tries again
                done = failed(batch, error)
            hand_back(done)
            if ended:
                break
        self._end()

    def _drain(self, first: Submitted) -> tuple[list[Submitted], bool]:
        batch = [first]
        while len(batch) < BATCH:
            try:
                following = self._submitted.get_nowait()
            except Empty:
                return batch, False
            if following is None:
                return batch, True
            batch.append(following)
        return batch, False


def failed(batch: list[Submitted], error: BaseException) -> list[Done]:
    """Return the same error for all of a batch."""
    return [Done(item.future, error=error) for item in batch]


def foretell(batch: list[Submitted], done: list[Done]) -> None:
    """Tell who wants to know what will come of an operation, each on its event loop."""
    for item, ended in zip(batch, done, strict=True):
        if item.manner.foretold is not None and ended.error is None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                item.future.get_loop().call_soon_threadsafe(item.manner.foretold, ended.value)


def hand_back(done: list[Done]) -> None:
    """Tell each event loop what became of its operations."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Done]] = {}
    for item in done:
        by_loop.setdefault(item.future.get_loop(), []).append(item)
    for loop, items in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_acknowledge, items)


def _acknowledge(done: list[Done]) -> None:
    for item in done:
        if item.future.done():
            continue  # the caller no longer waits; the write stands
        if item.error is not None:
            item.future.set_exception(item.error)
        else:
            item.future.set_result(item.value)
