"""The connection pool of a PostgreSQL server, with reconnection."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rota.log import log
from rota.model.errors import DatabaseGone, StateError
from rota.model.store_url import host_of, shown
from rota.store.postgres.pipeline import LOST_CLASSES, ConnectionLost, PipelineConnection, Statement, rows_of

MAX_CONNECTIONS = 8
"""The limit for reads, and for inline writes; further callers wait for a connection, an event loop never does."""
MAX_IDLE_CONNECTIONS = 3
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.1, 2.0
RECONNECT_ATTEMPTS = 5
"""The attempts of an inline write that lost its server."""

_CONNECTION = {
    "application_name": "rota",
    "client_encoding": "utf8",
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "target_session_attrs": "read-write",
}
"""The options of a connection unless its address sets them: a lost server is noticed within 11 s."""

_SESSION = {
    "timezone": "UTC",
    "jit": "off",
    "statement_timeout": "0",
    "lock_timeout": "10s",
    "idle_session_timeout": "0",
    # A stopped or disconnected worker must not keep its locks for long.
    "idle_in_transaction_session_timeout": "20s",
    "client_connection_check_interval": "5s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
_FLUSHED = ("on", "remote_apply")
_SETUP = Statement(
    (
        "SELECT current_setting('synchronous_commit'), "
        + ", ".join(f"set_config('{name}', '{value}', false)" for name, value in _SESSION.items())
    ).encode()
)
_FLUSH = Statement(b"SELECT set_config('synchronous_commit', 'on', false)")


class ConnectionPool:
    """The connections to one server, and its outage."""

    def __init__(self, address: str, *, now: Callable[[], datetime]) -> None:
        self._conninfo = _conninfo(address)
        self._host = host_of(address)
        self._now = now
        self.place = shown(address)
        self._idle: list[PipelineConnection] = []
        self._lock = threading.Lock()
        self._free = {writing: threading.BoundedSemaphore(MAX_CONNECTIONS) for writing in (False, True)}
        self._stays = False
        self._closing = threading.Event()
        self._there = threading.Event()
        self._there.set()
        self._why: Exception | None = None
        self.gone_since: datetime | None = None

    def stay(self) -> None:
        """Reconnect without end on a thread whenever the server is lost: this process serves."""
        self._stays = True

    def give_up(self) -> None:
        """End all waits for the server."""
        self._closing.set()
        self._there.set()

    @contextlib.contextmanager
    def borrowed(self, *, writing: bool = False) -> Iterator[PipelineConnection]:
        """Lend a connection to the calling thread; drop it if it broke."""
        if not self._there.is_set():
            raise self.gone(self._why)
        with self._free[writing] if not _in_event_loop() else contextlib.nullcontext():
            with self._lock:
                link = self._idle.pop() if self._idle else None
            link = link or self.connect()
            try:
                yield link
            finally:
                self._give_back(link, keep=not link.broken)

    def forget_idle(self) -> None:
        """Close the idle connections: after the loss of one they may be lost too."""
        with self._lock:
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()

    def connect(self) -> PipelineConnection:
        """Open a connection, or raise DatabaseGone."""
        try:
            link = _open(self._conninfo, self.place, now=self._now)
        except (psycopg.OperationalError, ConnectionLost) as error:
            self._notice(error)
            raise self.gone(error) from error
        self._found()
        return link

    @contextlib.contextmanager
    def plain(self) -> Iterator["psycopg.Connection[Any]"]:
        """Lend a plain connection of psycopg for rare work, or raise DatabaseGone."""
        try:
            with psycopg.Connection.connect(self._conninfo, autocommit=True) as connection:
                yield connection
        except psycopg.OperationalError as error:
            if error.sqlstate and not error.sqlstate.startswith(LOST_CLASSES):
                raise
            raise self.gone(error) from error

    def wait(self, *, patient: bool = True) -> PipelineConnection:
        """Open a connection as soon as possible; raise DatabaseGone after the last attempt."""
        pause, tries = MIN_PAUSE_SECONDS, 0
        while True:
            try:
                return self.connect()
            except DatabaseGone:
                tries += 1
                if self._closing.is_set() or (not patient and tries == RECONNECT_ATTEMPTS):
                    raise
            if self._stays:
                self._there.wait(None if patient else MAX_PAUSE_SECONDS)
            else:
                self.pause(pause)
                pause = min(2 * pause, MAX_PAUSE_SECONDS)

    def pause(self, seconds: float) -> None:
        """Sleep, unless the pool closes."""
        self._closing.wait(seconds)

    @property
    def problem(self) -> str | None:
        """The reason and start of an outage; None while the server is reachable."""
        return None if self.gone_since is None else self.gone(self._why).message

    def gone(self, why: BaseException | None) -> DatabaseGone:
        """Return the error of an outage."""
        since = f" since {self.gone_since:%H:%M:%S} UTC" if self.gone_since else ""
        return DatabaseGone(
            f"the database {self.place} cannot be reached{since} ({_reason(why)})",
            hint=f"check that PostgreSQL runs at {self._host} and accepts your login; `rota doctor` shows more",
        )

    def close(self) -> None:
        """Close all connections."""
        self._closing.set()
        self.forget_idle()

    def _give_back(self, link: PipelineConnection, *, keep: bool) -> None:
        with self._lock:
            if keep and len(self._idle) < MAX_IDLE_CONNECTIONS and not self._closing.is_set():
                self._idle.append(link)
                return
        link.close()

    def _notice(self, error: Exception) -> None:
        with self._lock:
            self._why = error
            self.gone_since = self.gone_since or self._now()
            if self._stays and self._there.is_set() and not self._closing.is_set():
                log.error("database unreachable, reconnecting", database=self.place, error=_reason(error))
                self._there.clear()
                threading.Thread(target=self._look, name="rota-reach", daemon=True).start()

    def _found(self) -> None:
        with self._lock:
            if self.gone_since is not None and self._stays:
                log.info("database reconnected", database=self.place, gone_since=self.gone_since.isoformat())
            self.gone_since = self._why = None
            self._there.set()

    def _look(self) -> None:
        """Reconnect with growing pauses."""
        pause = MIN_PAUSE_SECONDS
        while not self._closing.wait(pause):
            pause = min(2 * pause, MAX_PAUSE_SECONDS)
            try:
                link = _open(self._conninfo, self.place, now=self._now)
            except Exception as error:  # any error: without this thread all callers would wait for ever
                self._why = error
                continue
            self._give_back(link, keep=True)
            self._found()
            return
        self._there.set()  # closing: end all waits


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _open(conninfo: str, place: str, *, now: Callable[[], datetime]) -> PipelineConnection:
    link = PipelineConnection(psycopg.Connection.connect(conninfo, autocommit=True), now=now)
    try:
        flushed = str(rows_of(link.run(_SETUP, {}))[0][0])
        if flushed not in _FLUSHED and rows_of(link.run(_FLUSH, {})) != [("on",)]:
            raise StateError(
                f"the database {place} does not accept synchronous_commit = on, it says {flushed}",
                hint="rota needs durable commits: set it for rota's role",
            )
    except BaseException:
        link.close()
        raise
    return link


def _conninfo(address: str) -> str:
    try:
        options = conninfo_to_dict(address)
    except psycopg.ProgrammingError as error:
        raise StateError(
            f"the store {shown(address)} is not a PostgreSQL address",
            hint="write it as postgresql://user@host:5432/database",
        ) from error
    return make_conninfo(address, **{key: value for key, value in _CONNECTION.items() if key not in options})


def _reason(error: BaseException | None) -> str:
    lines = [line.strip() for line in str(error or "").splitlines() if line.strip()]
    return (lines[0] if lines else "no answer").removeprefix("connection failed: ").removeprefix("connection is bad: ")
