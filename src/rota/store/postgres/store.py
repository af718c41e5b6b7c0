"""The PostgreSQL store: transactions on pooled connections, and the connection that listens."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg.errors import InvalidParameterValue

from rota.model.errors import DatabaseGone, StateError
from rota.store.driver import (
    PLAIN,
    Counts,
    Done,
    Operation,
    Row,
    Submitted,
    WriteOptions,
    Writer,
    failed,
    foretell,
    store_counts,
)
from rota.store.postgres.pipeline import (
    Conflict,
    ConnectionLost,
    PendingResult,
    PipelineConnection,
    Statement,
    busy,
    names_of,
    ours,
    rows_of,
    statement,
    translated,
)
from rota.store.postgres.pool import ConnectionPool
from rota.store.queries import load_queries

CHANNEL = b"rota"
LISTEN = Statement(b"LISTEN " + CHANNEL)
ANNOUNCE = Statement(b"SELECT pg_notify('" + CHANNEL + b"', '')")
CHANGED = Statement(
    b"SELECT coalesce(max(seq), 0) FROM change"
    b" WHERE seq < CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint) << 20"
)
"""A number that grows when a job or a run was changed: not with the leases that are all that idle machines write."""
LOOK_EVERY = 5.0


class Listener:
    """Calls `heard` on the event loop whenever another process may have changed something.

    An announcement costs one wake-up, and silence none but the look every few seconds: psycopg's own generator wakes
    up ten times a second.
    """

    def __init__(self, reach: ConnectionPool, *, heard: Callable[[], None], every: float = LOOK_EVERY) -> None:
        self._reach = reach
        self._heard = heard
        self._every = every
        self._version: int | None = None
        self.wakeups = 0
        self.looks = 0
        self._task = asyncio.get_running_loop().create_task(self._listen(), name="rota-listen")

    async def close(self) -> None:
        """Listen no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _listen(self) -> None:
        with contextlib.suppress(DatabaseGone):  # given up: the store is being closed
            while True:
                link = await asyncio.to_thread(self._reach.wait)
                try:
                    await self._hear(link)
                except ConnectionLost:
                    pass  # it ended before anything was heard
                finally:
                    link.close()
                self._reach.forget_idle()

    async def _hear(self, link: PipelineConnection) -> None:
        link.run(LISTEN, {})
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(link.socket, self._read, link, ended)
        self._next = loop.call_later(self._every, self._look_again, link, ended)
        try:
            self._heard()  # of what was announced while nobody listened
            await ended.wait()
        finally:
            self._next.cancel()
            loop.remove_reader(link.socket)

    def _look_again(self, link: PipelineConnection, ended: asyncio.Event) -> None:
        """Look, and plan the next look; a timer wakes the loop once, a task that waits for an event three times."""
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
        announced = link.announced()  # an announcement may have come along with the answer
        if announced or version != self._version:
            self._heard()
        self._version = version


T = TypeVar("T")

CONCERNS_NOBODY = ("execution_finish", "execution_finish_alike")
"""What changes nothing that another operation asks first: the audit of what has ended already."""
ATTEMPTS = 20
"""How often a transaction runs again after it stood in another one's way."""
WHOLE_MOMENT = 0.05

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
"""What a transaction leaves behind: of two that had one number, before and after a crash, it tells which is there."""
MARKED = statement("SELECT 1 FROM committed WHERE link = :link AND number = :number")
FORGET_MARKS = statement(
    "DELETE FROM committed WHERE link IN (SELECT link FROM committed"
    " WHERE at < CAST(extract(epoch FROM now() - interval '7 days') * 1000 AS bigint) FOR UPDATE SKIP LOCKED)"
)
END_OLD = statement(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE pid = CAST(:pid AS integer) AND backend_xid = CAST(CAST(:transaction AS xid8) AS xid)"
)


class Unknown(Exception):
    """The connection was lost while COMMIT was under way: only the server knows what became of it."""

    def __init__(self, transaction: str, link: PipelineConnection) -> None:
        super().__init__(f"transaction {transaction}")
        self.transaction = transaction
        self.pid = link.pid
        self.mark = _mark_of(link)


class OperationFailed(Exception):
    """One operation of a batch failed, and with it the transaction."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@cache
def statements(*, writing: bool) -> dict[str, Statement]:
    """Return name -> statement of all queries, in PostgreSQL's own form."""
    return {name: statement(text) for name, text in load_queries("postgres", writing=writing).items()}


