"""The PostgreSQL store: transactions on pooled connections, and the connection that listens."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.errors import InvalidParameterValue

from rota.log import log
from rota.model.errors import DatabaseGone, RotaError, StateError
from rota.model.states import Status
from rota.store import driver
from rota.store.postgres.pipeline import (
    Conflict,
    ConnectionLost,
    PendingResult,
    PipelineConnection,
    Statement,
    busy,
    first_line,
    names_of,
    ours,
    rows_of,
    statement,
    translated,
)
from rota.store.postgres.pool import ConnectionPool
from rota.store.queries import load_queries

if TYPE_CHECKING:
    from rota.store.tallies import Ended

CHANNEL = b"rota"
LISTEN = Statement(b"LISTEN " + CHANNEL)
ANNOUNCE = Statement(b"SELECT pg_notify('" + CHANNEL + b"', '')")
CHANGED = Statement(
    b"SELECT coalesce(max(seq), 0) FROM change"
    b" WHERE seq < CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint) << 20"
)
"""A number that grows with changes of jobs and runs, not with the leases that idle machines write."""
POLL_SECONDS = 5.0


class Listener:
    """Calls `heard` on the event loop whenever another process may have changed something.

    A notification costs one wake-up, silence one poll every few seconds; psycopg's generator wakes up ten times a
    second.
    """

    def __init__(self, reach: ConnectionPool, *, heard: Callable[[], None], every: float = POLL_SECONDS) -> None:
        self._reach = reach
        self._heard = heard
        self._every = every
        self._version: int | None = None
        self.wakeups = 0
        self.looks = 0
        self._task = asyncio.get_running_loop().create_task(self._listen(), name="rota-listen")

    async def close(self) -> None:
        """Stop listening."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _listen(self) -> None:
        with contextlib.suppress(DatabaseGone):  # the store is being closed
            while True:
                link = await asyncio.to_thread(self._reach.wait)
                try:
                    await self._hear(link)
                except ConnectionLost:
                    pass  # it ended before the first notification
                finally:
                    link.close()
                self._reach.forget_idle()

    async def _hear(self, link: PipelineConnection) -> None:
        link.run(LISTEN, {})
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(link.socket, self._read, link, ended)
        self._next = loop.call_later(self._every, self._look_again, link, ended)
        try:
            self._heard()  # of changes from before LISTEN
            await ended.wait()
        finally:
            self._next.cancel()
            loop.remove_reader(link.socket)

    def _look_again(self, link: PipelineConnection, ended: asyncio.Event) -> None:
        """Poll and schedule the next poll; a timer wakes the loop once, a waiting task three times."""
        try:
            self._look(link)
        except ConnectionLost:
            ended.set()
        finally:
            if not ended.is_set():
                self._next = asyncio.get_running_loop().call_later(self._every, self._look_again, link, ended)

    def _read(self, link: PipelineConnection, ended: asyncio.Event) -> None:
        self.wakeups += 1
        try:
            if link.announced():
                self._heard()
        except ConnectionLost:
            ended.set()

    def _look(self, link: PipelineConnection) -> None:
        self.looks += 1
        version = int(rows_of(link.run(CHANGED, {}))[0][0])
        announced = link.announced()  # a notification may have come with the answer
        if announced or version != self._version:
            self._heard()
        self._version = version


T = TypeVar("T")

KEEPS_PREFETCHES = ("execution_finish", "execution_finish_alike")
"""Statements that change no prefetched answer: they close audit records."""
MAX_ATTEMPTS = 20
"""The attempts of a transaction that conflicts with others."""
PAUSE_SECONDS = 0.05

