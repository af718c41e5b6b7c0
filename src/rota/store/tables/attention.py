"""Rows of attention items, as of the last look of the scheduler."""

from datetime import timedelta

from rota.model.attention import NotedItem
from rota.model.clock import MILLISECOND
from rota.store.driver import Database
from rota.store.rows import columns_of, records_of


def noted_items(db: Database) -> dict[str, NotedItem]:
    """Return the noted items by topic, oldest first."""
    return {item.topic: item for item in records_of(NotedItem, db.rows("attention_all"))}


def put(db: Database, item: NotedItem) -> None:
    """Store an item."""
    db.execute("attention_put", **columns_of(item))


def drop(db: Database, topic: str) -> None:
    """Delete an item."""
    db.execute("attention_drop", topic=topic)


def shift(db: Database, back: timedelta) -> None:
    """Move the beginnings of items back with the clock: the waits are elapsed time."""
    db.execute("attention_shift", back=back // MILLISECOND)
