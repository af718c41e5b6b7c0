"""Decisions about attention items: their order and marks, and which of them people are notified of."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
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
REMINDED_AFTER = timedelta(days=1)
RECURRING = (ItemKind.FAILING, ItemKind.MISSED, ItemKind.SKIPPED, ItemKind.DENIED, ItemKind.DELIVERIES, ItemKind.SOURCE)
"""Items that each run may bring anew: of a row of them, the first is reported, then one a day."""
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


def mark_after(item: Attention, earlier: Iterable[str]) -> str:
    """Return the mark of an item: one of the earlier marks, if the item is nothing new after it.

    >>> low = Attention("day", "", "", kind=ItemKind.BUDGET, sign="nearly", also=("used up",))
    >>> mark_after(low, [mark_of("used up")]) == mark_of("used up"), mark_after(low, []) == mark_of("nearly")
    (True, True)
    """
    marks = [mark_of(sign) for sign in (item.sign, *item.also)]
    return next((mark for mark in earlier if mark in marks), marks[0])


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


class BudgetLevel(StrEnum):
    """The level of a budget that needs attention. Below 80 % it has none."""

    NEARLY = "nearly"
    USED_UP = "used up"


def budget_level(*, settled: int, limit: int, waiting: int) -> BudgetLevel | None:
    """Return the level of a budget, by what ended runs used: what unfinished ones reserve comes and goes.

    >>> [str(budget_level(settled=amount, limit=10, waiting=0)) for amount in (7, 8, 10)]
    ['None', 'nearly', 'used up']
    >>> str(budget_level(settled=3, limit=10, waiting=1))
    'used up'
    """
    if waiting or settled >= limit:
        return BudgetLevel.USED_UP
    return BudgetLevel.NEARLY if settled >= NEARLY * limit else None


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

    An item that happens again is reported again; a recurring one only a day after its last report, also if it was
    acknowledged meanwhile. An item is over when it was away for `together`; an acknowledged one is deleted without a
    message, and so is one that ended before it was reported.
    """
    current = {
        item.topic: _noted_again(noted.get(item.topic), item) for item in items if item.topic not in acknowledged
    }
    silent = {item.topic for item in items if item.topic in acknowledged and _is_reported(noted.get(item.topic))}
    left = {
        topic: item if item.absent_at else replace(item, absent_at=now)
        for topic, item in noted.items()
        if topic not in current and topic not in acknowledged
    }
    ended = [item for item in left.values() if item.absent_at is not None and item.absent_at + together <= now]
    gone = {item.topic for item in ended} | set(acknowledged) - silent
    deleted = tuple(topic for topic in noted if topic in gone)
    pending = [item for item in current.values() if item.message is None]
    due = bool(pending) and min(item.since for item in pending) + together <= now
    noteds = [item for topic, item in {**current, **left}.items() if topic not in deleted]
    waits = [item.since for item in pending if not due] + [item.absent_at for item in noteds if item.absent_at]
    return Changes(
        stored=tuple(item for item in noteds if noted.get(item.topic) != item),
        deleted=deleted,
        new=tuple(pending) if due else (),
        over=tuple(item for item in ended if item.message is not None),
        next_at=min(waits) + together if waits else None,
    )


def _noted_again(before: NotedItem | None, item: NotedItem) -> NotedItem:
    """Return an item with its past. Its text stays as it was noted, so that no row changes by the minute.

    An item that was not reported yet waits no longer because it happens again.
    """
    if before is None:
        return item
    if before.mark == item.mark:
        return before if before.absent_at is None else replace(before, absent_at=None)
    if before.message is None or (_is_reported(before) and item.since < before.since + REMINDED_AFTER):
        return replace(item, since=before.since, message=before.message)
    return item


def _is_reported(before: NotedItem | None) -> bool:
    """Return whether a recurring item was reported."""
    return before is not None and before.message is not None and before.kind in RECURRING


def is_told_by_runs(kind: ItemKind, on: Collection[Event]) -> bool:
    """Return whether a target with these events of a job hears of an item of the job by its runs."""
    return any(event in on for event in _TOLD_BY_RUNS.get(kind, ()))
