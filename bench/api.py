"""The HTTP API under 200 clients, beside a bare FastAPI route; how late the scheduler fires meanwhile; live events."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import psutil
from msgspec import Struct, field

from bench.measuring import Report, Row, figure, quantile, scratch, sized
from bench.projects import until_ready
from bench.scheduling import store_in
from rota.operations.admin.access import read_token
from rota.operations.runs import history

TARGET = (
    "list, poll and trigger under 200 clients ≤ 2.5× a bare route; no 5xx; lateness p99 ≤ 250 ms meanwhile; "
    "200 streams at 20 events/s: ≤ 2 pushes/s each, ≤ 10 % of a core; RSS ≤ 120 MB with API and MCP"
)
LATE, CORE, PUSHES, RSS, BARE = 250.0, 10.0, 2.0, 120.0, 2.5
CLIENTS = sized(200, 10)
SECONDS = float(os.environ.get("BENCH_SECONDS", sized(30, 1)))
EVENTS_A_SECOND = 20
PATHS = {
    "list, 20 jobs": b"GET /api/v1/jobs",
    "poll": b"GET /api/v1/scheduler/poll",
    "trigger": b"POST /api/v1/jobs/task/trigger",
}
YAML = """
http: {listen: "127.0.0.1:0"}
jobs:
  clock: {interval: 1s, anchor: fixed, command: ["/bin/true"], output: none, priority: 100}
  task: {command: ["/bin/true"], overlap: allow, output: none, enabled: true}
