"""A connection that sends commands ahead of their answers (libpq pipeline mode), and its errors."""

import contextlib
import itertools
import os
import re
import select
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum, auto
from typing import Any, NamedTuple

import psycopg
from msgspec import Struct
from psycopg import errors
from psycopg.adapt import AdaptersMap, Loader, Transformer
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, PipelineStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.types.numeric import FloatLoader, IntLoader
from psycopg.types.string import TextLoader

from rota.model.errors import DatabaseBusy, DatabaseCorrupt, DatabaseReadOnly, StateError, StorageFull
from rota.store.driver import Row, refused

INT8, TEXT, FLOAT8, UNKNOWN = 20, 25, 701, 0
BOOL, INT2, INT4, FLOAT4, NUMERIC = 16, 21, 23, 700, 1700
NUL, NO_NUL = "\0", "\N{REPLACEMENT CHARACTER}"
"""PostgreSQL's texts accept every character but NUL."""

_PARAMETER = re.compile(r"(?<![:\w]):([a-z_][a-z_0-9]*)")
_COMMENT = re.compile(r"--[^\n]*")
LOST_CLASSES = ("08", "57P")
_CONFLICTS = ("40001", "40P01")


class ConnectionLost(Exception):
    """The connection is lost; uncommitted changes are rolled back."""


class Conflict(Exception):
    """A serialization failure or deadlock rolled the transaction back: it may run again."""


class Statement(Struct, frozen=True):
    """A command in PostgreSQL's form: its text with $1, $2, and the names of the parameters."""

    text: bytes
    names: tuple[str, ...] = ()


def statement(sql: str) -> Statement:
    """Return a command with `:name` parameters in PostgreSQL's form; empty for comments only.

    >>> statement("SELECT :a::bigint, :b, :a -- why")
    Statement(text=b'SELECT $1::bigint, $2, $1', names=('a', 'b'))
    """
    bare = _COMMENT.sub("", sql).strip()
    names: dict[str, int] = {}
    text = _PARAMETER.sub(lambda match: f"${names.setdefault(match[1], len(names) + 1)}", bare)
    return Statement(text.encode(), tuple(names))


class _Kind(Enum):
    """The kind of a result without a reader. SYNC: the mark after the commands that were sent together."""

    IGNORED = auto()
    TRANSACTION = auto()
    SYNC = auto()


class _Preparing(NamedTuple):
    """A statement whose preparation under a name is not confirmed yet."""

    key: tuple[bytes, tuple[int, ...]]
    name: bytes


class PendingResult:
    """The result of a sent command; None until it is read."""

    __slots__ = ("result",)

    def __init__(self) -> None:
        self.result: PGresult | None = None


IGNORED, TRANSACTION, SYNC = _Kind
FATAL, TUPLES, DONE = ExecStatus.FATAL_ERROR, ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK
NOTHING: Mapping[str, Any] = {}

REPLAN_AFTER = timedelta(seconds=2)
"""The lifetime of a plan: a plan for a short queue would scan a long one."""
_FORGET_PLANS = Statement(b"DEALLOCATE ALL")
"""Not DISCARD PLANS: the server would keep the costs of smaller tables, and finally plan every time."""
_ASK_TRANSACTION = Statement(b"SELECT pg_current_xact_id_if_assigned()")


