"""PostgreSQL alone: values, transactions that meet, a server that goes away and comes back."""

import asyncio
import contextlib
import os
import random
import signal
import tempfile
import threading
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from rota.engine.loops.loop import pause_for
from rota.model.errors import DatabaseBusy, DatabaseForeign, DatabaseGone, DatabaseNewer, NotApplied, StateError
from rota.store.driver import WriteOptions
from rota.store.postgres.pipeline import PipelineConnection, rows_of, statement
from rota.store.postgres.pool import ConnectionPool
from rota.store.postgres.setup import is_made, open_postgres
from rota.store.postgres.store import VACUUM_AFTER, Listener, QueueVacuum
from tests.postgres import lay_postgres, server_address, start_server
from tests.proxy import Proxy
from tests.service.serving import gone
from tests.store.making import NOW, insert_job, spec_of
from tests.waiting import LONGEST_WAIT, until


@pytest.fixture
def address():
    return lay_postgres()


@pytest.fixture
def proxy(tmp_path_factory, address):
    folder = tmp_path_factory.mktemp("way")
    proxy = Proxy(folder, address)
    yield proxy
    proxy.close()


@pytest.fixture
def store(proxy):
    """Return a store behind a way to it that can be cut."""
    store = open_postgres(proxy.address, now=lambda: NOW)
    yield store
    proxy.admit()
    store.close()


@pytest.fixture
def beside(address):
    """Return a connection that sees only what is committed, and gets there by itself."""
    with psycopg.connect(address, autocommit=True) as connection:
        yield connection


def put(db, key, value="1"):
    db.execute("meta_set", key=key, value=value)
    return key


def add(db, key):
    """Count up: an operation that runs twice shows."""
    row = db.row("meta_get", key=key)
    number = int(row[0]) + 1 if row else 1
    db.execute("meta_set", key=key, value=str(number))
    return number


def stored(beside):
    return dict(beside.execute("SELECT key, value FROM meta WHERE key <> 'schema'").fetchall())


def backends(beside):
    return [
        pid
        for (pid,) in beside.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND application_name = 'rota'"  # not what empties it
        ).fetchall()
    ]


async def submitted(store, *operations):
    return await asyncio.wait_for(
        asyncio.gather(*(store.submit(operation) for operation in operations), return_exceptions=True), LONGEST_WAIT
    )


def test_what_is_submitted_aside_waits_for_nothing_that_was_submitted_before(store, beside):
    stored_aside = threading.Event()

    def wait(db):
        assert stored_aside.wait(LONGEST_WAIT)
        return put(db, "in order", "1")

    async def both():
        first = store.submit(wait)
        await asyncio.wait_for(
            store.submit(lambda db: put(db, "aside", "1"), WriteOptions(concurrent=True)), LONGEST_WAIT
        )
        found = stored(beside)
        stored_aside.set()
        await asyncio.wait_for(first, LONGEST_WAIT)
        return found

    assert asyncio.run(both()) == {"aside": "1"}
    assert stored(beside) == {"aside": "1", "in order": "1"}


# values


@pytest.fixture
def link(address):
    link = PipelineConnection(psycopg.connect(address, autocommit=True), now=lambda: NOW)
    yield link
    link.close()


@pytest.mark.parametrize("value", [0, -1, 2**62, "", "ä'\"\n%s:x", 1.5, None])
def test_a_value_comes_back_as_it_went(link, value):
    kind = {int: "bigint", str: "text", float: "float8", type(None): "text"}[type(value)]
    assert rows_of(link.run(statement(f"SELECT CAST(:value AS {kind})"), {"value": value})) == [(value,)]


def test_truth_is_a_number_and_a_sum_is_whole_as_on_sqlite(link):
    row = rows_of(
        link.run(statement("SELECT :yes, 1 = 2, sum(n), avg(n) FROM generate_series(1, 2) AS n"), {"yes": True})
    )
    assert row == [(1, 0, 3, 1.5)]
    assert type(row[0][0]) is int


def test_a_text_with_a_nul_is_stored_without_it(store):
    store.write(lambda db: put(db, "key", "a\0b"))
    assert store.read(lambda db: db.row("meta_get", key="key")) == ("a\N{REPLACEMENT CHARACTER}b",)


