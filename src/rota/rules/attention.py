"""Decisions about attention items: their order and marks, and which of them people are notified of."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from rota.model.attention import Attention, ItemKind, NotedItem
from rota.model.notifications import Event

TOGETHER = timedelta(seconds=30)
"""Items that appear within this time are one message. An item that was away for less has not ended."""
STUCK_AFTER = timedelta(minutes=1)
WORKTREE_AGE = timedelta(days=7)
NEARLY = 0.8
"""The used share of a budget from which on it is an item."""
FIRST = (
    ItemKind.DAMAGE,
    ItemKind.STORAGE,
    ItemKind.SCHEDULER,
    ItemKind.FILE,
    ItemKind.WORKERS,
    ItemKind.DRAINED,
    ItemKind.LOOP,
    ItemKind.FAILING,
    ItemKind.STUCK,
    ItemKind.ABANDONED,
)
"""The kinds that come first, in order."""
_TOLD_BY_RUNS: Mapping[ItemKind, Collection[Event]] = {
    ItemKind.FAILING: (Event.FAILED,),
    ItemKind.MISSED: (Event.MISSED, Event.SKIPPED),
    ItemKind.SKIPPED: (Event.SKIPPED,),
}
"""The events of runs that report the same as an item."""


def mark_of(sign: str) -> str:
    """Return the mark of a sign: short, and the same while nothing new happens."""
    return sha256(sign.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def in_order(items: Iterable[Attention]) -> list[Attention]:
    """Return each topic once, the worst first."""
    by_topic: dict[str, Attention] = {}
    for item in items:
        by_topic.setdefault(item.topic, item)
    return sorted(by_topic.values(), key=lambda item: FIRST.index(item.kind) if item.kind in FIRST else len(FIRST))


def is_stuck(*, running: timedelta, timeout: timedelta | None, grace: timedelta) -> bool:
    """Return whether a run should have ended long ago.

    >>> minute = timedelta(minutes=1)
    >>> [is_stuck(running=minute * taken, timeout=minute * 5, grace=minute) for taken in (7, 8)]
    [False, True]
    """
    return timeout is not None and running > timeout + grace + STUCK_AFTER


def budget_level(*, used: int, limit: int, waiting: int) -> str:
    """Return the level of a budget that needs attention, empty below 80 %.

    >>> [budget_level(used=used, limit=10, waiting=0) for used in (7, 8, 10)], budget_level(used=3, limit=10, waiting=1)
    (['', 'nearly', 'used up'], 'waiting')
    """
    if waiting:
        return "waiting"
    if used >= limit:
        return "used up"
    return "nearly" if used >= NEARLY * limit else ""


class Changes(Struct, frozen=True):
    """The changes of a look: rows to store and to delete, and the items to report as new or as over.

    `next_at` is the time at which the next message is due.
    """

    stored: tuple[NotedItem, ...] = ()
    deleted: tuple[str, ...] = ()
    new: tuple[NotedItem, ...] = ()
    over: tuple[NotedItem, ...] = ()
    next_at: datetime | None = None

    @property
    def any(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.stored or self.deleted or self.new or self.over)


def changes_of(
    noted: Mapping[str, NotedItem],
    items: Sequence[NotedItem],
    *,
    acknowledged: Collection[str] = (),
    now: datetime,
    together: timedelta = TOGETHER,
) -> Changes:
    """Return what changes, given the rows, the items that are there, and the topics that were acknowledged.

    An item that happens again is reported again. An item is over when it was away for `together`; an acknowledged
    one is deleted without a message, and so is one that ended before it was reported.
    """
    current = {
        item.topic: _noted_again(noted.get(item.topic), item) for item in items if item.topic not in acknowledged
    }
    left = {
        topic: item if item.absent_at else replace(item, absent_at=now)
        for topic, item in noted.items()
        if topic not in current and topic not in acknowledged
    }
    ended = [item for item in left.values() if item.absent_at is not None and item.absent_at + together <= now]
    deleted = tuple(topic for topic in noted if topic in acknowledged or topic in {item.topic for item in ended})
    pending = [item for item in current.values() if item.message is None]
    due = bool(pending) and min(item.since for item in pending) + together <= now
    kept = [item for topic, item in {**current, **left}.items() if topic not in deleted]
    waits = [item.since for item in pending if not due] + [item.absent_at for item in kept if item.absent_at]
    return Changes(
        stored=tuple(item for item in kept if noted.get(item.topic) != item),
        deleted=deleted,
        new=tuple(pending) if due else (),
        over=tuple(item for item in ended if item.message is not None),
        next_at=min(waits) + together if waits else None,
    )


def _noted_again(before: NotedItem | None, item: NotedItem) -> NotedItem:
    """Return an item with its past. Its text stays as it was noted, so that no row changes by the minute."""
    if before is None or before.mark != item.mark:
        return item
    return before if before.absent_at is None else replace(before, absent_at=None)


def is_told_by_runs(kind: ItemKind, on: Collection[Event]) -> bool:
    """Return whether a target with these events of a job hears of an item of the job by its runs."""
    return any(event in on for event in _TOLD_BY_RUNS.get(kind, ()))
