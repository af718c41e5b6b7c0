"""Declarations from Python: decorators, embedding and the SDK."""

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, overload
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from rota.declare.project import Declared, plain, read_given
from rota.declare.registry import RegisteredFinder, Registry, refuse_second
from rota.engine.functions import FunctionTable
from rota.engine.membership.control import wake
from rota.model.clock import Clock
from rota.model.errors import (
    JobDisabled,
    JobProblems,
    OverlapRefused,
    Problem,
    RotaError,
    SchedulerError,
    UnknownJob,
    nearest,
)
from rota.model.proposals import Author
from rota.model.questions import DEFAULT_TIMEOUT
from rota.model.records import Job, Run
from rota.model.serialize import run_json
from rota.model.spec import Isolate, JobSpec
from rota.model.states import Reason, Status
from rota.operations.jobs import JobView, find_job, job_view
from rota.operations.project.load import interpreter_finder, source_classes
from rota.operations.questions.asking import Asking, ask_person
from rota.operations.run_actions import start, trigger
from rota.operations.runs import find_run, history
from rota.operations.status.heartbeat import heartbeat
from rota.operations.status.status import look, system_json
from rota.operations.status.summary import summarise, summary_json
from rota.rules.schedule.preview import coming_fires, next_fires
from rota.store.driver import Database, Store
from rota.store.tables import jobs, run_queries

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)

YET_TO_COME = frozenset({"condition_missing", "function_missing", "unknown_agent"})
"""Problems that later declarations may solve, until the scheduler starts."""
SPELLINGS = {"except_": "except"}
"""Keys that are reserved words in Python."""


class Live(Protocol):
    """A running scheduler, which stores new declarations at once."""

    def put(self, spec: JobSpec, *, keep: bool) -> None:
        """Store a job."""
        ...

    def retire(self, name: str) -> None:
        """Retire a job."""
        ...


class DeclaredJob(Struct, frozen=True):
    """A job as declared; `keep`: it outlives the code that added it."""

    keys: Mapping[str, Any]
    keep: bool