def test_a_missing_parameter_is_an_error(store):
    with pytest.raises(KeyError):
        store.read(lambda db: db.row("meta_get"))


def test_a_statement_that_failed_once_can_be_used_again(link):
    divide = statement("SELECT 1 / CAST(:by AS bigint)")
    with pytest.raises(psycopg.DataError):
        link.run(divide, {"by": 0})
    assert rows_of(link.run(divide, {"by": 1})) == [(1,)]


def test_a_large_text_goes_through_a_small_pipe(store):
    text = "x" * 20_000_000
    store.write(lambda db: put(db, "key", text))
    assert store.read(lambda db: db.row("meta_get", key="key")) == (text,)


# transactions


def test_the_queue_is_vacuumed_after_many_claims(store, beside):
    def claim(db):
        db.counted["QUEUED", ""] = -VACUUM_AFTER // 2

    def vacuums():
        query = "SELECT vacuum_count FROM pg_stat_user_tables WHERE relname = 'live'"
        return beside.execute(query).fetchone()[0]

    asyncio.run(submitted(store, claim))
    assert "rota-vacuum" not in {thread.name for thread in threading.enumerate()}
    asyncio.run(submitted(store, claim))
    until(vacuums, what="a vacuum")


def test_a_vacuum_that_fails_is_logged_and_the_next_one_is_tried(caplog):
    vacuum = QueueVacuum(ConnectionPool("postgresql://127.0.0.1:1/none", now=lambda: NOW))
    for _ in range(2):
        vacuum.note({("QUEUED", ""): -VACUUM_AFTER})
        vacuum.close()
    assert caplog.text.count("queue not vacuumed") == 2


def test_a_read_is_one_snapshot(store, beside):
    def look(db):
        first = db.rows("meta_get", key="key")
        beside.execute("INSERT INTO meta VALUES ('key', 'later')")
        return first, db.rows("meta_get", key="key")

    assert store.read(look) == ([], [])


def test_a_read_cannot_write(store, beside):
    with pytest.raises(StateError):
        store.read(lambda db: put(db, "key"))
    assert stored(beside) == {}


def test_what_raises_leaves_nothing(store, beside):
    def fail(db):
        put(db, "key")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        store.write(fail)
    assert stored(beside) == {}
    assert store.write(partial(put, key="other")) == "other"


def test_a_refused_operation_harms_no_other_of_its_batch(store, beside):
    held, go = threading.Event(), threading.Event()

    def hold(db):
        held.set()
        go.wait(LONGEST_WAIT)

    def refused(db):
        put(db, "refused")
        db.execute("process_insert", **dict.fromkeys(PROCESS, 1) | {"worker_id": "nobody", "now": 1})

    async def play():
        first = store.submit(hold)
        await asyncio.to_thread(held.wait, LONGEST_WAIT)
        rest = [store.submit(operation) for operation in (partial(put, key="a"), refused, partial(put, key="b"))]
        go.set()
        return await asyncio.wait_for(asyncio.gather(first, *rest, return_exceptions=True), LONGEST_WAIT)

    _, one, two, three = asyncio.run(play())
    assert (one, three) == ("a", "b")
    assert isinstance(two, Exception)
    assert set(stored(beside)) == {"a", "b"}


def foreign(db):
    db.defer("process_insert", **dict.fromkeys(PROCESS, 1) | {"worker_id": "nobody", "now": 1})


@pytest.mark.parametrize("way", ["write", "submit"])
def test_what_is_sent_along_is_stored_with_the_commit(store, beside, way):
    def along(db):
        db.defer("meta_set", key="along", value="1")

    if way == "write":
        store.write(along)
    else:
        asyncio.run(submitted(store, along))
    assert stored(beside) == {"along": "1"}


@pytest.mark.parametrize("way", ["write", "submit"])
def test_a_transaction_of_what_is_sent_along_is_looked_up_when_its_commit_has_no_answer(store, beside, proxy, way):
    """DEC-002: its number is known before COMMIT is sent, also where nothing was answered before."""
    begun = []

    def swallow(answer):
        committed = b"COMMIT\0" in answer
        if committed:
            proxy.on_answer = None
        return committed

    def along(db):
        begun.append("once")
        db.defer("meta_set", key="key", value="1")
        proxy.on_answer = swallow

    if way == "write":
        store.write(along)
    else:
        asyncio.run(submitted(store, along))
    assert stored(beside) == {"key": "1"}
    assert begun == ["once"]


