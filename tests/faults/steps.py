"""Steps of the wall clock under a real scheduler, by a preloaded clock: the machine's own is never touched (R-26)."""

import mmap
import random
import struct
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct

from rota.engine.clock import SystemClock
from rota.model.store_url import SQLITE
from rota.rules.liveness import AMONG_MACHINES
from tests.faults.drill import Damage, Drill
from tests.waiting import until

STEPS = (1, 2, 5, 61, 600, 3_600, 86_400)
NANOSECONDS = 1_000_000_000


class SteppedClock(SystemClock):
    """The clock that the scheduler is shown: the machine's, and an offset that a test moves."""

    def __init__(self, file: Path) -> None:
        file.write_bytes(bytes(8))
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), 8)
        self.offset = 0

    def now(self) -> datetime:
        """Return the wall time with its offset."""
        return super().now() + timedelta(seconds=self.offset)

    def step(self, seconds: int) -> None:
        """Set the clock forward, or back."""
        self.offset += seconds
        self._map[:] = struct.pack("=q", self.offset * NANOSECONDS)


class Trial(Struct, frozen=True):
    """A scheduler whose clock is stepped."""

    drill: Drill
    clock: SteppedClock

    def step(self, seconds: int) -> list[str]:
        """Step the clock while two runs wait for their timeout; return what went wrong."""
        started = self.drill.trigger("late", "late-call")
        for run_id in started:
            self.drill.until_effect(run_id)
        before = self._newest("after")
        self.clock.step(seconds)
        until(lambda: self._newest("after") >= before + 2, what=f"runs after a step of {seconds} s")
        for run_id in started:
            self.drill.until_status(run_id, "FAILED", "COMPLETED", "CANCELLED")
        told = [self._told(run_id) for run_id in started]
        return [f"{reason} after a step of {seconds} s" for reason in told if reason != "timed_out"]

    def _newest(self, job: str) -> int:
        sql = "SELECT COALESCE(max(number), 0) FROM run_now WHERE job = ?"
        return int(self.drill.rows(sql, job)[0][0])

    def _told(self, run_id: str) -> str:
        return str(self.drill.rows("SELECT reason FROM run_now WHERE id = ?", run_id)[0][0])

    def early(self) -> list[str]:
        """Return the runs that were made before their instant."""
        rows = self.drill.rows("SELECT id FROM run WHERE trigger = 'schedule' AND created_at < scheduled_for")
        return [f"{row[0]} came early" for row in rows]


def prepared(folder: Path, shim: Path, *, store: str = SQLITE) -> Trial:
    """Return a project whose scheduler and keepers will see a clock of ours."""
    drill = Drill(folder, store=store)
    clock = SteppedClock(folder / "clock")
    drill.clock = clock
    drill.extra = {"LD_PRELOAD": str(shim), "FAULTS_CLOCK": str(folder / "clock")}
    drill.arm({}, environment=drill.extra)
    drill.declare()
    return Trial(drill, clock)


def _possible(offset: int, *, shared: bool) -> list[int]:
    """Return the steps from an offset; beside a server whose clock stays, those after which both clocks agree."""
    both = [sign * step for step in STEPS for sign in (-1, 1)]
    return [step for step in both if not shared or abs(offset + step) < AMONG_MACHINES.total_seconds()]


def walk(*, steps: int, seed: int, folder: Path, shim: Path, store: str = SQLITE) -> tuple[int, Damage]:
    """Step a clock so many times, back and forth; return how often, and what it cost."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="steps-", dir=folder) as name:
        trial = prepared(Path(name), shim, store=store)
        wrong: list[str] = []
        try:
            trial.drill.serve()
            for _ in range(steps):
                wrong += trial.step(chance.choice(_possible(trial.clock.offset, shared=store != SQLITE)))
            trial.drill.stop()
            found = trial.drill.damage()
            wrong += trial.early()
        finally:
            trial.drill.end()
        return steps, Damage(found.lost, found.doubled, found.left, (*found.wrong, *wrong))