class Declarations:
    """All declarations of the code, safe from any thread. `live` is the running scheduler, if any."""

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
        """The registered functions of this process; later registrations appear in it."""
        registry = self.registry
        return FunctionTable(
            registry.functions, registry.conditions, sources=registry.sources, agents=registry.agent_functions
        )

    def everything(self) -> Declared:
        """Return all declarations, checked; raise JobProblems with every problem."""
        bodies = {name: entry.keys for name, entry in self.entries.items()}
        return self._read(bodies, groups=self.sections.get("groups"))

    def add(self, name: str, keys: Mapping[str, Any], *, keep: bool | None) -> None:
        """Add a job, or change the one of this name; a running scheduler stores it at once.

        By default, a job that is new while the scheduler runs is kept.
        """
        body = plain({SPELLINGS.get(key, key): value for key, value in keys.items()})
        with self.changing:
            spec, before = self._checked(name, body), self.entries.get(name)
            default = self.live is not None if before is None else before.keep
            entry = DeclaredJob(body, default if keep is None else keep)
            if self.live is not None and spec is not None:
                self.live.put(spec, keep=entry.keep)
            self.entries[name] = entry

    def add_function(self, function: Function, name: str, *, keys: Mapping[str, Any], keep: bool | None) -> None:
        """Add a job that runs this function; if it is refused, the name keeps its former function."""
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
        """Register a function as an agent, unless its keys are refused; a running scheduler stores its schedules."""
        with self.changing:
            registry = self.registry
            refuse_second(registry.agent_functions, name, function=function, kind="agent")
            agents, functions = dict(registry.agents), dict(registry.agent_functions)
            registry.agent(name, **keys)(function)
            try:
                declared = self._check({})
                for spec in declared.jobs if declared is not None else ():
                    if self.live is not None and spec.name.startswith(f"{name}/"):
                        self.live.put(spec, keep=False)
            except BaseException:
                _put_back(registry.agents, agents)
                _put_back(registry.agent_functions, functions)
                raise

    def remove(self, name: str) -> None:
        """Remove a job; a running scheduler retires it."""
        with self.changing:
            if self.live is not None:
                self.live.retire(name)
            elif name not in self.entries:
                raise UnknownJob(name, nearest(name, self.entries))
            self.entries.pop(name, None)

    def go_live(self, live: Live, *, since: Mapping[str, DeclaredJob]) -> None:
        """Store later declarations at once, and now those made while the scheduler started with `since`."""
        with self.changing:
            self.live = live
            for name, entry in self.entries.items():
                spec = None if since.get(name) is entry else self._checked(name, entry.keys)
                if spec is not None:
                    live.put(spec, keep=entry.keep)
            for name in since.keys() - self.entries.keys():
                live.retire(name)

    def take_from(self, other: "Declarations") -> None:
        """Add all declarations of another scheduler."""
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
        """Return the definition of a job that the tools create, by the sections of the code."""
        with self.changing:
            declared = self._read({name: plain(keys)})
        return next(spec for spec in declared.jobs if spec.name == name)

    def _checked(self, name: str, body: Mapping[str, Any]) -> JobSpec | None:
        """Return the job; None if it names something that is not registered yet."""
        declared = self._check({name: body})
        return None if declared is None else next(spec for spec in declared.jobs if spec.name == name)

    def _check(self, bodies: Mapping[str, Any]) -> Declared | None:
        """Return the declaration of these jobs and the sections; None if they name something not registered yet."""
        try:
            return self._read(bodies)
        except JobProblems as error:
            final = [problem for problem in error.problems if self.live is not None or problem.code not in YET_TO_COME]
            if final:
                raise JobProblems(final) from None
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
        """Register a condition; with `needs_poll` it reads the result of the shared poll."""
        return self.declarations.registry.condition(name, needs_poll=needs_poll)

    @overload
    def agent(self, name: F, /) -> F: ...
    @overload
    def agent(self, name: str | None = None, /, **keys: Any) -> Callable[[F], F]: ...
    def agent(self, name: Any = None, /, **keys: Any) -> Any:
        """Register a function as an agent: `async (AgentTask) -> AgentResult`; `keys` are those of `agents`.

        Name the limits that the function enforces: `max_turns=True`, or with a value `max_turns=20`.
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
        """Register a class for `work_source: {run: name}`, under its own name or the one given."""
        return self.declarations.registry.source(name)

    def add_job(self, name: str, /, *, keep: bool | None = None, **keys: Any) -> None:
        """Add a job, or change the one of this name; `keys` are those of a file, and `run` may be a function.

        A job that is added before the start is retired when the code starts without it. A job that is added later,
        or with `keep`, stays until `remove_job`.
        """
        if callable(keys.get("run")):
            self.declarations.add_function(keys["run"], name, keys=keys, keep=keep)
        else:
            self.declarations.add(name, keys, keep=keep)

    def remove_job(self, name: str) -> None:
        """Remove a job: it fires no more, its runs finish, and its history stays; `add_job` revives it."""
        self.declarations.remove(name)


def _put_back(names: dict[str, Any], before: Mapping[str, Any]) -> None:
    """Restore a table in place, as others refer to it."""
    names.clear()
    names.update(before)


def _served(spec: JobSpec) -> Problem | None:
    """Return the problem of an agent with `rota_tools` in a project that is not on disk."""
    if spec.work.agent is None or not spec.work.agent.rota_tools:
        return None
    hint = "give your agents `rota.tools(scheduler, made_by=…)` in your own code"
    message = "rota serves its tools to agents of a project with a rota.yaml"
    return Problem(message, "conflict", at=("jobs", spec.name, "rota_tools"), hint=hint)


def _elsewhere(spec: JobSpec) -> Problem | None:
    """Return the problem of a function of this process that is to run in another one."""
    work = spec.work
    if not work.function or ":" in work.function or work.isolate is not Isolate.PROCESS or work.python is not None:
        return None
    message = "a separate process does not know a function that is registered here"
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
"""Commands and options, with their equivalents in a program."""
_COMMAND = re.compile(r"`rota |(?<![\w`])--[a-z]")
_PARTS = re.compile(r"(; |, or |, )")


def code_hint(hint: str) -> str:
    """Return a hint for a program: calls instead of commands, without the parts that only a command can do.

    >>> code_hint("wait for it, stop it with `rota cancel a:1`, or ignore overlap with --force")
    'wait for it, or ignore overlap with `force=True`'
    """
    for command, call in _CALLS:
        hint = command.sub(call, hint)
    first, *rest = _PARTS.split(hint)
    pairs = [("", first), *zip(rest[::2], rest[1::2], strict=True)]
    usable = [(between, part) for between, part in pairs if not _COMMAND.search(part)]
    return "".join(between + part if index else part for index, (between, part) in enumerate(usable))


def for_code(error: E) -> E:
    """Return an error with its hint rewritten for a program."""
    error.hint = code_hint(error.hint)
    return error


class TriggerResult(Struct, frozen=True):
    """The result of a trigger: a run, or the reason why there is none; `skipped` if a policy of the job refused it."""

    success: bool
    run_id: str | None = None
    error: str | None = None
    skipped: bool = False
    skip_reason: str | None = None

    @property
    def run(self) -> str:
        """The identifier of the run; raises SchedulerError if the trigger was refused."""
        if self.run_id is None:
            raise SchedulerError(f"there is no run to wait for: {self.error}")
        return self.run_id


class ScheduleStatus(Struct, frozen=True):
    """One job: its state, its last end and next start, and the error of the last run, if it failed."""

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


class SchedulerStatus(Struct, frozen=True):
    """A scheduler: whether it runs, the number of its running runs, and its jobs."""

    running: bool
    active_runs: int
    schedules: tuple[ScheduleStatus, ...]

    def of(self, job: str) -> ScheduleStatus:
        """Return the status of one job."""
        by_name = {schedule.job: schedule for schedule in self.schedules}
        if job not in by_name:
            raise for_code(UnknownJob(job, nearest(job, by_name)))
        return by_name[job]


def agent_of(spec: JobSpec) -> str | None:
    """Return the agent of a job; None for other work."""
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
    """Start a job, or a schedule of an agent, by hand: at capacity its run waits in the queue.

    A refusal by the job is a result; an error of the caller, such as an unknown job, or of the storage is raised.
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
    """Return a job by its name, or by an agent and its schedule, by default the first one."""
    if schedule is not None:
        return find_job(db, f"{name}/{schedule}").name
    if jobs.job_by_name(db, name) is not None:
        return name
    theirs = [job for job in jobs.all_jobs(db) if job.retired_at is None and _belongs(job.name, job.spec, name)]
    first = min(theirs, key=lambda job: (job.created_at, job.id), default=None)
    return find_job(db, name).name if first is None else first.name


