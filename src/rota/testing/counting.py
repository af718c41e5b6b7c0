"""A store for tests that counts: what is on its way, and what changed something."""

import asyncio
import re
from functools import cache
from typing import Any, cast

from rota.store.driver import PLAIN, Database, Manner, Operation, Row, Store, T
from rota.store.queries import load_queries

_COMMENT = re.compile(r"--[^\n]*")


class _Watched:
    """A transaction that counts the statements which changed something; what is set is set in it."""

    _database: Database
    _store: "CountingStore"

    def __init__(self, database: Database, store: "CountingStore") -> None:
        object.__setattr__(self, "_database", database)
        object.__setattr__(self, "_store", store)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._database, name, value)

    def rows(self, query: str, /, **params: Any) -> list[Row]:
        """Return all rows of a named query."""
        found = self._database.rows(query, **params)
        self._count(query, len(found))
        return found

    def row(self, query: str, /, **params: Any) -> Row | None:
        """Return the first row of a named query, None for none."""
        found = self._database.row(query, **params)
        self._count(query, found is not None)
        return found

    def execute(self, query: str, /, **params: Any) -> int:
        """Run a named statement and return how many rows it changed."""
        changed = self._database.execute(query, **params)
        self._count(query, changed)
        return changed

    def _count(self, query: str, found: int) -> None:
        self._store.changes += found > 0 and query in _writing()


@cache
def _writing() -> frozenset[str]:
    """Return the names of the statements that do not only look."""
    texts = {name: _COMMENT.sub("", text).split() for name, text in load_queries("sqlite").items()}
    return frozenset(name for name, words in texts.items() if words and words[0] != "SELECT")


class CountingStore:
    """A store that knows how many submitted writes are under way, and how many statements changed something."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.under_way: set[asyncio.Future[Any]] = set()
        self.changes = 0

    def read(self, operation: Operation[T]) -> T:
        """Read on one snapshot."""
        return self._store.read(operation)

    def write(self, operation: Operation[T]) -> T:
        """Write inline."""
        return self._store.write(self.watched(operation))

    def submit(self, operation: Operation[T], manner: Manner = PLAIN) -> "asyncio.Future[T]":
        """Hand to the writer thread."""
        future = self._store.submit(self.watched(operation), manner)
        self.under_way.add(future)
        future.add_done_callback(self.under_way.discard)
        return future

    def watched(self, operation: Operation[T]) -> Operation[T]:
        """Return the operation with its changes counted."""
        return lambda db: operation(cast(Database, _Watched(db, self)))

    def close(self) -> None:
        """Close the store."""
        self._store.close()
