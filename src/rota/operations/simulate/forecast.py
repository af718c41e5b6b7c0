"""Forecasts for requests: bounded simulations of the stored state, with what-if changes of one job."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from rota.declare.export import Top, export_keys
from rota.declare.yaml import parse
from rota.engine.clock import tzdata_version
from rota.model.agents import provider_of
from rota.model.errors import FileProblems, InvalidValue, Problem, StateError
from rota.model.records import Job
from rota.model.spec import JobSpec
from rota.operations.jobs import find_job, project_timezone
from rota.operations.project.apply import change_to, read_job
from rota.operations.simulate.player import SimulationRequest, StartScene, WorkLimit, play, read_assumptions
from rota.operations.simulate.report import SimulationReport, report_json
from rota.operations.simulate.state import State, copy_state
from rota.rules.schedule.phrases import read_schedule_text
from rota.settings import Settings
from rota.store.driver import Database, Store, rolled_back
from rota.store.tables import jobs

MOST_FIRES = 20_000
"""The fires that one request simulates; the rest is left out, and the forecast says so."""
MOST_SECONDS = 0.5
LEAST_DAYS, MOST_DAYS = 0.001, 62.0
LONGEST_WAIT = 10.0
_TURN = Lock()
WHEN_KEYS = ("cron", "interval", "at")
SCHEDULE_KEYS = (*WHEN_KEYS, "timezone", "jitter", "except", "quiet_hours", "anchor", "start_at", "end_at", "first_run")
POLICY_KEYS = (
    *("misfire", "misfire_grace", "misfire_limit", "overlap", "queue_depth", "retry", "on_repeated_failure"),
    *("priority", "enabled", "pools", "budget"),
)
KEYS = frozenset({*SCHEDULE_KEYS, *POLICY_KEYS})
"""The keys of a job that change a forecast."""
FIELDS = ("schedule", "misfire", "overlap", "retry", "on_repeated_failure", "priority", "enabled", "pools", "budgets")
"""The fields of a definition that these keys set."""
STAND_IN = {"command": ["true"]}


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Run the simulations of requests in turn, so that many of them do not take the processor from the scheduler."""
    if not _TURN.acquire(timeout=LONGEST_WAIT):
        raise StateError("too many simulations are waiting", hint="try again in a few seconds")
    try:
        yield
    finally:
        _TURN.release()


class Project(Struct, frozen=True):
    """The project whose stored state is simulated."""

    store: Store
    settings: Settings
    environ: Mapping[str, str]

    @property
    def scene_settings(self) -> Settings:
        """The settings with the stored time zone, which a changed file may have left behind."""
        return replace(self.settings, timezone=project_timezone(self.store))


class WhatIf(Struct, frozen=True):
    """Assumed changes of one job, as a person writes them; empty fields change nothing."""

    job: str = ""
    schedule: str = ""
    keys: str = ""
    duration: str = ""
    failures: str = ""

    @property
    def edits(self) -> bool:
        """Whether the definition of the job changes."""
        return bool(self.schedule.strip() or self.keys.strip())

    @property
    def changes(self) -> bool:
        """Whether anything changes."""
        return self.edits or bool(self.duration.strip() or self.failures.strip())


class ForecastRequest(Struct, frozen=True):
    """A question about the future; `slots` None: those of the scheduler."""

    days: float = 1.0
    activity: tuple[str, ...] = ()
    modes: str = ""
    what_if: WhatIf = WhatIf()
    slots: int | None = None


class ForecastResult(Struct, frozen=True):
    """The simulated time; `before` is the same time without the changes, if there are any."""

    report: SimulationReport
    before: SimulationReport | None = None


class ForecastJson(TypedDict):
    """A forecast, as `rota simulate --json` prints it; `before` is the same time without the changes."""

    forecast: dict[str, Any]
    before: dict[str, Any] | None


def forecast_json(found: ForecastResult) -> ForecastJson:
    """Return all figures of a forecast."""
    before = None if found.before is None else report_json(found.before)
    return {"forecast": report_json(found.report), "before": before}


def project_of(
    store: Store, settings: Settings | None, *, folder: Path, state: Path, environ: Mapping[str, str]
) -> Project:
    """Return a project to simulate; without its settings, with the usual ones."""
    return Project(store, settings or Settings(folder, state), environ)


