"""The summary that programs poll (document 001) with a million runs, beside counting the rows."""

import resource
import time
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

from msgspec import Struct

from bench.measuring import Report, figure, quantile, scratch, sized
from bench.rows import RawRows, unguarded
from bench.scheduling import CLOCK, store_in
from rota.http.server import HttpServerThread, Listening
from rota.operations.status.heartbeat import Heartbeat, Liveness
from rota.operations.status.summary import summarise_in
from rota.settings import Http

TARGET = "≤ 20 ms with 1,000,000 runs, of which 100,000 are queued; beside a raw count of the rows by status"
RUNS = sized(1_000_000, 5_000)
QUEUED = sized(100_000, 500)
LOOKS = sized(300, 10)
COUNTS = 5
FILL = """
WITH RECURSIVE counted (number) AS (SELECT :first UNION ALL SELECT number + 1 FROM counted WHERE number < :last)
INSERT INTO run (id, job, number, version, trigger, created_at)
SELECT printf('01980000-0000-7000-8000-%012x', number), (SELECT seq FROM job WHERE id = :job_id), number, 1, 'manual',
    number
FROM counted
"""
FILL_ENDS = """
INSERT INTO ended (run, job, status, reason, finished_at, started_at)
SELECT seq, job, iif(number % 10, 4, 5), iif(number % 10, NULL, 'exit_code'), number, number FROM run
WHERE number BETWEEN :first AND :last
"""
COUNT = """
SELECT status, count(*) FROM ended GROUP BY status UNION ALL SELECT state, count(*) FROM live GROUP BY state
"""
KEEP = """
INSERT INTO counter (status, worker_id, count) SELECT status, '', count(*) FROM run_now GROUP BY status
"""
BEAT = Heartbeat(Liveness.RUNNING, answer={"concurrency": 16, "slots_taken": 0})


def measure() -> Report:
    """Fill the table raw, keep the counters as the engine would have, then ask both ways."""
    with scratch() as folder:
        rows = RawRows(folder)
        rows.fill(QUEUED)
        span = {"first": QUEUED + 1, "last": RUNS}
        rows.connection.execute(FILL, {"job_id": rows.job.id, **span}).fetchall()
        with unguarded(rows.connection):
            rows.connection.execute(FILL_ENDS, span).fetchall()
        rows.connection.execute(KEEP).fetchall()
        counted = [_timed(lambda: rows.connection.execute(COUNT).fetchall()) for _ in range(COUNTS)]
        rows.connection.close()
        asked = _ask(folder)
        over_http = _ask_over_http(folder)
    own = [look.took for look in asked if not look.preempted]
    parts = (
        ("summary", [look.took for look in asked]),
        ("summary that nobody interrupted", own or [0.0]),
        ("summary, processor time", [look.cpu for look in asked]),
        ("over HTTP", over_http),
    )
    shown = [
        figure(f"{name}, p{share * 100:g}", "ms", quantile(took, share) * 1000)
        for name, took in parts
        for share in (0.5, 0.99)
    ]
    shown.append(figure("summaries in which the system gave the processor to others", f"of {LOOKS}", LOOKS - len(own)))
    return Report("summary", TARGET, [*shown, figure("counting rows, p50", "ms", quantile(counted, 0.5) * 1000)])


class Look(Struct, frozen=True):
    """One summary: how long it took, how much of that was its own, and whether the system took the processor away."""

    took: float
    cpu: float
    preempted: bool


def _ask(folder: Path) -> list[Look]:
    store = store_in(folder)
    look = partial(summarise_in, state=folder, beat=BEAT, now=CLOCK.now(), worker="bench")
    assert store.read(look).claimable
    looks = [_look(lambda: store.read(look)) for _ in range(LOOKS)]
    store.close()
    return looks


def _look(act: Callable[[], object]) -> Look:
    before, used = _preemptions(), time.thread_time()
    took = _timed(act)
    return Look(took, time.thread_time() - used, preempted=_preemptions() > before)


def _preemptions() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def _ask_over_http(folder: Path) -> list[float]:
    """Ask a real server for `scheduler/poll`, over one connection that stays open."""
    store = store_in(folder)
    wanted = Listening(Http(listen="127.0.0.1:0"))
    side = HttpServerThread(store, CLOCK, folder=folder, state=folder, wanted=wanted, environ={})
    side.start()
    try:
        headers = {"Authorization": f"Bearer {side.token}"}
        connection = HTTPConnection("127.0.0.1", side.port, timeout=60)

        def ask() -> bytes:
            connection.request("GET", "/api/v1/scheduler/poll?worker_id=bench", headers=headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.status
            return answer.read()

        assert b"claimable" in ask()
        return [_timed(ask) for _ in range(LOOKS)]
    finally:
        side.close()
        store.close()


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began