def _belongs(job: str, spec: JobSpec, name: str) -> bool:
    """Return whether a job has this name, or the agent of this name."""
    return job == name or agent_of(spec) == name


def status_of(store: Store, *, running: bool) -> SchedulerStatus:
    """Return the state of a scheduler and its jobs."""

    def read(db: Database) -> SchedulerStatus:
        present = [job for job in jobs.all_jobs(db) if job.retired_at is None]
        active = len(run_queries.running_runs(db)) if running else 0
        return SchedulerStatus(running, active, tuple(_schedule_status(db, job) for job in present))

    return store.read(read)


def _schedule_status(db: Database, job: Job) -> ScheduleStatus:
    view = job_view(db, job)
    last, error = _last_end(db, view), None
    state: State = "idle" if job.schedules else "disabled"
    if any(run.status is not Status.QUEUED for run in view.unfinished):
        state = "running"
    if last is not None and last.status is Status.FAILED:
        error = last.error or (last.reason.value if last.reason else None)
    return ScheduleStatus(
        job=job.name,
        state=state,
        agent=agent_of(job.spec),
        last_run_at=None if last is None else last.finished_at,
        next_run_at=next((fire.at for fire in coming_fires(job, n=1)), None),
        last_error=error,
        paused=job.paused_at is not None,
    )


def _last_end(db: Database, view: JobView) -> Run | None:
    """Return the newest run that completed or failed; skipped instants do not hide it."""
    recent = next((run for run in view.last if run.status.value in ENDED), None)
    if recent is not None or len(view.last) == view.job.run_number:
        return recent
    return next(iter(run_queries.history(db, job_id=view.job.id, statuses=ENDED, limit=1)), None)


def running_count(store: Store, name: str | None = None) -> int:
    """Return the number of running runs: all of them, or those of a job or an agent."""

    def read(db: Database) -> int:
        runs = run_queries.running_runs(db)
        if name is None:
            return len(runs)
        return sum(_belongs(run.job, jobs.version_spec(db, run.job_id, run.version), name) for run in runs)

    return store.read(read)


def fires_of(store: Store, name: str, *, n: int) -> list[datetime]:
    """Return the next starts of a job, in its own zone."""
    job = store.read(partial(find_job, name=name))
    zone = ZoneInfo(job.spec.schedule.timezone)
    return [fire.at.astimezone(zone) for fire in coming_fires(job, n=n)]


