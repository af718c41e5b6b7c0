"""Declarations from Python: decorators, embedding and the SDK."""

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, overload
from zoneinfo import ZoneInfo

from rota.declare.project import Declared, plain, read_given
from rota.declare.registry import RegisteredFinder, Registry, refuse_second
from rota.engine.functions import FunctionTable
from rota.engine.membership.control import wake
from rota.model.clock import Clock
from rota.model.errors import JobDisabled, JobProblems, OverlapRefused, Problem, RotaError, SchedulerError, UnknownJob
from rota.model.proposals import Author
from rota.model.records import Job, Run
from rota.model.serialize import run_json
from rota.model.spec import Isolate, JobSpec
from rota.model.states import Reason, Status
from rota.operations.jobs import JobView, find_job, job_view
from rota.operations.project.load import interpreter_finder, source_classes
from rota.operations.run_actions import start, trigger
from rota.operations.runs import find_run, history
from rota.operations.status.status import heartbeat, look, system_json
from rota.operations.status.summary import summarise, summary_json
from rota.rules.schedule.preview import coming_fires, next_fires
from rota.store.driver import Database, Store
from rota.store.tables import jobs, run_queries

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)

YET_TO_COME = frozenset({"condition_missing", "function_missing", "unknown_agent"})
"""Problems that the rest of the code may still solve, until the scheduler starts."""
SPELLINGS = {"except_": "except"}
"""Keys that Python cannot write as they are."""


class Live(Protocol):
    """A scheduler at work, which stores at once what is declared from now on."""

    def put(self, spec: JobSpec, *, keep: bool) -> None:
        """Store a job."""
        ...

    def retire(self, name: str) -> None:
        """Retire a job."""
        ...


@dataclass(frozen=True, slots=True)
class DeclaredJob:
    """A job as it was written; `keep`: it outlives the code that added it."""

    keys: Mapping[str, Any]
    keep: bool


