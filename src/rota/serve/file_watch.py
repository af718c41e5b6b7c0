"""The file of a served project, loaded and applied at start and at each change unless it has problems."""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from rota import faults
from rota.declare.plan import Plan
from rota.declare.project import Declared
from rota.engine.functions import FunctionTable
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import FileProblems, ProjectServed, RotaError, StateError
from rota.operations.project.apply import apply_in, held_change, read_files
from rota.operations.project.load import Loaded, load_project, refuse_served
from rota.operations.project.locate import FilesTogether, ProjectPaths, remember_host
from rota.serve.host import ProcessObserver
from rota.settings import FILE_NAME, Settings, Stamp, home_of, stamp_of
from rota.store.driver import Database, Store
from rota.store.tables import audit, jobs

ACTOR = "scheduler"
"""The actor in the audit log."""
AUDITED_JOBS_LIMIT = 50
UNREGISTERED = "could not register with included projects; their commands may not find this scheduler"


class ServedFile:
    """Keeps the stored jobs and the function table equal to the file while the file has no problems."""

    def __init__(
        self,
        place: ProjectPaths,
        clock: Clock,
        *,
        environ: Mapping[str, str],
        table: FunctionTable,
        observer: ProcessObserver | None,
        applies: bool = True,
    ) -> None:
        self.problem: str | None = None
        self._applies = applies
        """Whether the stored jobs follow the file; a worker only loads its functions and settings."""
        self._place = place
        self._clock = clock
        self._environ = environ
        self._table = table
        self._observer = observer
        self._unapplied: Loaded | None = None
        self._files = FilesTogether(place.folder / FILE_NAME, home_of(environ))
        self._seen: tuple[object, ...] | None = None
        self._calendars: dict[Path, Stamp | None] = {}
        self._before: Mapping[str, str] = {}
        """The files as they were before they were loaded."""

    async def first_load(self, store: Store) -> Settings:
        """Load the file and return its settings; refuse a file with problems unless jobs are stored already."""
        self._seen = await self._stamps()
        if not await self._held(store):
            try:
                self._unapplied = await self._load()
                settings = self._unapplied.declared.settings
                log.format = settings.scheduler.log_format
                return settings
            except ProjectServed:
                raise  # two schedulers would fire the same jobs
            except RotaError as error:
                if not store.read(jobs.job_names):
                    raise
                self._break(error)
        return Settings(self._place.folder, self._place.state)

    async def first_apply(self, store: Store) -> None:
        """Apply the file of the first load; the next look retries after a failed write."""
        loaded, self._unapplied = self._unapplied, None
        if loaded is None:
            return
        try:
            await self._apply(store, loaded)
        except StateError as error:
            log.error("applying the file failed, retrying", error=str(error))
            self.forget()

    async def _apply(self, store: Store, loaded: Loaded) -> bool:
        if not self._applies:
            self.problem = None
            return False
        try:
            now = self._clock.now()
            operation = partial(_apply_noted, declared=loaded.declared, files=self._before, now=now)
            plan = await store.submit(operation)
        except StateError:
            raise  # no problem of the file: the next look retries
        except RotaError as error:
            self._break(error)
            return False
        faults.point("apply.committed")
        self.problem = None
        if self._observer:
            self._observer.applied(plan)
        try:  # commands inside the included projects find this one
            remember_host(self._place.folder, self._environ, includes=bool(loaded.declared.projects))
        except OSError as error:
            log.warning(UNREGISTERED, error=str(error))
        if loaded.declared.left_out:
            problems = [problem for left_out in loaded.declared.left_out for problem in left_out.problems]
            self._break(FileProblems(problems, effect="the stored jobs of these projects stay unchanged"))
        return True

    async def look(self, store: Store, settings: Settings) -> bool:
        """Load and apply the file if it changed, and return whether it did; the next look retries a failed write."""
        stamps, applied = await self._stamps(), False
        calendar_changed = any(stamp_of(path) != stamp for path, stamp in self._calendars.items())
        if (stamps == self._seen and not calendar_changed) or await self._held(store):
            return False
        try:
            loaded = await self._load()
        except RotaError as error:
            self._break(error)
        else:
            if _fixed_at_start(loaded.declared.settings) != _fixed_at_start(settings):
                log.warning("scheduler settings changed; restart to apply them")
            applied = await self._apply(store, loaded)
        self._seen = stamps
        return applied

    async def _held(self, store: Store) -> bool:
        """Return whether the change waits for approval, before any of it is loaded; the next look checks again."""
        if not self._applies:
            return False
        file, home = self._place.folder / FILE_NAME, home_of(self._environ)
        self._before = await asyncio.to_thread(read_files, file, home=home)
        held = await store.submit(partial(held_change, file=file, home=home, now=self._clock.now()))
        if held is None:
            return False
        if held != self.problem:
            log.warning("file change needs approval: run `rota apply`", problem=held)
        self.problem = held
        self.forget()
        return True

    def forget(self) -> None:
        """Make the next look load the file, changed or not."""
        self._seen = None

    async def _load(self) -> Loaded:
        loaded = await asyncio.to_thread(self._load_leniently)
        self._table.functions = loaded.table.functions
        self._table.conditions = loaded.table.conditions
        self._table.sources = loaded.table.sources
        self._table.agents = loaded.table.agents
        self._table.secrets = loaded.declared.settings.secrets
        return loaded

    def _load_leniently(self) -> Loaded:
        """Load the file; problems of an included project do not stop changes of the others."""
        place, now = self._place, self._clock.now()
        self._calendars = {}  # a failing load fills it too: the problem may be in a calendar
        loaded = load_project(
            place.folder, self._environ, state=place.state, now=now, lenient=True, calendars=self._calendars, acts=True
        )
        refuse_served(loaded.declared.projects, place.state)
        return loaded

    async def _stamps(self) -> tuple[object, ...]:
        """Return the stamps of all files of the project; many folders take long, so a thread reads them."""
        return await asyncio.to_thread(self._files.stamps) if self._files.many else self._files.stamps()

    def _break(self, error: RotaError) -> None:
        text = "\n".join(map(str, error.problems)) if isinstance(error, FileProblems) else str(error)
        self.problem = text
        log.error("file has problems; keeping the last applied jobs", problem=text)
        if self._observer:
            self._observer.broken(error)


def _apply_noted(db: Database, *, declared: Declared, files: Mapping[str, str], now: datetime) -> Plan:
    """Apply the file, and write an audit entry for a change."""
    plan = apply_in(db, declared=declared, files=files, now=now)
    if plan.changing or plan.settings:
        jobs_changed = {change.name: change.kind.value for change in plan.changing[:AUDITED_JOBS_LIMIT]}
        detail = {"changed": len(plan.changing), "jobs": jobs_changed, "settings": list(plan.settings)}
        audit.note(db, actor=ACTOR, face=ACTOR, action="apply", target=FILE_NAME, detail=detail, now=now)
    return plan


def _fixed_at_start(settings: Settings) -> Settings:
    """Return the settings without those that take effect at once: pools, budgets, aging, origins of secrets."""
    live = replace(settings, pools={}, budgets={}, subscriptions={}, prices={}, notify={}, secrets={})
    return replace(live, scheduler=replace(settings.scheduler, aging=None))
