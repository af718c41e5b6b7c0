"""The file of a served project: loaded and applied at start and when it changes; a broken one changes nothing."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

from rota import faults
from rota.declare.plan import Plan
from rota.declare.project import Declared
from rota.declare.yaml import Stamp, home_of, stamp_of
from rota.engine.functions import FunctionTable
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import FileProblems, ProjectServed, RotaError, StateError
from rota.operations.project.apply import apply_in, held_change, read_files
from rota.operations.project.includes import FilesTogether, remember_host
from rota.operations.project.load import Loaded, load_project, refuse_served
from rota.operations.project.locate import ProjectPaths
from rota.settings import FILE_NAME, Settings
from rota.store.driver import Database, Store
from rota.store.tables import audit, jobs

ACTOR = "scheduler"
"""Who the audit says applied the file when nobody typed it."""
MOST_NOTED = 50


class ServedFile:
    """Keeps the stored jobs and the function table equal to the file, as long as the file is good."""

    def __init__(
        self,
        place: ProjectPaths,
        clock: Clock,
        *,
        environ: Mapping[str, str],
        table: FunctionTable,
        applied: Callable[[Plan], None],
        broken: Callable[[RotaError], None],
        applies: bool = True,
    ) -> None:
        self.problem: str | None = None
        self._applies = applies
        """Whether the stored jobs follow the file; else it only tells what functions there are, and how to work."""
        self._place = place
        self._clock = clock
        self._environ = environ
        self._table = table
        self._applied = applied
        self._broken = broken
        self._files = FilesTogether(place.folder / FILE_NAME, home_of(environ))
        self._seen: tuple[object, ...] | None = None
        self._calendars: dict[Path, Stamp | None] = {}
        self._before: Mapping[str, str] = {}
        """The files as they were before they were loaded."""

    async def first_load(self, store: Store) -> Loaded | None:
        """Load the file; a broken one is refused unless an earlier good set is stored."""
        self._seen = await self._stamps()
        if await self._held(store):
            return None
        try:
            return await self._load()
        except ProjectServed:
            raise  # two schedulers would fire the same jobs
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
            log.error("applying the file failed, retrying", error=str(error))
            self.forget()

    async def _apply(self, store: Store, loaded: Loaded) -> None:
        if not self._applies:
            self.problem = None
            return
        try:
            now = self._clock.now()
            operation = partial(_apply_noted, declared=loaded.declared, files=self._before, now=now)
            plan = await store.submit(operation)
        except StateError:
            raise  # not the file's fault: whoever looks tries again
        except RotaError as error:
            self._break(error)
            return
        faults.point("apply.committed")
        self.problem = None
        self._applied(plan)
        self._remember(loaded)
        if loaded.declared.left_out:
            problems = [problem for one in loaded.declared.left_out for problem in one.problems]
            self._break(FileProblems(problems, effect="what is stored of these projects stays as it is"))

    async def look(self, store: Store, settings: Settings) -> None:
        """Load and apply the file if it changed. Only what was dealt with counts as seen: a failure is tried again."""
        stamps = await self._stamps()
        if stamps == self._seen and not self._calendar_changed():
            return
        if await self._held(store):
            return
        try:
            loaded = await self._load()
        except RotaError as error:
            self._break(error)
        else:
            if not _starts_alike(loaded.declared.settings, settings):
                log.warning("scheduler settings changed; restart to apply them")
            await self._apply(store, loaded)
        self._seen = stamps

    async def _held(self, store: Store) -> bool:
        """Tell whether a change waits for a person, before anything of it is loaded; the next look asks again."""
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
        """Let the next look load the file, changed or not."""
        self._seen = None

    async def _load(self) -> Loaded:
        loaded = await asyncio.to_thread(self._load_leniently)
        self._table.functions = loaded.table.functions
        self._table.conditions = loaded.table.conditions
        self._table.sources = loaded.table.sources
        self._table.agents = loaded.table.agents
        return loaded

    def _load_leniently(self) -> Loaded:
        """Load the file; a project that it includes and that is broken does not keep the others from changing."""
        place, now = self._place, self._clock.now()
        self._calendars = {}  # filled also by a load that fails: a calendar may be what is wrong
        loaded = load_project(
            place.folder, self._environ, state=place.state, now=now, lenient=True, calendars=self._calendars, acts=True
        )
        refuse_served(loaded.declared.projects, place.state)
        return loaded

    async def _stamps(self) -> tuple[object, ...]:
        """Look at all files of the project; a look at many folders may take long, so it is made beside the loop."""
        return await asyncio.to_thread(self._files.stamps) if self._files.many else self._files.stamps()

    def _calendar_changed(self) -> bool:
        """Tell whether a calendar file that `except` names is another one than was read."""
        return any(stamp_of(path) != stamp for path, stamp in self._calendars.items())

    def _remember(self, loaded: Loaded) -> None:
        """Let commands inside the included projects find this one."""
        try:
            remember_host(self._place.folder, self._environ, includes=bool(loaded.declared.projects))
        except OSError as error:
            log.warning(
                "could not register with included projects; their commands may not find this scheduler",
                error=str(error),
            )

    def _break(self, error: RotaError) -> None:
        text = "\n".join(map(str, error.problems)) if isinstance(error, FileProblems) else str(error)
        self.problem = text
        log.error("file has problems; keeping the last applied jobs", problem=text)
        self._broken(error)


def _apply_noted(db: Database, *, declared: Declared, files: Mapping[str, str], now: datetime) -> Plan:
    """Apply, and note it in the audit where it changes something: nobody but the scheduler asked for it."""
    plan = apply_in(db, declared=declared, files=files, now=now)
    if plan.changing or plan.settings:
        jobs_changed = {change.name: change.kind.value for change in plan.changing[:MOST_NOTED]}
        detail = {"changed": len(plan.changing), "jobs": jobs_changed, "settings": list(plan.settings)}
        audit.note(db, actor=ACTOR, face=ACTOR, action="apply", target=FILE_NAME, detail=detail, now=now)
    return plan


def _starts_alike(one: Settings, other: Settings) -> bool:
    """Tell whether two settings differ only in what is stored and takes effect at once: pools, budgets, aging."""
    return _started_with(one) == _started_with(other)


def _started_with(settings: Settings) -> Settings:
    scheduler = replace(settings.scheduler, aging=None)
    return replace(settings, pools={}, budgets={}, prices={}, notify={}, scheduler=scheduler)