SNAPSHOT = Statement(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
BEGIN = Statement(b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
SAVEPOINT = Statement(b"SAVEPOINT operation")
RELEASE = Statement(b"RELEASE operation")
ROLLBACK_TO = Statement(b"ROLLBACK TO operation")
COMMIT = Statement(b"COMMIT")
ROLLBACK = Statement(b"ROLLBACK")
STATUS = statement("SELECT pg_xact_status(CAST(:transaction AS xid8))")
MARK = statement(
    "INSERT INTO committed (link, number, at) VALUES (:link, :number, CAST(extract(epoch FROM now()) * 1000 AS bigint))"
    " ON CONFLICT (link) DO UPDATE SET number = excluded.number, at = excluded.at"
)
"""The mark of a committed transaction: after a crash of the server another one may have the same number."""
MARKED = statement("SELECT 1 FROM committed WHERE link = :link AND number = :number")
FORGET_MARKS = statement(
    "DELETE FROM committed WHERE link IN (SELECT link FROM committed"
    " WHERE at < CAST(extract(epoch FROM now() - interval '7 days') * 1000 AS bigint) FOR UPDATE SKIP LOCKED)"
)
END_OLD = statement(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE pid = CAST(:pid AS integer) AND backend_xid = CAST(CAST(:transaction AS xid8) AS xid)"
)


class CommitUnknown(Exception):
    """The connection was lost during COMMIT, so the result is unknown."""

    def __init__(self, transaction: str, link: PipelineConnection) -> None:
        super().__init__(f"transaction {transaction}")
        self.transaction = transaction
        self.pid = link.pid
        self.mark = _mark_of(link)


class OperationFailed(Exception):
    """One operation of a batch driver.failed, and with it the transaction."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@cache
def statements(*, writing: bool) -> dict[str, Statement]:
    """Return name -> statement of all queries, in PostgreSQL's own form."""
    return {name: statement(text) for name, text in load_queries("postgres", writing=writing).items()}


class PostgresDatabase:
    """`Database` on one connection; the caller opens and ends the transaction."""

    def __init__(self, link: PipelineConnection, queries: dict[str, Statement], *, announces: bool = False) -> None:
        self._link = link
        self._queries = queries
        self._prefetched: dict[tuple[Any, ...], PendingResult] = {}
        self._next_prefetched: dict[tuple[Any, ...], PendingResult] | None = None
        self._prefetch_next: driver.Operation[None] | None = None
        self.counted: driver.Counts = {}
        self.ended: list[Ended] = []
        self.announces = announces

    def rows(self, query: str, /, **params: Any) -> list[driver.Row]:
        if self._prefetched and (pending := self._prefetched.pop((query, *params.items()), None)) is not None:
            return rows_of(self._link.answer(pending))
        command = self._command(query)
        return rows_of(self._link.run(command, params)) if command.text else []

    def row(self, query: str, /, **params: Any) -> driver.Row | None:
        rows = self.rows(query, **params)
        return rows[0] if rows else None

    def execute(self, query: str, /, **params: Any) -> int:
        command = self._command(query)
        return self._link.run(command, params).command_tuples or 0 if command.text else 0

    def defer(self, query: str, /, **params: Any) -> None:
        command = self._command(query)
        if command.text:
            self._link.defer(command, params)

    def prefetch(self, query: str, /, **params: Any) -> None:
        command = self._command(query)
        if command.text:
            self._prefetched[(query, *params.items())] = self._link.ahead(command, params)

    def send(self) -> None:
        self._link.send()

    def prefetch_next(self) -> None:
        """Send the next prefetches apart, so that earlier answers do not wait for them."""
        if self._prefetch_next is None or self._next_prefetched is not None:
            return
        own, self._prefetched = self._prefetched, {}
        self._link.send()
        self._prefetch_next(self)
        self._link.send()
        self._prefetched, self._next_prefetched = own, self._prefetched

    def start_operation(
        self, prefetch: driver.Operation[None] | None, *, following: driver.Operation[None] | None = None
    ) -> None:
        """Start an operation with the answers that the operation before has prefetched for it, or prefetch them."""
        prefetched, self._next_prefetched, self._prefetch_next = self._next_prefetched, None, following
        self._prefetched = {} if prefetched is None else prefetched
        if prefetched is None and prefetch is not None:
            prefetch(self)

    def _command(self, query: str) -> Statement:
        """Return a statement; drop the next operation's prefetched answers, which it may change."""
        if self._next_prefetched is not None and query not in KEEPS_PREFETCHES:
            self._next_prefetched = None
        return self._queries[query]

    def records(self, query: str, /, **params: Any) -> list[dict[str, Any]]:
        command = self._command(query)
        if not command.text:
            return []
        result = self._link.run(command, params)
        names = names_of(result)
        return [dict(zip(names, row, strict=True)) for row in rows_of(result)]


VACUUM_AFTER = 10_000
"""Claimed runs after which `live` is vacuumed: 50,000 of them made a run cost the server a third more."""
VACUUM = b"VACUUM (SKIP_LOCKED, TRUNCATE FALSE, PARALLEL 0) live"


class QueueVacuum:
    """Vacuums the queue on a thread of its own: a claim reads past the index entries of all claimed runs since then.

    The server's autovacuum looks once a minute, in which one worker claims a million runs.
    """

    def __init__(self, reach: ConnectionPool) -> None:
        self._reach = reach
        self._claimed = 0
        self._thread: threading.Thread | None = None

    def note(self, counted: driver.Counts) -> None:
        """Count the runs that a committed transaction claimed, and vacuum after many of them."""
        self._claimed += max(0, -counted.get((Status.QUEUED, ""), 0))
        if self._claimed >= VACUUM_AFTER and (self._thread is None or not self._thread.is_alive()):
            self._claimed = 0
            self._thread = threading.Thread(target=self._vacuum, name="rota-vacuum", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Wait for a vacuum that is under way."""
        if self._thread is not None:
            self._thread.join()

    def _vacuum(self) -> None:
        try:
            with self._reach.plain() as connection:
                connection.execute(VACUUM)
        except (psycopg.Error, RotaError) as error:  # the next one makes up for it
            log.warning("queue not vacuumed, claims get slower", error=first_line(error))


class PostgresStore:
    """`OpenStore` of one PostgreSQL database. Reads and inline writes share connections, each writer has its own."""

    copied_to: Path | None = None
    patient = True
    """No copy is made before an upgrade: use pg_dump."""

    def __init__(self, reach: ConnectionPool) -> None:
        self._reach = reach
        self.place = reach.place
        self._vacuum = QueueVacuum(reach)
        self._batches = {concurrent: Batches(reach, self._vacuum) for concurrent in (False, True)}
        self._writers: dict[bool, driver.Writer] = {}

    @property
    def problem(self) -> str | None:
        return self._reach.problem

    def read(self, operation: driver.Operation[T]) -> T:
        try:
            return self._read(operation)
        except ConnectionLost:  # an idle connection may have ended unnoticed, and others with it
            self._reach.forget_idle()
        try:
            return self._read(operation)
        except ConnectionLost as error:
            raise self._reach.gone(error) from error

    def write(self, operation: driver.Operation[T]) -> T:
        for attempt in range(MAX_ATTEMPTS):
            try:
                with self._reach.borrowed(writing=True) as link, translated(self.place):
                    value = self._operate(link, operation)
                    commit_or_end(link)
                return value
            except Conflict as error:
                self._pause_after(attempt, error)
            except CommitUnknown as unknown:
                if self._resolve_soon(unknown):
                    return value
            except ConnectionLost as error:
                self._reach.forget_idle()
                if attempt:
                    raise self._reach.gone(error) from error
        raise AssertionError("the last attempt raises")

    def submit(
        self, operation: driver.Operation[T], options: driver.WriteOptions = driver.PLAIN
    ) -> "asyncio.Future[T]":
        """Hand `operation` to a writer thread: concurrent ones to a second thread with its own connection."""
        concurrent = options.concurrent
        if concurrent not in self._writers:
            self._reach.stay()
            batches = self._batches[concurrent]
            self._writers[concurrent] = driver.Writer(batches.commit, end=batches.drop)
        return self._writers[concurrent].submit(operation, options)

    def commits(self) -> None:
        """Return None: each look would be a round trip to the server."""

    @contextlib.asynccontextmanager
    async def listening(self, heard: Callable[[], None]) -> AsyncIterator[None]:
        self._reach.stay()
        listener = Listener(self._reach, heard=heard)
        try:
            yield
        finally:
            await listener.close()

    def close(self) -> None:
        """Finish the submitted operations and close; operations that wait for a lost server fail."""
        self._reach.give_up()
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
        self._vacuum.close()
        self._reach.close()

    def _read(self, operation: driver.Operation[T]) -> T:
        with self._reach.borrowed() as link, translated(self.place):
            link.begin(SNAPSHOT, writing=False)
            try:
                return operation(PostgresDatabase(link, statements(writing=False)))
            finally:
                end(link)

    def _operate(self, link: PipelineConnection, operation: driver.Operation[T]) -> T:
        link.begin(BEGIN, writing=True)
        database = PostgresDatabase(link, statements(writing=True), announces=True)
        try:
            value = operation(database)
            driver.store_counts(database)
            if database.announces and link.wrote():
                link.later(ANNOUNCE)
        except BaseException:
            end(link)
            raise
        return value

    def _resolve_soon(self, unknown: CommitUnknown) -> bool:
        """Return whether a transaction was committed; the caller waits, so give up after some attempts."""
        try:
            return resolve(self._reach, unknown, patient=False)
        except DatabaseGone as error:
            message = f"the connection to {self.place} was lost during a commit; its result is unknown"
            raise DatabaseGone(message, hint="check the state before you retry, when the database is back") from error

    def _pause_after(self, attempt: int, error: Conflict) -> None:
        if attempt == MAX_ATTEMPTS - 1:
            raise busy(self.place, error) from error
        self._reach.pause(PAUSE_SECONDS * attempt / MAX_ATTEMPTS)


class Batches:
    """Commits the batches of a writer thread on its own connection."""

    def __init__(self, reach: ConnectionPool, vacuum: QueueVacuum) -> None:
        self._reach = reach
        self.place = reach.place
        self._vacuum = vacuum
        self._link: PipelineConnection | None = None

    def commit(self, batch: list[driver.Submitted]) -> list[driver.Done]:
        """Commit a batch as one transaction; after a conflict or a lost connection, each operation alone.

        Savepoints would double the statements and slow every reader of the server down: a batch first runs without
        them, and again with them if one of its operations fails.
        """
        try:
            try:
                return self._together(batch)
            except OperationFailed as refused:
                if len(batch) == 1:
                    return driver.failed(batch, refused.error)
                return self._together(batch, guarded=True)
        except (Conflict, ConnectionLost):
            return [done for item in batch for done in self._alone(item)]

    def _alone(self, item: driver.Submitted) -> list[driver.Done]:
        for attempt in range(MAX_ATTEMPTS):
            try:
                return self._together([item], guarded=True)
            except Conflict as error:
                if attempt == MAX_ATTEMPTS - 1:
                    return driver.failed([item], busy(self.place, error))
            except ConnectionLost:
                self.drop()
            except Exception as error:
                return driver.failed([item], error)
        return driver.failed([item], self._reach.gone(ConnectionLost("the server closed the connection repeatedly")))

    def _together(self, batch: list[driver.Submitted], *, guarded: bool = False) -> list[driver.Done]:
        link = self._link = self._link or self._reach.wait()
        try:
            with translated(self.place):
                link.begin(BEGIN, writing=True)
                database = PostgresDatabase(link, statements(writing=True))
                done = []
                for item, following in zip(batch, [*batch[1:], None], strict=True):
                    prefetch_next = None if following is None or guarded else following.options.prefetch
                    done.append(self._attempt(link, database, item, prefetch_next=prefetch_next, guarded=guarded))
                with contextlib.nullcontext() if guarded else self._refusing():
                    driver.store_counts(database)
                    if database.announces:
                        link.later(ANNOUNCE)
                    commit(link, meanwhile=partial(driver.call_precommit, batch, done))
        except CommitUnknown as unknown:
            self.drop()
            if not resolve(self._reach, unknown, patient=True):
                raise ConnectionLost("the commit did not reach the server") from unknown
        except ConnectionLost:
            self.drop()
            raise
        except BaseException:
            end(link)
            raise
        self._vacuum.note(database.counted)
        return done

    def _attempt(
        self,
        link: PipelineConnection,
        database: PostgresDatabase,
        item: driver.Submitted,
        *,
        prefetch_next: driver.Operation[None] | None,
        guarded: bool,
    ) -> driver.Done:
        if not guarded:
            with self._refusing():
                database.start_operation(item.options.prefetch, following=prefetch_next)
                return driver.Done(item.future, item.operation(database))
        link.later(SAVEPOINT)
        counted, ended = database.counted.copy(), len(database.ended)
        try:
            database.start_operation(item.options.prefetch)
            done = driver.Done(item.future, item.operation(database))
            link.settle()
        except (ConnectionLost, Conflict):
            raise
        except Exception as error:
            with contextlib.suppress(psycopg.Error):
                link.settle()  # a queued statement may fail too, and the server skips the rest
            link.later(ROLLBACK_TO)
            database.counted = counted
            del database.ended[ended:]
            done = driver.Done(item.future, error=ours(self.place, error))
        link.later(RELEASE)
        return done

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        """Raise OperationFailed for an error in a batch; the attempt with savepoints shows which operation failed."""
        try:
            yield
        except (ConnectionLost, Conflict, CommitUnknown):
            raise
        except Exception as error:
            raise OperationFailed(ours(self.place, error)) from error

    def drop(self) -> None:
        """Close the connection; the next batch opens another one."""
        if self._link is not None:
            self._link.close()
            self._link = None


def resolve(reach: ConnectionPool, unknown: CommitUnknown, *, patient: bool) -> bool:
    """Return whether a transaction without an answer to its COMMIT was committed."""
    reach.forget_idle()
    while True:
        link = reach.wait(patient=patient)
        try:
            if not _under_way(link, unknown.transaction):
                return bool(rows_of(link.run(MARKED, unknown.mark)))
            link.run(END_OLD, {"pid": unknown.pid, "transaction": unknown.transaction})
        except ConnectionLost:
            continue
        finally:
            link.close()
        reach.pause(PAUSE_SECONDS)


def _under_way(link: PipelineConnection, transaction: str) -> bool:
    """Return whether a transaction may still be committed. Only its mark identifies it."""
    try:
        return bool(rows_of(link.run(STATUS, {"transaction": transaction}))[0][0] == "in progress")
    except InvalidParameterValue:
        return False  # the server crashed, and no transaction has this number yet


def _mark_of(link: PipelineConnection) -> dict[str, str | int]:
    return {"link": link.id, "number": link.commits}


def _leave_mark(link: PipelineConnection) -> None:
    link.commits += 1
    if link.commits == 1:
        link.defer(FORGET_MARKS, {})
    link.defer(MARK, _mark_of(link))


def commit(link: PipelineConnection, *, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Commit and call `meanwhile` before the answer; raise CommitUnknown if the connection ends before it."""
    if link.wrote():  # its number must be known first
        _leave_mark(link)
    try:
        committed = link.ahead(COMMIT, {})
        link.send()
        meanwhile()
        result = link.answer(committed)
    except ConnectionLost:
        if link.transaction is None:
            raise  # no row was written
        raise CommitUnknown(link.transaction, link) from None
    if result.command_status == b"ROLLBACK":
        raise StateError("the transaction was rolled back", hint="this is an error in rota: please report it")


def commit_or_end(link: PipelineConnection) -> None:
    """Commit; roll back if a queued statement fails."""
    try:
        commit(link)
    except (ConnectionLost, CommitUnknown):
        raise
    except BaseException:
        end(link)
        raise


def end(link: PipelineConnection) -> None:
    """Roll a transaction back without waiting; a lost connection has ended it already."""
    with contextlib.suppress(ConnectionLost):
        link.leave(ROLLBACK)