class _ErrorGuard:
    """Translates errors during communication; a generator-based context manager would cost more than a command."""

    __slots__ = ("_connection",)

    def __init__(self, connection: PGconn) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Raise ConnectionLost for a connection error; close the connection after another error halfway."""
        if isinstance(error, psycopg.OperationalError):
            raise ConnectionLost(str(error).strip()) from error
        if error is not None and not isinstance(error, KeyError | TypeError | ConnectionLost):
            self._connection.finish()


class PipelineConnection:
    """One connection, used by one thread at a time, always in pipeline mode.

    Commands are queued until an answer is needed or `send` is called. Answers are read in order and only as far as
    needed, while the server works on. Each batch ends with a sync, after which the server is idle: its timeout then
    ends the transaction of a stopped client.
    """

    def __init__(self, owner: "psycopg.Connection[Any]", *, now: Callable[[], datetime]) -> None:
        self._owner = owner
        self._connection = connection = owner.pgconn
        self._speaking = _ErrorGuard(connection)
        self.pid = connection.backend_pid
        self.id = os.urandom(12).hex()
        self.commits = 0
        """The number of attempted commits; with `id` it identifies the last one."""
        self.socket = connection.socket
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)
        self._prepared: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        self._names = itertools.count()
        self._due: deque[_Kind | PendingResult | _Preparing] = deque()
        """The expected results, in order."""
        self._waiting = False
        """Whether commands are queued."""
        self._abandoned = 0
        """The number of expected results to ignore."""
        self._now = now
        self._planned_at = now()
        self.writing = False
        self.transaction: str | None = None
        """The number of the transaction after its first write."""
        self.owes = False
        """Whether a sent command may have written."""
        connection.enter_pipeline_mode()

    @property
    def broken(self) -> bool:
        """Whether the connection is unusable."""
        return self._connection.status != ConnStatus.OK or self._connection.pipeline_status == PipelineStatus.OFF

    def begin(self, command: Statement, *, writing: bool) -> None:
        """Begin a transaction; the command is sent with the next one."""
        now = self._now()
        if abs(now - self._planned_at) > REPLAN_AFTER:
            self._planned_at = now
            self.leave(_FORGET_PLANS)
            self._prepared.clear()
        self.writing, self.transaction, self.owes = writing, None, False
        self.later(command)

    def later(self, command: Statement) -> None:
        """Queue a command and ignore its result."""
        with self._speaking:
            self._queue(command, NOTHING, IGNORED)

    def defer(self, command: Statement, params: Mapping[str, Any]) -> None:
        """Queue a command; a later answer reports its failure."""
        self._ask(command, params, IGNORED)

    def ahead(self, command: Statement, params: Mapping[str, Any]) -> PendingResult:
        """Queue a command and return its pending result."""
        awaited = PendingResult()
        self._ask(command, params, awaited)
        return awaited

    def run(self, command: Statement, params: Mapping[str, Any]) -> PGresult:
        """Send the queued commands and this one; return its result."""
        return self.answer(self.ahead(command, params))

    def answer(self, awaited: PendingResult) -> PGresult:
        """Wait for the result of a command; the server may still work on later ones."""
        if awaited.result is None:
            with self._speaking:
                self._flush()
                error = self._read(awaited)
            self._refuse(error)
        assert awaited.result is not None
        return awaited.result

    def send(self) -> None:
        """Send the queued commands."""
        with self._speaking:
            self._flush()

    def wrote(self) -> bool:
        """Return whether the transaction has written."""
        if self.owes and self.transaction is None:
            self.settle()
        return self.transaction is not None

    def settle(self) -> None:
        """Send the queued commands and check all results."""
        with self._speaking:
            self._flush()
            error = self._read(None)
        self._refuse(error)
        self.owes = False

    def leave(self, command: Statement) -> None:
        """Send a command and ignore all results so far; they are read with the next answer."""
        self.writing = False
        with self._speaking:
            self._flush()  # apart: after a failure the server skips the rest of a batch
            self._queue(command, NOTHING, IGNORED)
            self._flush()
        for due in self._due:
            if isinstance(due, _Preparing):
                self._unprepare(due)  # its result is not checked before its next use
        self._abandoned = len(self._due)

    def announced(self) -> bool:
        """Read the server's notifications; return whether there were any."""
        heard = False
        with self._speaking:
            self._connection.consume_input()
            while self._connection.notifies() is not None:
                heard = True
        return heard

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back."""
        self._owner.close()

    def _ask(self, command: Statement, params: Mapping[str, Any], kind: "_Kind | PendingResult") -> None:
        with self._speaking:
            self._queue(command, params, kind)
        self.owes = True

    def _queue(self, command: Statement, params: Mapping[str, Any], kind: _Kind | PendingResult) -> None:
        values, types = _encoded(command.names, params)
        key = (command.text, types)
        name = self._prepared.get(key)
        if name is None:
            name = self._prepared[key] = b"rota%d" % next(self._names)
            self._connection.send_prepare(name, command.text, types)
            self._due.append(_Preparing(key, name))
        self._connection.send_query_prepared(name, values)
        self._due.append(kind)
        self._waiting = True

    def _flush(self) -> None:
        """Send the queued commands; wait for a full socket without blocking other threads."""
        if not self._waiting:
            return
        if self.writing and self.transaction is None:
            self._queue(_ASK_TRANSACTION, NOTHING, TRANSACTION)
        connection = self._connection
        connection.pipeline_sync()
        self._due.append(SYNC)
        self._waiting = False
        while connection.flush():
            self._poll.modify(self.socket, select.POLLIN | select.POLLOUT)
            self._poll.poll()
            connection.consume_input()
            self._poll.modify(self.socket, select.POLLIN)

    def _read(self, awaited: PendingResult | None) -> PGresult | None:
        """Read until a result is there, or all of them; return the first error after reading the whole batch."""
        error: PGresult | None = None
        while self._due and (error is not None or awaited is None or awaited.result is None):
            failed = self._read_next()
            error = failed if error is None else error
        return error

    def _read_next(self) -> PGresult | None:
        """Read the next expected result; return it if it is an error that is not ignored."""
        kind, minded = self._due.popleft(), not self._abandoned
        self._abandoned -= not minded
        result = self._result()
        status = result.status
        if kind is SYNC:
            return None
        if status == FATAL and _state(result) is None:
            raise _failure(result)  # the connection ended: no sync follows
        self._result_or_none()
        if isinstance(kind, PendingResult):
            kind.result = result
        elif isinstance(kind, _Preparing) and status != DONE:
            self._unprepare(kind)  # it failed, or was skipped after another failure
        elif kind is TRANSACTION and minded and status == TUPLES:
            value = result.get_value(0, 0)
            self.transaction = value.decode() if value is not None else None
        return result if status == FATAL and minded else None

    def _unprepare(self, unsure: _Preparing) -> None:
        """Prepare a statement again at its next use."""
        if self._prepared.get(unsure.key) == unsure.name:
            del self._prepared[unsure.key]

    def _result(self) -> PGresult:
        result = self._result_or_none()
        if result is None:
            raise ConnectionLost("the server's answers are out of order")
        return result

    def _result_or_none(self) -> PGresult | None:
        """Return the next result, None at the end of a command."""
        connection = self._connection
        while connection.is_busy():
            self._poll.poll()
            connection.consume_input()
        return connection.get_result()

    @staticmethod
    def _refuse(error: PGresult | None) -> None:
        if error is not None:
            raise _failure(error)


def _encoded(names: tuple[str, ...], params: Mapping[str, Any]) -> tuple[list[bytes | None] | None, tuple[int, ...]]:
    if not names:
        return None, ()
    values: list[bytes | None] = []
    types: list[int] = []
    for name in names:
        value = params[name]
        if value is None:
            types.append(UNKNOWN)
            values.append(None)
        elif isinstance(value, str):
            types.append(TEXT)
            values.append((value.replace(NUL, NO_NUL) if NUL in value else value).encode())
        elif isinstance(value, int):
            types.append(INT8)
            values.append(b"%d" % value)
        elif isinstance(value, float):
            types.append(FLOAT8)
            values.append(repr(value).encode())
        else:
            raise TypeError(f"{name} is a {type(value).__name__}, which no column takes")
    return values, tuple(types)


class _Number(Loader):
    """Loads numeric, which the server uses for sums of integers."""

    def load(self, data: Any) -> int | float:
        number = Decimal(bytes(data).decode())
        return int(number) if number == number.to_integral_value() else float(number)


class _Truth(Loader):
    """Loads booleans as 0 and 1."""

    def load(self, data: Any) -> int:
        return int(bytes(data) == b"t")


_LOADERS: dict[int, type[Loader]] = {
    UNKNOWN: TextLoader,
    INT2: IntLoader,
    INT4: IntLoader,
    INT8: IntLoader,
    FLOAT4: FloatLoader,
    FLOAT8: FloatLoader,
    NUMERIC: _Number,
    BOOL: _Truth,
}


class _RowReader(threading.local):
    """psycopg's row reader of each thread: values by the loaders above, all others as texts."""

    connection = None

    def __init__(self) -> None:
        self.adapters = AdaptersMap(None)
        for oid, loader in _LOADERS.items():
            self.adapters.register_loader(oid, loader)
        self.reader = Transformer(self)


