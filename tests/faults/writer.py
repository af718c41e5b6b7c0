"""A program that works with the real store under the recorder and acknowledges what it was told is committed.

Run with the recorder preloaded, with a folder, a log, a seed, rounds, FULL or NORMAL, and what shall fail.
"""

import asyncio
import ctypes
import json
import os
import random
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from rota.engine.transactions.claim import Claimed, ClaimOwner, claim, start
from rota.engine.transactions.finish import end_run
from rota.engine.transactions.fire import fire
from rota.engine.transactions.insert import RunRef
from rota.model.errors import RotaError
from rota.model.records import Outcome, ProcessIdentity
from rota.model.spec import JobSpec, Kind, Overlap, OverlapPolicy, Schedule, Work
from rota.model.states import Status
from rota.operations.project.apply import create
from rota.operations.run_actions import trigger
from rota.runners.keeper import store_durably
from rota.store.driver import Database
from rota.store.migrate import open_store
from rota.store.sqlite.store import SqliteStore
from tests.faults.disk import acknowledgement
from tests.store.making import NOW, enter

T = TypeVar("T")
SECOND = timedelta(seconds=1)
ALLOW = Overlap(OverlapPolicy.ALLOW)
LARGE = "x" * 20_000
DONE = Outcome(Status.COMPLETED, exit_code=0)


class Writer:
    """Enqueues, fires, claims, starts and records; each commit that returned is acknowledged in the log."""

    def __init__(self, folder: Path, log: int, *, chance: random.Random) -> None:
        self._log = log
        self._chance = chance
        self._folder = folder
        self._now = NOW
        self._claimed: list[Claimed] = []
        self._started: list[Claimed] = []

    async def run(self, rounds: int, *, normal: bool) -> None:
        """Open the store and work for so many rounds; an error is noted and the next round goes on."""
        self._store = await self._until_open()
        if normal:
            self._store._connection().execute("PRAGMA synchronous = NORMAL").fetchall()
        while not await self._step(self._prepare):
            pass
        for _ in range(rounds):
            self._now += SECOND
            for act in self._chance.sample(self._acts(), k=4):
                await self._step(act)
        self._store.close()

    async def _until_open(self) -> SqliteStore:
        while True:
            try:
                return open_store(self._folder / "rota.db", now=self._now)
            except RotaError as error:
                self._told("error", code=error.code)

    async def _step(self, act: Callable[[], Any]) -> bool:
        try:
            await act()
        except RotaError as error:
            self._told("error", code=error.code)
            return False
        return True

    def _acts(self) -> list[Callable[[], Any]]:
        return [self._trigger, self._fire, self._claim, self._start, self._record, self._outcome]

    async def _prepare(self) -> None:
        def make(db: Database) -> ClaimOwner:
            work = Work(Kind.COMMAND, command=("true",), params={"note": ""})
            hand = JobSpec("hand", work, overlap=ALLOW)
            tick = JobSpec("tick", work, Schedule(cron=("* * * * *",)), overlap=ALLOW)
            create(db, hand, source="test", tzdata="2026c", now=self._now)
            self._tick = create(db, tick, source="test", tzdata="2026c", now=self._now)
            return enter(db, pid=1)

        self._holder = self._store.write(make)
        self._told("prepared")

    async def _committed(self, operation: Callable[[Database], T]) -> T:
        """Write by the writer thread or inline, as chance has it."""
        return await self._store.submit(operation) if self._chance.random() < 0.5 else self._store.write(operation)

    async def _trigger(self) -> None:
        params = {"note": LARGE if self._chance.random() < 0.3 else ""}
        born: RunRef = trigger(self._store, "hand", now=self._now, params=params)
        self._told("run", id=born.id, status="QUEUED")

    async def _fire(self) -> None:
        self._now += self._chance.choice((SECOND, 60 * SECOND, 150 * SECOND))
        fired = await self._committed(partial(fire, job_id=self._tick, now=self._now))
        for born in (*fired.runs, *(row for row, _, _ in fired.skips)):
            self._told("run", id=born.id, status="QUEUED")

    async def _claim(self) -> None:
        held = {claimed.slot for claimed in self._claimed + self._started}
        free = [slot for slot in range(8) if slot not in held]
        claimed = await self._committed(partial(claim, holder=self._holder, free=free[:2], now=self._now))
        for one in claimed:
            self._told("run", id=one.run.id, status="DISPATCHED")
        self._claimed += claimed

    async def _start(self) -> None:
        if not self._claimed:
            return
        one = self._claimed[0]
        process = ProcessIdentity("boot", 4321, 99)
        assert await self._committed(partial(start, claimed=one, holder=self._holder, process=process, now=self._now))
        self._started.append(self._claimed.pop(0))
        self._told("run", id=one.run.id, status="RUNNING")

    async def _record(self) -> None:
        if not self._started:
            return
        run = self._started[0].run
        done = partial(
            end_run, run_id=run.id, outcome=DONE, expected=Status.RUNNING, epoch=self._holder.epoch, now=self._now
        )
        assert await self._committed(done)
        self._started.pop(0)
        self._told("run", id=run.id, status="COMPLETED")

    async def _outcome(self) -> None:
        """What a keeper does when its run has ended."""
        name = f"{self._chance.randrange(10**9)}.json"
        try:
            store_durably(str(self._folder), name, json.dumps({"name": name}).encode())
        except OSError as error:
            self._told("error", code=os.strerror(error.errno or 0))
            return
        self._told("outcome", name=name)

    def _told(self, kind: str, **facts: Any) -> None:
        os.write(self._log, acknowledgement(json.dumps({"kind": kind, **facts}).encode()))


def main(folder: str, log: str, seed: str, rounds: str, mode: str, *failing: str) -> None:
    """Arm the recorder and write."""
    mask, after, number = map(int, failing or ("0", "0", "0"))
    armed = ctypes.CDLL(None).recorder_arm(folder.encode(), log.encode(), mask, ctypes.c_long(after), number)
    assert armed >= 0, "the recorder is not preloaded"
    chance = random.Random(int(seed))
    file = os.open(log, os.O_WRONLY | os.O_APPEND)
    asyncio.run(Writer(Path(folder), file, chance=chance).run(int(rounds), normal=mode == "NORMAL"))


if __name__ == "__main__":
    main(*sys.argv[1:])
