"""From an enqueue in another process to the start of the function, beside commit + datagram + commit."""

import os
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from bench.measuring import Report, Row, figure, quantile, scratch, sized
from bench.projects import serving
from bench.rows import RawRows
from bench.scheduling import put, store_in
from rota.engine.membership.control import wake
from rota.operations.jobs import find_job
from rota.store.sqlite.store import connect

TARGET = "p50 ≤ 1.5 × the raw bound, p99 ≤ the raw commit's p99 in the same run + 5 ms"
COUNT = sized(200, 10)
GAP = 0.02
FIFO = "began"
MODULE = f"""
import os, pathlib, time
fifo = os.open(pathlib.Path(__file__).with_name("{FIFO}"), os.O_WRONLY)

def nothing():
    os.write(fifo, b"%20d" % time.monotonic_ns())
"""
YAML = """
imports: [work]
jobs:
  nothing:
    run: work:nothing
    overlap: allow
"""


def measure() -> Report:
    """Take one sample of each in turn."""
    with scratch() as folder, scratch() as other:
        (folder / "work.py").write_text(MODULE, "utf-8")
        os.mkfifo(folder / FIFO)
        reader = os.open(folder / FIFO, os.O_RDONLY | os.O_NONBLOCK)
        bound = _Bound(other)
        with serving(folder, YAML):
            samples = _samples(folder, reader, bound)
        bound.close()
    return Report("latency", TARGET, _rows(samples))


def _samples(folder: Path, reader: int, bound: "_Bound") -> dict[str, list[float]]:
    os.set_blocking(reader, True)
    store = store_in(folder / ".rota")
    job = store.read(partial(find_job, name="nothing"))
    found: dict[str, list[float]] = {"rota": [], "raw bound": [], "raw commit": []}
    for _ in range(COUNT):
        time.sleep(GAP)
        began = time.monotonic_ns()
        store.write(partial(put, job=job))
        wake(folder / ".rota")
        found["rota"].append((int(os.read(reader, 20)) - began) / 1e6)
        time.sleep(GAP)
        whole, commit = bound.sample()
        found["raw bound"].append(whole)
        found["raw commit"].append(commit)
    store.close()
    return found


def _rows(found: dict[str, list[float]]) -> list[Row]:
    rows = [
        figure(f"{name}, p{share * 100:g}", "ms", quantile(values, share))
        for name, values in found.items()
        for share in (0.5, 0.99)
    ]
    ratio = quantile(found["rota"], 0.5) / quantile(found["raw bound"], 0.5)
    late = quantile(found["rota"], 0.99) - quantile(found["raw commit"], 0.99)
    return [*rows, figure("p50, rota / raw bound", "×", ratio), figure("p99, rota − raw commit", "ms", late)]


class _Bound:
    """Another process that answers a datagram by one commit, and then with the time."""

    def __init__(self, folder: Path) -> None:
        self._rows = RawRows(folder)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(folder / "asker"))
        self._other = subprocess.Popen([sys.executable, "-m", "bench.latency", str(folder)])
        self._socket.recv(32)
        self._address = str(folder / "answerer")

    def sample(self) -> tuple[float, float]:
        """Return the milliseconds of commit, datagram and commit, and of the first commit alone."""
        began = time.monotonic_ns()
        self._rows.enqueue_one()
        committed = time.monotonic_ns()
        self._socket.sendto(b"go", self._address)
        ended = int(self._socket.recv(32))
        return (ended - began) / 1e6, (committed - began) / 1e6

    def close(self) -> None:
        """End the other process."""
        self._socket.sendto(b"", self._address)
        self._other.wait(10)
        self._socket.close()


def _answer(folder: Path) -> None:
    connection = connect(folder / "rota.db")
    connection.execute("CREATE TABLE answered (at INTEGER)").fetchall()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        own.bind(str(folder / "answerer"))
        own.sendto(b"0", str(folder / "asker"))
        while own.recv(32):
            connection.execute("INSERT INTO answered VALUES (1)").fetchall()
            own.sendto(b"%d" % time.monotonic_ns(), str(folder / "asker"))
    connection.close()


if __name__ == "__main__":
    _answer(Path(sys.argv[1]))
