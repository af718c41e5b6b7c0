"""The SQLite store, its backup, and the locks of processes on it."""

import contextlib
import errno
import fcntl
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import apsw
from msgspec import Struct

from rota.model.errors import DatabaseBusy, DatabaseCorrupt, DatabaseForeign, DatabaseReadOnly, StateError, StorageFull
from rota.store import driver
from rota.store.queries import load_queries

if TYPE_CHECKING:
    import asyncio

    from rota.store.tallies import Ended

T = TypeVar("T")

APPLICATION_ID = 0x726F7461  # "rota"
HEAD_BYTES = 100
MAGIC = b"SQLite format 3\0"
APPLICATION_ID_AT, CHANGES_AT, MARK_AT = slice(68, 72), slice(24, 28), slice(60, 64)
VERSIONS_AT, WAL = slice(18, 20), b"\x02\x02"
BUSY_STEP_SECONDS = 0.0005
BUSY_LIMIT_SECONDS = 5.0
CHECKPOINT_PAGES = 2_000
STATEMENTS = 500
"""Prepared statements of each connection: room for all queries; a scheduler uses more than 100."""
CACHE = -8_000
"""Page cache of each connection; SQLite reads a negative number as KiB."""

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FULL_HINT = "free disk space; rota continues by itself"
_OWNER_HINT = "check owner and mode of the file and its folder"
_PLACE_HINT = "check that the file exists and that you may write it and its folder"
DAMAGE_HINT = "nothing was changed; restore a backup, or move the file away to start empty"


class SqliteDatabase:
    """`Database` on one connection; the caller opens and ends the transaction. There is nothing to send.

    A prefetched query is answered at once, as a server would: statements that come between do not change the answer.
    """

    def __init__(self, connection: apsw.Connection, queries: dict[str, str]) -> None:
        self._connection = connection
        self._queries = queries
        self.counted: driver.Counts = {}
        self.ended: list[Ended] = []
        self.announces = False
        self.prefetched: dict[tuple[Any, ...], list[driver.Row]] = {}

    def rows(self, query: str, /, **params: Any) -> list[driver.Row]:
        if self.prefetched and (key := (query, *params.values())) in self.prefetched:
            return self.prefetched.pop(key)
        return self._connection.execute(self._queries[query], params).fetchall()

    def row(self, query: str, /, **params: Any) -> driver.Row | None:
        rows = self.rows(query, **params)
        return rows[0] if rows else None

    def execute(self, query: str, /, **params: Any) -> int:
        self._connection.execute(self._queries[query], params).fetchall()
        return self._connection.changes()

    def defer(self, query: str, /, **params: Any) -> None:
        self._connection.execute(self._queries[query], params).fetchall()

    def prefetch(self, query: str, /, **params: Any) -> None:
        self.prefetched[query, *params.values()] = self._connection.execute(self._queries[query], params).fetchall()

    def send(self) -> None:
        """Do nothing."""

    def prefetch_next(self) -> None:
        """Do nothing."""

    def records(self, query: str, /, **params: Any) -> list[dict[str, Any]]:
        cursor = self._connection.execute(self._queries[query], params)
        first = cursor.fetchone()
        if first is None:
            return []
        names = [column[0] for column in cursor.get_description()]
        return [dict(zip(names, row, strict=True)) for row in [first, *cursor.fetchall()]]


