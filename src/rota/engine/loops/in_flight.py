"""A run in one of our slots: where it stands, whether it shall stop, and what follows when it leaves its gates."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeVar

from rota.engine.transactions.claim import Claimed
from rota.model.records import ProcessIdentity
from rota.model.spec import Work


class StopRequest(Enum):
    """Whether a run shall end early, and how."""

    NONE = auto()
    GRACE = auto()
    """TERM, then KILL after the grace."""
    NOW = auto()
    """KILL."""


class OnExit(Enum):
    """What becomes of a run that is taken from its gates."""

    END = auto()
    REQUEUE = auto()


STOPS: Mapping[tuple[StopRequest, StopRequest], StopRequest] = {
    (StopRequest.NONE, StopRequest.GRACE): StopRequest.GRACE,
    (StopRequest.NONE, StopRequest.NOW): StopRequest.NOW,
    (StopRequest.GRACE, StopRequest.NOW): StopRequest.NOW,
    (StopRequest.NOW, StopRequest.NOW): StopRequest.NOW,  # the signal is sent again
}
"""A later request is at least as hard as the one before."""

EXITS: Mapping[tuple[OnExit, OnExit], OnExit] = {
    (OnExit.END, OnExit.REQUEUE): OnExit.REQUEUE,
    (OnExit.REQUEUE, OnExit.REQUEUE): OnExit.REQUEUE,
}
"""A run that goes back to the queue goes back, whatever is asked later: the transaction looks for a stored wish."""

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


def move(table: Mapping[tuple[S, E], S], state: S, event: E) -> S:
    """Return the state after an event; an event that the table does not know is a mistake in our code."""
    if (state, event) not in table:
        raise AssertionError(f"{event} cannot follow {state}")
    return table[state, event]


@dataclass(slots=True)
class InFlightRun:
    """A run in one of our slots, or a direct call; of one that is `reserved` the caller's own code has the slot."""

    claimed: Claimed | None
    run_id: str
    job_id: str
    slot: int
    in_process: bool
    direct: bool = False
    reserved: bool = False
    task: "asyncio.Task[None] | None" = None
    process: ProcessIdentity | None = None
    entered: bool = False
    begun: bool = False
    interrupted: bool = False
    unstored: bool = False
    storing: bool = False
    """Whether it has ended, and its outcome is on its way into the storage."""
    stop: StopRequest = StopRequest.NONE
    on_exit: OnExit = OnExit.END
    shares: bool = False
    """Whether its output goes into the database too."""
    work: Work | None = None
    """What it does, where that is known."""

    @property
    def agent(self) -> bool:
        """Whether it is known to be the work of an agent."""
        return self.work is not None and self.work.agent is not None

    @property
    def stopping(self) -> bool:
        """Whether it was asked to end early."""
        return self.stop is not StopRequest.NONE

    @property
    def over(self) -> bool:
        """Whether nothing of it runs any more, or yet: all that is left to do for it is to store where it goes."""
        return self.storing or self.unstored or not (self.begun or self.process)

    def request_stop(self, request: StopRequest) -> None:
        """Note that it shall end early."""
        self.stop = move(STOPS, self.stop, request)

    def requeue(self) -> None:
        """Note that it goes back to the queue."""
        self.on_exit = move(EXITS, self.on_exit, OnExit.REQUEUE)

    def interrupt(self) -> None:
        """Take the run away from its gates, once: a second time would cut off the storing of where it goes."""
        if self.task is not None and self.entered and not self.interrupted:
            self.interrupted = True
            self.task.cancel()


def handle_of(carried: InFlightRun) -> str:
    """Return how logs name a carried run."""
    return carried.claimed.run.handle if carried.claimed else carried.run_id
