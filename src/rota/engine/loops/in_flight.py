"""A run in one of our slots: where it stands, whether it shall stop, and what follows when it leaves its gates."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeVar

from rota.engine.transactions.claim import Claimed
from rota.model.records import ProcessIdentity
from rota.model.spec import Work


class RunPhase(Enum):
    """Where a run stands."""

    CLAIMED = auto()
    """Its task has not made its first step. Cancelling it now would lose the run, so wishes are only noted."""
    AT_GATES = auto()
    """Poll, conditions, budgets and work item are looked at."""
    LEAVING = auto()
    """It leaves its gates without a start. Nothing interrupts that."""
    STARTING = auto()
    """It is launched and its start is stored. A wish to stop is noted, and acted on after that."""
    RUNNING = auto()
    """Its process, its function or its caller's code runs."""
    STORING = auto()
    """It has ended, and its outcome is on its way into the storage."""
    REFUSED = auto()
    """The storage refused where it goes; that is tried again until it is stored."""


class RunStep(Enum):
    """What happens to a run in a slot."""

    ENTER = auto()
    """Its task begins."""
    WITHDRAW = auto()
    """It goes back to the queue or ends without an outcome of its work."""
    BEGIN = auto()
    """It has passed its gates."""
    RUN = auto()
    """Its start is stored."""
    STORE = auto()
    """Its outcome goes to the storage."""
    REFUSE = auto()
    """The storage refuses."""


PHASES: Mapping[tuple[RunPhase, RunStep], RunPhase] = {
    (RunPhase.CLAIMED, RunStep.ENTER): RunPhase.AT_GATES,
    (RunPhase.AT_GATES, RunStep.BEGIN): RunPhase.STARTING,
    (RunPhase.STARTING, RunStep.RUN): RunPhase.RUNNING,
    (RunPhase.RUNNING, RunStep.STORE): RunPhase.STORING,
    (RunPhase.STORING, RunStep.STORE): RunPhase.STORING,
    (RunPhase.REFUSED, RunStep.STORE): RunPhase.REFUSED,
    (RunPhase.AT_GATES, RunStep.WITHDRAW): RunPhase.LEAVING,
    (RunPhase.LEAVING, RunStep.WITHDRAW): RunPhase.LEAVING,
    (RunPhase.STARTING, RunStep.WITHDRAW): RunPhase.STARTING,  # something of it may run until that is stored
    (RunPhase.RUNNING, RunStep.WITHDRAW): RunPhase.RUNNING,
    (RunPhase.REFUSED, RunStep.WITHDRAW): RunPhase.REFUSED,
    (RunPhase.LEAVING, RunStep.REFUSE): RunPhase.REFUSED,
    (RunPhase.STARTING, RunStep.REFUSE): RunPhase.REFUSED,
    (RunPhase.RUNNING, RunStep.REFUSE): RunPhase.REFUSED,
    (RunPhase.STORING, RunStep.REFUSE): RunPhase.REFUSED,
    (RunPhase.REFUSED, RunStep.REFUSE): RunPhase.REFUSED,
}


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
    phase: RunPhase = RunPhase.CLAIMED
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
        return self.phase not in (RunPhase.STARTING, RunPhase.RUNNING)

    @property
    def unstored(self) -> bool:
        """Whether the storage refuses where it goes."""
        return self.phase is RunPhase.REFUSED

    @property
    def function_called(self) -> bool:
        """Whether a function of ours was called for it: its task ends with the call."""
        return self.in_process and self.task is None and not self.reserved

    def step(self, step: RunStep) -> None:
        """Go on to the next phase."""
        self.phase = move(PHASES, self.phase, step)

    def request_stop(self, request: StopRequest) -> None:
        """Note that it shall end early."""
        self.stop = move(STOPS, self.stop, request)

    def requeue(self) -> None:
        """Note that it goes back to the queue."""
        self.on_exit = move(EXITS, self.on_exit, OnExit.REQUEUE)

    def interrupt(self) -> None:
        """Take the run away from its gates, once: a second time would cut off the storing of where it goes."""
        if self.task is not None and self.phase is RunPhase.AT_GATES:
            self.step(RunStep.WITHDRAW)
            self.task.cancel()


def handle_of(carried: InFlightRun) -> str:
    """Return how logs name a carried run."""
    return carried.claimed.run.handle if carried.claimed else carried.run_id
