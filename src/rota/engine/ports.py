"""Ports of the engine: processes under keepers, functions in this process, work sources and notification senders.

The real ones are `engine/processes.py` and `engine/functions.py`; tests script their own (`rota.testing`).
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from rota.engine.transactions.claim import Claimed, Launched
from rota.model.agents import Source
from rota.model.chats import ChatMessage, Outgoing, Person
from rota.model.notifications import DeliveryResult, Target
from rota.model.records import Outcome, ProcessIdentity
from rota.model.spec import Condition, Work, WorkSource
from rota.rules.admission import ConditionResult
from rota.rules.chats import Command, Part
from rota.rules.power import Power
from rota.store.driver import Database

T = TypeVar("T")


class Processes(Protocol):
    """Runs commands under keepers."""

    async def prepare(self, claimed: Claimed) -> Any:
        """Return everything a start needs; raises SecretMissing or SpawnFailed."""
        ...

    async def launch(self, run_id: str, prepared: Any) -> Launched:
        """Start a process that waits at its gate."""
        ...

    def reserve(self, count: int, ended: Sequence[ProcessIdentity]) -> Sequence[ProcessIdentity]:
        """Reserve up to so many waiting processes for commands that start with their claim.

        Keepers of `ended` runs, whose outcomes are about to be stored, come first.
        """
        ...

    def launch_reserved(self, claimed: Claimed, reserved: ProcessIdentity) -> Launched | None:
        """Return a reserved process at the gate of a command; None: the command needs the ordinary way.

        Called inside of the claim, in the writer's thread.
        """
        ...

    def release(self, reserved: Sequence[ProcessIdentity], *, claimed: bool) -> None:
        """Give back reserved processes without a run; without knowing what was `claimed`, send them away."""
        ...

    async def outcome(self, run_id: str, identity: ProcessIdentity, work: Work | None = None) -> Outcome:
        """Wait until the process is gone and return how it ended; one that outlives the limits of `work` is killed."""
        ...

    def settle(self, identity: ProcessIdentity, *, stored: bool) -> None:
        """Give a process back whose outcome is stored; one whose outcome is not stored is left to itself."""
        ...

    async def check(self, claimed: Claimed, condition: Condition, *, index: int) -> ConditionResult:
        """Run a condition in a process of its own."""
        ...

    async def check_work(
        self, claimed: Claimed, outcome: Outcome, *, begun: Callable[[ProcessIdentity], None]
    ) -> Outcome:
        """Return the outcome of work that succeeded inside this process, after its postcondition."""
        ...

    def stop(self, identity: ProcessIdentity, *, at_once: bool) -> None:
        """Ask a keeper to end its tree: TERM, grace, KILL; or KILL at once."""
        ...

    def alive(self, identity: ProcessIdentity) -> bool:
        """Return whether this very process still runs."""
        ...

    async def gone(self, identity: ProcessIdentity) -> None:
        """Wait until this very process has ended; it need not be ours."""
        ...

    def outcome_left(self, run_id: str) -> bool:
        """Return whether a keeper wrote how the run ended."""
        ...

    async def sweep(self, run_id: str) -> list[int]:
        """Kill all processes with the run's tag; return those that survived."""
        ...


class Functions(Protocol):
    """Runs Python functions inside this process."""

    def prepare(self, claimed: Sequence[Claimed]) -> None:
        """Prepare calls that may begin soon, and forget those prepared before."""
        ...

    def begin(self, claimed: Claimed) -> None:
        """Start a function; its outcome is reported later."""
        ...

    def stop(self, run_id: str) -> None:
        """Ask a function to end; its outcome is reported."""
        ...

    async def check(self, claimed: Claimed, condition: Condition, *, index: int) -> ConditionResult:
        """Ask a registered condition."""
        ...

    def holds(self, run_id: str) -> bool:
        """Return whether code of a run that ended still runs: a thread cannot be killed."""
        ...

    async def until_free(self, job_id: str) -> None:
        """Wait until no code of an ended run of this job still runs."""
        ...


class Sources(Protocol):
    """Makes work sources and calls them off the event loop."""

    def find(self, wanted: WorkSource) -> Source:
        """Return a source; raises SecretMissing or SourceError."""
        ...

    async def ask(self, call: Callable[[], T], *, within: float, late: Callable[[], None] = ...) -> T:
        """Return the answer of a call; `late` is called if it comes after the caller stopped waiting."""
        ...


class PowerSwitch(Protocol):
    """Keeps this machine awake and wakes it; a method returns why it cannot, empty if it can."""

    def read(self) -> Power:
        """Return the power of this machine."""
        ...

    def hold(self, why: str) -> str:
        """Keep the machine awake until `release`; repeated calls change nothing. Blocks."""
        ...

    def release(self) -> None:
        """Allow sleep again. Blocks."""
        ...

    def wake_at(self, at: datetime | None) -> str:
        """Wake the machine at an instant if it sleeps then; None: not at all."""
        ...

    def close(self) -> None:
        """Allow sleep, and clear the alarm."""
        ...


class Logins(Protocol):
    """Checks the logins of agents."""

    async def works(self, work: Work) -> bool:
        """Return whether the probe of an agent finds no problem; no model is called."""
        ...

    async def version(self, work: Work) -> str:
        """Return the version of an agent's program as its runs find it, empty if it is unknown."""
        ...


class Message(Struct, frozen=True):
    """A message to a target. `id` is the same over all attempts; `at` is when this one is made."""

    id: str
    target: Target
    payload: Mapping[str, Any]
    at: datetime
    folder: str = ""
    """The folder of the run's files."""
    part: Part | None = None
    """A part of the answer that the payload has, for a chat."""
    reply_to: str = ""
    """The message of the chat below which it is sent."""


class Desk(Protocol):
    """Carries out what people ask for in chats, each inside of one transaction; refuses with a RotaError."""

    def press(self, db: Database, message: ChatMessage, index: int, *, person: Person, now: datetime) -> str:
        """Carry out a pressed button; return what it did."""
        ...

    def acknowledge(
        self, db: Database, target: Target, delivery: str, *, message: str, person: Person, now: datetime
    ) -> str:
        """Acknowledge the items of a delivery, which is a message of the chat; return what it did."""
        ...

    def reply(self, db: Database, message: ChatMessage, text: str, *, person: Person, now: datetime) -> str:
        """Carry out a reply to a message; return what it did."""
        ...

    def quoted(self, db: Database, target: Target, line: str) -> ChatMessage | None:
        """Return the message of a target that begins with a line: a crash may have come before it was recorded."""
        ...

    def command(self, db: Database, target: Target, command: Command, *, person: Person, now: datetime) -> str:
        """Carry out a command; return what it did."""
        ...

    def lacking(self, db: Database, targets: Sequence[Target]) -> bool:
        """Return whether a message about a question is to be sent or to be closed."""
        ...

    def plan(self, db: Database, targets: Sequence[Target], *, now: datetime) -> None:
        """Store the messages about questions that are to be sent and to be closed."""
        ...

    def shown(self, db: Database, message: ChatMessage) -> Outgoing | None:
        """Return what a pending message says; None: its subject is over."""
        ...

    def ending(self, db: Database, message: ChatMessage) -> str:
        """Return the text of a message whose subject is over."""
        ...


class Post(Protocol):
    """Sends messages to targets."""

    async def send(self, letter: Message) -> DeliveryResult:
        """Make one attempt; nothing that goes wrong outside is raised."""
        ...

    async def ping(self, target: Target) -> DeliveryResult:
        """Fetch an address, only to be heard there."""
        ...
