"""Notifications: events, targets, deliveries and their results."""

from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

TIMEOUT = timedelta(seconds=15)
"""The timeout of one attempt."""
REMIND = timedelta(days=1)
"""The interval of reminders about a failing job."""


class Event(StrEnum):
    """An event of a notification."""

    FAILED = "failed"
    COMPLETED = "completed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    MISSED = "missed"
    RECOVERED = "recovered"
    LATE = "late"
    TEST = "test"
    """Sent only by `rota notify`."""


USUAL = (Event.FAILED, Event.LATE, Event.RECOVERED)
"""The events of a target without `on`."""


class Channel(StrEnum):
    """The transport of a target."""

    WEBHOOK = "webhook"
    APPRISE = "apprise"
    TELEGRAM = "telegram"
    COMMAND = "command"


class Target(Struct, frozen=True):
    """A receiver of notifications. Its address is literal, or the name of a secret."""

    name: str
    channel: Channel
    on: tuple[Event, ...] = USUAL
    address: str = ""
    """The address; of Telegram the chat, with the bot's token in `address_secret`."""
    address_secret: str = ""
    command: tuple[str, ...] = ()
    signing: tuple[str, ...] = ()
    """The names of the secrets that sign a webhook; two during a rotation."""
    allow_private: tuple[str, ...] = ()
    """Allowed private addresses, each as host:port."""
    remind: timedelta | None = REMIND
    """The interval of reminders about a failing job; None: every failure."""
    timeout: timedelta = TIMEOUT
    cwd: str = ""
    """The folder of a command; empty: the scheduler's project."""

    @property
    def endpoint(self) -> str:
        """The key of the endpoint: a failing endpoint is paused for all targets that use it."""
        place = self.address or f"secret {self.address_secret}" if not self.command else " ".join(self.command)
        return f"{self.channel} {place}"


class DeliveryStatus(StrEnum):
    """The status of a delivery; it never changes a run."""

    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"


class Delivery(Struct, frozen=True):
    """An event for a target. Its id is the same over all attempts, so that a receiver can detect duplicates."""

    id: str
    run_id: str
    handle: str
    event: Event
    target: str
    own: Target | None
    """The target, if the job declares it in place."""
    endpoint: str
    status: DeliveryStatus
    attempts: int
    next_at: datetime | None
    created_at: datetime
    finished_at: datetime | None
    answer: int | None
    """The HTTP status, or the exit code of a command."""
    error: str | None


class DeliveryResult(Struct, frozen=True):
    """The result of an attempt. `wait`: the receiver's Retry-After in seconds; `gone`: it accepts nothing more."""

    ok: bool
    answer: int | None = None
    error: str | None = None
    wait: float | None = None
    gone: bool = False
    hopeless: bool = False
    """Whether a retry cannot succeed: the address is refused."""