def fires_of_spec(specs: Sequence[JobSpec], name: str, *, n: int, now: datetime) -> list[datetime]:
    """Return the next starts of a job that is declared but not stored."""
    by_name = {spec.name: spec for spec in specs}
    if name not in by_name:
        raise for_code(UnknownJob(name, nearest(name, by_name)))
    spec = by_name[name]
    zone = ZoneInfo(spec.schedule.timezone)
    return [fire.at.astimezone(zone) for fire in next_fires(spec.schedule, now, n, created_at=now, name=name)]


def declared_status(specs: Sequence[JobSpec]) -> SchedulerStatus:
    """Return the status of a scheduler that never ran, from its declarations alone."""
    schedules = [ScheduleStatus(spec.name, "idle" if spec.enabled else "disabled", agent_of(spec)) for spec in specs]
    return SchedulerStatus(running=False, active_runs=0, schedules=tuple(schedules))


def story_of(store: Store, name: str | None, *, limit: int) -> list[Run]:
    """Return the newest runs of a job, or of all jobs, the oldest first."""

    def read(db: Database) -> list[Run]:
        job_id = None if name is None else find_job(db, name).id
        return run_queries.history(db, job_id=job_id, limit=limit)

    return shown(store.read(read)[::-1])


def run_of(store: Store, handle: str) -> Run:
    """Return a run by its identifier or handle, with its status as users see it."""
    return shown([store.read(partial(find_run, handle=handle))])[0]


def shown(runs: Sequence[Run]) -> list[Run]:
    """Return runs as users see them: DISPATCHED is RUNNING."""
    return [replace(run, status=run.status.shown) for run in runs]


RUNS = 50


class Sdk:
    """A client for functions that run inside a scheduler. Safe from any thread; each call is one transaction."""

    def __init__(self, store: Store, state: Path, clock: Clock, *, maker: Author | None = None) -> None:
        self._store = store
        self._state = state
        self._clock = clock
        self._maker = maker

    def inside(self, run: str, *, job: str) -> "Sdk":
        """Return the client of a function's run; it becomes the author of the runs that it starts."""
        return Sdk(self._store, self._state, self._clock, maker=Author(f"run:{job}", run=run))

    def trigger(self, job: str, params: Mapping[str, Any] | None = None, *, force: bool = False) -> dict[str, Any]:
        """Start a job and return its new run; this does not count as activity."""
        run = start(self._store, job, params=params, force=force, by=self._maker, now=self._clock.now())
        wake(self._state)
        return self.run(run.id)

    def status(self) -> dict[str, Any]:
        """Return the state of the scheduler, as `rota status --json`."""
        now = self._clock.now()
        return system_json(look(self._store, heartbeat(self._state), now=now), now=now)

    def summary(self, worker: str | None = None) -> dict[str, Any]:
        """Return counts, mode and the next poll time, as `rota status --poll --json`; cheap with any number of runs."""
        return {**summary_json(summarise(self._store, self._state, now=self._clock.now(), worker=worker))}

    def queue_counts(self) -> dict[str, int]:
        """Return the numbers of runs: incoming, claimed, provisional, done, failed, skipped, cancelled."""
        counts: dict[str, int] = self.summary()["queue_counts"]
        return counts

    def ask(
        self,
        run_id: str,
        question: str,
        *,
        choices: Sequence[str] = (),
        timeout: timedelta = DEFAULT_TIMEOUT,
        default: str | None = None,
    ) -> str | None:
        """Ask a person for a run; return the answer to the same question of an earlier run, None before that."""
        wanted = Asking(question, choices, timeout, default)
        author = replace(self._maker or Author(), run_id=run_id)
        stored_question = self._store.write(partial(ask_person, author=author, wanted=wanted, now=self._clock.now()))
        wake(self._state)
        return stored_question.question.answer

    def run(self, run: str) -> dict[str, Any]:
        """Return a run by its handle, `backup:112` or `backup`, the newest one, or by its identifier."""
        return {**run_json(self._store.read(partial(find_run, handle=run)))}

    def runs(self, job: str | None = None, *, status: str | None = None, limit: int = RUNS) -> list[dict[str, Any]]:
        """Return runs, newest first."""
        statuses = () if status is None else (status,)
        return [{**run_json(run)} for run in history(self._store, job=job, statuses=statuses, limit=limit)]
