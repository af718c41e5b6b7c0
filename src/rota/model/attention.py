"""Items that need attention."""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct


class ItemKind(StrEnum):
    """The kind of an item. Each is documented in `docs/attention.md`."""

    DAMAGE = "damage"
    STORAGE = "storage"
    SCHEDULER = "scheduler"
    FILE = "file"
    WORKERS = "workers"
    DRAINED = "drained"
    LOOP = "loop"
    FAILING = "failing"
    STUCK = "stuck"
    ABANDONED = "abandoned"
    HELD = "held"
    APPROVAL = "approval"
    QUESTION = "question"
    BUDGET = "budget"
    MISSED = "missed"
    SKIPPED = "skipped"
    DENIED = "denied"
    DELIVERIES = "deliveries"
    SOURCE = "source"
    WORKER = "worker"
    CRASHES = "crashes"
    CLOCK = "clock"
    MOVED = "moved"
    VERSION = "version"
    WORKTREE = "worktree"


class Attention(Struct, frozen=True):
    """One item that needs attention: the job or file, the problem, and a command for details.

    `sign` changes only when something new happens; `subject` is the run or job of the item. `also` are the signs of
    more serious states: after one of these, this one is nothing new.
    """

    name: str
    what: str
    command: str
    kind: ItemKind
    sign: str = ""
    subject: str = ""
    also: tuple[str, ...] = ()

    @property
    def topic(self) -> str:
        """The identity of the item, which stays when it happens again."""
        return f"{self.kind}:{self.name}"


class NotedItem(Struct, frozen=True):
    """An item as of the last look of the scheduler. `message`: the message that reported this mark, if any."""

    topic: str
    mark: str
    kind: ItemKind
    name: str
    what: str
    command: str
    subject: str
    since: datetime
    absent_at: datetime | None = None
    message: str | None = None