def test_what_is_sent_along_and_refused_fails_its_own_operation_alone(store, beside):
    operations = (partial(put, key="a"), foreign, partial(put, key="b"))
    one, two, three = asyncio.run(submitted(store, *operations))
    assert (one, three) == ("a", "b")
    assert isinstance(two, Exception)
    assert set(stored(beside)) == {"a", "b"}


def test_what_is_sent_along_and_refused_is_told_by_a_write(store, beside):
    with pytest.raises(Exception, match="process_worker_id_fkey"):
        store.write(foreign)
    assert store.write(partial(put, key="later")) == "later"


@pytest.mark.parametrize("way", ["write", "submit", "batch"])
def test_an_operation_that_fails_along_with_what_it_sent_harms_no_later_one(store, beside, address, way):
    """What waits to be sent when an operation fails may be refused as well: its transaction is ended all the same."""

    def fail(db):
        db.defer("lock_briefly")
        db.defer("turn_hold", key="turn:held")
        raise ValueError("mine")

    beside.execute("INSERT INTO meta VALUES ('turn:held', '')")
    with psycopg.connect(address) as other:
        other.execute("SELECT 1 FROM meta WHERE key = 'turn:held' FOR UPDATE")
        if way == "write":
            with pytest.raises(ValueError, match="mine"):
                store.write(fail)
        else:
            beside_it = [partial(put, key=f"key{number}") for number in range(2 if way == "batch" else 0)]
            failed, *done = asyncio.run(submitted(store, fail, *beside_it))
            assert isinstance(failed, ValueError)
            assert done == ["key0", "key1"][: len(beside_it)]
        assert store.write(partial(put, key="later")) == "later"
        assert asyncio.run(submitted(store, partial(put, key="last"))) == ["last"]
        assert store.read(lambda db: db.row("meta_get", key="later")) == ("1",)


def test_what_was_asked_ahead_is_answered_as_it_stood_then_and_once(store):
    def look(db):
        db.prefetch("meta_get", key="key")
        put(db, "key")
        return db.rows("meta_get", key="key"), db.rows("meta_get", key="key")

    assert store.write(look) == ([], [("1",)])


def test_what_was_asked_ahead_is_there_also_when_nothing_was_sent_since(store):
    def look(db):
        put(db, "key")
        db.prefetch("meta_get", key="key")
        return db.row("meta_get", key="key")

    assert store.write(look) == ("1",)


class Asked:
    """What operations were asked ahead of, in which order, and what they found."""

    def __init__(self):
        self.noted = []

    def first(self, db, *, writes=False):
        put(db, "key", "1")
        db.prefetch_next()
        self.noted.append("first goes on")
        if writes:
            put(db, "key", "2")
        return "first"

    def asks(self, db):
        self.noted.append("asked")
        db.prefetch("meta_get", key="key")

    def second(self, db):
        self.noted.append("second")
        return db.row("meta_get", key="key")

    async def play(self, store, *, writes=False, refused=False):
        futures = [
            store.submit(partial(self.first, writes=writes)),
            store.submit(self.second, WriteOptions(prefetch=self.asks)),
        ]
        if refused:
            futures.append(store.submit(refuse))
        return await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), LONGEST_WAIT)


def refuse(db):
    db.execute("meta_set", key="key", value=None)


def together(store):
    """Keep the writer busy until several operations wait for it, so that they are one transaction."""
    free = threading.Event()
    store.submit(lambda _: free.wait(LONGEST_WAIT))
    return free


def play_together(store, asked, **changes):
    async def play():
        free = together(store)
        asyncio.get_running_loop().call_soon(free.set)
        return await asked.play(store, **changes)

    return asyncio.run(play())


def test_what_an_operation_asks_first_may_be_asked_while_the_one_before_it_goes_on(store):
    asked = Asked()
    assert play_together(store, asked) == ["first", ("1",)]
    assert asked.noted == ["asked", "first goes on", "second"]


def test_what_was_asked_for_the_next_operation_is_asked_again_where_something_was_written_since(store):
    asked = Asked()
    assert play_together(store, asked, writes=True) == ["first", ("2",)]
    assert asked.noted == ["asked", "first goes on", "asked", "second"]


