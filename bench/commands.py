"""Commands a second: `/bin/true`, eight at a time, by keepers that carry run after run."""

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from bench.measuring import Report, interleave, rows_of, sized
from bench.projects import serving
from bench.scheduling import CLOCK, put_many, store_in
from rota.engine.membership.control import wake
from rota.operations.jobs import find_job

TARGET = "≥ 0.35 × subprocess.run: `/bin/true`, 8 at a time"
COUNT = sized(2000, 16)
YAML = """
scheduler: {concurrency: 8}
jobs:
  nothing:
    command: ["/bin/true"]
    overlap: allow
    output: none
"""


def measure() -> Report:
    """Queue commands in a serving project and wait until all are final, beside plain processes that nobody records."""
    found = interleave({"rota": _rate, "subprocess.run, 8 threads": _plain}, rounds=3)
    against = {"rota": ("subprocess.run, 8 threads",)}
    return Report("commands", TARGET, rows_of(found, "commands/s", against=against))


def _plain(_folder: Path) -> float:
    began = CLOCK.monotonic()
    with ThreadPoolExecutor(8) as threads:
        for _ in threads.map(lambda _: subprocess.run(["/bin/true"], check=True), range(COUNT)):
            pass
    return COUNT / (CLOCK.monotonic() - began)


def _rate(folder: Path) -> float:
    with serving(folder, YAML):
        store = store_in(folder / ".rota")
        job = store.read(partial(find_job, name="nothing"))
        began = CLOCK.monotonic()
        store.write(partial(put_many, job=job, count=COUNT))
        wake(folder / ".rota")
        while store.read(lambda db: db.records("runs_unfinished_some", job_id=job.id, limit=1)):
            time.sleep(0.02)
        took = CLOCK.monotonic() - began
        store.close()
    return COUNT / took
