"""The other queues on PostgreSQL: how each is set up, filled and asked what is done, and what one worker process runs.

`python -m bench.postgres_peers NAME URI` is a worker; it says `ready` and then works until it is ended.
"""

import asyncio
import logging
import sys
from collections.abc import Callable
from functools import partial

import psycopg
from msgspec import Struct

SLOTS = 64
"""How many are under way in a worker at most."""
BATCH = SLOTS // 2
"""What is taken at once; pgqueuer asks for room for twice that."""
UNBOUNDED, UNBOUNDED_BATCH = "pgqueuer without a bound", 50
NAMES = "nothing"

RAW_SCHEMA = """
CREATE TABLE work (id bigserial PRIMARY KEY, status text NOT NULL DEFAULT 'queued', started_at timestamptz,
    finished_at timestamptz);
CREATE INDEX work_ready ON work (id) WHERE status = 'queued';
CREATE TABLE attempt (id bigserial PRIMARY KEY, work_id bigint NOT NULL UNIQUE REFERENCES work,
    started_at timestamptz NOT NULL, finished_at timestamptz);
"""
RAW_FILL = "INSERT INTO work (status) SELECT 'queued' FROM generate_series(1, %s)"
RAW_DONE = "SELECT count(*) FROM work WHERE status = 'done'"
RAW_CLAIM = """
WITH taken AS (SELECT id FROM work WHERE status = 'queued' ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED),
     begun AS (UPDATE work SET status = 'running', started_at = now() FROM taken WHERE work.id = taken.id
               RETURNING work.id)
INSERT INTO attempt (work_id, started_at) SELECT id, now() FROM begun RETURNING work_id
"""
RAW_FINISH = """
WITH ended AS (UPDATE work SET status = 'done', finished_at = now() WHERE id = ANY(%s) RETURNING id)
UPDATE attempt SET finished_at = now() FROM ended WHERE attempt.work_id = ended.id
"""


class Peer(Struct, frozen=True):
    """A queue to measure beside."""

    prepare: Callable[[str], None]
    fill: Callable[[str, int], None]
    done: str
    """A query for how many are done."""
    work: Callable[[str], None]


def ready() -> None:
    """Say that the worker is about to work."""
    print("ready", flush=True)


def _raw_prepare(uri: str) -> None:
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(RAW_SCHEMA)


def _raw_fill(uri: str, count: int) -> None:
    with psycopg.connect(uri) as connection:
        connection.execute(RAW_FILL, (count,))


def _raw_work(uri: str) -> None:
    """Claim and finish in batches, two commits each, history kept, and nothing else."""
    with psycopg.connect(uri, autocommit=True) as connection:
        ready()
        while True:
            taken = [row[0] for row in connection.execute(RAW_CLAIM, (BATCH,)).fetchall()]
            if taken:
                connection.execute(RAW_FINISH, (taken,))
            else:
                connection.execute("SELECT pg_sleep(0.005)")


def _procrastinate(uri: str):  # its types are not installed with ours
    import procrastinate

    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=uri))

    @app.task(name=NAMES)
    async def nothing() -> None: ...

    return app, nothing


def _procrastinate_prepare(uri: str) -> None:
    async def prepare() -> None:
        app, _ = _procrastinate(uri)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    asyncio.run(prepare())


def _procrastinate_fill(uri: str, count: int) -> None:
    async def fill() -> None:
        app, nothing = _procrastinate(uri)
        async with app.open_async():
            await nothing.batch_defer_async(*({} for _ in range(count)))

    asyncio.run(fill())


def _procrastinate_work(uri: str) -> None:
    async def work() -> None:
        app, _ = _procrastinate(uri)
        async with app.open_async():
            ready()
            await app.run_worker_async(concurrency=SLOTS, fetch_job_polling_interval=0.05, delete_jobs="never")

    asyncio.run(work())


def _pgqueuer_prepare(uri: str) -> None:
    from pgqueuer.db import PsycopgDriver
    from pgqueuer.queries import Queries

    async def prepare() -> None:
        async with await psycopg.AsyncConnection.connect(uri, autocommit=True) as connection:
            await Queries(PsycopgDriver(connection)).install()

    asyncio.run(prepare())


def _pgqueuer_fill(uri: str, count: int) -> None:
    from pgqueuer.db import PsycopgDriver
    from pgqueuer.queries import Queries

    async def fill() -> None:
        async with await psycopg.AsyncConnection.connect(uri, autocommit=True) as connection:
            await Queries(PsycopgDriver(connection)).enqueue([NAMES] * count, [None] * count, [0] * count)

    asyncio.run(fill())


def _pgqueuer_work(uri: str, *, batch: int = BATCH, most: int | None = SLOTS) -> None:
    from datetime import timedelta

    from pgqueuer import PgQueuer

    async def work() -> None:
        async with await psycopg.AsyncConnection.connect(uri, autocommit=True) as connection:
            queue = PgQueuer.from_psycopg_connection(connection)

            @queue.entrypoint(NAMES)
            async def nothing(job: object) -> None: ...

            ready()
            soon = timedelta(milliseconds=50)
            await queue.qm.run(batch_size=batch, max_concurrent_tasks=most, dequeue_timeout=soon)

    asyncio.run(work())


PGQUEUER_DONE = "SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'"
PEERS = {
    "raw SKIP LOCKED": Peer(_raw_prepare, _raw_fill, RAW_DONE, _raw_work),
    "pgqueuer": Peer(_pgqueuer_prepare, _pgqueuer_fill, PGQUEUER_DONE, _pgqueuer_work),
    # As it comes it takes on without end, and its batches grow with what waits to be written.
    UNBOUNDED: Peer(
        _pgqueuer_prepare,
        _pgqueuer_fill,
        PGQUEUER_DONE,
        partial(_pgqueuer_work, batch=UNBOUNDED_BATCH, most=None),
    ),
    "procrastinate": Peer(
        _procrastinate_prepare,
        _procrastinate_fill,
        "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'",
        _procrastinate_work,
    ),
}


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    PEERS[sys.argv[1]].work(sys.argv[2])