def test_where_one_of_several_operations_is_refused_the_others_ask_for_themselves(store):
    asked = Asked()
    first, second, refused = play_together(store, asked, refused=True)
    assert (first, second) == ("first", ("1",))
    assert isinstance(refused, Exception)
    assert asked.noted[-3:] == ["first goes on", "asked", "second"]


def test_who_is_asked_for_and_comes_alone_asks_when_he_begins(store):
    asked = Asked()
    store.write(partial(put, key="key"))
    future = asyncio.run(_alone(store, asked))
    assert (future, asked.noted) == (("1",), ["asked", "second"])


async def _alone(store, asked):
    return await asyncio.wait_for(store.submit(asked.second, WriteOptions(prefetch=asked.asks)), LONGEST_WAIT)


def test_what_comes_of_an_operation_is_foretold_before_it_is_acknowledged(store):
    noted = []

    async def play():
        future = store.submit(
            partial(put, key="key"), WriteOptions(on_precommit=lambda value: noted.append(("foretold", value)))
        )
        noted.append(("done", await asyncio.wait_for(future, LONGEST_WAIT)))

    asyncio.run(play())
    assert noted == [("foretold", "key"), ("done", "key")]


def test_nothing_is_foretold_of_what_is_refused(store):
    noted = []

    async def play():
        futures = [
            store.submit(operation, WriteOptions(on_precommit=noted.append))
            for operation in (refuse, partial(put, key="key"))
        ]
        return await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), LONGEST_WAIT)

    refused, kept = asyncio.run(play())
    assert isinstance(refused, Exception)
    assert (kept, set(noted)) == ("key", {"key"})


def test_what_one_operation_asked_ahead_is_no_answer_to_the_next(store):
    held, go = threading.Event(), threading.Event()

    def ask(db):
        held.set()
        go.wait(LONGEST_WAIT)
        db.prefetch("meta_get", key="key")
        put(db, "key")

    async def play():
        first = store.submit(ask)
        await asyncio.to_thread(held.wait, LONGEST_WAIT)
        second = store.submit(lambda db: db.row("meta_get", key="key"))
        go.set()
        return await asyncio.wait_for(asyncio.gather(first, second), LONGEST_WAIT)

    assert asyncio.run(play())[1] == ("1",)


PROCESS = ("worker_id", "kind", "boot_id", "pid", "pid_start", "lock", "version", "started_at", "clock_offset")


def crossing(store, *, first, second, meet, times):
    """Return an operation that locks one row, then another that a second one has by then."""

    def operation(db):
        times.append(first)
        put(db, first)
        if times.count(first) == 1:
            meet.wait(LONGEST_WAIT)
        put(db, second)
        return first

    return operation


def test_two_operations_that_lock_each_other_out_both_happen(store, beside):
    """RISK-1: the server ends one of them; it runs again and the other one is done."""
    for key in ("a", "b"):
        store.write(partial(put, key=key, value="0"))
    meet, times, done = threading.Barrier(2), [], []
    pairs = (("a", "b"), ("b", "a"))
    threads = [
        threading.Thread(
            target=lambda one=one, two=two: done.append(
                store.write(crossing(store, first=one, second=two, meet=meet, times=times))
            )
        )
        for one, two in pairs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST_WAIT)
    assert sorted(done) == ["a", "b"]
    assert len(times) > 2
    assert stored(beside) == {"a": "1", "b": "1"}


def test_a_batch_that_was_locked_out_runs_again_one_by_one(store, beside, address):
    other = open_postgres(address, now=lambda: NOW)
    for key in ("a", "b"):
        store.write(partial(put, key=key, value="0"))
    meet, times = threading.Barrier(2), []
    thread = threading.Thread(
        target=lambda: other.write(crossing(other, first="b", second="a", meet=meet, times=times))
    )

    async def play():
        operations = (crossing(store, first="a", second="b", meet=meet, times=times), partial(put, key="c"))
        thread.start()
        return await submitted(store, *operations)

    assert asyncio.run(play()) == ["a", "c"]
    thread.join(LONGEST_WAIT)
    other.close()
    assert stored(beside) == {"a": "1", "b": "1", "c": "1"}


