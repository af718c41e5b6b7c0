"""A SQLite file as one end of a move."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw

from rota.model.errors import DatabaseCorrupt
from rota.store.driver import Row
from rota.store.moving import End, Table, listed
from rota.store.sqlite import connect, translated


class SqliteEnd(End):
    """One file. As the target it has no use for triggers and keys until all rows are there."""

    takes_nul = True

    def __init__(self, path: Path, *, target: bool = False) -> None:
        self.place = str(path)
        self._path = path
        self._connection = connect(path)
        if target:
            self._connection.execute("PRAGMA foreign_keys = OFF").fetchall()
            self._connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)

    def ask(self, command: str, *values: Any) -> list[Row]:
        """Run a command with `?` for its values; return its rows."""
        with translated(self._path):
            return self._connection.execute(command, values).fetchall()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what is done meanwhile as one."""
        self.ask("BEGIN IMMEDIATE")
        try:
            yield
            self.ask("COMMIT")
        except BaseException:
            self.let_go(commit=False)
            raise

    def hold(self) -> None:
        """Keep everybody else from writing, until `let_go`; what is read meanwhile is one snapshot."""
        self.ask("BEGIN IMMEDIATE")

    def let_go(self, *, commit: bool) -> None:
        """End what `hold` began, and keep what was written since, or not."""
        if self._connection.in_transaction:
            self.ask("COMMIT" if commit else "ROLLBACK")

    def put(self, table: Table, rows: Sequence[Row]) -> None:
        """Insert rows, within a transaction."""
        places = ", ".join("?" * len(table.columns))
        with translated(self._path):
            self._connection.executemany(
                f"INSERT INTO {table.name} ({listed(table.columns)}) VALUES ({places})", rows
            ).fetchall()

    def columns(self, table: Table) -> set[str]:
        """Return which columns a table has, none if there is no such table."""
        return {str(name) for (name,) in self.ask("SELECT name FROM pragma_table_info(?)", table.name)}

    def last_numbers(self) -> dict[str, int]:
        """Return the last number that was given out for each table that counts its rows and gives none out again."""
        return {str(name): int(last) for name, last in self.ask("SELECT name, seq FROM sqlite_sequence")}

    def give_after(self, numbers: Mapping[str, int]) -> None:
        """Let the tables that count their rows go on after these numbers; the keys of all rows must be there by now."""
        for name, _ in self.ask("SELECT name, sql FROM sqlite_schema WHERE sql LIKE '%AUTOINCREMENT%'"):
            if name in numbers:
                self.ask("DELETE FROM sqlite_sequence WHERE name = ?", name)
                self.ask("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", name, numbers[name])
        broken = self.ask("PRAGMA foreign_key_check")
        if broken:
            raise DatabaseCorrupt(
                f"{len(broken)} rows point at rows that are not there, the first in the table {broken[0][0]}",
                hint="`rota verify` on the source tells which",
            )

    def loosen(self) -> list[str]:
        """Take nothing off: keys and triggers are off for this connection alone."""
        return []

    def has(self, name: str) -> bool:
        """Tell whether there is a table of this name."""
        return bool(self.ask("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", name))

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()
