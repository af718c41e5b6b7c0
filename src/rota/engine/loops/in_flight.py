"""Runs in the slots of this process: their phases, and the events by which the stages reach each other."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from typing import Generic, ParamSpec, TypeVar

from msgspec import Struct

from rota.engine.transactions.claim import Claimed
from rota.engine.transactions.finish import Finished
from rota.engine.transactions.fire import Fired
from rota.model.records import Outcome, ProcessIdentity
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
    """Events of a run in a slot."""

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
    """The way back of a run that is taken from its gates."""

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
"""A run that is requeued stays requeued: the transaction looks for a stored cancel request."""

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


def move(table: Mapping[tuple[S, E], S], state: S, event: E) -> S:
    """Return the state after an event; an event that the table does not know is a mistake in our code."""
    try:
        return table[state, event]
    except KeyError:
        raise AssertionError(f"{event} cannot follow {state}") from None


class InFlightRun(Struct):
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
    """The activity of the run, if known."""
    written: bool = False
    """Whether its outcome is stored, or is with the commit of the open transaction."""

    @property
    def agent(self) -> bool:
        """Whether it is known to be the work of an agent."""
        return self.work is not None and self.work.agent is not None

    @property
    def may_leak(self) -> bool:
        """Whether code of it may still run in a thread of this process after its end."""
        return self.in_process or (self.claimed is not None and bool(self.claimed.spec.gates.conditions))

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


RESERVED = ""
"""Holds a slot that a claim under way may fill."""


class Slots:
    """Slots 0 … concurrency-1, and those beyond that adopted runs kept; claimer and recorder share them."""

    def __init__(self, concurrency: int) -> None:
        self.concurrency = concurrency
        self.filling = False
        """Whether a claim is under way, which may bring runs."""
        self.exclusive = False
        """Whether outcomes are stored beside claims: a shared server with many slots and no other worker."""
        self.ending: dict[ProcessIdentity, InFlightRun] = {}
        """Commands whose outcomes are being stored: their keepers can take the runs of a claim in the same commit."""
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
        return sum(holder != RESERVED for holder in self._taken.values())


class Recorded(Struct, frozen=True):
    """A batch of outcomes after its commit: the results, their runs in flight, and the outcomes as stored by run id."""

    batch: Sequence[Finished]
    carried: Sequence[InFlightRun | None]
    stored: Mapping[str, Outcome]


P = ParamSpec("P")


class Event(Generic[P]):
    """A named event. A call runs its listeners at once, in the order in which they were added."""

    def __init__(self) -> None:
        self._listeners: list[Callable[P, object]] = []

    def add(self, *listeners: Callable[P, object]) -> None:
        """Add listeners."""
        self._listeners.extend(listeners)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        for listener in self._listeners:
            listener(*args, **kwargs)


class Events:
    """The events that firer, claimer, executor and recorder share. A stage emits them and knows no other stage.

    Call them from the event loop. `enqueued` and `freed` come right after the write is submitted, so that the claim
    shares its commit.
    """

    def __init__(self) -> None:
        self.enqueued = Event[[]]()
        """Runs were submitted to the queue."""
        self.fired = Event[[Fired]]()
        """The instants of a job were stored."""
        self.claimed = Event[[Sequence[Claimed]]]()
        """A claim ended with these runs, or with none."""
        self.finished = Event[[Finished]]()
        """A run has an outcome."""
        self.recorded = Event[[Recorded]]()
        """Outcomes were stored."""
        self.released = Event[[str]]()
        """A run left its slot without an outcome of its work."""
        self.caller_left = Event[[]]()
        """The caller of an unfinished direct call is gone."""
        self.freed = Event[[]]()
        """Slots or pools are free, or will be with the commit of the last write."""
