"""Copying a database from one backend to the other."""

import contextlib
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import apsw

from rota.model.amounts import counted
from rota.model.errors import DatabaseCorrupt
from rota.store.driver import Row
from rota.store.migrate import HISTORY, MADE_KEY, MOVING_PREFIX
from rota.store.queries import load_migrations
from rota.store.sqlite.store import connect
from rota.store.sqlite.store import translated as sqlite_errors_translated

BATCH = 2_000
MOVED_TO, MOVED_FROM = "moved_to", "moved_from"
STAYS = frozenset({"migration", "change"})
"""Tables that belong to a database itself. The numbers of changes are counted in each in its own way."""
_OWN_KEYS = (MADE_KEY, MOVED_TO, MOVED_FROM)
NUL, NO_NUL = "\0", "\N{REPLACEMENT CHARACTER}"
LEDGER = "moving"
_BEGUN = ""
"""The name of the line of the ledger that is about the whole move."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table that is moved: its columns, those of its primary key, and which rows of it."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    kept: str = "1 = 1"


@dataclass(frozen=True, slots=True)
class PartialCopy:
    """A move that was begun into a database: where from, how much was there, how to make the database whole again."""

    source: str
    counts: Mapping[str, int]
    mending: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Position:
    """How far a table was copied: the last key, and how many rows."""

    after: tuple[Any, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class Unsettled:
    """What is under way in a database: runs, and direct calls that wait or run."""

    runs: int
    calls: int


@cache
def tables() -> tuple[Table, ...]:
    """Return every table of this version, those that others point at first, as its migrations make them."""
    with _fresh() as fresh:
        names = [
            name for (name,) in fresh.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid")
        ]
        return tuple(_table(fresh, name) for name in names if name not in STAYS and not name.startswith("sqlite"))


@cache
def made_rows() -> dict[str, int]:
    """Return how many rows each table has in a database that nobody used yet."""
    with _fresh() as fresh:
        return {table.name: _number(fresh.execute(counting(table)).fetchall()) for table in tables()}


@contextlib.contextmanager
def _fresh() -> Iterator[Any]:
    connection = apsw.Connection(":memory:")
    try:
        connection.execute(HISTORY).fetchall()
        for _, _, script in load_migrations("sqlite"):
            connection.execute(script).fetchall()
        yield connection
    finally:
        connection.close()


def _table(fresh: Any, name: str) -> Table:
    columns = fresh.execute("SELECT name, pk FROM pragma_table_info(?) ORDER BY cid", (name,)).fetchall()
    key = sorted((place, column) for column, place in columns if place)
    own = ", ".join(f"'{one}'" for one in _OWN_KEYS)
    kept = f"key NOT IN ({own})" if name == "meta" else "1 = 1"
    return Table(name, tuple(column for column, _ in columns), tuple(column for _, column in key), kept)


def counting(table: Table) -> str:
    """Return the question for how many rows a table has."""
    return f"SELECT count(*) FROM {table.name} WHERE {table.kept}"


def listed(columns: Sequence[str]) -> str:
    """Return columns as SQL takes them, whatever words they are."""
    return ", ".join(f'"{column}"' for column in columns)


def cleaned(row: Row) -> Row:
    """Return a row without the one character that PostgreSQL does not take.

    >>> cleaned((1, None, "a\\0b"))
    (1, None, 'a\ufffdb')
    """
    if not any(isinstance(value, str) and NUL in value for value in row):
        return row
    return tuple(value.replace(NUL, NO_NUL) if isinstance(value, str) else value for value in row)


class CopyEnd(ABC):
    """One end of a move. The source is held for as long as the move takes, the target written batch by batch."""

    place: str
    takes_nul: bool

    @abstractmethod
    def ask(self, command: str, *values: Any) -> list[Row]:
        """Run a command with `?` for its values; return its rows."""

    @abstractmethod
    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """Commit what is done meanwhile as one."""

    @abstractmethod
    def hold(self) -> None:
        """Keep everybody else from writing, until `let_go`; what is read meanwhile is one snapshot."""

    @abstractmethod
    def let_go(self, *, commit: bool) -> None:
        """End what `hold` began, and keep what was written since, or not."""

    @abstractmethod
    def put(self, table: Table, rows: Sequence[Row]) -> None:
        """Insert rows, within a transaction."""

    @abstractmethod
    def columns(self, table: Table) -> set[str]:
        """Return which columns a table has, none if there is no such table."""

    @abstractmethod
    def last_numbers(self) -> dict[str, int]:
        """Return the last number that was given out for each table that counts its rows."""

    @abstractmethod
    def give_after(self, numbers: Mapping[str, int]) -> None:
        """Let the tables that count their rows go on after these numbers."""

    @abstractmethod
    def loosen(self) -> list[str]:
        """Take off what would refuse or answer rows that come one by one; return the commands that put it back."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Tell whether there is a table of this name."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the database."""

    def schema(self) -> dict[int, str]:
        """Return the migrations that were applied: number and checksum."""
        return {int(number): str(digest) for number, digest in self.ask("SELECT number, digest FROM migration")}

    def counts(self) -> dict[str, int]:
        """Return how many rows each table has."""
        return {table.name: _number(self.ask(counting(table))) for table in tables()}

    def note(self, key: str) -> str | None:
        """Return what the database says of itself under this key."""
        found = self.ask("SELECT value FROM meta WHERE key = ?", key)
        return str(found[0][0]) if found else None

    def set_note(self, key: str, value: str) -> None:
        """Let the database say something of itself."""
        self.ask("DELETE FROM meta WHERE key = ?", key)
        self.ask("INSERT INTO meta (key, value) VALUES (?, ?)", key, value)

    def unsettled(self) -> Unsettled:
        """Return what is under way."""
        runs = self.ask("SELECT count(*) FROM run WHERE status IN ('DISPATCHED', 'RUNNING') AND lane_id <> 0")
        calls = self.ask("SELECT count(*) FROM execution WHERE run_id IS NULL AND finished_at IS NULL")
        return Unsettled(_number(runs), _number(calls) + _number(self.ask("SELECT count(*) FROM direct_wait")))

    def batch(self, table: Table, after: Sequence[Any] | None) -> list[Row]:
        """Return the next rows of a table behind a key, in the order of its key."""
        key = listed(table.key)
        behind = f" AND ({key}) > ({', '.join('?' * len(table.key))})" if after is not None else ""
        command = (
            f"SELECT {listed(table.columns)} FROM {table.name} WHERE {table.kept}{behind} ORDER BY {key} LIMIT {BATCH}"
        )
        return self.ask(command, *(after or ()))

    def batches(self, table: Table, after: Sequence[Any] | None = None) -> Iterator[list[Row]]:
        """Yield all rows of a table behind a key."""
        places = [table.columns.index(column) for column in table.key]
        while rows := self.batch(table, after):
            yield rows
            after = [rows[-1][place] for place in places]

    def digest(self, table: Table, *, clean: bool) -> Iterator[tuple[int, str]]:
        """Yield the number of rows read so far and their checksum, written the same way for every database."""
        found, count = hashlib.sha256(), 0
        for rows in self.batches(table):
            for row in rows:
                found.update(json.dumps(cleaned(row) if clean else row, ensure_ascii=False).encode())
            count += len(rows)
            yield count, found.hexdigest()
        yield count, found.hexdigest()

    def begun(self) -> PartialCopy | None:
        """Return the move that was begun into this database and is not finished."""
        if not self.has(LEDGER):
            return None
        found = self.ask(f"SELECT after FROM {LEDGER} WHERE name = ?", _BEGUN)
        return PartialCopy(**json.loads(found[0][0]))

    def moved_from(self) -> PartialCopy | None:
        """Return the finished move that made this database what it is, None where none did."""
        found = self.note(MOVED_FROM)
        return PartialCopy(**json.loads(found)) if found is not None else None

    def positions(self) -> dict[str, Position]:
        """Return how far each table was copied."""
        found = self.ask(f"SELECT name, after, rows FROM {LEDGER} WHERE name <> ?", _BEGUN)
        return {name: Position(tuple(json.loads(after)), rows) for name, after, rows in found}

    def begin(self, source: str, counts: Mapping[str, int]) -> None:
        """Note that a move begins: until it is finished, nobody opens this database."""
        with self.transaction():
            self.ask(f"CREATE TABLE {LEDGER} (name TEXT PRIMARY KEY, after TEXT NOT NULL, rows BIGINT NOT NULL)")
            begun = {"source": source, "counts": dict(counts), "mending": self.loosen()}
            self.ask(f"INSERT INTO {LEDGER} (name, after, rows) VALUES (?, ?, 0)", _BEGUN, json.dumps(begun))
            self.ask(f"UPDATE migration SET digest = '{MOVING_PREFIX}' || digest")
            self._empty()

    def begin_anew(self, counts: Mapping[str, int]) -> None:
        """Forget what was copied, and begin again."""
        begun = self.begun()
        assert begun is not None
        again = {"source": begun.source, "counts": dict(counts), "mending": list(begun.mending)}
        with self.transaction():
            self._empty()
            self.ask(f"DELETE FROM {LEDGER} WHERE name <> ?", _BEGUN)
            self.ask(f"UPDATE {LEDGER} SET after = ? WHERE name = ?", json.dumps(again), _BEGUN)

    def remember(self, table: Table, position: Position) -> None:
        """Note how far a table was copied, in the transaction of its rows."""
        self.ask(f"DELETE FROM {LEDGER} WHERE name = ?", table.name)
        after = json.dumps(position.after)
        self.ask(f"INSERT INTO {LEDGER} (name, after, rows) VALUES (?, ?, ?)", table.name, after, position.rows)

    def finish(self, numbers: Mapping[str, int]) -> None:
        """Put back what was taken off, and let the database be opened."""
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
        with sqlite_errors_translated(self._path):
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
        with sqlite_errors_translated(self._path):
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
                f"{counted(len(broken), 'row')} with a broken reference, the first in the table {broken[0][0]}",
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