def forecast(
    project: Project, request: ForecastRequest, *, monotonic: Callable[[], float], now: datetime
) -> ForecastResult:
    """Simulate the stored jobs within the limits of a request; nothing is changed."""
    what_if, settings = request.what_if, project.scene_settings
    if request.activity and request.modes:
        raise InvalidValue("activity and modes exclude each other", hint="assume one of them")
    if what_if.changes and not what_if.job:
        raise InvalidValue("the changes name no job", hint="choose the job that they are about")
    if not LEAST_DAYS <= request.days <= MOST_DAYS:
        raise InvalidValue(
            f"{request.days:g} days cannot be simulated here", hint=f"give {LEAST_DAYS:g} to {MOST_DAYS:g} days"
        )
    stored = project.store.read(partial(copy_state, now=now))
    plain = SimulationRequest(request.days, activity=request.activity, modes=request.modes or None)
    state, simulation_request = stored, plain
    if what_if.job:
        job = project.store.read(partial(find_job, name=what_if.job))
        state = _edited(project, stored, job, what_if, now=now) if what_if.edits else stored
        durations = [f"{job.name}={what_if.duration.strip()}"] if what_if.duration.strip() else []
        failures = [f"{job.name}={what_if.failures.strip()}"] if what_if.failures.strip() else []
        simulation_request = replace(plain, assumptions=read_assumptions(durations, failures))
    changed = settings
    if request.slots is not None:
        changed = replace(settings, scheduler=replace(settings.scheduler, concurrency=request.slots))
    with one_at_a_time():
        report = play(StartScene(state, changed), simulation_request, now=now, limit=usual_limit(monotonic))
        if not what_if.changes and request.slots is None:
            return ForecastResult(report)
        as_long = replace(plain, days=report.days)
        return ForecastResult(
            report, play(StartScene(stored, settings), as_long, now=now, limit=usual_limit(monotonic))
        )


def usual_limit(monotonic: Callable[[], float]) -> WorkLimit:
    """Return the limit of one simulation of a request."""
    return WorkLimit(MOST_FIRES, MOST_SECONDS, monotonic)


def _edited(project: Project, state: State, job: Job, what_if: WhatIf, *, now: datetime) -> State:
    """Return a state in which a job has another definition, as an apply would store it."""
    if job.retired_at is not None:
        raise InvalidValue(f"job {job.name!r} is retired", hint="choose a job that still fires")
    spec = edited_spec(project, job, what_if, now=now)

    def edit(db: Database) -> Job | None:
        change_to(db, job, spec, source=job.source, tzdata=tzdata_version(), now=now)
        return jobs.job_by_name(db, job.name)

    edited = rolled_back(project.store, edit)
    return replace(state, jobs=tuple(edited if edited and one.id == job.id else one for one in state.jobs))


def edited_spec(project: Project, job: Job, what_if: WhatIf, *, now: datetime) -> JobSpec:
    """Return the definition of a job with assumed keys; raise FileProblems for keys that a file could not have."""
    zone = project.scene_settings.timezone
    written = _keys_of(what_if.keys)
    if unfit := sorted(set(written) - KEYS):
        hint = f"use {', '.join((*SCHEDULE_KEYS, *POLICY_KEYS))}; a forecast does not depend on other keys"
        raise InvalidValue(f"the key {unfit[0][:60]!r} cannot be assumed", hint=hint)
    if what_if.schedule.strip():
        tz = str(written.get("timezone") or job.spec.schedule.timezone)
        written |= read_schedule_text(what_if.schedule, tz=tz, now=now)
    exported = export_keys(job.spec, Top(str(project.settings.folder), timezone=zone))
    own = {key: value for key, value in exported.items() if key in SCHEDULE_KEYS}
    if not what_if.schedule.strip() and not set(written) & set(WHEN_KEYS):
        when = own
    else:
        when = {key: value for key, value in own.items() if key in ("timezone", "jitter", "except", "quiet_hours")}
    before, after = _read(project, job, own), _read(project, job, {**when, **written})
    differing = {name: getattr(after, name) for name in FIELDS if getattr(after, name) != getattr(before, name)}
    if job.spec.work.agent is not None and "pools" in differing:  # the pools of its provider stay
        own_draws = [draw for draw in job.spec.pools if provider_of(draw.pool) is not None]
        differing["pools"] = (*after.pools, *own_draws)
    return replace(job.spec, **differing)


def _keys_of(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    document = parse(text.encode("utf-8", "replace"), "what-if")
    if document.problems:
        raise FileProblems(document.problems)
    return dict(document.data)


def _read(project: Project, job: Job, keys: Mapping[str, Any]) -> JobSpec:
    """Return a definition with these keys; a stand-in does the work, since it may be a function or a group."""
    settings, name = project.settings, job.name.replace("/", "-")
    try:
        body = {**STAND_IN, **keys}
        return read_job(name, body, folder=settings.folder, state=settings.state, environ=project.environ)
    except FileProblems as error:
        raise InvalidValue(_said(error.problems[0], name), hint=error.problems[0].hint) from None


def _said(problem: Problem, name: str) -> str:
    path = problem.path.removeprefix(f"jobs.{name}").lstrip(".")
    return f"{path}: {problem.message}" if path else problem.message
