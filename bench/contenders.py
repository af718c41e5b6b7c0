"""One measurement in a process of its own: `python -m bench.contenders NAME FOLDER COUNT` prints one number."""

import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

SLOTS = 64
COMMIT = SLOTS  # what rota stores at once


def rota_async(folder: Path, count: int) -> float:
    """Runs a second of an async no-op function, from the bulk enqueue until all are final."""

    async def nothing() -> None: ...

    return asyncio.run(_rota(folder, count, nothing))


def rota_sync(folder: Path, count: int) -> float:
    """Runs a second of a sync no-op function."""

    def nothing() -> None: ...

    return asyncio.run(_rota(folder, count, nothing))


async def _rota(folder: Path, count: int, function: Callable) -> float:
    from bench.scheduling import Scheduling, add_job, put_many, store_in
    from rota.engine.membership.control import collect_rarely

    store = store_in(folder)
    scheduling = Scheduling(store, folder, {"nothing": function}, slots=SLOTS)
    job = add_job(store, "nothing")
    scheduling.start()
    collect_rarely()  # as `rota serve` does
    began = time.perf_counter()
    store.write(partial(put_many, job=job, count=count))
    scheduling.engine.claim_now()
    await scheduling.until(count)
    took = time.perf_counter() - began
    await scheduling.close()
    store.close()
    return count / took


def raw(folder: Path, count: int) -> float:
    """The same rows into the same tables by rota's own statements, in commits of the same size, and nothing else."""
    from bench.rows import RawRows

    rows = RawRows(folder)
    began = time.perf_counter()
    rows.enqueue(count)
    rows.drain(COMMIT)
    return count / (time.perf_counter() - began)


def huey(folder: Path, count: int) -> float:
    """huey on SQLite, synchronous=FULL, storing results."""
    from huey import SqliteHuey

    logging.disable(logging.CRITICAL)
    app = SqliteHuey("bench", filename=str(folder / "huey.db"), fsync=True, results=True, store_none=True)

    @app.task()
    def nothing() -> None: ...

    consumer = app.create_consumer(workers=4, periodic=False, initial_delay=0.001, max_delay=0.01)
    consumer.start()
    began = time.perf_counter()
    for _ in range(count):
        nothing()
    while app.storage.result_store_size() < count:
        time.sleep(0.005)
    took = time.perf_counter() - began
    consumer.stop(graceful=True)
    return count / took


def dbos(folder: Path, count: int) -> float:
    """DBOS on SQLite, its file set to WAL beforehand."""
    import sqlite3

    from dbos import DBOS

    logging.disable(logging.CRITICAL)
    file = folder / "dbos.db"
    sqlite3.connect(file).execute("PRAGMA journal_mode = WAL").fetchall()
    DBOS(config={"name": "bench", "system_database_url": f"sqlite:///{file}", "run_admin_server": False})

    @DBOS.workflow()
    def nothing() -> None: ...

    DBOS.launch()
    DBOS.register_queue("bench", concurrency=SLOTS, polling_interval_sec=0.01)
    began = time.perf_counter()
    for handle in [DBOS.enqueue_workflow("bench", nothing) for _ in range(count)]:
        handle.get_result()
    took = time.perf_counter() - began
    DBOS.destroy()
    return count / took


def enqueue_raw(folder: Path, count: int) -> float:
    """Single raw inserts a second, each committed."""
    from bench.rows import RawRows

    rows = RawRows(folder)
    began = time.perf_counter()
    for _ in range(count):
        rows.enqueue_one()
    return count / (time.perf_counter() - began)


def enqueue_inline(folder: Path, count: int) -> float:
    """Single enqueues a second of a synchronous caller, each acknowledged after its commit."""
    from bench.scheduling import add_job, opened, put

    with opened(folder) as store:
        job = add_job(store, "nothing")
        began = time.perf_counter()
        for _ in range(count):
            store.write(partial(put, job=job))
        return count / (time.perf_counter() - began)


def enqueue_loop(folder: Path, count: int) -> float:
    """Single enqueues a second of one caller on the event loop."""
    return asyncio.run(_enqueue_loop(folder, count, callers=1))


def enqueue_loop_8(folder: Path, count: int) -> float:
    """Single enqueues a second of eight callers on the event loop together."""
    return asyncio.run(_enqueue_loop(folder, count, callers=8))


async def _enqueue_loop(folder: Path, count: int, *, callers: int) -> float:
    from bench.scheduling import add_job, opened, put

    with opened(folder) as store:
        job = add_job(store, "nothing")

        async def caller() -> None:
            for _ in range(count // callers):
                await store.submit(partial(put, job=job))

        await store.submit(partial(put, job=job))
        began = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(callers)))
        return count / (time.perf_counter() - began)


FUNCTIONS = (rota_async, rota_sync, raw, huey, dbos, enqueue_raw, enqueue_inline, enqueue_loop, enqueue_loop_8)
CONTENDERS = {function.__name__: function for function in FUNCTIONS}


if __name__ == "__main__":
    name, where, number = sys.argv[1:]
    print(json.dumps(CONTENDERS[name](Path(where), int(number))))
    sys.stdout.flush()
