"""rota on PostgreSQL: how a database is filled, and what one worker process runs.

`python -m bench.postgres_rota URI FOLDER SLOTS [FIFO]` is a worker; it says `ready` and then works until it is ended.
With a FIFO its function tells when it began.
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import psycopg

from bench.postgres_peers import NAMES, SLOTS, ready
from bench.scheduling import CLOCK, Functions, Scheduling, add_job
from rota.engine.loops.leases import Leases
from rota.engine.membership.control import collect_rarely
from rota.store.postgres.setup import open_postgres

DONE = "SELECT count(*) FROM ended WHERE status = 4"
FILL = """
INSERT INTO run (id, job, number, version, trigger, created_at)
SELECT '01980000-0000-7000-8000-' || lpad(to_hex(number), 12, '0'), job.seq, number, job.version, 'manual',
    job.created_at
FROM job, generate_series(1, CAST(%s AS bigint)) AS number
"""
FILL_QUEUE = """
INSERT INTO live (run, job, state, lane_id, rank, position, created_at)
SELECT seq, job, 1, lane_id, priority, number * 1048576, created_at FROM run
"""
KEEP = """
INSERT INTO counter (status, worker_id, count) SELECT 'QUEUED', '', count(*) FROM run;
UPDATE job SET run_number = (SELECT count(*) FROM run);
"""


def prepare(uri: str) -> None:
    """Make the tables and the job."""
    store = open_postgres(uri, now=CLOCK.now)
    add_job(store, NAMES)
    store.close()


def fill(uri: str, count: int) -> None:
    """Put runs into the queue, raw, with what the engine would have counted."""
    with psycopg.connect(uri) as connection:
        connection.execute("ALTER TABLE live DISABLE TRIGGER USER")
        connection.execute(FILL, (count,))
        connection.execute(FILL_QUEUE)
        connection.execute("ALTER TABLE live ENABLE TRIGGER USER")
        connection.execute(KEEP)


def work(uri: str, folder: Path, functions: Functions, *, slots: int = SLOTS) -> None:
    """Be a worker until ended."""
    asyncio.run(_work(uri, folder, functions, slots))


async def _work(uri: str, folder: Path, functions: Functions, slots: int) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    store = open_postgres(uri, now=CLOCK.now)
    scheduling = Scheduling(store, folder, functions, slots=slots)
    holder, wake = scheduling.session.holder, scheduling.engine.wake
    leases = Leases(store, CLOCK, holder=holder, lost=ended.set, changed=wake)
    leases.start()
    scheduling.start()
    async with store.listening(wake):
        collect_rarely()
        ready()
        await ended.wait()
    leases.stop()
    await scheduling.close()
    store.close()


async def nothing() -> None:
    """Do nothing."""


if __name__ == "__main__":
    functions: Functions = {NAMES: nothing}
    if len(sys.argv) > 4:
        fifo = os.open(sys.argv[4], os.O_WRONLY)
        functions = {NAMES: lambda: os.write(fifo, b"%20d" % time.monotonic_ns()) and None}
    work(sys.argv[1], Path(sys.argv[2]), functions, slots=int(sys.argv[3]))
