"""`ctx.sdk`: the operations as Python functions have them, in the shapes that `--json` prints."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rota.engine.wake import wake
from rota.model.clock import Clock
from rota.model.making import Maker
from rota.operations.runs import find_run, history
from rota.operations.starting import start
from rota.operations.summary import summarise, summary_json
from rota.operations.system import heartbeat, look, system_json
from rota.operations.views import run_json
from rota.store.driver import Store

RUNS = 50


class Sdk:
    """A small client of the scheduler that a function runs in. Safe from any thread; each call is one transaction."""

    def __init__(self, store: Store, state: Path, clock: Clock, *, maker: Maker | None = None) -> None:
        self._store = store
        self._state = state
        self._clock = clock
        self._maker = maker

    def inside(self, run: str, *, job: str) -> "Sdk":
        """Return the client of a function's run: the runs that it starts name it."""
        return Sdk(self._store, self._state, self._clock, maker=Maker(f"run:{job}", run=run))

    def trigger(self, job: str, params: Mapping[str, Any] | None = None, *, force: bool = False) -> dict[str, Any]:
        """Start a job: a new run in the queue, which is returned; it does not count as activity (R-18, R-29)."""
        born = start(self._store, job, params=params, force=force, by=self._maker, now=self._clock.now())
        wake(self._state)
        return self.run(born.id)

    def status(self) -> dict[str, Any]:
        """Return how the scheduler is, as `rota status --json`."""
        now = self._clock.now()
        return system_json(look(self._store, heartbeat(self._state), now=now), now=now)

    def summary(self, worker: str | None = None) -> dict[str, Any]:
        """Return counts, mode and when to ask again, as `rota status --poll --json`: cheap with any number of runs."""
        return summary_json(summarise(self._store, self._state, now=self._clock.now(), worker=worker))

    def queue_counts(self) -> dict[str, int]:
        """Return how many runs there are: incoming, claimed, provisional, done, failed, skipped, cancelled."""
        counts: dict[str, int] = self.summary()["queue_counts"]
        return counts

    def run(self, run: str) -> dict[str, Any]:
        """Return a run by its handle, `backup:112` or `backup`, the newest one, or by its identifier."""
        return run_json(self._store.read(partial(find_run, handle=run)))

    def runs(self, job: str | None = None, *, status: str | None = None, limit: int = RUNS) -> list[dict[str, Any]]:
        """Return runs, newest first."""
        statuses = () if status is None else (status,)
        return [run_json(run) for run in history(self._store, job=job, statuses=statuses, limit=limit)]
