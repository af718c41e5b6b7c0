"""A scheduler for the tests of programs that embed rota: functions run for real, on a clock that moves when told."""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from rota.model.durations import parse_duration
from rota.model.errors import InvalidInstant
from rota.model.ids import begin_again
from rota.model.records import Outcome, Run
from rota.model.spec import JobSpec
from rota.model.states import Reason, Status
from rota.model.work import Source
from rota.operations.declarations import Declarations, Declaring
from rota.operations.declaring import DECLARED, KEPT, apply_declared, put_job, remove_job
from rota.operations.embedding import SchedulerStatus, TriggerResult, fires_of, shown, status_of, trigger_job
from rota.store import finding
from rota.testing.scene import Scene
from rota.testing.scripted import COMPLETED, Script

T = TypeVar("T")

PATIENCE = 60.0
"""How many seconds of real time a function that is played may take."""


class WorkingScene(Scene):
    """A scene whose functions are those of a program: they run for real, and no time passes meanwhile."""

    async def quiet(self) -> None:
        """Let everything that is under way come to rest, functions too."""
        await super().quiet()
        while self.functions.busy:
            try:
                await asyncio.wait_for(self.functions.until_idle(), PATIENCE)
            except TimeoutError:
                under_way = ", ".join(run.handle for run in self.store.read(finding.running_runs))
                raise AssertionError(f"no end of {under_way} within {PATIENCE:g} s of real time") from None
            await super().quiet()


class Told(NamedTuple):
    """A run as a test tells it: the instant it was for, in the job's zone, its status and its reason."""

    at: str
    status: str
    reason: str | None = None


class PlayedScheduler(Declaring):
    """A scheduler on a clock that moves only when told. Functions run for real; commands follow a `script`."""

    def __init__(self, declarations: Declarations, folder: Path, now: datetime) -> None:
        super().__init__(declarations)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rota-played")
        self._runner = asyncio.Runner()
        self.scene = self._do(partial(WorkingScene, folder, now))

    @property
    def now(self) -> datetime:
        """The time of the clock, in UTC."""
        return self.scene.clock.now()

    def begin(self) -> None:
        """Store what is declared, and do what is due at this instant."""
        declared = self.declarations.everything()
        folder = self.scene.settings.folder
        self.scene.settings = replace(declared.settings, folder=folder, state=folder)
        self.scene.table = self.declarations.table
        apply = partial(apply_declared, declared=declared, kept=self.declarations.kept, allow_empty=True, now=self.now)
        self._do(partial(self.scene.store.write, apply))
        self._play(self.scene.start)
        self.declarations.go_live(self, since=dict(self.declarations.entries))
        self._play(self.scene.settle)

    def end(self) -> None:
        """Let everything go."""
        self.declarations.live = None
        try:
            self._play(self.scene.close)
        finally:
            self._do(self._runner.close)
            self._thread.shutdown()

    def put(self, spec: JobSpec, *, keep: bool) -> None:
        """Store a job and do what is due."""
        source = KEPT if keep else DECLARED
        self._do(partial(self.scene.store.write, partial(put_job, spec=spec, source=source, now=self.now)))
        self._play(self.scene.settle)

    def retire(self, name: str) -> None:
        """Retire a job."""
        self._do(partial(self.scene.store.write, partial(remove_job, name=name, now=self.now)))

    def put_source(self, place: str, source: Source) -> None:
        """Let the jobs whose work source is at `place` ask this one instead: a repository, a folder, an address."""
        self.scene.sources.sources[place] = source

    def advance(self, duration: timedelta | str) -> None:
        """Let time pass, stopping at every instant at which something is due."""
        self._play(partial(self.scene.advance, duration))

    def trigger(
        self, agent_or_job: str, schedule: str | None = None, params: Mapping[str, Any] | None = None
    ) -> TriggerResult:
        """Start a job by hand, and do what is due."""
        act = partial(trigger_job, self.scene.store, agent_or_job, schedule=schedule, params=params, now=self.now)
        result = self._do(act)
        self._play(self.scene.settle)
        return result

    def script(self, job: str, *, takes: timedelta | str = timedelta(), exit_code: int = 0) -> None:
        """Say how long the commands of a job take and how they end; without a script they succeed at once."""
        lasts = parse_duration(takes) if isinstance(takes, str) else takes
        failed = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=exit_code)
        self.scene.processes.scripts[job] = Script(lasts, failed if exit_code else COMPLETED)

    def history(self, job: str) -> list[Told]:
        """Return the runs of a job in short, oldest first; they compare with plain tuples."""
        zone = ZoneInfo(self._do(partial(self.scene.job, job)).spec.schedule.timezone)
        return [
            Told(run.nominal.astimezone(zone).isoformat(), run.status.value, run.reason.value if run.reason else None)
            for run in self.runs(job)
        ]

    def runs(self, job: str) -> list[Run]:
        """Return the runs of a job with all that is stored of them, oldest first."""
        return shown(self._do(partial(self.scene.history, job)))

    def next_fires(self, job: str, n: int = 3) -> list[datetime]:
        """Return when a job starts next, in its own zone."""
        return self._do(partial(fires_of, self.scene.store, job, n=n))

    def status(self) -> SchedulerStatus:
        """Return how each job is."""
        return self._do(partial(status_of, self.scene.store, running=True))

    def _do(self, work: Callable[[], T]) -> T:
        return self._thread.submit(work).result()

    def _play(self, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._do(lambda: self._runner.run(act()))


@contextlib.contextmanager
def scheduler(of: Declaring | None = None, *, now: str | datetime, **sections: Any) -> Iterator[PlayedScheduler]:
    """Play a scheduler from `now` on: all that another one declares, or what is declared inside the block.

    `sections` are those of `rota.Scheduler`, such as `timezone` and `pools`. Nothing is left on disk.
    """
    begin_again(os.urandom)  # identifiers of what really ran may lie in the future of what is played
    with tempfile.TemporaryDirectory(prefix="rota-") as name:
        folder = Path(name)
        declarations = Declarations(sections, folder=folder, state=folder, environ=os.environ)
        if of is not None:
            declarations.take_from(of.declarations)
        played = PlayedScheduler(declarations, folder, _instant(now))
        try:
            played.begin()
            yield played
        finally:
            played.end()
            begin_again(os.urandom)


def _instant(now: str | datetime) -> datetime:
    at = datetime.fromisoformat(now) if isinstance(now, str) else now
    if at.tzinfo is None:
        raise InvalidInstant(f"{at.isoformat()} has no time zone", hint="write one: 2026-03-29T00:00Z")
    return at
