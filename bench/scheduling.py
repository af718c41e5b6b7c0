"""rota as a contender: its real store, engine and function runner, as `rota serve` puts them together."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rota.engine.clock import SystemClock
from rota.engine.functions import FunctionTable, InProcessFunctions
from rota.engine.loops.loop import make_alarm
from rota.engine.membership.session import close_session, open_session
from rota.engine.scheduler import Engine
from rota.engine.transactions.enqueue import Order, Wanted, enqueue, enqueue_many
from rota.engine.transactions.finish import Finished
from rota.engine.transactions.insert import RunRef
from rota.model.records import Job
from rota.model.spec import JobSpec, Kind, Overlap, OverlapPolicy, Schedule, Work
from rota.model.states import Trigger
from rota.operations.jobs import find_job
from rota.operations.project.apply import create
from rota.rules.admission import Allow
from rota.runners.processes import alive, identity
from rota.settings import SchedulerSettings, Settings
from rota.store.driver import Database
from rota.store.migrate import open_store
from rota.store.sqlite.store import SqliteStore

CLOCK = SystemClock()
Functions = dict[str, Callable[..., Any]]


def store_in(folder: Path) -> SqliteStore:
    """Open a new database with all promises on."""
    return open_store(folder / "rota.db", now=CLOCK.now())


def add_job(
    store: SqliteStore, name: str, *, schedule: Schedule | None = None, params: Mapping[str, Any] | None = None
) -> Job:
    """Store a function job that may overlap."""
    work = Work(Kind.FUNCTION, function=name, params=params or {})
    spec = JobSpec(name, work, overlap=Overlap(OverlapPolicy.ALLOW), schedule=schedule or Schedule())
    store.write(partial(create, spec=spec, source="bench", tzdata="bench", now=CLOCK.now()))
    return store.read(partial(find_job, name=name))


def put(db: Database, job: Job) -> RunRef:
    """Enqueue one run."""
    return enqueue(db, job, Allow(), trigger=Trigger.MANUAL, now=CLOCK.now())


def put_many(db: Database, job: Job, count: int) -> None:
    """Enqueue many runs in one transaction, as `rota trigger --count` and the API do."""
    order = Order(job, Trigger.MANUAL, chained=False)
    enqueue_many(db, order, [Wanted()] * count, verdict=Allow(), now=CLOCK.now())


class _NoProcesses:
    """Starts nothing; only asked whether callers live."""

    alive = staticmethod(alive)

    def reserve(self, _count: int, _ended: object) -> tuple[()]:
        """Have no keeper."""
        return ()


class Scheduling:
    """An engine at work on a store, on the running event loop."""

    def __init__(
        self, store: SqliteStore, folder: Path, functions: dict[str, Callable[..., Any]], *, slots: int
    ) -> None:
        self.ended = asyncio.Event()
        self.count = 0
        self._wanted = 0
        self._store = store
        settings = Settings(folder, folder, scheduler=SchedulerSettings(concurrency=slots))
        self.session = open_session(store, folder, CLOCK, kind="serve", identity=identity(os.getpid()))
        self._functions = InProcessFunctions(
            CLOCK,
            settings,
            FunctionTable(functions),
            ended=self._take_outcomes,
            released=self._take_released,
        )
        self.engine = Engine(
            store,
            CLOCK,
            settings=settings,
            holder=self.session.holder,
            processes=_NoProcesses(),  # type: ignore[arg-type]  # functions alone
            functions=self._functions,
            on_finished=self._count,
        )

    def _take_outcomes(self, finished: list[Finished]) -> None:
        self.engine.all_ended(finished)

    def _take_released(self, run_id: str) -> None:
        self.engine.free_slot(run_id)

    def _count(self, run_ids: Sequence[str]) -> None:
        before, self.count = self.count, self.count + len(run_ids)
        if before < self._wanted <= self.count:
            self.ended.set()

    async def until(self, count: int) -> None:
        """Wait until so many runs are final and stored."""
        self._wanted = count
        if self.count < count:
            await self.ended.wait()

    def start(self) -> None:
        """Let the loops run."""
        self.engine.start(partial(make_alarm, CLOCK))

    async def close(self) -> None:
        """Let what runs end, stop the loops and say goodbye."""
        self.engine.quiesce()
        await self.engine.until_empty()
        await self.engine.end()
        self._functions.close()
        close_session(self._store, self.session, CLOCK, ending="clean")


@contextmanager
def opened(folder: Path):
    """Open a new store and close it again."""
    store = store_in(folder)
    try:
        yield store
    finally:
        store.close()