class PostgresDatabase:
    """Named queries on one link; the transaction around them is the caller's."""

    def __init__(self, link: PipelineConnection, queries: dict[str, Statement], *, announces: bool = False) -> None:
        self._link = link
        self._queries = queries
        self._ahead: dict[tuple[Any, ...], PendingResult] = {}
        self._coming: dict[tuple[Any, ...], PendingResult] | None = None
        """What the next operation asks first, where it was asked already."""
        self._asks_next: Operation[None] | None = None
        self.counted: Counts = {}
        self.announces = announces

    def rows(self, query: str, /, **params: Any) -> list[Row]:
        """Return all rows of a named query."""
        if self._ahead and (awaited := self._ahead.pop((query, *params.items()), None)) is not None:
            return rows_of(self._link.answer(awaited))
        found = self._queries[query]
        self._change(query)
        return rows_of(self._link.run(found, params)) if found.text else []

    def row(self, query: str, /, **params: Any) -> Row | None:
        """Return the first row of a named query, None for none."""
        found = self.rows(query, **params)
        return found[0] if found else None

    def execute(self, query: str, /, **params: Any) -> int:
        """Run a named statement and return how many rows it changed."""
        found = self._queries[query]
        self._change(query)
        return self._link.run(found, params).command_tuples or 0 if found.text else 0

    def later(self, query: str, /, **params: Any) -> None:
        """Run a named statement whose answer nobody looks at; the next one, or the commit, says if it was refused."""
        found = self._queries[query]
        self._change(query)
        if found.text:
            self._link.defer(found, params)

    def ahead(self, query: str, /, **params: Any) -> None:
        """Ask now, without waiting, what `rows` or `row` of the same operation soon asks in the same words."""
        found = self._queries[query]
        self._change(query)
        if found.text:
            self._ahead[(query, *params.items())] = self._link.ahead(found, params)

    def send(self) -> None:
        """Let the server begin with what was told and asked so far."""
        self._link.send()

    def ask_next(self) -> None:
        """Ask what the next operation asks first, apart: what was asked before is answered without waiting for it."""
        if self._asks_next is None or self._coming is not None:
            return
        own, self._ahead = self._ahead, {}
        self._link.send()
        self._asks_next(self)
        self._link.send()
        self._ahead, self._coming = own, self._ahead

    def turn_to(self, asks: Operation[None] | None, *, following: Operation[None] | None = None) -> None:
        """Begin with an operation: what was asked ahead is that of the one before, unless that asked for this one."""
        asked, self._coming, self._asks_next = self._coming, None, following
        self._ahead = {} if asked is None else asked
        if asked is None and asks is not None:
            asks(self)

    def _change(self, query: str) -> None:
        """Ask again for the next operation: what it asked first may have been changed since."""
        if self._coming is not None and query not in CONCERNS_NOBODY:
            self._coming = None

    def records(self, query: str, /, **params: Any) -> list[dict[str, Any]]:
        """Return all rows of a named query by column name."""
        found = self._queries[query]
        self._change(query)
        if not found.text:
            return []
        result = self._link.run(found, params)
        names = names_of(result)
        return [dict(zip(names, row, strict=True)) for row in rows_of(result)]


