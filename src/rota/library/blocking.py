"""`scheduler.sync`: what a scheduler is awaited for, for code without an event loop."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from datetime import timedelta
from typing import Any, Protocol

from rota.library.reserving import Reserved
from rota.model.records import Run
from rota.operations.embedding import TriggerResult
from rota.operations.reserving import Reservation


class Awaited(Protocol):
    """What a scheduler begins and somebody waits for."""

    def begin_trigger(
        self, name: str, schedule: str | None, *, params: Mapping[str, Any] | None, force: bool
    ) -> "Future[TriggerResult]":
        """Begin to trigger a job."""
        ...

    def begin_wait(self, run: str) -> "Future[Run]":
        """Begin to wait for a run."""
        ...

    def reserve_slot(
        self,
        pools: Sequence[str] | Mapping[str, int] = (),
        *,
        job: str | None = None,
        within: str | float | timedelta | None = None,
    ) -> Reserved:
        """Return a slot to be held."""
        ...


class Blocking:
    """The methods that are awaited, as ones that block the calling thread. Not for the thread of an event loop."""

    def __init__(self, scheduler: Awaited) -> None:
        self._scheduler = scheduler

    def trigger(
        self,
        agent_or_job: str,
        schedule: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        force: bool = False,
    ) -> TriggerResult:
        """Start a job, or a schedule of an agent, by hand; at capacity its run waits in the queue."""
        return self._scheduler.begin_trigger(agent_or_job, schedule, params=params, force=force).result()

    def wait(self, run: str | TriggerResult, timeout: float | None = None) -> Run:
        """Wait until a run is final; raise TimeoutError when that takes longer."""
        name = run_named(run)
        waiting = self._scheduler.begin_wait(name)
        try:
            return waiting.result(timeout)
        except TimeoutError:
            waiting.cancel()
            raise late(name, timeout) from None

    @contextlib.contextmanager
    def reserve_slot(
        self,
        pools: Sequence[str] | Mapping[str, int] = (),
        *,
        job: str | None = None,
        within: str | float | timedelta | None = None,
    ) -> Iterator[Reservation]:
        """Hold the next free slot, and room in `pools`, for the code of a `with` block (R-13)."""
        reserved = self._scheduler.reserve_slot(pools, job=job, within=within)
        reservation = reserved.begin().result()
        try:
            yield reservation
        except BaseException as error:
            _finish(reserved.give_back(type(error), error, error.__traceback__))
            raise
        _finish(reserved.give_back(None, None, None))


def run_named(run: str | TriggerResult) -> str:
    """Return the identifier or handle of a run, also of the one that a trigger made."""
    return run if isinstance(run, str) else run.run


def late(run: str, timeout: float | None) -> TimeoutError:
    """Return what whoever waited too short is told."""
    return TimeoutError(f"{run} is not final after {timeout} s; it goes on")


def _finish(given: "Future[None] | None") -> None:
    with contextlib.suppress(CancelledError):  # the scheduler stopped, and took it back itself
        if given is not None:
            given.result()