class SqliteStore:
    """`OpenStore` of one file. Each thread has a connection for reads and inline writes, the writer thread its own."""

    patient = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._queries = load_queries("sqlite")
        self._local = threading.local()
        self._opened: list[apsw.Connection] = []
        self._opened_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._writer: driver.Writer | None = None
        self._written: apsw.Connection | None = None
        self._checkpointer: _Checkpointer | None = None
        self._head: Head | None = None
        self._overwritten = False
        self.copied_to: Path | None = None

    @property
    def place(self) -> str:
        return str(self.path)

    @property
    def problem(self) -> None:
        return None

    def read(self, operation: driver.Operation[T]) -> T:
        connection = self._connection()
        with translated(self.path):
            connection.execute("BEGIN")
            try:
                return operation(SqliteDatabase(connection, self._queries))
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def write(self, operation: driver.Operation[T]) -> T:
        connection = self._connection()
        with self._write_lock, translated(self.path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                database = SqliteDatabase(connection, self._queries)
                value = operation(database)
                driver.store_counts(database)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        return value

    def submit(
        self,
        operation: driver.Operation[T],
        options: driver.WriteOptions = driver.PLAIN,
    ) -> "asyncio.Future[T]":
        """Hand `operation` to the writer thread. Of the options `on_precommit` has an effect: only the disk is slow."""
        with self._opened_lock:  # the event loops of the scheduler and of HTTP share the writer
            if self._writer is None:
                self._checkpointer = _Checkpointer(self.path, allowed=self._is_ours)
                self._writer = driver.Writer(self._commit, end=self._end_writer)
        return self._writer.submit(operation, options)

    def commits(self) -> Callable[[], int | None]:
        """Return a reader of SQLite's own number, on a connection that neither writes nor waits for a lock."""
        connection = connect(self.path)
        connection.set_busy_handler(None)
        with self._opened_lock:
            self._opened.append(connection)

        def read() -> int | None:
            try:
                version: Any = connection.execute("PRAGMA data_version").fetchall()[0][0]
            except apsw.Error:
                return None
            return int(version)

        return read

    @contextlib.asynccontextmanager
    async def listening(self, heard: Callable[[], None]) -> AsyncIterator[None]:
        """Do nothing: all users of the file are on this machine and wake each other through the state folder."""
        del heard
        yield

    def close(self) -> None:
        """Finish the submitted operations and close the database; do not touch a file that was overwritten."""
        self._overwritten = not self._is_ours()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._checkpointer is not None:
            self._checkpointer.close()
            self._checkpointer = None
        with self._opened_lock:
            for connection in self._opened:
                self._close(connection)
            self._opened.clear()
        self._local = threading.local()

    def relax(self) -> None:
        """Do not wait for the disk on this thread: the file is thrown away."""
        self._connection().execute("PRAGMA synchronous = OFF").fetchall()

    def keep(self, connection: apsw.Connection) -> None:
        """Use this connection on the calling thread."""
        self._head = self._head or read_head(self.path)
        self._local.connection = connection
        with self._opened_lock:
            self._opened.append(connection)

    def _connection(self) -> apsw.Connection:
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = connect(self.path)
            self.keep(connection)
        return connection

    def _end_writer(self) -> None:
        if self._written is not None:
            self._close(self._written)
            self._written = None

    def _is_ours(self) -> bool:
        """Return whether this is still the opened file: SQLite would mix its log into another one."""
        try:
            head = read_head(self.path)
        except StateError:
            return False
        return head is not None and (self._head is None or head.follows(self._head))

    def _close(self, connection: apsw.Connection) -> None:
        if self._overwritten:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close()

    def _writer_connection(self) -> apsw.Connection:
        connection = connect(self.path)
        connection.wal_autocheckpoint(0)
        assert self._checkpointer is not None
        connection.set_wal_hook(self._checkpointer.notice)
        return connection

    def _commit(self, batch: list[driver.Submitted]) -> list[driver.Done]:
        """Commit a batch as one transaction with a savepoint for each operation, so that a failure is isolated."""
        connection = self._written = self._written or self._writer_connection()
        database = SqliteDatabase(connection, self._queries)
        done: list[driver.Done] = []
        try:
            with self._write_lock, translated(self.path):
                connection.execute("BEGIN IMMEDIATE")
                done.extend(self._attempt(connection, database, item, alone=len(batch) == 1) for item in batch)
                driver.store_counts(database)
                driver.call_precommit(batch, done)
                connection.execute("COMMIT")
        except Exception as error:
            with contextlib.suppress(apsw.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            return driver.failed(batch, error)
        return done

    def _attempt(
        self, connection: apsw.Connection, database: SqliteDatabase, item: driver.Submitted, *, alone: bool
    ) -> driver.Done:
        if alone:
            return driver.Done(item.future, item.operation(database))
        connection.execute("SAVEPOINT operation")
        database.prefetched.clear()
        counted, ended = database.counted.copy(), len(database.ended)
        try:
            with translated(self.path):
                done = driver.Done(item.future, item.operation(database))
        except Exception as error:
            if not connection.in_transaction:
                raise  # full or broken disk: SQLite has rolled everything back, so all operations get this error
            connection.execute("ROLLBACK TO operation")
            database.counted = counted
            del database.ended[ended:]
            done = driver.Done(item.future, error=error)
        connection.execute("RELEASE operation")
        return done


class _Checkpointer:
    """Moves the write-ahead log into the database file, on its own thread and connection."""

    def __init__(self, path: Path, *, allowed: Callable[[], bool]) -> None:
        self._path = path
        self._allowed = allowed
        self._wanted: SimpleQueue[str] = SimpleQueue()
        self._pending = False
        self._thread = threading.Thread(target=self._run, name="rota-checkpoint", daemon=True)
        self._thread.start()

    def notice(self, _connection: apsw.Connection, _database: str, pages: int) -> int:
        """Request a checkpoint of a long log; called by SQLite after each commit."""
        if pages > CHECKPOINT_PAGES and not self._pending:
            self._pending = True
            self._wanted.put("checkpoint")
        return apsw.SQLITE_OK

    def close(self) -> None:
        """Stop the thread."""
        self._wanted.put("")
        self._thread.join()

    def _run(self) -> None:
        connection: apsw.Connection | None = None
        while self._wanted.get():
            try:
                connection = connection or connect(self._path)
                if self._allowed():
                    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            except (apsw.Error, StateError):
                pass  # the log only stays longer; the next commit requests it again
            self._pending = False
        if connection is not None:
            connection.close()


def connect(path: Path) -> apsw.Connection:
    """Open an existing database, set the pragmas that rota relies on and read them back."""
    check_application(path)
    with translated(path):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=STATEMENTS)
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def _prepare(connection: apsw.Connection, path: Path) -> None:
    if connection.readonly("main"):
        raise DatabaseReadOnly(f"the database {path} cannot be written", hint=_OWNER_HINT)
    connection.set_busy_handler(LockWait())
    _require(connection, path, "journal_mode", "wal")
    _require(connection, path, "synchronous", 2, value="FULL")
    _require(connection, path, "foreign_keys", 1, value="ON")
    # SQLite builds a small table for each longer IN list and RETURNING: 30 µs in a temporary file, 5 in memory.
    _require(connection, path, "temp_store", 2, value="MEMORY")
    # SQLite's default of 2 MB is too small for 500 lanes or a long queue; the cache fills only as needed.
    connection.execute(f"PRAGMA cache_size = {CACHE}").fetchall()
    # The scheduler's checkpointer moves the log; a process that writes alone does it at twice the size.
    connection.wal_autocheckpoint(2 * CHECKPOINT_PAGES)
    # Otherwise SQLite plans a statement again for new values: 22 µs instead of 4 at a partial index.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


class LockWait:
    """Retries a lock every half millisecond for five seconds: SQLite's back-off starves a second process."""

    def __init__(
        self, *, monotonic: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._monotonic = monotonic
        self._sleep = sleep
        self._until = 0.0

    def __call__(self, attempts: int) -> bool:
        """Sleep briefly; return False after the limit. A sleep takes up to twice its time, so the clock decides."""
        now = self._monotonic()
        if attempts == 0:
            self._until = now + BUSY_LIMIT_SECONDS
        self._sleep(BUSY_STEP_SECONDS)
        return now < self._until


def _require(connection: apsw.Connection, path: Path, name: str, expected: Any, *, value: str = "") -> None:
    connection.execute(f"PRAGMA {name} = {value or expected}").fetchall()
    got = connection.execute(f"PRAGMA {name}").fetchone()
    if got is None or got[0] != expected:
        raise StateError(
            f"the database {path} does not accept {name} = {expected}, it says {got[0] if got else 'nothing'}",
            hint="keep the state on a local disk: set `state:` or ROTA_STATE",
        )


def check_application(path: Path) -> None:
    """Refuse a file that rota did not create, by its head: opening it to write could roll it back or move its log.

    SQLite must read the head: closing our own descriptor would drop the locks of all connections to the file.
    """
    with reachable(path):
        size = path.stat().st_size
    if not os.access(path, os.R_OK | os.W_OK):
        raise DatabaseReadOnly(f"the database {path} cannot be read and written", hint=_OWNER_HINT)
    if 0 < size < HEAD_BYTES and path.is_file():  # a folder is this short on some systems
        raise DatabaseCorrupt(f"the database {path} is damaged ({size} bytes long)", hint=DAMAGE_HINT)
    head = read_head(path)
    if head is None or head.application_id != APPLICATION_ID:
        raise DatabaseForeign(
            f"{path} is {'a SQLite database' if size else 'an empty file'}, but not one of rota's",
            hint="name another state folder with `state:` or ROTA_STATE, or move that file away",
        )


class Head(Struct, frozen=True):
    """The first bytes of a database file without its log; SQLite changes them only at checkpoints."""

    application_id: int
    versions: bytes
    changes: int
    mark: int

    def follows(self, earlier: "Head", *, marks: Collection[int] = ()) -> bool:
        """Return whether a checkpoint may have made this head of an earlier one, with one of the `marks` if given."""
        if self.application_id != APPLICATION_ID or self.versions != WAL or self.changes < earlier.changes:
            return False
        return not marks or self.mark in marks


def read_head(path: Path) -> Head | None:
    """Read the head from the file, None if it is empty; an unfinished checkpoint may not have written the rest."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB
    with translated(path):
        file = apsw.VFSFile("", str(path), [flags, 0])
        try:
            head = file.xRead(HEAD_BYTES, 0) if file.xFileSize() else b""
        finally:
            file.xClose()
        if head and not head.startswith(MAGIC):
            raise apsw.NotADBError("file is not a database")
    if not head:
        return None
    numbers = (int.from_bytes(head[at], "big") for at in (APPLICATION_ID_AT, CHANGES_AT, MARK_AT))
    application_id, changes, mark = numbers
    return Head(application_id, head[VERSIONS_AT], changes, mark)


def mark_database(path: Path) -> int:
    """Write a new random number into the head of a database and return it."""
    mark = (int.from_bytes(os.urandom(4)) >> 1) or 1
    connection = connect(path)
    try:
        with translated(path):
            connection.execute(f"PRAGMA user_version = {mark}").fetchall()
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    finally:
        connection.close()
    return mark


@contextlib.contextmanager
def reachable(path: Path) -> Iterator[None]:
    """Turn an OSError about the file or its folder into a StateError with path and remedy."""
    try:
        yield
    except OSError as error:
        raise refusal(path, error) from error


def refusal(path: Path, error: OSError) -> StateError:
    """Return the StateError for an OSError about a file of the state folder."""
    if error.errno in NO_SPACE:
        return StorageFull(f"the disk of {path} is full", hint=_FULL_HINT)
    if error.errno in FORBIDDEN:
        return DatabaseReadOnly(
            f"{path} cannot be written ({(error.strerror or str(error)).lower()})", hint=_OWNER_HINT
        )
    return StateError(f"cannot use {path}: {(error.strerror or str(error)).lower()}", hint=_PLACE_HINT)


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn apsw's errors about the file into rota's, with path and remedy."""
    try:
        yield
    except apsw.FullError as error:
        raise StorageFull(f"the disk of {path} is full", hint=_FULL_HINT) from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise DatabaseCorrupt(f"the database {path} is damaged ({error})", hint=DAMAGE_HINT) from error
    except (apsw.ReadOnlyError, apsw.PermissionsError) as error:
        raise DatabaseReadOnly(f"the database {path} cannot be written ({error})", hint=_OWNER_HINT) from error
    except apsw.CantOpenError as error:
        raise StateError(f"cannot open the database {path}: {error}", hint=_PLACE_HINT) from error
    except apsw.BusyError as error:
        raise DatabaseBusy(
            f"the database {path} is locked by another process ({error})",
            hint="try again; `rota status` shows the process that uses it",
        ) from error
    except apsw.IOError as error:
        raise _input_output(path, error) from error
    except apsw.ConstraintError as error:
        invariant = driver.refused(str(error))
        if invariant is None:
            raise
        raise invariant from error
    except apsw.SQLError as error:
        if not str(error).startswith("no such"):
            raise
        raise DatabaseCorrupt(f"the database {path} differs from rota's schema ({error})", hint=DAMAGE_HINT) from error


def _input_output(path: Path, error: apsw.IOError) -> StateError:
    if getattr(error, "extendedresult", None) in (apsw.SQLITE_IOERR_SHMSIZE, apsw.SQLITE_IOERR_WRITE):
        return StorageFull(f"{path} cannot be written ({error}); the disk may be full", hint=_FULL_HINT)
    return StateError(f"reading or writing {path} failed ({error})", hint="check the disk and the file system")


LOCKS = "locks"


def process_lock_held(state: Path, name: str) -> bool:
    """Return whether the process of this lock is alive."""
    return is_held(state / LOCKS / name)


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock of this file; this works on a read-only disk too."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


BACKUP_PAGES = 256
PROGRESS_STEPS = 20_000
MAX_DAMAGES = 10


def copy_database(source: Path, target: Path) -> None:
    """Copy one snapshot of `source` to a new file `target` (0600); a failure leaves no file."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    with reachable(target):
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            with translated(target):
                _copy_pages(source, part)
            sync(part)
            part.rename(target)
            sync(target.parent)
        finally:
            part.unlink(missing_ok=True)


def _copy_pages(source: Path, part: Path) -> None:
    origin, copy = connect(source), apsw.Connection(str(part))
    try:
        # An open read transaction keeps one snapshot: otherwise a commit by another process restarts the copy.
        origin.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
        with copy.backup("main", origin, "main") as backup:
            while not backup.done:
                backup.step(BACKUP_PAGES)
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()
    finally:
        copy.close()
        origin.close()


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def quick_check(path: Path, *, stop: threading.Event | None = None) -> tuple[str, ...]:
    """Return the damages of a database, empty for none; `stop` ends a long check early."""
    connection = connect(path)
    try:
        if stop is not None:
            connection.set_progress_handler(stop.is_set, PROGRESS_STEPS)
        damages = [str(row[0]) for row in connection.execute(f"PRAGMA quick_check({MAX_DAMAGES})").fetchall()]
    except apsw.InterruptError:
        return ()
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return (str(error),)
    finally:
        connection.close()
    return () if damages == ["ok"] else tuple(damages)


def require_whole(path: Path) -> None:
    """Raise DatabaseCorrupt if a check of the whole database finds damage."""
    damage = quick_check(path)
    if damage:
        raise DatabaseCorrupt(f"the database {path} is damaged ({damage[0]})", hint=DAMAGE_HINT)