_reading = _RowReader()


def rows_of(result: PGresult) -> list[Row]:
    """Return the rows of a result as SQLite returns them: integers as int, booleans as 0 and 1."""
    reader = _reading.reader
    reader.set_pgresult(result)
    return reader.load_rows(0, result.ntuples, tuple)


def names_of(result: PGresult) -> list[str]:
    """Return the column names of a result."""
    return [(result.fname(column) or b"").decode() for column in range(result.nfields)]


def _state(result: PGresult) -> str | None:
    state = result.error_field(DiagnosticField.SQLSTATE)
    return state.decode() if state else None


def _is_stale(state: str, text: str) -> bool:
    """Return whether the prepared statements are invalid after an upgrade or behind a connection pooler."""
    return state == "26000" or (state == "0A000" and text.startswith("cached plan"))


def _failure(result: PGresult) -> Exception:
    state = _state(result)
    text = (
        (result.error_field(DiagnosticField.MESSAGE_PRIMARY) or result.error_message).decode(errors="replace").strip()
    )
    if state is None or state.startswith(LOST_CLASSES) or _is_stale(state, text):
        return ConnectionLost(text)
    if state in _CONFLICTS:
        return Conflict(text)
    return errors.error_from_result(result)


NO_LOCK = "55P03"
NO_RIGHTS = ("25006", "42501")
NOT_AS_MADE = ("42P01", "42703", "42883")
_CONSTRAINT, _NO_ROOM, _SERVER = "23", "53", ("57", "58", "XX")