class Declarations:
    """All that the code has said, safe from any thread. `live` is the scheduler at work, None before and after."""

    def __init__(self, sections: Mapping[str, Any], *, folder: Path, state: Path, environ: Mapping[str, str]) -> None:
        self.registry = Registry(owner="scheduler")
        self.sections = {key: value for key, value in sections.items() if value is not None}
        self.entries: dict[str, DeclaredJob] = {}
        self.changing = threading.RLock()
        self.live: Live | None = None
        self._folder = folder
        self._state = state
        self._environ = environ
        self._check({})

    @property
    def kept(self) -> frozenset[str]:
        """The jobs that outlive the code that added them."""
        return frozenset(name for name, entry in self.entries.items() if entry.keep)

    @property
    def table(self) -> FunctionTable:
        """What is called in this process, as it is registered at any time."""
        registry = self.registry
        return FunctionTable(
            registry.functions, registry.conditions, sources=registry.sources, agents=registry.agent_functions
        )

    def everything(self) -> Declared:
        """Return all that is declared, complete and checked; raise JobProblems with every problem."""
        bodies = {name: entry.keys for name, entry in self.entries.items()}
        return self._read(bodies, groups=self.sections.get("groups"))

    def add(self, name: str, keys: Mapping[str, Any], *, keep: bool | None) -> None:
        """Add a job, or change the one of this name; it is stored at once where the scheduler is at work."""
        body = plain({SPELLINGS.get(key, key): value for key, value in keys.items()})
        with self.changing:
            spec = self._checked(name, body)
            entry = DeclaredJob(body, self._keeps(name) if keep is None else keep)
            if self.live is not None and spec is not None:
                self.live.put(spec, keep=entry.keep)
            self.entries[name] = entry

    def _keeps(self, name: str) -> bool:
        """Tell whether a job stays that does not say: one that is new while the scheduler is at work does."""
        known = self.entries.get(name)
        return self.live is not None if known is None else known.keep

    def add_function(self, function: Function, name: str, *, keys: Mapping[str, Any], keep: bool | None) -> None:
        """Add a job that runs this function; where it is refused, the name keeps the function that it had."""
        with self.changing:
            functions = self.registry.functions
            before = functions.get(name)
            functions[name] = function
            try:
                self.add(name, {**keys, "run": name}, keep=keep)
            except BaseException:
                del functions[name]
                functions.update({} if before is None else {name: before})
                raise

    def add_agent(self, function: Function, name: str, *, keys: Mapping[str, Any]) -> None:
        """Make a function an agent; where what is said of it is refused, it is none."""
        with self.changing:
            registry = self.registry
            refuse_second(registry.agent_functions, name, function=function, kind="agent")
            agents, functions = dict(registry.agents), dict(registry.agent_functions)
            registry.agent(name, **keys)(function)
            try:
                self._put_schedules(name, self._check({}))
            except BaseException:
                _put_back(registry.agents, agents)
                _put_back(registry.agent_functions, functions)
                raise

    def _put_schedules(self, agent: str, declared: Declared | None) -> None:
        """Store the jobs of an agent's own schedules where the scheduler is at work; before, the start does."""
        live = self.live
        for spec in declared.jobs if declared is not None else ():
            if live is not None and spec.name.startswith(f"{agent}/"):
                live.put(spec, keep=False)

    def remove(self, name: str) -> None:
        """Take a job away, and retire it where the scheduler is at work."""
        with self.changing:
            if self.live is not None:
                self.live.retire(name)
            elif name not in self.entries:
                raise UnknownJob(name, get_close_matches(name, self.entries, n=1))
            self.entries.pop(name, None)

    def go_live(self, live: Live, *, since: Mapping[str, DeclaredJob]) -> None:
        """Store from now on what is declared, and at once what was while the scheduler started on `since`."""
        with self.changing:
            self.live = live
            for name, entry in self.entries.items():
                spec = None if since.get(name) is entry else self._checked(name, entry.keys)
                if spec is not None:
                    live.put(spec, keep=entry.keep)
            for name in since.keys() - self.entries.keys():
                live.retire(name)

    def take_from(self, other: "Declarations") -> None:
        """Declare all that another scheduler declares."""
        mine, theirs = self.registry, other.registry
        with self.changing, other.changing:
            mine.functions |= theirs.functions
            mine.conditions |= theirs.conditions
            mine.sources |= theirs.sources
            mine.needing_poll |= theirs.needing_poll
            mine.agents |= theirs.agents
            mine.agent_functions |= theirs.agent_functions
            self.entries |= other.entries
            self.sections = {**other.sections, **self.sections}

    def declare_made(self, name: str, keys: Mapping[str, Any], _maker: Author) -> JobSpec:
        """Return a job that is made with the tools, by the same sections as those of the code."""
        with self.changing:
            declared = self._read({name: plain(keys)})
        return next(spec for spec in declared.jobs if spec.name == name)

    def _checked(self, name: str, body: Mapping[str, Any]) -> JobSpec | None:
        """Return the job; None where it names what the code has yet to register."""
        declared = self._check({name: body})
        return None if declared is None else next(spec for spec in declared.jobs if spec.name == name)

    def _check(self, bodies: Mapping[str, Any]) -> Declared | None:
        """Return what these jobs and the sections declare; None where they name what has yet to be registered."""
        try:
            return self._read(bodies)
        except JobProblems as error:
            told = [one for one in error.problems if self.live is not None or one.code not in YET_TO_COME]
            if told:
                raise JobProblems(told) from None
            return None

    def _read(self, bodies: Mapping[str, Any], *, groups: Mapping[str, Any] | None = None) -> Declared:
        sections = {key: value for key, value in self.sections.items() if key != "groups"}
        declared = read_given(
            {**sections, **({"groups": groups} if groups else {}), "jobs": bodies},
            self._folder,
            environment=self._environ,
            functions=RegisteredFinder(self.registry),
            interpreter=interpreter_finder,
            state=self._state,
        )
        problems = [problem for spec in declared.jobs if (problem := _elsewhere(spec) or _served(spec))]
        if problems:
            raise JobProblems(problems)
        self.registry.functions |= {
            spec.work.function: self.registry.resolve(spec.work.function)
            for spec in declared.jobs
            if spec.work.in_process and ":" in spec.work.function
        }
        self.registry.sources |= {name: self.registry.resolve_source(name) for name in source_classes(declared.jobs)}
        self.registry.agent_functions |= {
            spec.work.agent.function: self.registry.resolve_agent(spec.work.agent.function)
            for spec in declared.jobs
            if spec.work.agent is not None and ":" in spec.work.agent.function
        }
        return declared


