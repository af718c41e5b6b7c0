"""Several schedulers on one PostgreSQL at once: what one writer at a time gives on SQLite, locks of rows must give."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from rota.engine.transactions.claim import Claimed, ClaimOwner, claim, start
from rota.engine.transactions.finish import Finished, end_run, finish
from rota.engine.transactions.fire import fire
from rota.model.errors import RunIsFinal
from rota.model.ids import new_id
from rota.model.records import ProcessIdentity
from rota.model.spec import Draw, JobSpec, Overlap, OverlapPolicy, Schedule
from rota.model.states import Reason, Status
from rota.operations.project.apply import create
from rota.operations.run_actions import cancel_run, trigger
from rota.operations.verify.verify import verify
from rota.store.driver import Database, Row
from rota.store.postgres.setup import open_postgres
from rota.store.postgres.store import PostgresStore
from rota.store.tables import jobs, processes, queue, run_queries
from tests.postgres import lay_postgres
from tests.store.making import CANCELLED, DONE, NOW, SECOND, TZDATA, spec_of
from tests.waiting import LONGEST_WAIT

SCHEDULERS = 3
SLOTS = 4
POOLS = {"disk": 2, "gpu": 1}
HOURLY = Schedule(cron=("0 * * * *",))
MANUAL = Schedule()
HOURS = [NOW.replace(minute=0, second=0, microsecond=0) + timedelta(hours=number) for number in range(1, 31)]
LATE = HOURS[-1] + SECOND


@pytest.fixture
def stores():
    address = lay_postgres("together")
    opened = [open_postgres(address, now=lambda: NOW) for _ in range(SCHEDULERS)]
    yield opened
    for store in opened:
        store.close()


def enter(db: Database, *, name: str) -> ClaimOwner:
    me = ProcessIdentity(f"boot of {name}", 1, 1)
    worker = processes.Worker(new_id(NOW), name, {}, name, f"/srv/{name}")
    processes.insert_worker(db, worker, now=NOW)
    epoch = processes.open_process(
        db, worker_id=worker.id, kind="serve", identity=me, lock=new_id(NOW), version="0", now=NOW
    )
    processes.renew_lease(db, epoch, lease=timedelta(hours=1))
    return ClaimOwner(worker.id, epoch, me, leased=True)


def declare(store: PostgresStore, *specs: JobSpec) -> None:
    for spec in specs:
        store.write(partial(create, spec=spec, source="test", tzdata=TZDATA, now=NOW))


def take(db: Database, holder: ClaimOwner) -> list[Claimed]:
    """Claim; no pool is ever drawn on beyond what it holds (R-03)."""
    claimed = claim(db, holder, range(SLOTS), now=LATE, alive=lambda _: True)
    assert all(pool.used <= pool.capacity for pool in queue.pools(db))
    return claimed


def begin(db: Database, claimed: Claimed, holder: ClaimOwner) -> bool:
    """Start what was claimed, unless somebody cancelled it meanwhile."""
    if claimed.started or start(db, claimed, holder, process=holder.identity, now=LATE):
        return True
    end_run(db, claimed.run.id, CANCELLED, expected=Status.DISPATCHED, epoch=holder.epoch, now=LATE)
    return False


async def work(store: PostgresStore, holder: ClaimOwner, *, last: threading.Event) -> list[str]:
    """Claim, start and record as an engine does until everything is over; return what was done."""
    done: list[str] = []
    taken = await store.submit(partial(take, holder=holder))
    while taken or not last.is_set() or anything_left(store):
        begun = [one for one in taken if await store.submit(partial(begin, claimed=one, holder=holder))]
        ends = [Finished(one.run.id, one.run.job_id, DONE) for one in begun]
        recorded = store.submit(partial(finish, results=ends, epoch=holder.epoch, now=LATE + SECOND))
        claimed = store.submit(partial(take, holder=holder))  # one transaction with what is recorded, where both queue
        done += await recorded
        taken = await claimed
    return done


def anything_left(store: PostgresStore) -> bool:
    return any(store.read(lambda db: [run_queries.unfinished_runs(db, job.id) for job in jobs.all_jobs(db)]))


def enqueue_all(stores: list[PostgresStore], names: list[str]) -> None:
    """Enqueue runs of these jobs one by one, through one scheduler after another; some are cancelled at once."""
    for number, name in enumerate(names):
        born = trigger(stores[number % SCHEDULERS], name, now=NOW)
        if number % 7 == 3:
            with contextlib.suppress(RunIsFinal):
                cancel_run(stores[0], born.handle, now=NOW)


def play(stores: list[PostgresStore], enqueue: Callable[[], None]) -> list[str]:
    """Let all schedulers work while runs are enqueued; return what was done, by identifier."""
    holders = [store.write(partial(enter, name=f"host{number}")) for number, store in enumerate(stores)]
    last = threading.Event()
    with ThreadPoolExecutor(SCHEDULERS) as pool:
        parts = [
            pool.submit(asyncio.run, asyncio.wait_for(work(store, holder, last=last), LONGEST_WAIT))
            for store, holder in zip(stores, holders, strict=True)
        ]
        try:
            enqueue()
        finally:
            last.set()
        return [run_id for part in parts for run_id in part.result()]


def judge(stores: list[PostgresStore], done: list[str]) -> None:
    """Every run ended once, as it was told to; nothing is drawn on, and the audit is content."""
    ended = stores[0].read(
        lambda db: [run for job in jobs.all_jobs(db) for run in run_queries.newest_runs(db, job.id, limit=999)]
    )
    completed = [run.id for run in ended if run.status == "COMPLETED"]
    assert sorted(done) == sorted(completed)
    assert {(run.status.value, run.reason) for run in ended} <= {("COMPLETED", None), ("CANCELLED", Reason.REQUESTED)}
    assert {pool.used for pool in stores[0].read(queue.pools)} <= {0}
    found = verify(
        stores[0], Path("/srv/rota"), now=LATE + SECOND, jobs=[job.name for job in stores[0].read(jobs.all_jobs)]
    )
    assert found.violations == ()


def manual(name: str, **changes: object) -> JobSpec:
    return spec_of(name, schedule=MANUAL, overlap=Overlap(OverlapPolicy.ALLOW), **changes)


def test_every_run_is_taken_once_by_whom_ever(stores) -> None:
    """INV-003, R-22."""
    declare(stores[0], manual("one"), manual("two"))
    judge(stores, play(stores, partial(enqueue_all, stores, ["one", "two"] * 30)))


def test_pools_hold_for_all_schedulers_together(stores) -> None:
    """R-03: counters are moved by condition, in the order of the names."""
    stores[0].write(partial(queue.declare_pools, capacities=POOLS))
    declare(
        stores[0],
        manual("plain"),
        manual("model", pools=(Draw("gpu"),)),
        manual("copy", pools=(Draw("disk"),)),
        manual("both", pools=(Draw("gpu"), Draw("disk"))),
    )
    judge(stores, play(stores, partial(enqueue_all, stores, ["plain", "model", "copy", "both"] * 12)))


class Interrupted:
    """A transaction during which others commit something, right after its first look at the heads of the lanes."""

    def __init__(self, db: Database, meanwhile: Callable[[], object]) -> None:
        self._db = db
        self._meanwhile: list[Callable[[], object]] = [meanwhile]

    def __getattr__(self, name: str) -> object:
        return getattr(self._db, name)

    def rows(self, query: str, /, **params: object) -> list[Row]:
        found = self._db.rows(query, **params)
        if query == "lane_heads" and self._meanwhile:
            self._meanwhile.pop()()
        return found


def test_a_run_that_comes_in_front_during_a_claim_lets_nobody_be_claimed_twice(stores) -> None:
    """INV-003, R-03: the heads of the lanes and who stands behind them are two looks, each of its own instant."""
    mine, theirs = stores[:2]
    mine.write(partial(queue.declare_pools, capacities={"gpu": 0, "disk": 1}))
    declare(mine, manual("full", pools=(Draw("gpu"),)), manual("plain"), manual("urgent", priority=1))
    for name in ["full"] * 40 + ["plain"] * 2:
        trigger(mine, name, now=NOW)
    holder = mine.write(partial(enter, name="host"))
    urgent = partial(trigger, theirs, "urgent", now=NOW)
    claimed = mine.write(lambda db: claim(Interrupted(db, urgent), holder, range(3), now=LATE))
    assert [one.run.handle for one in claimed] == ["plain:1", "plain:2"]
    assert verify(mine, Path("/srv/rota"), now=LATE, jobs=["full", "plain", "urgent"]).violations == ()


def test_who_waits_for_a_predecessor_is_never_forgotten(stores) -> None:
    """R-11: whoever ends the predecessor sees who waits for it, or who comes sees that it has ended."""
    declare(stores[0], spec_of("line", schedule=HOURLY, overlap=Overlap(OverlapPolicy.QUEUE, queue_depth=len(HOURS))))
    line = stores[0].read(partial(jobs.job_by_name, name="line"))

    def fire_all() -> None:
        for number, now in enumerate(HOURS):
            store = stores[number % SCHEDULERS]
            while store.read(partial(jobs.due_jobs, now=now, limit=1)):  # who is busy with the job is not waited for
                store.write(partial(fire, job_id=line.id, now=now))

    judge(stores, play(stores, fire_all))


def test_an_instant_has_one_row_whoever_fires_it(stores) -> None:
    """R-05: all look at the same time, one writes."""
    names = ["a", "b", "c"]
    declare(stores[0], *(spec_of(name, schedule=HOURLY, overlap=Overlap(OverlapPolicy.ALLOW)) for name in names))
    together = threading.Barrier(SCHEDULERS, timeout=LONGEST_WAIT)

    def fire_all(store: PostgresStore) -> int:
        fired = 0
        for now in HOURS:
            together.wait()
            for job_id in store.read(partial(jobs.due_jobs, now=now, limit=10)):
                fired += len(store.write(partial(fire, job_id=job_id, now=now)).runs)
            together.wait()
        return fired

    with ThreadPoolExecutor(SCHEDULERS) as pool:
        fired = sum(pool.map(fire_all, stores))
    assert fired == len(names) * len(HOURS)
    found = verify(stores[0], Path("/srv/rota"), now=HOURS[-1], jobs=names)
    assert found.violations == ()