@contextlib.contextmanager
def translated(place: str) -> Iterator[None]:
    """Turn the server's errors into rota's; other constraint errors stay."""
    try:
        yield
    except psycopg.Error as error:
        translation = ours(place, error)
        if translation is error:
            raise
        raise translation from error


def busy(place: str, error: BaseException) -> DatabaseBusy:
    """Return the error of a transaction with too many conflicts."""
    return DatabaseBusy(
        f"other sessions block writes to the database {place} ({first_line(error)})",
        hint="try again; `rota doctor` checks the database",
    )


def first_line(error: BaseException) -> str:
    """Return the first line of an error."""
    return str(error).strip().partition("\n")[0]


def ours(place: str, error: Exception) -> Exception:
    """Return rota's error for one of the server, or the error itself."""
    translation = _meant(place, error) if isinstance(error, psycopg.Error) else None
    if translation is None:
        return error
    translation.__cause__ = error
    return translation


def _meant(place: str, error: psycopg.Error) -> Exception | None:
    state, text = error.sqlstate or "", first_line(error)
    if state.startswith(_CONSTRAINT):
        return refused(text)
    if state == NO_LOCK:
        return DatabaseBusy(
            f"other sessions have locked rows of the database {place}",
            hint="try again; `pg_stat_activity` of the server shows the sessions that hold them",
        )
    if state.startswith(_NO_ROOM):
        return StorageFull(
            f"the server of {place} is out of disk space ({text})",
            hint="free disk space there; rota continues by itself",
        )
    if state in NO_RIGHTS:
        return DatabaseReadOnly(
            f"the database {place} cannot be written ({text})",
            hint="rota needs a role that owns its tables and their schema, on a server that is not a standby",
        )
    if state in NOT_AS_MADE:
        return DatabaseCorrupt(
            f"the database {place} differs from rota's schema ({text})",
            hint="nothing was changed; restore a dump, or use an empty database",
        )
    if state.startswith(_SERVER):
        return StateError(f"the server of {place} refused ({text})", hint="see the server's log")
    return None
