"""A second process that writes while the scheduler is busy storing."""

import asyncio
import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from bench.measuring import Report, figure, quantile, scratch, sized
from bench.scheduling import CLOCK, Scheduling, add_job, put, put_many, store_in
from rota.operations.jobs import find_job

TARGET = "p99 ≤ 100 ms"
QUEUED = sized(40_000, 8_000)
WRITES = sized(100, 10)
GAP = 0.005
SLOTS = 64


def measure() -> Report:
    """Let the scheduler work on a long queue, and time single enqueues of another process."""
    with scratch() as folder:
        took = asyncio.run(_while_busy(folder))
    rows = [figure(f"one write, p{share * 100:g}", "ms", quantile(took, share)) for share in (0.5, 0.99)]
    return Report("second-writer", TARGET, [*rows, figure("writes measured while it was busy", "", len(took))])


async def _while_busy(folder: Path) -> list[float]:
    async def nothing() -> None: ...

    store = store_in(folder)
    scheduling = Scheduling(store, folder, {"nothing": nothing}, slots=SLOTS)
    job = add_job(store, "nothing")
    store.write(partial(put_many, job=job, count=QUEUED))
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.second_writer", str(folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    assert other.stdin is not None
    await other.stdout.readline()
    scheduling.start()
    scheduling.engine.claim_now()
    other.stdin.write(b"go\n")
    found: list[float] = json.loads(await other.stdout.readline())
    if scheduling.count >= QUEUED:
        raise AssertionError("the scheduler was done before the other process: queue more")
    await other.wait()
    await scheduling.close()
    store.close()
    return found


def _write(folder: Path) -> None:
    store = store_in(folder)
    job = store.read(partial(find_job, name="nothing"))
    print("ready", flush=True)
    sys.stdin.readline()
    took = []
    for _ in range(WRITES):
        began = CLOCK.monotonic()
        store.write(partial(put, job=job))
        took.append((CLOCK.monotonic() - began) * 1000)
        time.sleep(GAP)
    print(json.dumps(took), flush=True)
    store.close()


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
