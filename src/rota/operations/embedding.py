"""What a program that embeds rota asks of its scheduler, and how it is answered (document 003)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from typing import Any, Literal, TypeVar
from zoneinfo import ZoneInfo

from rota.model.errors import JobDisabled, OverlapRefused, RotaError, SchedulerError, UnknownJob
from rota.model.records import Job, Run
from rota.model.spec import JobSpec
from rota.model.states import Reason, Status
from rota.operations.jobs import JobView, find_job, job_view
from rota.operations.runs import find_run
from rota.operations.starting import trigger
from rota.rules.coming import coming_fires, next_fires
from rota.store import finding, jobs
from rota.store.driver import Database, Store

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
        active = len(finding.running_runs(db)) if running else 0
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
    return next(iter(finding.history(db, job_id=view.job.id, statuses=ENDED, limit=1)), None)


def _error(run: Run | None) -> str | None:
    if run is None or run.status is not Status.FAILED:
        return None
    return run.error or (run.reason.value if run.reason else None)


def running_count(store: Store, name: str | None = None) -> int:
    """Return how many runs are under way: all of them, or those of a job or an agent."""

    def read(db: Database) -> int:
        found = finding.running_runs(db)
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
        return finding.history(db, job_id=job_id, limit=limit)

    return shown(store.read(read)[::-1])


def run_of(store: Store, handle: str) -> Run:
    """Return a run by its identifier or handle, with its status as every face shows it."""
    return shown([store.read(partial(find_run, handle=handle))])[0]


def shown(found: Sequence[Run]) -> list[Run]:
    """Return runs as every face shows them: DISPATCHED is RUNNING (R-01)."""
    return [replace(run, status=run.status.shown) for run in found]
