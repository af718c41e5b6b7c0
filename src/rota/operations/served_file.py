"""The file of a served project: loaded and applied at start and when it changes; a broken one changes nothing."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from rota import faults
from rota.declare.plan import Plan
from rota.engine.functions import FunctionTable
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import FileProblems, RotaError, StateError
from rota.operations.jobs import apply_in
from rota.operations.loading import Loaded, load_project
from rota.operations.project import Place
from rota.settings import FILE_NAME, Settings
from rota.store import jobs
from rota.store.driver import Store

Stamp = tuple[int, ...]


class ServedFile:
    """Keeps the stored jobs and the function table equal to the file, as long as the file is good."""

    def __init__(
        self,
        place: Place,
        clock: Clock,
        *,
        environ: Mapping[str, str],
        table: FunctionTable,
        applied: Callable[[Plan], None],
        broken: Callable[[RotaError], None],
    ) -> None:
        self.problem: str | None = None
        self._place = place
        self._clock = clock
        self._environ = environ
        self._table = table
        self._applied = applied
        self._broken = broken
        self._path = place.folder / FILE_NAME
        self._seen: Stamp | None = None

    async def first_load(self, store: Store) -> Loaded | None:
        """Load the file; a broken one is refused unless an earlier good set is stored."""
        self._seen = _stamp(self._path)
        try:
            return await self._load()
        except RotaError as error:
            if not store.read(jobs.job_names):
                raise
            self._break(error)
            return None

    async def first_apply(self, store: Store, loaded: Loaded) -> None:
        """Apply what was loaded at start; a storage that refuses leaves it to the next look."""
        try:
            await self._apply(store, loaded)
        except StateError as error:
            log.error("the file is not applied yet, trying again", error=str(error))
            self.forget()

    async def _apply(self, store: Store, loaded: Loaded) -> None:
        try:
            operation = partial(apply_in, declared=loaded.declared, now=self._clock.now())
            plan = await store.submit(operation)
        except StateError:
            raise  # not the file's fault: whoever looks tries again
        except RotaError as error:
            self._break(error)
            return
        faults.point("apply.committed")
        self.problem = None
        self._applied(plan)

    async def look(self, store: Store, settings: Settings) -> None:
        """Load and apply the file if it changed. Only what was dealt with counts as seen: a failure is tried again."""
        stamp = _stamp(self._path)
        if stamp == self._seen:
            return
        try:
            loaded = await self._load()
        except RotaError as error:
            self._break(error)
        else:
            if not _starts_alike(loaded.declared.settings, settings):
                log.warning("settings of the scheduler changed; they take effect at the next start")
            await self._apply(store, loaded)
        self._seen = stamp

    def forget(self) -> None:
        """Let the next look load the file, changed or not."""
        self._seen = None

    async def _load(self) -> Loaded:
        loaded = await asyncio.to_thread(
            load_project, self._place.folder, self._environ, state=self._place.state, now=self._clock.now()
        )
        self._table.functions = loaded.table.functions
        self._table.conditions = loaded.table.conditions
        return loaded

    def _break(self, error: RotaError) -> None:
        text = "\n".join(map(str, error.problems)) if isinstance(error, FileProblems) else str(error)
        self.problem = text
        log.error("the file cannot be applied; the last good set goes on", problem=text)
        self._broken(error)


def _starts_alike(one: Settings, other: Settings) -> bool:
    """Tell whether two settings differ in nothing but pools and aging, which are stored and take effect at once."""
    return _started_with(one) == _started_with(other)


def _started_with(settings: Settings) -> Settings:
    return replace(settings, pools={}, scheduler=replace(settings.scheduler, aging=None))


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)