class PostgresStore:
    """One database of a server. Reads and inline writes share a few links, each writer thread has its own."""

    copied_to: Path | None = None
    """No copy is made before an upgrade: that is pg_dump's."""

    def __init__(self, reach: ConnectionPool) -> None:
        self._reach = reach
        self.place = reach.place
        self._batches = {aside: Batches(reach) for aside in (False, True)}
        self._writers: dict[bool, Writer] = {}

    @property
    def problem(self) -> str | None:
        """Why the server cannot be reached, and since when; None while it can."""
        return self._reach.problem

    def read(self, operation: Operation[T]) -> T:
        """Run `operation` on one consistent snapshot, on the calling thread."""
        try:
            return self._read(operation)
        except ConnectionLost:  # a link that nobody used may have ended unnoticed, and others with it
            self._reach.forget_idle()
        try:
            return self._read(operation)
        except ConnectionLost as error:
            raise self._reach.gone(error) from error

    def write(self, operation: Operation[T]) -> T:
        """Run `operation` in a transaction of its own on the calling thread; return after the commit."""
        for attempt in range(ATTEMPTS):
            try:
                with self._reach.borrowed(writing=True) as link, translated(self.place):
                    value = self._operate(link, operation)
                    commit_or_end(link)
                return value
            except Conflict as error:
                self._pause_after(attempt, error)
            except Unknown as unknown:
                if self._resolve_soon(unknown):
                    return value
            except ConnectionLost as error:
                self._reach.forget_idle()
                if attempt:
                    raise self._reach.gone(error) from error
        raise AssertionError("the last attempt raises")

    def submit(self, operation: Operation[T], manner: WriteOptions = PLAIN) -> "asyncio.Future[T]":
        """Hand `operation` to the writer thread; the future ends after the commit. Call from the event loop.

        What need not be in order goes to a second one with a link of its own.
        """
        aside = manner.aside
        if aside not in self._writers:
            self._reach.stay()
            self._writers[aside] = Writer(partial(self._commit, aside=aside), end=self._batches[aside].drop)
        return self._writers[aside].submit(operation, manner)

    @contextlib.asynccontextmanager
    async def listening(self, heard: Callable[[], None]) -> AsyncIterator[None]:
        """Call `heard` on the event loop meanwhile, whenever another process may have changed something."""
        self._reach.stay()
        listener = Listener(self._reach, heard=heard)
        try:
            yield
        finally:
            await listener.close()

    def close(self) -> None:
        """Finish what was submitted and let go of the database; what waits for a server that is gone fails."""
        self._reach.give_up()
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
        self._reach.close()

    def _read(self, operation: Operation[T]) -> T:
        with self._reach.borrowed() as link, translated(self.place):
            link.begin(SNAPSHOT, writing=False)
            try:
                return operation(PostgresDatabase(link, statements(writing=False)))
            finally:
                end(link)

    def _operate(self, link: PipelineConnection, operation: Operation[T]) -> T:
        link.begin(BEGIN, writing=True)
        database = PostgresDatabase(link, statements(writing=True), announces=True)
        try:
            value = operation(database)
            store_counts(database)
            if database.announces and link.wrote():
                link.later(ANNOUNCE)
        except BaseException:
            end(link)
            raise
        return value

    def _commit(self, batch: list[Submitted], *, aside: bool = False) -> list[Done]:
        return self._batches[aside].commit(batch)

    def _resolve_soon(self, unknown: Unknown) -> bool:
        """Tell whether a transaction was committed; somebody waits for the answer, so not without end."""
        try:
            return resolve(self._reach, unknown, patient=False)
        except DatabaseGone as error:
            told = f"the connection to {self.place} was lost while a change was stored; whether it is, is not known yet"
            raise DatabaseGone(told, hint="look before you try again, when the database is back") from error

    def _pause_after(self, attempt: int, error: Conflict) -> None:
        if attempt == ATTEMPTS - 1:
            raise busy(self.place, error) from error
        self._reach.pause(WHOLE_MOMENT * attempt / ATTEMPTS)