class Declaring:
    """The decorators and `add_job` of a scheduler; nothing here is global."""

    def __init__(self, declarations: Declarations) -> None:
        self.declarations = declarations

    @overload
    def job(self, name: F, /) -> F: ...
    @overload
    def job(self, name: str | None = None, /, *, keep: bool | None = None, **keys: Any) -> Callable[[F], F]: ...
    def job(self, name: Any = None, /, *, keep: bool | None = None, **keys: Any) -> Any:
        """Declare a job that runs this function, under its own name or the one given; `keys` are those of a file."""

        def declare(function: F) -> F:
            title = function.__name__ if name is None or callable(name) else name
            refuse_second(self.declarations.registry.functions, title, function=function, kind="function")
            self.declarations.add_function(function, title, keys=keys, keep=keep)
            return function

        return declare(name) if callable(name) else declare

    @overload
    def condition(self, name: F, /) -> F: ...
    @overload
    def condition(self, name: str | None = None, /, *, needs_poll: bool = False) -> Callable[[F], F]: ...
    def condition(self, name: Any = None, /, *, needs_poll: bool = False) -> Any:
        """Make a function known to `conditions`; with `needs_poll` it looks at what the shared poll brought (R-16)."""
        return self.declarations.registry.condition(name, needs_poll=needs_poll)

    @overload
    def agent(self, name: F, /) -> F: ...
    @overload
    def agent(self, name: str | None = None, /, **keys: Any) -> Callable[[F], F]: ...
    def agent(self, name: Any = None, /, **keys: Any) -> Any:
        """Make a function an agent: `async (AgentTask) -> AgentResult`; `keys` are those of `agents`.

        A limit that it names is one that the function keeps: `max_turns=True`, or with a value `max_turns=20`.
        """

        def declare(function: F) -> F:
            title = function.__name__ if name is None or callable(name) else name
            self.declarations.add_agent(function, title, keys=keys)
            return function

        return declare(name) if callable(name) else declare

    @overload
    def source(self, name: F, /) -> F: ...
    @overload
    def source(self, name: str | None = None, /) -> Callable[[F], F]: ...
    def source(self, name: Any = None, /) -> Any:
        """Make a class known to `work_source: {run: name}`, under its own name or the one given."""
        return self.declarations.registry.source(name)

    def add_job(self, name: str, /, *, keep: bool | None = None, **keys: Any) -> None:
        """Add a job, or change the one of this name; `keys` are those of a file, and `run` may be a function.

        What is added before the start is like a file: when the code starts without it, it is retired. What is added
        later, or to `keep`, stays until `remove_job`.
        """
        if callable(keys.get("run")):
            self.declarations.add_function(keys["run"], name, keys=keys, keep=keep)
        else:
            self.declarations.add(name, keys, keep=keep)

    def remove_job(self, name: str) -> None:
        """Take a job away: no more fires, its runs go on, and its history stays; adding it again revives it."""
        self.declarations.remove(name)


def _put_back(names: dict[str, Any], before: Mapping[str, Any]) -> None:
    """Make a table of names what it was; others look at this very one."""
    names.clear()
    names.update(before)


def _served(spec: JobSpec) -> Problem | None:
    """Return what is wrong with an agent that is to get tools from a project which is not on disk."""
    if spec.work.agent is None or not spec.work.agent.rota_tools:
        return None
    hint = "hand your agents `rota.tools(scheduler, made_by=…)` in your own code"
    message = "rota serves its tools to agents of a project with a rota.yaml"
    return Problem(message, "conflict", at=("jobs", spec.name, "rota_tools"), hint=hint)


def _elsewhere(spec: JobSpec) -> Problem | None:
    """Return what is wrong with a function of this process that is to run in another one."""
    work = spec.work
    if not work.function or ":" in work.function or work.isolate is not Isolate.PROCESS or work.python is not None:
        return None
    message = "a function that is registered here is not known in a process of its own"
    return Problem(message, "conflict", at=("jobs", spec.name, "isolate"), hint='name it as run="module:function"')


ENDED = (Status.COMPLETED.value, Status.FAILED.value)

E = TypeVar("E", bound=RotaError)
State = Literal["idle", "running", "disabled"]

_CALLS = (
    (re.compile(r"`rota list`"), "`scheduler.status()`"),
    (re.compile(r"`rota history`"), "`scheduler.history()`"),
    (re.compile(r"with --param \S+"), "in `params`"),
    (re.compile(r"--force\b"), "`force=True`"),
    (re.compile(r"--allow-empty\b"), "`allow_empty=True`"),
)
"""What commands and their options are in a program."""
_COMMAND = re.compile(r"`rota |(?<![\w`])--[a-z]")
_PARTS = re.compile(r"(; |, or |, )")


