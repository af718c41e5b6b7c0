"""Bytes of the databases' logs for each run of a no-op function: what a queued run writes, and what its end adds."""

import asyncio
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import apsw
import psycopg

from bench import postgres_rota
from bench.contenders import SLOTS
from bench.measuring import Report, figure, scratch, sized
from bench.postgres import run_server
from bench.scheduling import Scheduling, add_job, put_many, store_in

TARGET = "≤ 1,400 bytes a run on SQLite and ≤ 1,300 on PostgreSQL, from claim to end"
COUNT = sized(20_000, 500)
PATIENCE = 120.0


def measure() -> Report:
    """Count the bytes on both databases."""
    with scratch() as folder:
        queued, drained = asyncio.run(_sqlite(folder))
    rows = [figure("SQLite, enqueue", "bytes/run", queued), figure("SQLite, claim to end", "bytes/run", drained)]
    with run_server() as server, scratch() as folder:
        rows.append(figure("PostgreSQL, claim to end", "bytes/run", _postgres(server, folder)))
    return Report("log", TARGET, rows)


async def _sqlite(folder: Path) -> tuple[float, float]:
    async def nothing() -> None: ...

    store = store_in(folder)
    scheduling = Scheduling(store, folder, {"nothing": nothing}, slots=SLOTS)
    job = add_job(store, "nothing")
    log = folder / "rota.db-wal"
    reader = apsw.Connection(str(folder / "rota.db"))
    reader.execute("BEGIN; SELECT 1 FROM run LIMIT 1").fetchall()  # while it reads, the log is not begun anew
    scheduling.start()
    began = log.stat().st_size
    store.write(partial(put_many, job=job, count=COUNT))
    queued = log.stat().st_size
    scheduling.engine.claim_now()
    await scheduling.until(COUNT)
    drained = log.stat().st_size
    reader.close()
    await scheduling.close()
    store.close()
    return (queued - began) / COUNT, (drained - queued) / COUNT


def _postgres(uri: str, folder: Path) -> float:
    postgres_rota.prepare(uri)
    postgres_rota.fill(uri, COUNT)
    command = [sys.executable, "-m", "bench.postgres_rota", uri, str(folder), str(SLOTS)]
    with psycopg.connect(uri, autocommit=True) as connection:
        began = _written(connection)
        worker = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            until = time.monotonic() + PATIENCE
            while (ended := connection.execute(postgres_rota.DONE).fetchone()) != (COUNT,):
                if time.monotonic() > until:
                    raise TimeoutError(f"{ended} of {COUNT} runs ended")
                time.sleep(0.05)
            return (_written(connection) - began) / COUNT
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.wait(30)


def _written(connection: "psycopg.Connection[tuple[object, ...]]") -> int:
    """Return how many bytes the server has logged."""
    row = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint").fetchone()
    assert row is not None
    return int(str(row[0]))
