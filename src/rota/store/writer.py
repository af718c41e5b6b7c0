"""The writer thread: operations in the order in which they were submitted, handed over in batches, answered by loop."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from rota.store.driver import PLAIN, Manner, Operation, T

BATCH = 512


@dataclass(frozen=True, slots=True)
class Submitted:
    """An operation, and who waits for it."""

    operation: Callable[[Any], Any]
    future: "asyncio.Future[Any]"
    manner: Manner = PLAIN


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

    def submit(self, operation: Operation[T], manner: Manner = PLAIN) -> "asyncio.Future[T]":
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