def code_hint(hint: str) -> str:
    """Return a hint as a program needs it: calls instead of commands; what only a command can do is left out.

    >>> code_hint("wait for it, stop it with `rota cancel a:1`, or pass overlap with --force")
    'wait for it, or pass overlap with `force=True`'
    """
    for command, call in _CALLS:
        hint = command.sub(call, hint)
    first, *rest = _PARTS.split(hint)
    pairs = [("", first), *zip(rest[::2], rest[1::2], strict=True)]
    kept = [(between, part) for between, part in pairs if not _COMMAND.search(part)]
    return "".join(between + part if index else part for index, (between, part) in enumerate(kept))


def for_code(error: E) -> E:
    """Let an error of rota speak to a program."""
    error.hint = code_hint(error.hint)
    return error


@dataclass(frozen=True, slots=True)
class TriggerResult:
    """What became of a trigger: a run was made, or not, and why; `skipped` where a policy of the job refused it."""

    success: bool
    run_id: str | None = None
    error: str | None = None
    skipped: bool = False
    skip_reason: str | None = None

    @property
    def run(self) -> str:
        """The identifier of the run; SchedulerError where the trigger was refused and there is none."""
        if self.run_id is None:
            raise SchedulerError(f"there is no run to wait for: {self.error}")
        return self.run_id


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """One job: how it is, when it last ended and is next due, and what its last end was if that was a failure."""

    job: str
    state: State
    agent: str | None = None
    last_run_at: datetime | None = None
    next_run_at: datetime | None = None
    last_error: str | None = None
    paused: bool = False

    @property
    def schedule(self) -> str:
        """The name of the schedule within its agent, `hourly` of `writer/hourly`; of other jobs the whole name."""
        return self.job.removeprefix(f"{self.agent}/") if self.agent else self.job


@dataclass(frozen=True, slots=True)
class SchedulerStatus:
    """A scheduler: whether it runs, how many runs it carries, and each of its jobs."""

    running: bool
    active_runs: int
    schedules: tuple[ScheduleStatus, ...]

    def of(self, job: str) -> ScheduleStatus:
        """Return the status of one job."""
        found = next((one for one in self.schedules if one.job == job), None)
        if found is None:
            raise for_code(UnknownJob(job, get_close_matches(job, [one.job for one in self.schedules], n=1)))
        return found


def agent_of(spec: JobSpec) -> str | None:
    """Return the agent that a job is for, None for other work."""
    return None if spec.work.agent is None else spec.work.agent.agent


def trigger_job(
    store: Store,
    name: str,
    *,
    now: datetime,
    schedule: str | None = None,
    params: Mapping[str, Any] | None = None,
    force: bool = False,
) -> TriggerResult:
    """Start a job, or a schedule of an agent, by hand: at capacity its run waits in the queue (R-29).

    What the job refuses is a result; a mistake of the caller, such as an unknown job, and a failing storage are raised.
    """
    try:
        job = store.read(partial(_job_meant, name=name, schedule=schedule))
        return TriggerResult(success=True, run_id=trigger(store, job, now=now, params=params, force=force).id)
    except JobDisabled as error:
        return TriggerResult(success=False, error=str(for_code(error)), skipped=True, skip_reason="disabled")
    except OverlapRefused as error:
        refused = str(for_code(error))
        return TriggerResult(success=False, error=refused, skipped=True, skip_reason=Reason.OVERLAP.value)
    except RotaError as error:
        for_code(error)
        raise


def _job_meant(db: Database, *, name: str, schedule: str | None) -> str:
    """Return the job that is meant: by its name, or by an agent and the schedule of it, the first one by default."""
    if schedule is not None:
        return find_job(db, f"{name}/{schedule}").name
    if jobs.job_by_name(db, name) is not None:
        return name
    theirs = [job for job in jobs.all_jobs(db) if job.retired_at is None and _belongs(job.name, job.spec, name)]
    first = min(theirs, key=lambda job: (job.created_at, job.id), default=None)
    return find_job(db, name).name if first is None else first.name


def _belongs(job: str, spec: JobSpec, name: str) -> bool:
    """Tell whether a job is this one, or one of the agent of that name."""
    return job == name or agent_of(spec) == name


def status_of(store: Store, *, running: bool) -> SchedulerStatus:
    """Return how a scheduler and its jobs are."""

    def read(db: Database) -> SchedulerStatus:
        present = [job for job in jobs.all_jobs(db) if job.retired_at is None]
        active = len(run_queries.running_runs(db)) if running else 0
        return SchedulerStatus(running, active, tuple(_schedule_status(db, job) for job in present))

    return store.read(read)


