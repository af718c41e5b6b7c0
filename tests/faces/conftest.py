"""A temporary project, a clock that stands still, and the command line called in this process."""

import json
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec import Struct, field

from rota.cli.invocation import Invocation
from rota.cli.main import cli
from rota.engine.transactions.claim import ClaimOwner, claim, start
from rota.engine.transactions.finish import Finished, finish
from rota.model.records import Outcome
from rota.operations.project.locate import open_state
from rota.runners.output import folder_of, make_folder
from rota.runners.processes import identity
from rota.store.tables import processes, run_queries
from tests.template import lay_database
from tests.workers import ensure_worker

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


class StillClock:
    """A clock that moves only when told."""

    def __init__(self, now: datetime = NOON) -> None:
        self._now = now
        self._elapsed = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed

    def boottime(self) -> float:
        return self._elapsed

    def advance(self, duration: timedelta) -> None:
        self._now += duration
        self._elapsed += duration.total_seconds()


class Project(Struct):
    """A project's folder, and `rota` typed inside it."""

    folder: Path
    clock: StillClock = field(default_factory=StillClock)
    pause: Callable[[float], None] = lambda _seconds: None

    @property
    def state(self) -> Path:
        return self.folder / ".rota"

    def write(self, text: str) -> None:
        (self.folder / "rota.yaml").write_text(text)

    def rota(self, *arguments: str, environ: dict[str, str] | None = None) -> Result:
        home = str(self.folder)
        environment = {"PATH": os.environ["PATH"], "HOME": home, "ROTA_TRUST": home, **(environ or {})}
        invocation = Invocation(environment, self.folder, self.clock, self.pause)
        return CliRunner().invoke(cli, list(arguments), obj=invocation)

    def ok(self, *arguments: str) -> str:
        result = self.rota(*arguments)
        assert result.exit_code == 0, (result.exit_code, result.output, result.exception)
        return result.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.rota(*arguments, "--json").stdout)

    def applied(self, text: str) -> "Project":
        self.write(text)
        if not self.state.exists():
            self.state.mkdir(0o700)
            lay_database(self.state)
        self.ok("apply")
        return self

    def begin(self) -> None:
        """Start every queued run, and let it go on."""
        store = open_state(self.state, self.clock, create=False)
        try:
            holder = store.write(self._holder)
            taken = len(store.read(run_queries.running_runs))
            for one in store.write(partial(claim, holder=holder, free=range(taken, 50), now=self.clock.now())):
                store.write(partial(start, claimed=one, holder=holder, process=holder.identity, now=self.clock.now()))
        finally:
            store.close()

    def carry_out(
        self, outcomes: Sequence[Outcome], *, took: timedelta = timedelta(seconds=2), output: str = ""
    ) -> None:
        """Start every queued run, and end them in order as `outcomes` say."""
        store = open_state(self.state, self.clock, create=False)
        try:
            holder = store.write(self._holder)
            claimed = store.write(partial(claim, holder=holder, free=range(50), now=self.clock.now()))
            for one in claimed:
                if not one.started:
                    store.write(
                        partial(start, claimed=one, holder=holder, process=holder.identity, now=self.clock.now())
                    )
                if output:
                    (make_folder(folder_of(self.state, one.run.id)) / "output.0").write_text(output)
            self.clock.advance(took)
            for one, outcome in zip(claimed, outcomes, strict=False):
                finished = Finished(one.run.id, one.run.job_id, outcome)
                store.write(partial(finish, results=[finished], epoch=holder.epoch, now=self.clock.now()))
        finally:
            store.close()

    def _holder(self, db: Any) -> ClaimOwner:
        now, me = self.clock.now(), identity()
        worker = ensure_worker(db, name="here", now=now)
        epoch = processes.open_process(
            db, worker_id=worker, kind="serve", identity=me, lock="none", version="0", now=now
        )
        return ClaimOwner(worker, epoch, me)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty folder in which `rota` is typed."""
    folder = tmp_path / "home"
    folder.mkdir()
    return Project(folder)
