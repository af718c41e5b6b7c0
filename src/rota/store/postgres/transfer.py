"""A PostgreSQL database as source or target of a copy."""

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
    """A PostgreSQL database on its own connection."""

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
            raise DatabaseBusy(f"another migration to {self.place} is in progress", hint="wait for it")

    def ask(self, command: str, *values: Any) -> list[Row]:
        with translated(self.place):
            cursor = self._connection.execute(command.replace("?", "%s").encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._connection.transaction():
            yield

    def hold(self) -> None:
        self.ask("BEGIN ISOLATION LEVEL REPEATABLE READ")
        self.ask(f"LOCK TABLE {', '.join(table.name for table in tables())} IN SHARE MODE")

    def release(self, *, commit: bool) -> None:
        self.ask("COMMIT" if commit else "ROLLBACK")

    def put(self, table: Table, rows: Sequence[Row]) -> None:
        command = f"COPY {table.name} ({listed(table.columns)}) FROM STDIN"
        with translated(self.place), self._connection.cursor() as cursor, cursor.copy(command.encode()) as copy:
            for row in rows:
                copy.write_row(row)

    def columns(self, table: Table) -> set[str]:
        return {str(name) for (name,) in self.ask(_COLUMNS, table.name)}

    def last_numbers(self) -> dict[str, int]:
        numbers = {}
        for table, _, sequence in self.ask(_COUNTING):
            last, called = self.ask(f"SELECT last_value, is_called FROM {sequence}")[0]
            numbers[str(table)] = int(last) if called else 0
        return numbers

    def give_after(self, numbers: Mapping[str, int]) -> None:
        """Continue the sequences after these numbers and after the existing rows."""
        for table, column, sequence in self.ask(_COUNTING):
            highest = self.ask(f"SELECT max({column}) FROM {table}")[0][0] or 0
            last = max(highest, numbers.get(table, 0))
            if last:
                self.ask("SELECT setval(?, ?)", sequence, last)

    def loosen(self) -> list[str]:
        """Drop the foreign keys and disable the triggers; the owner of the tables may do so."""
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
        return self.ask("SELECT to_regclass(?)", name)[0][0] is not None

    def alive(self) -> list[str]:
        """Return the workers with valid leases."""
        return [str(name) for (name,) in self.ask(_ALIVE)]

    def close(self) -> None:
        with contextlib.suppress(StateError):
            self._closing.close()