""" + "".join(f"  job-{number}: {{cron: '0 3 * * *', command: [/bin/true]}}\n" for number in range(18))


class Told(Struct):
    """What clients saw."""

    took: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)

    def note(self, status: int, took: float) -> None:
        """Count one answer."""
        self.took.append(took)
        self.statuses[status] = self.statuses.get(status, 0) + 1


class Goal(Struct, frozen=True):
    """A figure that is held to a limit."""

    row: Row
    limit: float

    def __str__(self) -> str:
        word = "met" if self.row.median <= self.limit else "MISSED"
        return f"{word}: {self.row.name}: {self.row.median:,.4g} {self.row.unit}, at most {self.limit:g}"


def measure() -> Report:
    """Load each path in turn, then follow events; tell which goals are met."""
    with bare() as port:
        plain = asyncio.run(_load(port, b"GET /rows"))
    rows = _rows("bare FastAPI route, 20 rows", plain)
    with scratch() as folder, served(folder, YAML) as (process, port):
        loaded, goals, notes = _loaded(folder, process, port, plain)
    with scratch() as folder, served(folder, YAML) as (process, port):
        streamed, more = _streams(folder, process, port)
    goals += more
    missed = sum(goal.row.median > goal.limit for goal in goals)
    told = [*notes, *map(str, goals), f"{len(goals) - missed} of {len(goals)} goals are met"]
    return Report("api", TARGET, [*rows, *loaded, *streamed], told)


def _loaded(folder: Path, process: psutil.Process, port: int, plain: Told) -> tuple[list[Row], list[Goal], list[str]]:
    """Load list, poll and trigger; look at the lateness of a job each second, and at the memory."""
    token = f"Authorization: Bearer {read_token(folder / '.rota')}".encode()
    time.sleep(SECONDS)
    quiet = _lateness(folder, datetime.fromtimestamp(0).astimezone())
    rows = [figure("lateness without requests, p99", "ms", quantile(quiet, 0.99) * 1000), _rss(process, "at the start")]
    began, statuses = datetime.now().astimezone(), Counter[int]()
    ratios = []
    for name, line in PATHS.items():
        told = asyncio.run(_load(port, line, token))
        ratios.append(figure(f"bare route / {name}", "×", len(plain.took) / max(1, len(told.took))))
        rows += [*_rows(name, told), ratios[-1]]
        statuses.update(told.statuses)
    late = [taken * 1000 for taken in _lateness(folder, began)]
    asyncio.run(_ask_tools(port, token))
    meanwhile = figure("lateness with requests, p99", "ms", quantile(late, 0.99))
    memory = _rss(process, "after all requests, MCP too")
    failed = figure("answers of 5xx", "", sum(count for status, count in statuses.items() if status >= 500))
    rows += [figure("lateness with requests, p50", "ms", quantile(late, 0.5)), meanwhile, memory, failed]
    goals = [Goal(failed, 0), Goal(meanwhile, LATE), Goal(memory, RSS), *(Goal(ratio, BARE) for ratio in ratios)]
    return rows, goals, [f"answers by status: {dict(sorted(statuses.items()))}", f"{len(late)} fires looked at"]


def _rss(process: psutil.Process, when: str) -> Row:
    return figure(f"RSS {when}", "MB", process.memory_info().rss / 1e6)


async def _ask_tools(port: int, token: bytes) -> None:
    """Ask MCP for its tools, which imports it."""
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}'
    lines = [b"POST /mcp HTTP/1.1", b"Host: 127.0.0.1", token, b"Content-Type: application/json"]
    lines += [b"Accept: application/json, text/event-stream", b"Content-Length: %d" % len(body), b"", body]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"\r\n".join(lines))
    answer = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200"), answer


def _rows(name: str, told: Told) -> list[Row]:
    rate = len(told.took) / SECONDS
    return [
        figure(f"{name}: requests", "/s", rate),
        figure(f"{name}: p50", "ms", quantile(told.took, 0.5) * 1000),
        figure(f"{name}: p99", "ms", quantile(told.took, 0.99) * 1000),
    ]


@contextmanager
def bare() -> Iterator[int]:
    """Serve what `bench.bare` has until the block ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "bench.bare", str(port)])
    try:
        until_ready(lambda: _listens(port))
        yield port
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def served(folder: Path, yaml: str) -> Iterator[tuple[psutil.Process, int]]:
    """Serve a project with its HTTP side until the block ends."""
    (folder / "rota.yaml").write_text(yaml, "utf-8")
    command = [sys.executable, "-m", "rota", "--dir", str(folder), "serve", "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    note = folder / ".rota" / "http.json"
    try:
        until_ready(note.exists)
        port = int(json.loads(note.read_text())["url"].rpartition(":")[2])
        time.sleep(3)
        yield psutil.Process(process.pid), port
    finally:
        process.terminate()
        process.wait(60)
        note.unlink(missing_ok=True)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def _load(port: int, line: bytes, *headers: bytes) -> Told:
    told = Told()
    end = time.monotonic() + SECONDS
    head = b"\r\n".join([line + b" HTTP/1.1", b"Host: 127.0.0.1", *headers, b"", b""])
    await asyncio.gather(*(_client(port, head, told, end=end) for _ in range(CLIENTS)))
    return told


async def _client(port: int, head: bytes, told: Told, *, end: float) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.monotonic() < end:
        began = time.monotonic()
        writer.write(head)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        await reader.readexactly(length)
        told.note(int(answer.split(b" ", 2)[1]), time.monotonic() - began)
    writer.close()


def _lateness(folder: Path, began: datetime) -> list[float]:
    store = store_in(folder / ".rota")
    found = [run for run in history(store, job="clock", limit=1000) if run.created_at >= began]
    store.close()
    return [
        (run.started_at - run.scheduled_for).total_seconds() for run in found if run.started_at and run.scheduled_for
    ] or [0.0]


def _streams(folder: Path, process: psutil.Process, port: int) -> tuple[list[Row], list[Goal]]:
    token = f"Authorization: Bearer {read_token(folder / '.rota')}".encode()
    alone = asyncio.run(_follow(process, port, token, streams=0))
    crowd = asyncio.run(_follow(process, port, token, streams=CLIENTS))
    beyond = f"{CLIENTS} streams at {EVENTS_A_SECOND} events/s, beyond the work itself"
    core = figure(beyond, "% of a core", 100 * (crowd.cpu - alone.cpu) / crowd.took)
    rates = [count / crowd.took for count in crowd.pushes]
    mean = figure("pushes to a stream, mean", "/s", sum(rates) / len(rates))
    most = figure("pushes to a stream, the one with most", "/s", max(rates))
    memory = _rss(process, "with streams")
    events = figure("events", "/s", crowd.events / crowd.took)
    return [events, core, mean, most, memory], [Goal(core, CORE), Goal(most, PUSHES), Goal(memory, RSS)]


class Followed(Struct, frozen=True):
    """What following cost: processor seconds of the server, how long it took, events, and pushes to each stream."""

    cpu: float
    took: float
    events: int
    pushes: list[int]


async def _follow(process: psutil.Process, port: int, token: bytes, *, streams: int) -> Followed:
    """Follow with so many streams while events happen; what comes before they begin is not counted."""
    pushes = [0] * streams
    following = [asyncio.create_task(_stream(port, token, pushes, place=place)) for place in range(streams)]
    await asyncio.sleep(3)
    pushes[:] = [0] * streams
    before, began = sum(process.cpu_times()[:2]), time.monotonic()
    events = await _happen(port, token, end=began + SECONDS)
    took, cpu = time.monotonic() - began, sum(process.cpu_times()[:2]) - before
    counted = list(pushes)
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)
    return Followed(cpu, took, events, counted)


async def _happen(port: int, token: bytes, *, end: float) -> int:
    """Let events happen at an even pace until `end`; return how many did."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = b"POST /api/v1/jobs/job-1/%s HTTP/1.1\r\nHost: 127.0.0.1\r\n" + token + b"\r\n\r\n"
    events, due = 0, time.monotonic()
    while time.monotonic() < end:
        events += 1
        writer.write(head % (b"pause" if events % 2 else b"resume"))
        answer = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(answer.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))
        due += 1 / EVENTS_A_SECOND
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    writer.close()
    return events


async def _stream(port: int, token: bytes, pushes: list[int], *, place: int) -> None:
    """Follow; a push is a chunk that begins with an event, however many reads it takes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n" + token + b"\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    while size := int(await reader.readuntil(b"\r\n"), 16):
        chunk = await reader.readexactly(size + 2)
        pushes[place] += chunk.startswith(b"id: ")
