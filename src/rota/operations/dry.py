"""A dry run of a change: it is really made, and then taken back, so that it tells exactly what would happen."""

from rota.store.driver import Database, Operation, Store, T


class _TakenBack(Exception):
    """Ends a transaction without keeping it; it never leaves this module."""


def tried(store: Store, operation: Operation[T]) -> T:
    """Return what `operation` would do; nothing of it is kept."""
    done: list[T] = []

    def attempt(db: Database) -> None:
        done.append(operation(db))
        raise _TakenBack

    try:
        store.write(attempt)
    except _TakenBack:
        pass
    return done[0]
