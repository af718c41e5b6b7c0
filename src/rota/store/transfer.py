"""Copying a database from one backend to the other."""

import contextlib
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

from rota.model.amounts import counted
from rota.model.errors import DatabaseCorrupt
from rota.store.driver import Row
from rota.store.migrate import MADE_KEY, MOVED_FROM, MOVED_TO, MOVING_PREFIX, fresh_database
from rota.store.sqlite.store import connect
from rota.store.sqlite.store import translated as sqlite_errors_translated

BATCH_ROWS = 2_000
STAYS = frozenset({"migration", "change"})
"""Tables that are not copied: each database counts its own changes."""
_OWN_KEYS = (MADE_KEY, MOVED_TO, MOVED_FROM)
NUL, NO_NUL = "\0", "\N{REPLACEMENT CHARACTER}"
LEDGER = "moving"
_BEGUN = ""
"""The name of the ledger row of the whole copy."""


class Table(Struct, frozen=True):
    """A table to copy: its columns, its primary key, and the condition of the copied rows."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    kept: str = "1 = 1"


class PartialCopy(Struct, frozen=True):
    """An unfinished copy into a database: its source with row counts, and the commands that restore the schema."""

    source: str
    counts: Mapping[str, int]
    mending: Sequence[str] = ()


class Position(Struct, frozen=True):
    """The progress of a table: the last copied key, and the number of rows."""

    after: tuple[Any, ...]
    rows: int


class Unsettled(Struct, frozen=True):
    """The number of active runs, and of waiting or active direct calls."""

    runs: int
    calls: int


@cache
def tables() -> tuple[Table, ...]:
    """Return every table of this version in creation order, so that referenced tables come first."""
    with fresh_database() as fresh:
        names = [
            name for (name,) in fresh.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid")
        ]
        return tuple(_table(fresh, name) for name in names if name not in STAYS and not name.startswith("sqlite"))


@cache
def made_rows() -> dict[str, int]:
    """Return the number of rows of each table in a new database."""
    with fresh_database() as fresh:
        return {table.name: _number(fresh.execute(counting(table)).fetchall()) for table in tables()}


def _table(fresh: Any, name: str) -> Table:
    columns = fresh.execute("SELECT name, pk FROM pragma_table_info(?) ORDER BY cid", (name,)).fetchall()
    key = sorted((place, column) for column, place in columns if place)
    own = ", ".join(f"'{key}'" for key in _OWN_KEYS)
    kept = f"key NOT IN ({own})" if name == "meta" else "1 = 1"
    return Table(name, tuple(column for column, _ in columns), tuple(column for _, column in key), kept)


def counting(table: Table) -> str:
    """Return the statement that counts the rows of a table."""
    return f"SELECT count(*) FROM {table.name} WHERE {table.kept}"


def listed(columns: Sequence[str]) -> str:
    """Return quoted columns."""
    return ", ".join(f'"{column}"' for column in columns)


def cleaned(row: Row) -> Row:
    """Return a row with NUL characters replaced, which PostgreSQL does not accept.

    >>> cleaned((1, None, "a\\0b"))
    (1, None, 'a\ufffdb')
    """
    if not any(isinstance(value, str) and NUL in value for value in row):
        return row
    return tuple(value.replace(NUL, NO_NUL) if isinstance(value, str) else value for value in row)


class CopyEnd(ABC):
    """The source or the target of a copy. The source stays locked meanwhile, the target is written in batches."""

    place: str
    takes_nul: bool

    @abstractmethod
    def ask(self, command: str, *values: Any) -> list[Row]:
        """Run a command with `?` placeholders; return its rows."""

    @abstractmethod
    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """Open a transaction."""

    @abstractmethod
    def hold(self) -> None:
        """Block other writers until `release`, and read one snapshot."""

    @abstractmethod
    def release(self, *, commit: bool) -> None:
        """End the transaction of `hold` with a commit or a rollback."""

    @abstractmethod
    def put(self, table: Table, rows: Sequence[Row]) -> None:
        """Insert rows in the open transaction."""

    @abstractmethod
    def columns(self, table: Table) -> set[str]:
        """Return the columns of a table, empty if it does not exist."""

    @abstractmethod
    def last_numbers(self) -> dict[str, int]:
        """Return the last generated number of each table with a sequence."""

    @abstractmethod
    def give_after(self, numbers: Mapping[str, int]) -> None:
        """Continue the sequences after these numbers."""

    @abstractmethod
    def loosen(self) -> list[str]:
        """Disable foreign keys and triggers during the copy; return the commands that restore them."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Return whether a table exists."""

    @abstractmethod
    def close(self) -> None:
        """Close the database."""

    def schema(self) -> dict[int, str]:
        """Return the checksums of the applied migrations by number."""
        return {int(number): str(digest) for number, digest in self.ask("SELECT number, digest FROM migration")}

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each table."""
        return {table.name: _number(self.ask(counting(table))) for table in tables()}

    def note(self, key: str) -> str | None:
        """Return the value of a meta key."""
        rows = self.ask("SELECT value FROM meta WHERE key = ?", key)
        return str(rows[0][0]) if rows else None

    def set_note(self, key: str, value: str) -> None:
        """Set the value of a meta key."""
        self.ask("DELETE FROM meta WHERE key = ?", key)
        self.ask("INSERT INTO meta (key, value) VALUES (?, ?)", key, value)

    def unsettled(self) -> Unsettled:
        """Return the active work."""
        runs = self.ask("SELECT count(*) FROM live WHERE slot IS NOT NULL")
        calls = self.ask("SELECT count(*) FROM call WHERE finished_at IS NULL")
        return Unsettled(_number(runs), _number(calls) + _number(self.ask("SELECT count(*) FROM direct_wait")))

    def batch(self, table: Table, after: Sequence[Any] | None) -> list[Row]:
        """Return the next rows of a table after a key, in the order of its key."""
        key = listed(table.key)
        following = f" AND ({key}) > ({', '.join('?' * len(table.key))})" if after is not None else ""
        rows = f"SELECT {listed(table.columns)} FROM {table.name} WHERE {table.kept}{following}"
        return self.ask(f"{rows} ORDER BY {key} LIMIT {BATCH_ROWS}", *(after or ()))

    def batches(self, table: Table, after: Sequence[Any] | None = None) -> Iterator[list[Row]]:
        """Yield all rows of a table after a key."""
        places = [table.columns.index(column) for column in table.key]
        while rows := self.batch(table, after):
            yield rows
            after = [rows[-1][place] for place in places]

    def digest(self, table: Table, *, clean: bool) -> Iterator[tuple[int, str]]:
        """Yield the number of rows read so far and their checksum, which does not depend on the backend."""
        digest, count = hashlib.sha256(), 0
        for rows in self.batches(table):
            for row in rows:
                digest.update(json.dumps(cleaned(row) if clean else row, ensure_ascii=False).encode())
            count += len(rows)
            yield count, digest.hexdigest()
        yield count, digest.hexdigest()

    def begun(self) -> PartialCopy | None:
        """Return the unfinished copy into this database, None for none."""
        if not self.has(LEDGER):
            return None
        rows = self.ask(f"SELECT after FROM {LEDGER} WHERE name = ?", _BEGUN)
        return PartialCopy(**json.loads(rows[0][0]))

    def moved_from(self) -> PartialCopy | None:
        """Return the finished copy that filled this database, None for none."""
        note = self.note(MOVED_FROM)
        return PartialCopy(**json.loads(note)) if note is not None else None

    def positions(self) -> dict[str, Position]:
        """Return the progress of each table."""
        ledger = self.ask(f"SELECT name, after, rows FROM {LEDGER} WHERE name <> ?", _BEGUN)
        return {name: Position(tuple(json.loads(after)), rows) for name, after, rows in ledger}

    def begin(self, source: str, counts: Mapping[str, int]) -> None:
        """Start a copy; the database cannot be opened before it is finished."""
        with self.transaction():
            self.ask(f"CREATE TABLE {LEDGER} (name TEXT PRIMARY KEY, after TEXT NOT NULL, rows BIGINT NOT NULL)")
            begun = {"source": source, "counts": dict(counts), "mending": self.loosen()}
            self.ask(f"INSERT INTO {LEDGER} (name, after, rows) VALUES (?, ?, 0)", _BEGUN, json.dumps(begun))
            self.ask(f"UPDATE migration SET digest = '{MOVING_PREFIX}' || digest")
            self._empty()

    def begin_anew(self, counts: Mapping[str, int]) -> None:
        """Delete the copied rows and start again."""
        begun = self.begun()
        assert begun is not None
        again = {"source": begun.source, "counts": dict(counts), "mending": list(begun.mending)}
        with self.transaction():
            self._empty()
            self.ask(f"DELETE FROM {LEDGER} WHERE name <> ?", _BEGUN)
            self.ask(f"UPDATE {LEDGER} SET after = ? WHERE name = ?", json.dumps(again), _BEGUN)

    def remember(self, table: Table, position: Position) -> None:
        """Store the progress of a table in the transaction of its rows."""
        self.ask(f"DELETE FROM {LEDGER} WHERE name = ?", table.name)
        after = json.dumps(position.after)
        self.ask(f"INSERT INTO {LEDGER} (name, after, rows) VALUES (?, ?, ?)", table.name, after, position.rows)

    def finish(self, numbers: Mapping[str, int]) -> None:
        """Restore the schema, so that the database can be opened."""
        begun = self.begun()
        assert begun is not None
        with self.transaction():
            self.give_after(numbers)
            for command in begun.mending:
                self.ask(command)
            self.ask(f"DROP TABLE {LEDGER}")
            self.set_note(MOVED_FROM, json.dumps({"source": begun.source, "counts": dict(begun.counts)}))
            self.ask(f"UPDATE migration SET digest = replace(digest, '{MOVING_PREFIX}', '')")

    def _empty(self) -> None:
        for table in reversed(tables()):
            self.ask(f"DELETE FROM {table.name} WHERE {table.kept}")


def _number(rows: Sequence[Sequence[Any]]) -> int:
    return int(rows[0][0])


class SqliteEnd(CopyEnd):
    """A SQLite file. A target has foreign keys and triggers switched off."""

    takes_nul = True

    def __init__(self, path: Path, *, target: bool = False) -> None:
        self.place = str(path)
        self._path = path
        self._connection = connect(path)
        if target:
            self._connection.execute("PRAGMA foreign_keys = OFF").fetchall()
            self._connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)

    def ask(self, command: str, *values: Any) -> list[Row]:
        with sqlite_errors_translated(self._path):
            return self._connection.execute(command, values).fetchall()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        self.ask("BEGIN IMMEDIATE")
        try:
            yield
            self.ask("COMMIT")
        except BaseException:
            self.release(commit=False)
            raise

    def hold(self) -> None:
        self.ask("BEGIN IMMEDIATE")

    def release(self, *, commit: bool) -> None:
        if self._connection.in_transaction:
            self.ask("COMMIT" if commit else "ROLLBACK")

    def put(self, table: Table, rows: Sequence[Row]) -> None:
        places = ", ".join("?" * len(table.columns))
        with sqlite_errors_translated(self._path):
            self._connection.executemany(
                f"INSERT INTO {table.name} ({listed(table.columns)}) VALUES ({places})", rows
            ).fetchall()

    def columns(self, table: Table) -> set[str]:
        return {str(name) for (name,) in self.ask("SELECT name FROM pragma_table_info(?)", table.name)}

    def last_numbers(self) -> dict[str, int]:
        return {str(name): int(last) for name, last in self.ask("SELECT name, seq FROM sqlite_sequence")}

    def give_after(self, numbers: Mapping[str, int]) -> None:
        """Continue the sequences after these numbers, then check all foreign keys."""
        for name, _ in self.ask("SELECT name, sql FROM sqlite_schema WHERE sql LIKE '%AUTOINCREMENT%'"):
            if name in numbers:
                self.ask("DELETE FROM sqlite_sequence WHERE name = ?", name)
                self.ask("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", name, numbers[name])
        broken = self.ask("PRAGMA foreign_key_check")
        if broken:
            raise DatabaseCorrupt(
                f"{counted(len(broken), 'row')} with a broken reference, the first in the table {broken[0][0]}",
                hint="`rota verify` on the source names them",
            )

    def loosen(self) -> list[str]:
        """Return no commands: keys and triggers are off for this connection only."""
        return []

    def has(self, name: str) -> bool:
        return bool(self.ask("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", name))

    def close(self) -> None:
        self._connection.close()