def _schedule_status(db: Database, job: Job) -> ScheduleStatus:
    view = job_view(db, job)
    last = _last_end(db, view)
    return ScheduleStatus(
        job=job.name,
        state=_state(view),
        agent=agent_of(job.spec),
        last_run_at=None if last is None else last.finished_at,
        next_run_at=next((fire.at for fire in coming_fires(job, n=1)), None),
        last_error=_error(last),
        paused=job.paused_at is not None,
    )


def _state(view: JobView) -> State:
    """Return idle, running or disabled (003), derived; one that is used up will not run again either."""
    if any(run.status is not Status.QUEUED for run in view.unfinished):
        return "running"
    return "idle" if view.job.schedules else "disabled"


def _last_end(db: Database, view: JobView) -> Run | None:
    """Return the newest run that completed or failed; skipped instants do not hide it."""
    recent = next((run for run in view.last if run.status.value in ENDED), None)
    if recent is not None or len(view.last) == view.job.run_number:
        return recent
    return next(iter(run_queries.history(db, job_id=view.job.id, statuses=ENDED, limit=1)), None)


def _error(run: Run | None) -> str | None:
    if run is None or run.status is not Status.FAILED:
        return None
    return run.error or (run.reason.value if run.reason else None)


def running_count(store: Store, name: str | None = None) -> int:
    """Return how many runs are under way: all of them, or those of a job or an agent."""

    def read(db: Database) -> int:
        found = run_queries.running_runs(db)
        return sum(name is None or _belongs(run.job, _spec(db, run), name) for run in found)

    return store.read(read)


def _spec(db: Database, run: Run) -> JobSpec:
    return jobs.version_spec(db, run.job_id, run.version)


def fires_of(store: Store, name: str, *, n: int) -> list[datetime]:
    """Return when a job starts next, in its own zone."""
    job = store.read(partial(find_job, name=name))
    zone = ZoneInfo(job.spec.schedule.timezone)
    return [fire.at.astimezone(zone) for fire in coming_fires(job, n=n)]


def fires_of_spec(specs: Sequence[JobSpec], name: str, *, n: int, now: datetime) -> list[datetime]:
    """Return when a job that is only declared would start, if it was stored now."""
    spec = next((one for one in specs if one.name == name), None)
    if spec is None:
        raise for_code(UnknownJob(name, get_close_matches(name, [one.name for one in specs], n=1)))
    zone = ZoneInfo(spec.schedule.timezone)
    return [fire.at.astimezone(zone) for fire in next_fires(spec.schedule, now, n, created_at=now, name=name)]


def declared_status(specs: Sequence[JobSpec]) -> SchedulerStatus:
    """Return how a scheduler is that never ran: only what its code declares is known."""
    found = [ScheduleStatus(spec.name, "idle" if spec.enabled else "disabled", agent_of(spec)) for spec in specs]
    return SchedulerStatus(running=False, active_runs=0, schedules=tuple(found))


def story_of(store: Store, name: str | None, *, limit: int) -> list[Run]:
    """Return the newest runs of a job, or of all, the oldest of them first."""

    def read(db: Database) -> list[Run]:
        job_id = None if name is None else find_job(db, name).id
        return run_queries.history(db, job_id=job_id, limit=limit)

    return shown(store.read(read)[::-1])


def run_of(store: Store, handle: str) -> Run:
    """Return a run by its identifier or handle, with its status as every face shows it."""
    return shown([store.read(partial(find_run, handle=handle))])[0]


def shown(found: Sequence[Run]) -> list[Run]:
    """Return runs as every face shows them: DISPATCHED is RUNNING (R-01)."""
    return [replace(run, status=run.status.shown) for run in found]


RUNS = 50


class Sdk:
    """A small client of the scheduler that a function runs in. Safe from any thread; each call is one transaction."""

    def __init__(self, store: Store, state: Path, clock: Clock, *, maker: Author | None = None) -> None:
        self._store = store
        self._state = state
        self._clock = clock
        self._maker = maker

    def inside(self, run: str, *, job: str) -> "Sdk":
        """Return the client of a function's run: the runs that it starts name it."""
        return Sdk(self._store, self._state, self._clock, maker=Author(f"run:{job}", run=run))

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
        return {**run_json(self._store.read(partial(find_run, handle=run)))}

    def runs(self, job: str | None = None, *, status: str | None = None, limit: int = RUNS) -> list[dict[str, Any]]:
        """Return runs, newest first."""
        statuses = () if status is None else (status,)
        return [{**run_json(run)} for run in history(self._store, job=job, statuses=statuses, limit=limit)]