def test_who_waits_too_long_for_a_lock_is_told_that_others_have_it(store, beside, address):
    with psycopg.connect(address) as holder:
        holder.execute("LOCK TABLE meta")

        def impatient(db):
            db._link.run(statement("SET LOCAL lock_timeout = '10ms'"), {})
            put(db, "key")

        with pytest.raises(DatabaseBusy):
            store.write(impatient)


# a connection that is lost


def end_backend(beside, db):
    beside.execute("SELECT pg_terminate_backend(%s)", [db._link.pid])


def once(action):
    """Return a function that acts at its first call alone."""
    done = []

    def act(*arguments):
        if not done:
            done.append(True)
            action(*arguments)

    return act


@pytest.mark.parametrize("way", ["write", "submit"])
def test_an_operation_whose_backend_was_ended_runs_again_and_counts_once(store, beside, way):
    """Before COMMIT nothing is stored, so that it may run again."""
    kill = once(partial(end_backend, beside))

    def operation(db):
        number = add(db, "count")
        kill(db)
        add(db, "other")
        return number

    if way == "write":
        assert store.write(operation) == 1
    else:
        assert asyncio.run(submitted(store, operation, partial(add, key="count"))) == [1, 2]
    assert stored(beside)["other"] == "1"
    assert stored(beside)["count"] == ("1" if way == "write" else "2")


@pytest.mark.parametrize("way", ["write", "submit"])
@pytest.mark.parametrize("lost", ["question", "answer"])
def test_a_commit_without_an_answer_is_looked_up_and_happens_once(store, beside, proxy, way, lost):
    """DEC-002: the last word is the server's: what it committed is acknowledged, what it did not runs again."""
    begun = []

    def swallow(_data):
        setattr(proxy, f"on_{lost}", None)
        return True

    def operation(db):
        number = add(db, "count")
        db._link.settle()
        if not begun:
            setattr(proxy, f"on_{lost}", swallow)  # what is sent next is the COMMIT
        begun.append(number)
        return number

    if way == "write":
        assert store.write(operation) == 1
    else:
        assert asyncio.run(submitted(store, operation)) == [1]
    assert stored(beside) == {"count": "1"}
    assert begun == ([1] if lost == "answer" else [1, 1])


def test_a_read_goes_on_with_another_connection_when_its_own_has_ended(store, beside):
    store.write(partial(put, key="key"))
    for pid in backends(beside):
        beside.execute("SELECT pg_terminate_backend(%s)", [pid])
    assert store.read(lambda db: db.row("meta_get", key="key")) == ("1",)


# a server that is gone


def test_a_read_says_that_the_database_is_gone_and_never_the_password(proxy, store):
    proxy.refuse()
    with pytest.raises(DatabaseGone) as refused:
        store.read(lambda db: db.row("meta_get", key="key"))
    assert refused.value.code == "database_gone"
    assert proxy.address.partition("?")[2].partition("=")[2] in refused.value.hint


def test_no_message_holds_a_password():
    with pytest.raises(DatabaseGone) as refused:
        open_postgres("postgresql://rota:geheim@127.0.0.1:1/rota?password=geheimer", now=lambda: NOW)
    assert "geheim" not in f"{refused.value} {refused.value.hint}"
    assert "postgresql://rota@127.0.0.1:1/rota" in refused.value.message


def test_what_was_submitted_waits_until_the_server_is_back(proxy, store, beside):
    async def play():
        await store.submit(partial(put, key="before"))
        proxy.refuse()
        waiting = [store.submit(partial(add, key="count")) for _ in range(3)]
        await asyncio.to_thread(until_tried_again, proxy)
        assert not any(future.done() for future in waiting)
        assert "cannot be reached since" in store.problem
        with pytest.raises(DatabaseGone):
            store.read(lambda db: db.row("meta_get", key="count"))
        proxy.admit()
        return await asyncio.wait_for(asyncio.gather(*waiting), LONGEST_WAIT)

    assert asyncio.run(play()) == [1, 2, 3]
    assert stored(beside) == {"before": "1", "count": "3"}
    assert store.problem is None


def until_tried_again(proxy):
    """Wait until somebody has knocked twice at a server that lets nobody in."""
    seen = proxy.connections
    waited = threading.Event()
    for _ in range(round(LONGEST_WAIT / 0.01)):
        if proxy.connections >= seen + 2:
            return
        waited.wait(0.01)
    raise AssertionError("nobody knocked")


