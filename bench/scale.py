"""What many jobs cost: a round in which nothing is due, opening the database, and registering."""

import time
from datetime import timedelta
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from bench.measuring import Report, Row, figure, quantile, scratch, sized
from bench.scheduling import CLOCK, store_in
from rota.model.spec import JobSpec, Kind, Schedule, Work
from rota.operations.project.apply import create
from rota.rules.schedule.cron import check_cron
from rota.store.driver import Database
from rota.store.tables import jobs

TARGET = "idle round ≤ 0.1 ms and flat at 1k / 10k / 100k jobs; start-up flat too; registering ≥ 10,000 jobs/s"
SIZES = sized((1_000, 10_000, 100_000), (100, 200, 400))
ROUNDS = sized(500, 20)


def measure() -> Report:
    """Register jobs in one transaction, open the database anew, and look for what is due."""
    rows: list[Row] = []
    for size in SIZES:
        with scratch() as folder:
            rows.extend(_at_size(folder, size))
    return Report("scale", TARGET, rows, ["Each job has a cron expression of its own minute and hour."])


def _at_size(folder: Path, size: int) -> list[Row]:
    store = store_in(folder)
    specs = [_spec(number) for number in range(size)]
    began = time.perf_counter()
    store.write(partial(_register, specs=specs))
    registered = size / (time.perf_counter() - began)
    store.close()
    began = time.perf_counter()
    store = store_in(folder)
    opened = time.perf_counter() - began
    now = CLOCK.now() - timedelta(days=1)
    took = [_round(store, now) for _ in range(ROUNDS)]
    store.close()
    return [
        figure(f"registering, {size:,} jobs", "jobs/s", registered),
        figure(f"opening, {size:,} jobs", "ms", opened * 1000),
        figure(f"idle round, {size:,} jobs, p50", "ms", quantile(took, 0.5) * 1000),
        figure(f"idle round, {size:,} jobs, p99", "ms", quantile(took, 0.99) * 1000),
    ]


def _spec(number: int) -> JobSpec:
    schedule = Schedule(cron=(check_cron(f"{number % 60} {number // 60 % 24} * * *"),))
    return replace(JobSpec("job", Work(Kind.COMMAND, command=("true",)), schedule=schedule), name=f"job-{number}")


def _register(db: Database, *, specs: list[JobSpec]) -> None:
    for spec in specs:
        create(db, spec, source="bench", tzdata="bench", now=CLOCK.now())


def _round(store, now) -> float:
    began = time.perf_counter()
    due = store.read(partial(jobs.due_jobs, now=now, limit=200))
    store.read(jobs.next_due)
    took = time.perf_counter() - began
    if due:
        raise AssertionError("nothing may be due in an idle round")
    return took
