"""A slot for code of the host's own: entered and left on the scheduler's loop, wherever the code itself runs."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

from rota.model.errors import SchedulerError
from rota.operations.reserving import Reservation

Play = Callable[[Coroutine[Any, Any, Any]], "Future[Any]"]
"""Awaits something on the scheduler's own loop."""
Opened = tuple[AbstractAsyncContextManager[Reservation], Play]


class Reserved:
    """A slot that is held while a block runs: `async with`, or `with` through `scheduler.sync`."""

    def __init__(self, opening: Callable[[], Opened]) -> None:
        self._opening = opening
        self._opened: Opened | None = None

    def begin(self) -> "Future[Reservation]":
        """Begin to wait for the slot."""
        held, play = self._opened = self._opening()
        return play(_enter(held))

    def give_back(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> "Future[None] | None":
        """Begin to give it back; None where the scheduler has stopped and taken it back itself."""
        assert self._opened is not None
        held, play = self._opened
        with contextlib.suppress(SchedulerError):
            return play(_leave(held, kind, error, traceback))
        return None

    async def __aenter__(self) -> Reservation:
        """Wait for the slot."""
        return await asyncio.wrap_future(self.begin())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Give the slot back; the block's end is recorded as it was."""
        given = self.give_back(kind, error, traceback)
        if given is not None:
            await asyncio.shield(asyncio.wrap_future(given))


async def _enter(held: AbstractAsyncContextManager[Reservation]) -> Reservation:
    return await held.__aenter__()


async def _leave(
    held: AbstractAsyncContextManager[Reservation],
    kind: type[BaseException] | None,
    error: BaseException | None,
    traceback: TracebackType | None,
) -> None:
    """Leave the block on the scheduler's side; its exception goes on in the host's."""
    try:
        await held.__aexit__(kind, error, traceback)
    except BaseException as raised:
        if raised is not error:
            raise
