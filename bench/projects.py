"""A real `rota serve` on a project of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.scheduling import store_in
from rota.store.tables import jobs

PATIENCE = 20.0


@contextmanager
def serving(folder: Path, yaml: str) -> Iterator[subprocess.Popen[bytes]]:
    """Serve a project until the block ends."""
    (folder / "rota.yaml").write_text(yaml, "utf-8")
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "ROTA_TRUST": str(folder)}
    command = [sys.executable, "-m", "rota", "--dir", str(folder), "serve", "--no-http"]
    served = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until_ready((folder / ".rota" / "wake.sock").exists)
        store = store_in(folder / ".rota")
        until_ready(lambda: bool(store.read(jobs.job_names)))
        store.close()
        yield served
    finally:
        served.terminate()
        served.wait(60)


def until_ready(ready: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError("rota serve is not ready")
        time.sleep(0.02)
