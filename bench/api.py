"""The HTTP API under 200 clients, beside a bare FastAPI route; how late the scheduler fires meanwhile; live events."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import psutil

from bench.measuring import Report, Row, figure, quantile, scratch
from bench.projects import until_ready
from bench.scheduling import store_in
from rota.operations.access import read_token
from rota.operations.runs import history

TARGET = "no 5xx; lateness p99 ≤ 250 ms meanwhile; 200 streams at 20 events/s ≤ 10 % of a core; RSS ≤ 120 MB"
CLIENTS = 200
SECONDS = float(os.environ.get("BENCH_SECONDS", "30"))
EVENTS_A_SECOND = 20
YAML = """
http: {listen: "127.0.0.1:0"}
jobs:
  clock: {interval: 1s, anchor: fixed, command: ["/bin/true"], output: none, priority: 100}
  task: {command: ["/bin/true"], overlap: allow, output: none, enabled: true}
""" + "".join(f"  job-{number}: {{cron: '0 3 * * *', command: [/bin/true]}}\n" for number in range(18))


@dataclass
class Told:
    """What clients saw."""

    took: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)

    def note(self, status: int, took: float) -> None:
        """Count one answer."""
        self.took.append(took)
        self.statuses[status] = self.statuses.get(status, 0) + 1


def measure() -> Report:
    """Load each path in turn, then follow events."""
    rows: list[Row] = []
    notes: list[str] = []
    with _bare() as port:
        rows += _rows("bare FastAPI route, 20 rows", asyncio.run(_load(port, b"GET /rows")))
    with scratch() as folder, _served(folder) as (process, port):
        token = f"Authorization: Bearer {read_token(folder / '.rota')}".encode()
        time.sleep(SECONDS)
        quiet = _lateness(folder, datetime.fromtimestamp(0).astimezone())
        rows.append(figure("lateness without requests, p99", "ms", quantile(quiet, 0.99) * 1000))
        began = datetime.now().astimezone()
        rows.append(figure("RSS before any request", "MB", process.memory_info().rss / 1e6))
        for name, line in (("list, 20 jobs", b"GET /api/v1/jobs"), ("poll", b"GET /api/v1/scheduler/poll")):
            told = asyncio.run(_load(port, line, token))
            rows += _rows(name, told)
            notes.append(f"{name}: {told.statuses}")
        told = asyncio.run(_load(port, b"POST /api/v1/jobs/task/trigger", token))
        rows += _rows("trigger", told)
        notes.append(f"trigger: {told.statuses}")
        late = _lateness(folder, began)
        rows += [figure("lateness meanwhile, p50", "ms", quantile(late, 0.5) * 1000)]
        rows += [figure("lateness meanwhile, p99", "ms", quantile(late, 0.99) * 1000)]
        rows.append(figure("RSS after all requests", "MB", process.memory_info().rss / 1e6))
    with scratch() as folder, _served(folder) as (process, port):
        rows += _streams(folder, process, port)
    return Report("api", TARGET, rows, notes)


def _rows(name: str, told: Told) -> list[Row]:
    rate = len(told.took) / SECONDS
    return [
        figure(f"{name}: requests", "/s", rate),
        figure(f"{name}: p50", "ms", quantile(told.took, 0.5) * 1000),
        figure(f"{name}: p99", "ms", quantile(told.took, 0.99) * 1000),
    ]


@contextmanager
def _bare() -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    served = subprocess.Popen([sys.executable, "-m", "bench.bare", str(port)])
    try:
        until_ready(lambda: _listens(port))
        yield port
    finally:
        served.terminate()
        served.wait(20)


@contextmanager
def _served(folder: Path) -> Iterator[tuple[psutil.Process, int]]:
    (folder / "rota.yaml").write_text(YAML)
    command = [sys.executable, "-m", "rota", "--dir", str(folder), "serve", "--quiet"]
    served = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        note = folder / ".rota" / "http.json"
        until_ready(note.exists)
        port = int(json.loads(note.read_text())["url"].rpartition(":")[2])
        time.sleep(3)
        yield psutil.Process(served.pid), port
    finally:
        served.terminate()
        served.wait(60)


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


def _streams(folder: Path, process: psutil.Process, port: int) -> list[Row]:
    token = f"Authorization: Bearer {read_token(folder / '.rota')}".encode()
    alone = asyncio.run(_follow(process, port, token, streams=0))
    crowd = asyncio.run(_follow(process, port, token, streams=CLIENTS))
    share = 100 * (crowd[0] - alone[0]) / SECONDS
    return [
        figure(f"{CLIENTS} streams at {EVENTS_A_SECOND} events/s, beyond the work itself", "% of a core", share),
        figure("parts that one stream received", "/s", crowd[1] / SECONDS / CLIENTS),
        figure("RSS with streams", "MB", process.memory_info().rss / 1e6),
    ]


async def _follow(process: psutil.Process, port: int, token: bytes, *, streams: int) -> tuple[float, int]:
    """Return the server's processor seconds, and how many parts came, while events happen."""
    parts = [0]
    following = [asyncio.create_task(_stream(port, token, parts)) for _ in range(streams)]
    await asyncio.sleep(2)
    before = sum(process.cpu_times()[:2])
    end = time.monotonic() + SECONDS
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = b"POST /api/v1/jobs/job-1/%s HTTP/1.1\r\nHost: 127.0.0.1\r\n" + token + b"\r\n\r\n"
    turn = 0
    while time.monotonic() < end:
        turn += 1
        writer.write(head % (b"pause" if turn % 2 else b"resume"))
        answer = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(answer.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))
        await asyncio.sleep(1 / EVENTS_A_SECOND)
    took = sum(process.cpu_times()[:2]) - before
    writer.close()
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)
    return took, parts[0]


async def _stream(port: int, token: bytes, parts: list[int]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n" + token + b"\r\n\r\n")
    while await reader.read(65536):
        parts[0] += 1
