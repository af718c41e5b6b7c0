"""`rota simulate`: plays the rules over a copy of the state, or over the file alone, and reports what would happen."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import partial

from rota.declare.validate import Declared
from rota.model.clock import cut_to_ms
from rota.model.durations import say_duration
from rota.model.errors import RotaError, UnknownJob
from rota.model.spec import Kind
from rota.operations.applying import apply, apply_in
from rota.operations.dry import tried
from rota.operations.jobs import project_timezone
from rota.operations.loading import load_project
from rota.operations.project import Place
from rota.operations.simulating.copying import State, afresh, copy_state, fresh_state
from rota.operations.simulating.people import Away, Forced, Person, at_work, read_phases
from rota.operations.simulating.playing import Player
from rota.operations.simulating.reporting import Report, Tick, make_report
from rota.operations.simulating.staging import Assumptions, Takes, set_stage, takes
from rota.operations.simulating.tallying import Tally
from rota.rules.times import full_time, read_coming
from rota.rules.timezone import zone
from rota.settings import Settings
from rota.store.driver import Database, Store

SHARED = "all projects are played; slots, pools, budgets, remote calls and collisions are those of all of them together"


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be played. `since`: a time as people write it; None: from now on, with everything as it stands."""

    days: float
    since: str | None = None
    activity: tuple[str, ...] = ()
    modes: str | None = None
    assumptions: Assumptions = field(default_factory=Assumptions)
    unapplied: bool = False
    against: Tick | None = None
    jobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Scene:
    state: State
    settings: Settings
    notes: tuple[str, ...]


def simulate(
    place: Place, request: Request, *, store: Store | None, environ: Mapping[str, str], now: datetime
) -> Report:
    """Return what would happen; nothing is changed, also not where the file is played that is not applied."""
    scene = _scene(place, request, store=store, environ=environ, now=now)
    zone_name = scene.settings.timezone
    since = now if request.since is None else read_coming(request.since, zone_name, now=now)
    until = cut_to_ms(since + timedelta(days=request.days))
    state = scene.state if request.since is None else afresh(scene.state, now=since)
    _refuse_unknown(state, request.jobs)
    person = _person(request, state, zone_name, since=since, until=until)
    concurrency = scene.settings.scheduler.concurrency
    tally = Tally(since, until, hours_from=_hour_of(since, zone_name))
    stage = set_stage(state, request.assumptions, concurrency=concurrency, observer=tally, now=since)
    Player(stage, person).play(until)
    known = {job.name: takes(job, state, request.assumptions) for job in state.jobs}
    told = _assumed(person, request.assumptions, known, state)
    notes = (*scene.notes, SHARED) if place.scope else scene.notes
    report = make_report(stage, tally, known, timezone=zone_name, assumptions=told, notes=notes)
    return replace(report, against=request.against, chosen=request.jobs, scope=place.scope)


def _scene(place: Place, request: Request, *, store: Store | None, environ: Mapping[str, str], now: datetime) -> _Scene:
    """Return what to play: the stored jobs, the file as if it were applied, or the file alone before a first apply."""
    try:
        declared = load_project(place.folder, environ, state=place.state, now=now).declared
    except RotaError as error:
        if store is None or request.unapplied:
            raise
        settings = Settings(place.folder, place.state, timezone=project_timezone(store))
        return _Scene(store.read(partial(copy_state, now=now)), settings, (f"the file cannot be read: {error}",))
    if store is None:
        note = "nothing is applied yet: the file alone is played"
        return _Scene(fresh_state(declared.jobs, declared.settings, now=now), declared.settings, (note,))
    if request.unapplied:
        note = "the file is played as if it had been applied"
        return _Scene(tried(store, partial(_applied, declared=declared, now=now)), declared.settings, (note,))
    return _Scene(store.read(partial(copy_state, now=now)), declared.settings, _unapplied(store, declared, now=now))


def _applied(db: Database, *, declared: Declared, now: datetime) -> State:
    apply_in(db, declared=declared, now=now, allow_empty=True)
    return copy_state(db, now=now)


def _unapplied(store: Store, declared: Declared, *, now: datetime) -> tuple[str, ...]:
    plan = apply(store, declared, now=now, dry_run=True, allow_empty=True)
    if not plan.changing and not plan.settings:
        return ()
    return ("rota.yaml has changes that are not applied; --unapplied plays them",)


def _refuse_unknown(state: State, wanted: tuple[str, ...]) -> None:
    known = [job.name for job in state.jobs]
    for name in wanted:
        if name not in known:
            raise UnknownJob(name, get_close_matches(name, known, n=1))


def _person(request: Request, state: State, zone_name: str, *, since: datetime, until: datetime) -> Person:
    if request.modes is not None:
        return Forced(read_phases(request.modes), since)
    if request.activity:
        return at_work(request.activity, zone_name, since=since, until=until, last=state.activity)
    return Away(state.activity)


def _hour_of(at: datetime, zone_name: str) -> datetime:
    """Return the beginning of the hour that clocks show."""
    local = at.astimezone(zone(zone_name))
    return at - timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)


def _assumed(person: Person, assumptions: Assumptions, known: Mapping[str, Takes], state: State) -> list[str]:
    """Return what the figures rest on, for a reader."""
    told: list[str] = []
    if any(job.spec.schedule.by_mode is not None for job in state.jobs):
        told.append(person.words)
    told += _unseen(known, state)
    if any(job.spec.gates.conditions for job in state.jobs):
        told.append("conditions pass")
    if any(job.spec.work.agent and job.spec.work.agent.source for job in state.jobs):
        told.append("work sources have an item for each run")
    failing = [f"{share:.0%} of {name}" for name, share in assumptions.failures.items()]
    told.append(f"runs succeed, but {', '.join(failing)} fail" if failing else "runs succeed")
    return told


def _unseen(known: Mapping[str, Takes], state: State) -> list[str]:
    """Return how long runs are taken to be of jobs that never ran."""
    works = {job.name for job in state.jobs if job.enabled and job.spec.work.kind is not Kind.GROUP}
    unseen = sorted(name for name, one in known.items() if one.known == "assumed" and name in works)
    by_duration: dict[timedelta, list[str]] = {}
    for name in unseen:
        by_duration.setdefault(known[name].duration, []).append(name)
    told = [(_names(names), say_duration(took)) for took, names in by_duration.items()]
    return [f"a run of {names} takes {took}: none was seen yet (--duration says otherwise)" for names, took in told]


def _names(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def span_words(report: Report) -> str:
    """Return when the played span begins and ends."""
    first = full_time(report.since, report.timezone, now=report.since)
    last = full_time(report.until, report.timezone, now=report.since)
    return f"{first} to {last} ({report.timezone})"
