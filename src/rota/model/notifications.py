"""The words of notifications: events, targets, deliveries, and what became of sending one (DEC-009)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

TIMEOUT = timedelta(seconds=15)
"""How long one attempt may take."""
REMIND = timedelta(days=1)
"""How often a job that keeps failing is told again."""


class Event(StrEnum):
    """What a target may be told about."""

    FAILED = "failed"
    COMPLETED = "completed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    MISSED = "missed"
    RECOVERED = "recovered"
    LATE = "late"
    TEST = "test"
    """Sent by hand alone."""


USUAL = (Event.FAILED, Event.LATE, Event.RECOVERED)
"""What a target is told that does not say `on`."""


class Channel(StrEnum):
    """How a target is told."""

    WEBHOOK = "webhook"
    APPRISE = "apprise"
    TELEGRAM = "telegram"
    COMMAND = "command"


@dataclass(frozen=True, slots=True)
class Target:
    """Who is told, how, and of what. The address is written out, or the name of a secret that holds it."""

    name: str
    channel: Channel
    on: tuple[Event, ...] = USUAL
    address: str = ""
    """Where to; of Telegram the chat, whose bot's token `address_secret` names."""
    address_secret: str = ""
    command: tuple[str, ...] = ()
    signing: tuple[str, ...] = ()
    """The names of the secrets that sign a webhook; while they are changed there are two."""
    allow_private: tuple[str, ...] = ()
    """Private addresses that may be connected to, each as host:port."""
    remind: timedelta | None = REMIND
    """How often a job that keeps failing is told again; None: of every failure."""
    timeout: timedelta = TIMEOUT
    cwd: str = ""
    """Where a command runs; empty: in the scheduler's project."""

    @property
    def endpoint(self) -> str:
        """What tells endpoints apart: one that is broken or gone is left alone, whoever names it."""
        place = self.address or f"secret {self.address_secret}" if not self.command else " ".join(self.command)
        return f"{self.channel} {place}"


class DeliveryStatus(StrEnum):
    """Where a delivery stands; it never paints a run."""

    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event for one target. Its id is the same over all attempts, so that a receiver knows a repetition."""

    id: str
    run_id: str
    handle: str
    event: Event
    target: str
    own: Target | None
    """The target itself, where it was written in place."""
    endpoint: str
    status: DeliveryStatus
    attempts: int
    next_at: datetime | None
    created_at: datetime
    finished_at: datetime | None
    answer: int | None
    """The HTTP status, or the exit code of a command."""
    error: str | None


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """What became of one attempt. `wait`: the receiver's wish, in seconds; `gone`: it wants nothing any more."""

    ok: bool
    answer: int | None = None
    error: str | None = None
    wait: float | None = None
    gone: bool = False
    hopeless: bool = False
    """Whether another attempt cannot end otherwise: an address that is refused."""
