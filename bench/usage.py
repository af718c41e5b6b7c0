"""`rota usage` over a million executions, of which three in ten tell what they used."""

import json
import time
from datetime import timedelta

import apsw

from bench.measuring import Report, figure, scratch, sized
from bench.rows import RawRows, unguarded
from bench.scheduling import CLOCK, store_in
from rota.model.clock import to_ms
from rota.operations.budgets import By, look_at_usage

TARGET = "a second or two for 1,000,000 executions of the last 30 days"
EXECUTIONS = sized(1_000_000, 5_000)
SPAN = timedelta(days=30)
FILL = """
WITH RECURSIVE counted (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM counted WHERE number < :count)
INSERT INTO run (id, job, number, version, trigger, created_at)
SELECT printf('01980000-0000-7000-8000-%012x', number), (SELECT seq FROM job WHERE id = :job_id), number, 1, 'manual',
    :since + number * :step
FROM counted
"""
FILL_ENDS = """
INSERT INTO ended (run, job, status, finished_at, first_dispatched_at, started_at, worker, slot, epoch, boot_id, pid,
    pid_start, artifacts)
SELECT seq, job, 4, created_at + 1500, created_at, created_at, (SELECT min(seq) FROM worker), 0,
    (SELECT min(epoch) FROM process), 'bench', 1, 1,
    CASE WHEN number % 10 < 3 THEN :telling WHEN number % 10 < 8 THEN :silent END
FROM run
"""
SILENT = {"output_bytes": 120, "summary": "done"}
USAGE = {"requests": 3, "tokens_in": 1200, "tokens_out": 340, "usd_millionths": 4100, "model": "haiku"}


def measure() -> Report:
    """Fill the table raw, then add up each way once."""
    now = CLOCK.now()
    with scratch() as folder:
        rows = RawRows(folder)
        _fill(rows.connection, rows.job.id, since=to_ms(now - SPAN))
        rows.connection.close()
        store = store_in(folder)
        shown = []
        for by in By:
            began, used = time.perf_counter(), time.process_time()
            view = look_at_usage(store, by=by, since=now - SPAN - timedelta(days=1), tz="Europe/Madrid", now=now)
            assert view.total.runs == EXECUTIONS
            shown.append(figure(f"by {by}", "s", time.perf_counter() - began))
            shown.append(figure(f"by {by}, CPU", "s", time.process_time() - used))
        store.close()
    return Report("usage", TARGET, shown)


def _fill(connection: apsw.Connection, job_id: str, *, since: int) -> None:
    step = SPAN // timedelta(milliseconds=1) // (EXECUTIONS + 1)
    artifacts = {"silent": json.dumps(SILENT), "telling": json.dumps({**SILENT, "usage": USAGE})}
    span = {"count": EXECUTIONS, "since": since, "step": step}
    connection.execute(FILL, {"job_id": job_id, **span}).fetchall()
    with unguarded(connection):
        connection.execute(FILL_ENDS, artifacts).fetchall()