def test_a_store_that_is_closed_while_the_server_is_gone_ends(proxy, store):
    async def play():
        await store.submit(partial(put, key="before"))
        proxy.refuse()
        waiting = store.submit(partial(put, key="never"))
        await asyncio.to_thread(until_tried_again, proxy)
        await asyncio.to_thread(store.close)
        with pytest.raises(DatabaseGone):
            await asyncio.wait_for(waiting, LONGEST_WAIT)

    asyncio.run(play())


def test_many_threads_share_a_few_connections(store, beside):
    inside, go, most = threading.Semaphore(0), threading.Event(), 8

    def look(db):
        db.row("meta_get", key="key")
        inside.release()
        go.wait(LONGEST_WAIT)

    threads = [threading.Thread(target=store.read, args=(look,)) for _ in range(2 * most)]
    for thread in threads:
        thread.start()
    for _ in range(most):
        inside.acquire(timeout=LONGEST_WAIT)
    assert len(backends(beside)) == most
    go.set()
    for thread in threads:
        thread.join(LONGEST_WAIT)
    assert not any(thread.is_alive() for thread in threads)


# hearing of others


class Ears:
    def __init__(self):
        self.count = 0
        self._heard = asyncio.Event()

    def __call__(self):
        self.count += 1
        self._heard.set()

    async def hear(self):
        await asyncio.wait_for(self._heard.wait(), LONGEST_WAIT)
        self._heard.clear()


def test_a_write_of_another_process_is_heard(store, address):
    other = open_postgres(address, now=lambda: NOW)

    async def play():
        ears = Ears()
        async with store.listening(ears):
            await ears.hear()  # once when it begins: something may have happened before
            await settled(ears)
            await asyncio.to_thread(other.write, partial(put, key="key"))
            await ears.hear()

    asyncio.run(play())
    other.close()


async def settled(ears):
    """Let the first look, which sees everything as new, come before what is announced."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.05):
            await ears.hear()


def test_a_listener_whose_connection_ends_listens_again(store, proxy, address):
    other = open_postgres(address, now=lambda: NOW)

    async def play():
        ears = Ears()
        async with store.listening(ears):
            await ears.hear()
            proxy.refuse()
            await asyncio.to_thread(until_tried_again, proxy)
            await asyncio.to_thread(other.write, partial(put, key="key"))
            proxy.admit()
            await ears.hear()

    asyncio.run(play())
    other.close()


def test_an_announcement_wakes_once_and_silence_never(store, address):
    """psycopg's own generator of notifications wakes up ten times a second."""
    other = open_postgres(address, now=lambda: NOW)

    async def play():
        ears = Ears()
        listener = Listener(store._reach, heard=ears)
        await ears.hear()
        await settled(ears)
        before = listener.wakeups
        for number in range(3):
            await asyncio.to_thread(other.write, partial(put, key="key", value=str(number)))
            await ears.hear()
        await listener.close()
        return listener.wakeups - before

    assert 1 <= asyncio.run(play()) <= 3
    other.close()


def test_an_inline_write_that_changed_nothing_is_announced_to_nobody(store, address):
    with psycopg.connect(address, autocommit=True) as beside:
        beside.execute("LISTEN rota")
        store.write(lambda db: db.row("meta_get", key="nothing"))
        beside.execute("NOTIFY rota, 'ours'")
        (first,) = beside.notifies(timeout=LONGEST_WAIT, stop_after=1)
        assert first.payload == "ours"


def test_leases_wake_nobody_and_a_change_that_was_not_announced_does(store, address):
    """R-22: all that idle machines write is that they are alive."""
    other = open_postgres(address, now=lambda: NOW)

    async def play():
        ears = Ears()
        listener = Listener(store._reach, heard=ears, every=0.01)
        await ears.hear()
        await looked(listener)
        await settled(ears)
        before = ears.count
        for _ in range(3):
            await asyncio.to_thread(other.write, write_silently)
            await looked(listener)
        silent = ears.count - before
        await asyncio.to_thread(other.write, change_silently)
        await ears.hear()
        await listener.close()
        return silent

    assert asyncio.run(play()) == 0
    other.close()


async def looked(listener):
    """Wait until a whole look began and ended."""
    before = listener.looks
    while listener.looks < before + 2:
        await pause_for(timedelta(milliseconds=5))


