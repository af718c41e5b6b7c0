"""How late per-second fires start, durable before they run, beside APScheduler 3 on SQLite.

cron has no seconds, so rota fires every second by an interval on a fixed grid; both run at the same time.
"""

import asyncio
import time
from datetime import timedelta
from pathlib import Path

from bench.measuring import Report, Row, figure, quantile, scratch, sized
from bench.rows import RawRows
from bench.scheduling import CLOCK, Scheduling, add_job, store_in
from rota.model.clock import from_ms
from rota.model.spec import Anchor, Schedule

TARGET = "p50 ≤ 1.2 × that of APScheduler 3, p99 ≤ the raw commit's p99 in the same run + 5 ms, none missed"
SECONDS = sized(30, 3)

_peer_began: list[float] = []


def measure() -> Report:
    """Let both fire every second, half a second apart, with a raw commit between them."""
    with scratch() as folder, scratch() as other, scratch() as third:
        return Report("lateness", TARGET, asyncio.run(_measure(folder, other, RawRows(third))))


async def _measure(folder: Path, other: Path, rows: RawRows) -> list[Row]:
    began: list[float] = []

    def note() -> None:
        began.append(time.time())

    first = int(time.time()) + 3
    store = store_in(folder)
    scheduling = Scheduling(store, folder, {"note": note}, slots=16)
    start_at = from_ms(first * 1000)
    every = Schedule(interval=timedelta(seconds=1), anchor=Anchor.FIXED, start_at=start_at)
    add_job(store, "note", schedule=every)
    scheduling.start()
    peer = _start_peer(other, first + 0.5)
    commits = []
    while time.time() < first + SECONDS - 0.75:
        await asyncio.sleep(0.25)
        took = CLOCK.monotonic()
        rows.enqueue_one()
        commits.append((CLOCK.monotonic() - took) * 1000)
    await asyncio.sleep(0.5)
    peer.shutdown()
    await scheduling.close()
    store.close()
    return [
        *_shown("rota", [(at - first) % 1 * 1000 for at in began], due=SECONDS),
        *_shown("APScheduler 3", [(at - first - 0.5) % 1 * 1000 for at in _peer_began], due=SECONDS - 1),
        figure("raw commit, p99", "ms", quantile(commits, 0.99)),
    ]


def _start_peer(folder: Path, first: float):
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
    from apscheduler.schedulers.background import BackgroundScheduler

    stores = {"default": SQLAlchemyJobStore(url=f"sqlite:///{folder / 'jobs.db'}")}
    scheduler = BackgroundScheduler(jobstores=stores, timezone="UTC")
    start = from_ms(int(first * 1000))
    scheduler.add_job(note_peer, "interval", seconds=1, start_date=start, next_run_time=start)
    scheduler.start()
    return scheduler


def note_peer() -> None:
    """Note when the peer's job began; named, since its store keeps a reference by name."""
    _peer_began.append(time.time())


def _shown(name: str, late: list[float], *, due: int) -> list[Row]:
    shown = [figure(f"{name}, p{share * 100:g}", "ms", quantile(late, share)) for share in (0.5, 0.99)]
    return [*shown, figure(f"{name}, fires of about {due}", "", len(late))]
