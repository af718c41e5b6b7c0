"""Notifications: events, targets, deliveries and their results."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

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
    ATTENTION = "attention"
    RESOLVED = "resolved"
    PING = "ping"
    """Sent to the health check of a job alone."""
    DIGEST = "digest"
    """Sent at the times of `digest` alone."""
    RESULT = "result"
    """The answer of an agent; sent only to the targets of `deliver`."""
    TEST = "test"
    """Sent only by `rota notify`."""


USUAL = (Event.FAILED, Event.LATE, Event.RECOVERED)
"""The events of a target without `on`."""
OF_ITEMS = (Event.ATTENTION, Event.RESOLVED)
"""The events of attention items, which belong to no run."""


class PingSignal(StrEnum):
    """A signal to the health check of a job."""

    START = "start"
    SUCCESS = "success"
    FAIL = "fail"


class Channel(StrEnum):
    """The transport of a target."""

    WEBHOOK = "webhook"
    APPRISE = "apprise"
    TELEGRAM = "telegram"
    SLACK = "slack"
    COMMAND = "command"


PROGRAMS = (Channel.WEBHOOK, Channel.COMMAND)
"""The channels that programs read; people read the others."""


def usual_events(channel: Channel) -> tuple[Event, ...]:
    """Return the events of a target without `on`: people also hear of what needs attention."""
    return USUAL if channel in PROGRAMS else (*USUAL, Event.ATTENTION)


CHATS = (Channel.TELEGRAM, Channel.SLACK)
"""The channels with a way back."""
API_URLS = {Channel.TELEGRAM: "https://api.telegram.org", Channel.SLACK: "https://slack.com/api"}


class ChatCommands(Struct, frozen=True):
    """The commands that people may send from a chat: the jobs to run and to pause, and the status."""

    run: tuple[str, ...] = ()
    pause: tuple[str, ...] = ()
    status: bool = False


NO_COMMANDS = ChatCommands()


class Target(Struct, frozen=True):
    """A receiver of notifications. Its address is literal, or the name of a secret."""

    name: str
    channel: Channel
    on: tuple[Event, ...] = USUAL
    address: str = ""
    """The address; of Telegram and Slack the chat, with the bot's token in `address_secret`."""
    address_secret: str = ""
    command: tuple[str, ...] = ()
    signing: tuple[str, ...] = ()
    """The names of the secrets that sign a webhook; two during a rotation."""
    allow_private: tuple[str, ...] = ()
    """Allowed private addresses, each as host:port."""
    remind: timedelta | None = REMIND
    """The interval of reminders about a failing job; None: every failure."""
    timeout: timedelta = TIMEOUT
    digest: tuple[str, ...] = ()
    """The times of day, in the project's zone, at which it gets a digest."""
    cwd: str = ""
    """The folder of a command; empty: the scheduler's project."""
    users: tuple[str, ...] = ()
    """The people in the chat that may answer, reply and send commands; empty: it is only written to."""
    commands: ChatCommands = NO_COMMANDS
    questions: bool = True
    """Whether open questions are sent to the chat; only with `users`."""
    app_secret: str = ""
    """The name of the secret with the app token of Slack."""
    api_url: str = ""
    """The address of another server with the same API; empty: that of the service."""

    @property
    def bot(self) -> str:
        """The key of the bot of a chat: several chats may share it."""
        return " ".join(part for part in (self.channel.value, self.address_secret, self.api_url) if part)

    @property
    def api(self) -> str:
        """The address of the API of a chat."""
        return self.api_url or API_URLS[self.channel]

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
    """An event for a target. Its id is the same over all attempts, so that a receiver can detect duplicates.

    `subject` is the run, or what else it is about; `payload` is its message, if it is about no run.
    """

    id: str
    run_id: str | None
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
    subject: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
    line: str | None = None
    """Deliveries of a line are sent one after the other."""


class DeliveryResult(Struct, frozen=True):
    """The result of an attempt. `wait`: the receiver's Retry-After in seconds; `gone`: it accepts nothing more."""

    ok: bool
    answer: int | None = None
    error: str | None = None
    wait: float | None = None
    gone: bool = False
    hopeless: bool = False
    """Whether a retry cannot succeed: the address is refused."""
    message: str = ""
    """The identifier of the message in its chat."""