class Batches:
    """Commits what a writer thread hands over, on a link of its own."""

    def __init__(self, reach: ConnectionPool) -> None:
        self._reach = reach
        self.place = reach.place
        self._link: PipelineConnection | None = None

    def commit(self, batch: list[Submitted]) -> list[Done]:
        """Commit what the writer hands over as one transaction; where that cannot be, each operation alone.

        Savepoints would be half of what is sent, and many of them slow every reader of the server down: a batch goes
        without, and runs again with them if one of its operations was refused.
        """
        try:
            try:
                return self._together(batch)
            except OperationFailed as refused:
                if len(batch) == 1:
                    return failed(batch, refused.error)
                return self._together(batch, guarded=True)
        except (Conflict, ConnectionLost):
            return [done for item in batch for done in self._alone(item)]

    def _alone(self, item: Submitted) -> list[Done]:
        for attempt in range(ATTEMPTS):
            try:
                return self._together([item], guarded=True)
            except Conflict as error:
                if attempt == ATTEMPTS - 1:
                    return failed([item], busy(self.place, error))
            except ConnectionLost:
                self.drop()
            except Exception as error:
                return failed([item], error)
        return failed([item], self._reach.gone(ConnectionLost("the server ended the connection again and again")))

    def _together(self, batch: list[Submitted], *, guarded: bool = False) -> list[Done]:
        link = self._link = self._link or self._reach.wait()
        try:
            with translated(self.place):
                link.begin(BEGIN, writing=True)
                database = PostgresDatabase(link, statements(writing=True))
                done = []
                for item, following in zip(batch, [*batch[1:], None], strict=True):
                    asks_next = None if following is None or guarded else following.manner.asks
                    done.append(self._attempt(link, database, item, asks_next=asks_next, guarded=guarded))
                with contextlib.nullcontext() if guarded else self._refusing():
                    store_counts(database)
                    if database.announces:
                        link.later(ANNOUNCE)
                    commit(link, meanwhile=partial(foretell, batch, done))
        except Unknown as unknown:
            self.drop()
            if not resolve(self._reach, unknown, patient=True):
                raise ConnectionLost("the commit did not reach the server") from unknown
        except ConnectionLost:
            self.drop()
            raise
        except BaseException:
            end(link)
            raise
        return done

    def _attempt(
        self,
        link: PipelineConnection,
        database: PostgresDatabase,
        item: Submitted,
        *,
        asks_next: Operation[None] | None,
        guarded: bool,
    ) -> Done:
        if not guarded:
            with self._refusing():
                database.turn_to(item.manner.asks, following=asks_next)
                return Done(item.future, item.operation(database))
        link.later(SAVEPOINT)
        counted = database.counted.copy()
        try:
            database.turn_to(item.manner.asks)
            done = Done(item.future, item.operation(database))
            link.settle()
        except (ConnectionLost, Conflict):
            raise
        except Exception as error:
            with contextlib.suppress(psycopg.Error):
                link.settle()  # what waits to be sent along may be refused too, and the rest of it passed over
            link.later(ROLLBACK_TO)
            database.counted = counted
            done = Done(item.future, error=ours(self.place, error))
        link.later(RELEASE)
        return done

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        """Tell that an operation of a batch was refused; which one, a second attempt with savepoints shows."""
        try:
            yield
        except (ConnectionLost, Conflict, Unknown):
            raise
        except Exception as error:
            raise OperationFailed(ours(self.place, error)) from error

    def drop(self) -> None:
        """Let go of the link; the next batch gets another one."""
        if self._link is not None:
            self._link.close()
            self._link = None


def resolve(reach: ConnectionPool, unknown: Unknown, *, patient: bool) -> bool:
    """Tell whether a transaction was committed whose COMMIT got no answer."""
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
        reach.pause(WHOLE_MOMENT)


def _under_way(link: PipelineConnection, transaction: str) -> bool:
    """Tell whether a transaction may still be committed; which one had this number, only its mark says."""
    try:
        return bool(rows_of(link.run(STATUS, {"transaction": transaction}))[0][0] == "in progress")
    except InvalidParameterValue:
        return False  # a crash took it along, and nobody was given its number yet


def _mark_of(link: PipelineConnection) -> dict[str, str | int]:
    return {"link": link.id, "number": link.commits}


def _leave_mark(link: PipelineConnection) -> None:
    link.commits += 1
    if link.commits == 1:
        link.defer(FORGET_MARKS, {})
    link.defer(MARK, _mark_of(link))


def commit(link: PipelineConnection, *, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Commit, and do something while the server does; raise Unknown when the connection ends before the answer."""
    if link.wrote():  # its number must be known before
        _leave_mark(link)
    try:
        committed = link.ahead(COMMIT, {})
        link.send()
        meanwhile()
        result = link.answer(committed)
    except ConnectionLost:
        if link.transaction is None:
            raise  # it has written nothing
        raise Unknown(link.transaction, link) from None
    if result.command_status == b"ROLLBACK":
        raise StateError("the transaction was rolled back", hint="this is an error in rota: please report it")


def commit_or_end(link: PipelineConnection) -> None:
    """Commit; where the server refuses what was sent along with that, give the transaction up."""
    try:
        commit(link)
    except (ConnectionLost, Unknown):
        raise
    except BaseException:
        end(link)
        raise


def end(link: PipelineConnection) -> None:
    """Give a transaction up, without waiting for that; a link that is lost has ended it already."""
    with contextlib.suppress(ConnectionLost):
        link.leave(ROLLBACK)
