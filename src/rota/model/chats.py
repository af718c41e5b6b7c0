"""Chats: what people send, what is sent to them, and the rows of both."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

TEXT_LIMIT = 10_000
"""The characters of an accepted text of a person."""
NAME_LIMIT = 80
NOTICE_LIMIT = 3_000
"""The characters of an answer to a command."""


class ChatFailure(Exception):
    """A refused or failed request to a chat service.

    `wait`: the seconds that the service asks for. `hopeless`: a retry of the same request cannot succeed.
    """

    def __init__(
        self, text: str, *, status: int | None = None, wait: float | None = None, hopeless: bool = False
    ) -> None:
        super().__init__(text)
        self.status = status
        self.wait = wait
        self.hopeless = hopeless


class Person(Struct, frozen=True):
    """A person in a chat: the door, the identifier of the service, and the shown name."""

    door: str
    id: str
    name: str

    @property
    def actor(self) -> str:
        """The person in the audit log and in the list of people that may answer."""
        return f"{self.door}:{self.id}"

    @property
    def title(self) -> str:
        """The person in messages.

        >>> Person("telegram", "7", "Ada").title, Person("slack", "U7", "").title
        ('Ada (telegram 7)', 'slack U7')
        """
        place = f"{self.door} {self.id}"
        return f"{self.name} ({place})" if self.name else place


class Button(Struct, frozen=True):
    """A button of a message; `data` comes back when it is pressed."""

    text: str
    data: str


class Incoming(Struct, frozen=True):
    """An event of a chat service: a text, or a pressed button. `key` is the same if the service sends it again."""

    key: str
    chat: str = ""
    user: str = ""
    name: str = ""
    text: str = ""
    message: str = ""
    """The message itself, for an answer below it."""
    reply_to: str = ""
    """The message that this one replies to."""
    quote: str = ""
    """The first line of that message, if a bot wrote it."""
    press: str = ""
    """The data of a pressed button."""
    callback: str = ""
    """The identifier with which the press is confirmed."""
    cursor: int | None = None
    """The position behind this event in the stream of a bot."""


class Outgoing(Struct, frozen=True):
    """A message for a chat: a text, or a file with its name and its data."""

    text: str = ""
    buttons: Sequence[Button] = ()
    reply_to: str = ""
    asks: bool = False
    """Whether the client opens the field for a reply."""
    file: str = ""
    data: bytes = b""


class ChatKind(StrEnum):
    """The subject of a sent message."""

    RESULT = "result"
    QUESTION = "question"
    NOTICE = "notice"


class ChatState(StrEnum):
    """The state of a sent message. A closed one has no buttons any more."""

    PENDING = "PENDING"
    SENT = "SENT"
    CLOSED = "CLOSED"
    FAILED = "FAILED"


class ChatMessage(Struct, frozen=True):
    """A message to a chat, stored before it is sent. `id` is the token of its buttons."""

    id: str
    bot: str
    chat: str
    target: str
    kind: ChatKind
    subject: str
    """A run, a question, or the key of the event that a notice answers."""
    part: int
    body: str
    reply_to: str
    message: str | None
    """Its identifier in the chat; None before it is sent."""
    state: ChatState
    attempts: int
    next_at: datetime | None
    created_at: datetime
    sent_at: datetime | None
    error: str | None


class BotState(Struct, frozen=True):
    """The stored state of a bot: its position, its reader and what was ignored."""

    bot: str
    cursor: int | None
    cursor_at: datetime | None
    epoch: int | None
    lease_until: datetime | None
    ignored: int


class Reply(Struct, frozen=True):
    """A reply to the answer of a run, which is the prompt of another run."""

    run_id: str
    replied_id: str
    """The run whose answer was replied to, and its handle."""
    replied: str
    session: str
    """The session that goes on; empty: the answer is carried over into a new one."""
    text: str
    door: str
    user: str
    name: str
    created_at: datetime