def write_silently(db):
    put(db, key="key", value="other")
    db.announces = False


def change_silently(db):
    insert_job(db, spec_of("silent"))
    db.announces = False


# opening


def test_a_database_is_made_by_one_of_many_who_open_it_at_once():
    address = blank("crowd")
    stores = []
    threads = [
        threading.Thread(target=lambda: stores.append(open_postgres(address, now=lambda: NOW))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST_WAIT)
    assert len(stores) == 4
    for one in stores:
        one.close()


def test_what_is_not_there_is_told_and_not_made():
    address = blank("empty")
    assert not is_made(address, now=lambda: NOW)
    with pytest.raises(NotApplied):
        open_postgres(address, now=lambda: NOW, create=False)
    assert not is_made(address, now=lambda: NOW)


@pytest.mark.parametrize("table", ["migration", "run"])
def test_tables_of_something_else_are_left_alone(table):
    address = blank("foreign")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} (id bigint)")
        with pytest.raises(DatabaseForeign, match=table):
            open_postgres(address, now=lambda: NOW)
        assert connection.execute(
            "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        ).fetchone() == (1,)


def test_a_schema_of_its_own_is_enough():
    address = blank("schemas")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE run (id bigint); CREATE SCHEMA apart")
    store = open_postgres(f"{address}&options=-csearch_path%3Dapart", now=lambda: NOW)
    store.write(partial(put, key="key"))
    store.close()
    with psycopg.connect(address) as connection:
        assert connection.execute("SELECT value FROM apart.meta WHERE key = 'key'").fetchall() == [("1",)]


def test_a_newer_schema_is_refused(address, beside):
    beside.execute("INSERT INTO migration VALUES (9999, 'later', 'x', 1)")
    try:
        with pytest.raises(DatabaseNewer):
            open_postgres(address, now=lambda: NOW)
    finally:
        beside.execute("DELETE FROM migration WHERE number = 9999")


def test_commits_are_flushed_whatever_the_role_says(address, beside):
    """DEC-002: what is acknowledged is stored."""
    database = beside.info.dbname
    beside.execute(f"ALTER DATABASE {database} SET synchronous_commit = off")
    try:
        store = open_postgres(address, now=lambda: NOW)
        show = statement("SHOW synchronous_commit")
        assert store.write(lambda db: rows_of(db._link.run(show, {}))) == [("on",)]
        assert asyncio.run(submitted(store, lambda db: rows_of(db._link.run(show, {})))) == [[("on",)]]
        store.close()
    finally:
        beside.execute(f"ALTER DATABASE {database} RESET synchronous_commit")


def blank(name):
    """Return the address of a database without anything in it."""
    database = f"rota_blank_{os.getpid()}_{name}"
    with psycopg.connect(server_address(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {database}")
    return urlsplit(server_address())._replace(path=f"/{database}").geturl()


def test_an_upgrade_under_a_running_rota_costs_no_error(store, beside):
    """A prepared statement whose answer changed its form is prepared anew."""
    key = statement("SELECT * FROM changing")
    beside.execute("CREATE TABLE changing (a bigint)")
    try:
        for _ in range(2):
            store.read(lambda db: rows_of(db._link.run(key, {})))
        beside.execute("ALTER TABLE changing ADD COLUMN b text")
        assert store.read(lambda db: rows_of(db._link.run(key, {}))) == []
    finally:
        beside.execute("DROP TABLE changing")


def test_a_change_of_which_nobody_knows_is_told_as_that(store, proxy):
    """Somebody waits: it is not guessed, and not waited for without end."""

    def swallow(answer):
        if b"COMMIT\0" not in answer:
            return False
        proxy.refuse()
        return True

    def operation(db):
        put(db, "key")
        proxy.on_answer = swallow

    with pytest.raises(DatabaseGone, match="its result is unknown"):
        store.write(operation)


def test_what_was_submitted_ends_after_the_server_was_stopped_and_started():
    """The server says goodbye to everybody, is away, and comes back as another process."""
    server = start_server(Path(tempfile.mkdtemp(prefix="rota-postgres-")))
    store = open_postgres(server.get_uri(), now=lambda: NOW)

    async def play():
        assert await store.submit(partial(add, key="count")) == 1
        await asyncio.to_thread(server.stop)
        waiting = [store.submit(partial(add, key="count")) for _ in range(3)]
        with pytest.raises(DatabaseGone):
            store.read(lambda db: db.row("meta_get", key="count"))
        await asyncio.to_thread(server.ensure_postgres_running)
        return await asyncio.wait_for(asyncio.gather(*waiting), LONGEST_WAIT)

    try:
        assert asyncio.run(play()) == [2, 3, 4]
        assert store.read(lambda db: db.row("meta_get", key="count")) == ("4",)
    finally:
        store.close()
        server.cleanup()


KILL = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'rota' ORDER BY md5(pid || %s::text) LIMIT 1
"""


def test_backends_that_are_ended_at_random_lose_and_double_nothing(store, beside, address):
    """DEC-002: every operation is acknowledged, and stored once, whenever the server ends whatever connection."""
    beside.execute("CREATE TABLE ledger (key text)")
    insert = statement("INSERT INTO ledger VALUES (:key)")
    done, killed, over = [], [], threading.Event()

    def keep(db, key):
        db._link.run(insert, {"key": key})
        return key

    def kill():
        chance = random.Random(8)
        with psycopg.connect(address, autocommit=True) as killer:
            seen = 0
            while not over.wait(chance.random() / 50):
                if len(done) > seen:  # on a slow machine none would ever be done
                    seen = len(done)
                    killed.extend(killer.execute(KILL, [chance.random()]).fetchall())

    async def caller(name):
        for number in count():
            if number >= 40 and len(killed) >= 5:  # on a fast machine forty are done before the first is killed
                return
            key = await store.submit(partial(keep, key=f"{name}:{number}"))
            done.append(key)

    async def play():
        await asyncio.wait_for(asyncio.gather(*(caller(name) for name in range(8))), LONGEST_WAIT)

    killing = threading.Thread(target=kill)
    killing.start()
    try:
        asyncio.run(play())
    finally:
        over.set()
        killing.join()
        kept = [key for (key,) in beside.execute("SELECT key FROM ledger").fetchall()]
        beside.execute("DROP TABLE ledger")
    assert len(done) >= 320
    assert sorted(kept) == sorted(done)


BURN = "SELECT pg_current_xact_id()"


@pytest.mark.parametrize("way", ["write", "submit"])
def test_a_commit_that_a_crash_took_along_is_not_mistaken_for_another_that_got_its_number(tmp_path, way):
    """DEC-002: a server that crashed gives the numbers of what it lost to other transactions."""
    server = start_server(Path(tempfile.mkdtemp(prefix="rota-postgres-")))
    with psycopg.connect(server.get_uri(), autocommit=True) as beside:
        beside.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")  # nothing is flushed but by commits
    server.stop()
    server.ensure_postgres_running()
    proxy = Proxy(tmp_path, server.get_uri())
    store = open_postgres(proxy.address, now=lambda: NOW)
    begun = []

    def crash(_data):
        proxy.on_question = None
        proxy.refuse()
        os.kill(server.get_pid(), signal.SIGQUIT)
        until(lambda: gone(server.get_pid()), what="the server to be gone")
        server.ensure_postgres_running()
        with psycopg.connect(server.get_uri(), autocommit=True) as others:
            while int(str(others.execute(BURN).fetchone()[0])) <= int(begun[0]) + 3:
                pass
        proxy.admit()
        return True

    def operation(db):
        add(db, "count")
        db._link.settle()
        if not begun:
            begun.append(db._link.transaction)
            proxy.on_question = crash  # what is sent next is the COMMIT
        return "done"

    try:
        if way == "write":
            assert store.write(operation) == "done"
        else:
            assert asyncio.run(submitted(store, operation)) == ["done"]
        assert store.read(lambda db: db.row("meta_get", key="count")) == ("1",)
    finally:
        store.close()
        proxy.close()
        server.cleanup()


def test_marks_of_connections_that_are_long_gone_are_taken_away_by_who_comes_new(store, beside):
    beside.execute("INSERT INTO committed VALUES ('old', 7, 0), ('young', 8, extract(epoch FROM now()) * 1000)")
    store.write(partial(put, key="any"))
    left = {link for (link,) in beside.execute("SELECT link FROM committed").fetchall()}
    assert "old" not in left
    assert "young" in left
