"""A PostgreSQL database as one end of a move."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from rota.model.errors import DatabaseBusy, StateError
from rota.store.driver import Row
from rota.store.postgres.pipeline import translated
from rota.store.postgres.pool import ConnectionPool
from rota.store.postgres.setup import LOCK
from rota.store.transfer import CopyEnd, Table, listed, tables

_SETTINGS = {
    "lock_timeout": "10s",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "synchronous_commit": "on",
}
_KEYS = """
SELECT class.relname, conname, pg_get_constraintdef(pg_constraint.oid, true)
FROM pg_constraint JOIN pg_class AS class ON class.oid = conrelid
WHERE contype = 'f' AND class.relnamespace = CAST(current_schema() AS regnamespace) ORDER BY 1, 2
"""
_COUNTING = """
SELECT class.relname, attname, pg_get_serial_sequence(quote_ident(class.relname), attname)
FROM pg_attribute JOIN pg_class AS class ON class.oid = attrelid
WHERE attidentity <> '' AND class.relnamespace = CAST(current_schema() AS regnamespace)
"""
_COLUMNS = """
SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped
"""
_ALIVE = """
SELECT coalesce(worker.name, worker_id) FROM process LEFT JOIN worker ON worker.id = worker_id
WHERE ended_at IS NULL AND lease_until > CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) ORDER BY 1
"""


class PostgresEnd(CopyEnd):
    """One database of a server, over a connection of its own."""

    takes_nul = False

    def __init__(self, address: str, *, now: Callable[[], datetime], target: bool = False) -> None:
        reach = ConnectionPool(address, now=now)
        self.place = reach.place
        self._closing = contextlib.ExitStack()
        self._closing.enter_context(translated(self.place))
        self._connection = self._closing.enter_context(reach.plain())
        for name, value in _SETTINGS.items():
            self.ask("SELECT set_config(?, ?, false)", name, value)
        if target and not self.ask("SELECT pg_try_advisory_lock(?, 1)", LOCK)[0][0]:
            self.close()
            raise DatabaseBusy(f"another move into {self.place} is under way", hint="wait for it")

    def ask(self, command: str, *values: Any) -> list[Row]:
        """Run a command with `?` for its values; return its rows."""
        with translated(self.place):
            cursor = self._connection.execute(command.replace("?", "%s").encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what is done meanwhile as one."""
        with self._connection.transaction():
            yield

    def hold(self) -> None:
        """Keep everybody else from writing, until `let_go`; what is read meanwhile is one snapshot."""
        self.ask("BEGIN ISOLATION LEVEL REPEATABLE READ")
        self.ask(f"LOCK TABLE {', '.join(table.name for table in tables())} IN SHARE MODE")

    def let_go(self, *, commit: bool) -> None:
        """End what `hold` began, and keep what was written since, or not."""
        self.ask("COMMIT" if commit else "ROLLBACK")

    def put(self, table: Table, rows: Sequence[Row]) -> None:
        """Insert rows, within a transaction."""
        command = f"COPY {table.name} ({listed(table.columns)}) FROM STDIN"
        with translated(self.place), self._connection.cursor() as cursor, cursor.copy(command.encode()) as copy:
            for row in rows:
                copy.write_row(row)

    def columns(self, table: Table) -> set[str]:
        """Return which columns a table has, none if there is no such table."""
        return {str(name) for (name,) in self.ask(_COLUMNS, table.name)}

    def last_numbers(self) -> dict[str, int]:
        """Return the last number that was given out for each table that counts its rows."""
        found = {}
        for table, _, sequence in self.ask(_COUNTING):
            last, called = self.ask(f"SELECT last_value, is_called FROM {sequence}")[0]
            found[str(table)] = int(last) if called else 0
        return found

    def give_after(self, numbers: Mapping[str, int]) -> None:
        """Let the tables that count their rows go on after these numbers, and after those that are there."""
        for table, column, sequence in self.ask(_COUNTING):
            highest = self.ask(f"SELECT max({column}) FROM {table}")[0][0] or 0
            last = max(highest, numbers.get(table, 0))
            if last:
                self.ask("SELECT setval(?, ?)", sequence, last)

    def loosen(self) -> list[str]:
        """Take the foreign keys off and the triggers out of work, which needs no more rights than an owner has."""
        ours = {table.name for table in tables()}
        mending = []
        for table, name, words in self.ask(_KEYS):
            if table in ours:
                self.ask(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
                mending.append(f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {words}')
        for table in sorted(ours):
            self.ask(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            mending.append(f"ALTER TABLE {table} ENABLE TRIGGER USER")
        return mending

    def has(self, name: str) -> bool:
        """Tell whether there is a table of this name."""
        return self.ask("SELECT to_regclass(?)", name)[0][0] is not None

    def alive(self) -> list[str]:
        """Return the workers whose leases say that they are at work."""
        return [str(name) for (name,) in self.ask(_ALIVE)]

    def close(self) -> None:
        """Let go of the database."""
        with contextlib.suppress(StateError):
            self._closing.close()
