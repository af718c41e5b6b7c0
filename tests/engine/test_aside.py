"""A machine that has a server to itself and many slots stores ends beside its claims, in a transaction of their own."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

import rota
import rota.testing
from rota.engine.loops.claimer import ASIDE_FROM
from rota.model.errors import StateError
from rota.model.ids import new_id
from rota.model.records import ProcessIdentity
from rota.model.spec import Overlap, OverlapPolicy
from rota.rules.liveness import LEASE
from rota.store.driver import PLAIN, Database, Operation, Store, WriteOptions
from rota.store.postgres.setup import open_postgres
from rota.store.tables import processes
from tests.engine.conftest import NOON, audit, function
from tests.engine.real_work import play_runs
from tests.postgres import lay_postgres
from tests.waiting import LONGEST_WAIT

pytestmark = pytest.mark.anyio
RUNS = 3 * ASIDE_FROM
ALLOW = Overlap(OverlapPolicy.ALLOW)
END_OTHERS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""


class Noting:
    """A store that notes what is submitted aside; the first `refused` of it fail."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.read, self.write, self.close = store.read, store.write, store.close
        self.asides = 0
        self.refused = 0

    def submit(self, operation: Operation[Any], manner: WriteOptions = PLAIN) -> "asyncio.Future[Any]":
        if manner.concurrent and self.refused:
            self.refused -= 1
            future = asyncio.get_running_loop().create_future()
            future.set_exception(StateError("no room", hint="make some"))
            return future
        self.asides += manner.concurrent
        return self._store.submit(operation, manner)


class OnServer(rota.testing.Scene):
    """A scene on a database of a server, whatever the others play on."""

    noting: Noting
    address: str

    def open_database(self) -> Store:
        self.address = lay_postgres("aside")
        self.noting = Noting(open_postgres(self.address, now=self.clock.now))
        return self.noting


@pytest.fixture
async def wide(tmp_path: Path) -> AsyncIterator[OnServer]:
    made = OnServer(tmp_path, NOON, concurrency=ASIDE_FROM)
    await made.start()
    made.table.functions = {"work": work, "fail": fail}
    try:
        yield made
        assert audit(made).violations == ()  # type: ignore[arg-type]  # it is a scene
    finally:
        await made.close()


async def work() -> None:
    return


async def fail() -> None:
    raise ValueError("no")


async def test_ends_that_concern_nobody_else_are_stored_beside_claims(wide: OnServer) -> None:
    wide.declare(function("work", overlap=ALLOW))
    await play_runs(wide, "work", runs=RUNS)
    assert wide.told("work") == [("COMPLETED", None)] * RUNS
    assert wide.noting.asides
    assert wide.engine.slots.taken == 0


async def test_ends_that_others_have_to_do_with_come_in_order_with_the_rest(wide: OnServer) -> None:
    wide.declare(function("fail", overlap=ALLOW))
    await play_runs(wide, "fail", runs=RUNS)
    assert wide.told("fail") == [("FAILED", "exception")] * RUNS
    assert wide.noting.asides == 0


async def test_beside_another_machine_whole_batches_are_stored(wide: OnServer) -> None:
    wide.store.write(partial(enter, name="neighbour"))
    wide.declare(function("work", overlap=ALLOW))
    await play_runs(wide, "work", runs=RUNS)
    assert wide.told("work") == [("COMPLETED", None)] * RUNS
    assert wide.noting.asides == 0


async def test_an_end_that_is_refused_keeps_its_slot_until_it_is_stored(wide: OnServer) -> None:
    wide.noting.refused = 1
    wide.declare(function("work", overlap=ALLOW))
    await play_runs(wide, "work", runs=3)
    assert wide.told("work") == [("COMPLETED", None)] * 3
    assert wide.noting.refused == 0
    assert wide.engine.slots.taken == 0


async def test_connections_that_end_at_random_lose_and_double_nothing(wide: OnServer) -> None:
    begun: Counter[str] = Counter()
    all_begun, some_begun = asyncio.Event(), threading.Event()

    async def count(context: rota.JobContext) -> None:
        begun[context.run.id] += 1
        some_begun.set()
        if len(begun) == 2 * RUNS:
            all_begun.set()

    wide.table.functions = {"count": count}
    wide.declare(function("count", overlap=ALLOW))
    for _ in range(2 * RUNS):
        wide.trigger("count")
    over = threading.Event()
    ending = asyncio.create_task(asyncio.to_thread(end_connections, wide.address, over, after=some_begun))
    try:
        async with asyncio.timeout(LONGEST_WAIT):
            await wide.claim_now()
            await all_begun.wait()
            await wide.engine.until_empty()
    finally:
        over.set()
        some_begun.set()
        assert await ending > 0
    assert Counter(wide.told("count")) == {("COMPLETED", None): 2 * RUNS}
    assert Counter(begun.values()) == {1: 2 * RUNS}


def end_connections(address: str, over: threading.Event, *, after: threading.Event) -> int:
    """End all connections to a database again and again, each time soon `after` something; return how many."""
    ended, chance = 0, random.Random(8)
    with psycopg.connect(address, autocommit=True) as connection:
        while after.wait() and not over.wait(chance.uniform(0, 0.03)):
            after.clear()
            ended += len(connection.execute(END_OTHERS).fetchall())
    return ended


def enter(db: Database, *, name: str) -> None:
    """Let another machine begin."""
    worker = processes.Worker(new_id(NOON), name, {}, name, f"/srv/{name}")
    processes.insert_worker(db, worker, now=NOON)
    me = ProcessIdentity("boot elsewhere", 1, 1)
    epoch = processes.open_process(
        db, worker_id=worker.id, kind="serve", identity=me, lock=new_id(NOON), version="0", now=NOON
    )
    processes.renew_lease(db, epoch, lease=LEASE)
