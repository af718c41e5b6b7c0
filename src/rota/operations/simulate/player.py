"""The simulator: it runs the simulated engine on a virtual clock, with assumptions about people."""

import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from rota.declare.project import Declared
from rota.model.amounts import listed
from rota.model.clock import cut_to_ms, parse_duration, say_duration, to_ms
from rota.model.errors import InvalidDuration, InvalidValue, RotaError
from rota.model.spec import Kind, Mode, QuietHours
from rota.model.states import Reason, Status
from rota.operations.jobs import project_timezone
from rota.operations.project.apply import apply, apply_in
from rota.operations.project.load import load_project
from rota.operations.project.locate import ProjectPaths
from rota.operations.simulate import model
from rota.operations.simulate.report import SharedTick, SimulationReport, make_report
from rota.operations.simulate.state import (
    Assumptions,
    RunDuration,
    State,
    copy_state,
    fresh_state,
    make_engine,
    refuse_unknown,
    reset_state,
    takes,
)
from rota.operations.simulate.tally import Tally
from rota.operations.simulate.transitions import finish, fire, pass_gates, release
from rota.rules.activity import ACTIVE_FOR, mode_at, next_change
from rota.rules.admission import Admit, Defer, Skip
from rota.rules.pause import plan_pause_end
from rota.rules.schedule import blackouts
from rota.rules.schedule.cursor import cursor_in_mode
from rota.rules.schedule.timezone import zone
from rota.settings import Settings
from rota.store.driver import Database, Store, rolled_back
from rota.store.tables.activity import dormant_hours
from rota.text.format import full_time, read_coming

TOUCH = timedelta(minutes=1)
"""The time between two activities of a person at work."""
_MILLISECOND = timedelta(milliseconds=1)


class AtWork(Struct, frozen=True):
    """A person with an activity every minute of these windows; `last` is the last one before the simulation."""

    runs: Sequence[blackouts.QuietRun] = ()
    last: datetime | None = None
    words: str = "no activity (see --activity)"

    def activity(self, now: datetime) -> datetime | None:
        """Return the last minute with an activity."""
        index = bisect_right(self.runs, now, key=lambda run: run.since) - 1
        if index < 0:
            return None if self.last is None else min(self.last, now)
        run = self.runs[index]
        return run.since + (min(now, run.until - _MILLISECOND) - run.since) // TOUCH * TOUCH

    def acts_at(self, now: datetime) -> datetime | None:
        """Return the start of the next window."""
        index = bisect_right(self.runs, now, key=lambda run: run.since)
        return self.runs[index].since if index < len(self.runs) else None


class Phase(Struct, frozen=True):
    """A mode and its duration."""

    mode: Mode
    lasts: timedelta


class Forced(Struct, frozen=True):
    """Modes that follow each other from `since` on in a cycle, regardless of activity."""

    phases: tuple[Phase, ...]
    since: datetime

    @property
    def cycle(self) -> timedelta:
        """How long all phases last together."""
        return sum((phase.lasts for phase in self.phases), timedelta())

    def activity(self, now: datetime) -> datetime | None:
        """Return an activity that leads to the mode of the phase."""
        phase, _ = self._phase(now)
        return {Mode.ACTIVE: now, Mode.IDLE: now - ACTIVE_FOR, Mode.DORMANT: None}[phase.mode]

    def acts_at(self, now: datetime) -> datetime | None:
        """Return the start of the next phase."""
        return self._phase(now)[1]

    def _phase(self, now: datetime) -> tuple[Phase, datetime]:
        end = self.since + (now - self.since) // self.cycle * self.cycle
        for phase in self.phases:
            end += phase.lasts
            if now < end:
                break
        return phase, end

    @property
    def words(self) -> str:
        """The assumption as a sentence."""
        phases = ", ".join(f"{phase.mode} for {say_duration(phase.lasts)}" for phase in self.phases)
        return f"the modes are forced: {phases}, and again"


Person = AtWork | Forced
"""A person whose activity selects the modes."""


def at_work(
    windows: Sequence[str], zone: str, *, since: datetime, until: datetime, last: datetime | None = None
) -> AtWork:
    """Return a person at work in windows such as "mon-fri 09:00-17:00"; raise InvalidWindow for a bad window."""
    parsed = [blackouts.parse_window(text) for text in windows]
    written = blackouts.canonical_windows(parsed)
    words = f"activity {', '.join(written)} ({zone})"
    if blackouts.cover_the_week(parsed):
        return AtWork((blackouts.QuietRun(since, until),), last, words)
    hours = QuietHours(written, zone)
    runs: list[blackouts.QuietRun] = []
    begin: datetime = since
    while begin < until:
        end = blackouts.quiet_until(hours, begin)
        if end is not None:
            runs.append(blackouts.QuietRun(begin, end))
        begin = blackouts.next_quiet(hours, end or begin)
    return AtWork(tuple(runs), last, words)


def read_phases(text: str) -> tuple[Phase, ...]:
    """Return the modes of a text such as active=8h,idle=8h,dormant=8h.

    >>> [phase.mode.value for phase in read_phases("active=8h,dormant=16h")]
    ['active', 'dormant']
    """
    phases = []
    for part in text.split(","):
        name, equals, lasts = (piece.strip() for piece in part.partition("="))
        if not equals or name not in tuple(Mode):
            raise InvalidValue(
                f"{text!r} names no modes", hint="write modes and durations: active=8h,idle=8h,dormant=8h"
            )
        phases.append(Phase(Mode(name), parse_duration(lasts)))
    return tuple(phases)


FAILURE_SCALE = 10_000


LOOKS = 64
"""The instants between two looks at the clock."""


class WorkLimit(Struct):
    """The most work of one simulation: so many fires, and so many seconds of `monotonic`."""

    fires: int
    seconds: float
    monotonic: Callable[[], float]
    _until: float | None = None
    _looks: int = 0

    def is_reached(self, fires: int) -> bool:
        """Return whether the simulation must stop after so many fires."""
        if fires >= self.fires:
            return True
        self._looks += 1
        if self._until is None:
            self._until = self.monotonic() + self.seconds
        return self._looks % LOOKS == 0 and self.monotonic() >= self._until


class Simulator:
    """Runs a simulated engine on its virtual clock."""

    def __init__(self, engine: model.SimEngine, person: Person) -> None:
        self._engine = engine
        self._person = person
        self.fires = 0
        self._adaptive = [sim_job for sim_job in engine.jobs.values() if sim_job.job.spec.schedule.by_mode is not None]

    def run_until(self, until: datetime, *, limit: "WorkLimit | None" = None) -> datetime:
        """Handle all events before `until`, or those that fit into the limit; return the end of the simulated time."""
        engine = self._engine
        if self._adaptive:
            engine.mode_at = engine.now
        self._claim()
        while (at := engine.next_at()) is not None and at < until:
            if limit is not None and limit.is_reached(self.fires):
                return engine.now
            if at > engine.now:
                engine.now = at
            self._instant(engine, engine.now)
        engine.now = until
        return until

    def _instant(self, engine: model.SimEngine, now: datetime) -> None:
        """Handle the events of one moment in the order of the engine's loops."""
        engine.observer.look(now)
        if engine.mode_at is not None and engine.mode_at <= now:
            self._replan()
            self._claim()
        if engine.ends and engine.ends[0][0] <= now:
            finish(engine, [_ending(run) for run in engine.due_ends()])
            if self._adaptive and engine.agent_ended_at == now:
                self._replan()
            self._claim()
        if engine.fires and engine.fires[0][0] <= now:
            for sim_job in engine.due_fires():
                fire(engine, sim_job)
                self.fires += 1
            self._claim()
        if engine.others and engine.others[0][0] <= now:
            for kind, events in groupby(engine.due_others(), key=itemgetter(0)):
                self._handle(kind, [subject for _, subject in events])

    def _handle(self, kind: model.Due, subjects: Sequence[model.Subject]) -> None:
        engine = self._engine
        for run in [each for each in subjects if isinstance(each, model.SimRun) and each.finished_at is None]:
            finish(engine, _ends_by(engine, kind, run))
        if kind is model.Due.PAUSE_END:
            engine.paused = engine.paused and None not in subjects
            for sim_job in subjects:
                if isinstance(sim_job, model.SimJob):
                    _end_pause(engine, sim_job)
        self._claim()

    # claim

    def _claim(self) -> None:
        engine = self._engine
        while engine.queue.lanes and not engine.paused and (chosen := engine.queue.take(engine.now)):
            for run in chosen:
                self._start(run)
            at_once = [run for run in chosen if run.ends_at == engine.now]
            if at_once:  # a run that takes no time ends before any other event
                finish(engine, [_ending(run) for run in at_once])

    def _start(self, run: model.SimRun) -> None:
        """Start a claimed run that passes its gates, or do what they decide."""
        engine, sim_job = self._engine, run.sim_job
        if sim_job.is_gated:
            run.status = Status.DISPATCHED
            admission = pass_gates(engine, run)
            if isinstance(admission, Skip):
                finish(engine, [model.SimEnd(run, Status.SKIPPED, admission.reason)])
            elif isinstance(admission, Defer):
                engine.queue.give_back(run, engine.now)
                engine.wait(run, admission.waiting_for, admission.until)
            if not isinstance(admission, Admit):
                return
        run.status, run.started_at = model.RUNNING, engine.now
        engine.plan_end(run, engine.now + sim_job.takes)

    # modes

    def _replan(self) -> None:
        """Move the cursor of every job whose mode changed."""
        engine, now = self._engine, self._engine.now
        activity = self._activity(now)
        changes = [self._person.acts_at(now)]
        for sim_job in self._adaptive:
            quiet = dormant_hours(sim_job.job.spec)
            mode = mode_at(now, activity=activity, quiet=quiet)
            if mode is not sim_job.job.mode:
                self._replan_one(sim_job, mode)
            elif now == engine.began:
                engine.observer.mode_changed(sim_job)
            changes.append(next_change(now, activity=activity, quiet=quiet))
        engine.mode_at = min((at for at in changes if at is not None and at > now), default=None)

    def _activity(self, now: datetime) -> datetime | None:
        activity, ended = self._person.activity(now), self._engine.agent_ended_at
        if ended is None or isinstance(self._person, Forced):
            return activity
        return ended if activity is None else max(activity, ended)

    def _replan_one(self, sim_job: model.SimJob, mode: Mode) -> None:
        """Replan one job. Due instants fire first: they belong to the mode in which they were planned."""
        engine = self._engine
        fire(engine, sim_job)
        job = replace(sim_job.job)
        sim_job.update_record(mode=mode)
        engine.observer.mode_changed(sim_job)
        waits = job.next_for is None and sim_job.scheduled_chain_unfinished
        if job.schedules and job.paused_at is None and not waits:
            cursor = cursor_in_mode(job, mode, now=engine.now)
            engine.move(sim_job, cursor.next_for, cursor.next_at)


def _ends_by(engine: model.SimEngine, kind: model.Due, run: model.SimRun) -> list[model.SimEnd]:
    """Release a waiting run, or return its end: it expired or was stopped."""
    if kind is model.Due.STOP and run.status is Status.RUNNING:
        cancelled = run.group is not None and run.group.cancelled
        return [model.SimEnd(run, Status.CANCELLED, Reason.GROUP_CANCELLED if cancelled else Reason.REPLACED)]
    if run.status is not Status.QUEUED:
        return []
    if kind is model.Due.EXPIRE and run.expires_at is not None and run.expires_at <= engine.now:
        return [model.SimEnd(run, Status.SKIPPED, Reason.EXPIRED)]
    if kind is model.Due.RELEASE and run.not_before is not None and run.not_before <= engine.now:
        return release(engine, run)
    return []


def _ending(run: model.SimRun) -> model.SimEnd:
    """Return the end of a run. A hash selects the assumed share of failures, so a simulation is repeatable."""
    share = run.sim_job.fails
    if share:
        key = f"{run.sim_job.name}\0{to_ms(run.scheduled_for or run.created_at)}\0{run.attempt}"
        if zlib.crc32(key.encode()) % FAILURE_SCALE < share * FAILURE_SCALE:
            return model.SimEnd(run, Status.FAILED, Reason.EXIT_CODE)
    return model.SimEnd(run, model.COMPLETED)


def _end_pause(engine: model.SimEngine, sim_job: model.SimJob) -> None:
    """End a timed pause at its stored end: one counted row, and the cursor from there on."""
    job = sim_job.job
    if job.paused_until is None or job.paused_until > engine.now:
        return
    end = job.paused_until
    plan = plan_pause_end(job, end=end, catch_up=False, now=engine.now)
    sim_job.update_record(
        paused_at=None,
        paused_until=None,
        pause_reason=None,
        held_for=None,
        anchored_at=end if plan.skip is not None and job.spec.schedule.follows_runs else job.anchored_at,
        fire_number=job.fire_number + (plan.skip is not None),
    )
    if plan.skip is not None:
        engine.observer.skipped(sim_job, plan.skip)
    engine.move(sim_job, plan.cursor.next_for, plan.cursor.next_at)


SHARED = (
    "all projects are simulated; slots, pools, budgets, remote calls and collisions are those of all of them together"
)


class SimulationRequest(Struct, frozen=True):
    """The options of a simulation. `since` None: from now on, with the stored state."""

    days: float
    since: str | None = None
    activity: tuple[str, ...] = ()
    modes: str | None = None
    assumptions: Assumptions = field(default_factory=Assumptions)
    unapplied: bool = False
    against: SharedTick | None = None
    jobs: tuple[str, ...] = ()


class StartScene(Struct, frozen=True):
    """The state in which a simulation begins, the settings, and notes about both."""

    state: State
    settings: Settings
    notes: tuple[str, ...] = ()


def simulate(
    place: ProjectPaths, request: SimulationRequest, *, store: Store | None, environ: Mapping[str, str], now: datetime
) -> SimulationReport:
    """Return what would happen; nothing is changed."""
    scene = _scene(place, request, store=store, environ=environ, now=now)
    return play(scene, request, scope=place.scope, now=now)


def play(
    scene: StartScene, request: SimulationRequest, *, now: datetime, scope: str = "", limit: WorkLimit | None = None
) -> SimulationReport:
    """Return what would happen from a scene on; with a limit, until it is reached."""
    zone_name = scene.settings.timezone
    since = now if request.since is None else read_coming(request.since, zone_name, now=now)
    wanted = until = cut_to_ms(since + timedelta(days=request.days))
    state = scene.state if request.since is None else reset_state(scene.state, now=since)
    refuse_unknown(state, request.jobs)
    local = since.astimezone(zone(zone_name))
    hour = since - timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
    tally = Tally(since, until, hours_from=hour)
    engine, reached, person = _run(scene, request, state, tally, since=since, until=until, limit=limit)
    if reached < until:  # the counts are by part of the span: count once more, over the shorter one
        until = max(reached, since + SHORTEST)
        tally = Tally(since, until, hours_from=hour)
        engine, _, person = _run(scene, request, state, tally, since=since, until=until)
    durations = {job.name: takes(job, state, request.assumptions) for job in state.jobs}
    assumed = _assumed(person, request.assumptions, durations, state)
    notes = (*scene.notes, SHARED) if scope else scene.notes
    if until < wanted:
        notes = (*notes, f"stopped at {full_time(until, zone_name, now=since)}: {TOO_MUCH}")
    report = make_report(engine, tally, durations, timezone=zone_name, assumptions=assumed, notes=notes)
    return replace(report, against=request.against, chosen=request.jobs, scope=scope)


TOO_MUCH = "the rest is more work than one request may do; `rota simulate` has no such limit"
SHORTEST = timedelta(minutes=1)


def _run(
    scene: StartScene,
    request: SimulationRequest,
    state: State,
    observer: model.Observer,
    *,
    since: datetime,
    until: datetime,
    limit: WorkLimit | None = None,
) -> tuple[model.SimEngine, datetime, Person]:
    """Run the simulated engine before an observer; return it, the end of the simulated time, and the person."""
    person = _person(request, state, scene.settings.timezone, since=since, until=until)
    concurrency = scene.settings.scheduler.concurrency
    engine = make_engine(state, request.assumptions, concurrency=concurrency, observer=observer, now=since)
    return engine, Simulator(engine, person).run_until(until, limit=limit), person


def watch(
    scene: StartScene, request: SimulationRequest, observer: model.Observer, *, now: datetime, limit: WorkLimit
) -> datetime:
    """Report the events from now on to an observer; return the end of the simulated time."""
    until = cut_to_ms(now + timedelta(days=request.days))
    return _run(scene, request, scene.state, observer, since=now, until=until, limit=limit)[1]


def _scene(
    place: ProjectPaths, request: SimulationRequest, *, store: Store | None, environ: Mapping[str, str], now: datetime
) -> StartScene:
    """Return the state to simulate: the stored jobs, the file as if applied, or before a first apply the file alone."""
    try:
        declared = load_project(place.folder, environ, state=place.state, now=now).declared
    except RotaError as error:
        if store is None or request.unapplied:
            raise
        settings = Settings(place.folder, place.state, timezone=project_timezone(store))
        return StartScene(store.read(partial(copy_state, now=now)), settings, (f"the file cannot be read: {error}",))
    if store is None:
        note = "nothing is applied yet: simulated the file alone"
        return StartScene(fresh_state(declared.jobs, declared.settings, now=now), declared.settings, (note,))
    if request.unapplied:
        note = "simulated the file as if it had been applied"
        return StartScene(rolled_back(store, partial(_applied, declared=declared, now=now)), declared.settings, (note,))
    return StartScene(store.read(partial(copy_state, now=now)), declared.settings, _unapplied(store, declared, now=now))


def _applied(db: Database, *, declared: Declared, now: datetime) -> State:
    apply_in(db, declared=declared, now=now, allow_empty=True)
    return copy_state(db, now=now)


def _unapplied(store: Store, declared: Declared, *, now: datetime) -> tuple[str, ...]:
    plan = apply(store, declared, now=now, dry_run=True, allow_empty=True)
    if not plan.changing and not plan.settings:
        return ()
    return ("rota.yaml has changes that are not applied; --unapplied simulates them",)


def _person(request: SimulationRequest, state: State, zone_name: str, *, since: datetime, until: datetime) -> Person:
    if request.modes is not None:
        return Forced(read_phases(request.modes), since)
    if request.activity:
        return at_work(request.activity, zone_name, since=since, until=until, last=state.activity)
    return AtWork(last=state.activity)


def _assumed(person: Person, assumptions: Assumptions, durations: Mapping[str, RunDuration], state: State) -> list[str]:
    """Return the assumptions of a simulation as sentences."""
    sentences: list[str] = []
    if any(job.spec.schedule.by_mode is not None for job in state.jobs):
        sentences.append(person.words)
    never_ran: dict[timedelta, list[str]] = {}
    for job in sorted(state.jobs, key=lambda job: job.name):
        takes = durations[job.name]
        if takes.known == "assumed" and job.enabled and job.spec.work.kind is not Kind.GROUP:
            never_ran.setdefault(takes.duration, []).append(job.name)
    for duration, names in never_ran.items():
        shown = listed(names, 3)
        sentences.append(f"a run of {shown} takes {say_duration(duration)}: no run to measure yet (see --duration)")
    if any(job.spec.gates.conditions for job in state.jobs):
        sentences.append("conditions pass")
    if any(job.spec.work.agent and job.spec.work.agent.source for job in state.jobs):
        sentences.append("work sources have an item for each run")
    failing = [f"{share:.0%} of {name}" for name, share in assumptions.failures.items()]
    sentences.append(f"runs succeed, but {', '.join(failing)} fail" if failing else "runs succeed")
    return sentences


def span_words(report: SimulationReport) -> str:
    """Return the first and the last moment of the simulation."""
    first = full_time(report.since, report.timezone, now=report.since)
    last = full_time(report.until, report.timezone, now=report.since)
    return f"{first} to {last} ({report.timezone})"


T = TypeVar("T")
_MILLISECONDS = re.compile(r"([0-9]{1,9})ms", re.ASCII)
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,2})?)%", re.ASCII)


def read_assumptions(durations: Iterable[str], failures: Iterable[str]) -> Assumptions:
    """Return the assumptions of texts such as backup=3m and backup=10%."""
    return Assumptions(
        dict(_named(text, read_length, hint="write a job and a duration: backup=3m") for text in durations),
        dict(_named(text, read_share, hint="write a job and a percentage: backup=10%") for text in failures),
    )


def _named(text: str, read: Callable[[str], T], *, hint: str) -> tuple[str, T]:
    name, equals, value = text.rpartition("=")
    if not equals or not name.strip():
        raise InvalidValue(f"{text!r} names no job", hint=hint)
    return name.strip(), read(value.strip())


def read_length(text: str) -> timedelta:
    """Return the duration of a run: a duration, also in milliseconds, or 0.

    >>> read_length("200ms")
    datetime.timedelta(microseconds=200000)
    """
    short = _MILLISECONDS.fullmatch(text)
    if short:
        return timedelta(milliseconds=int(short[1]))
    if text in ("0", "0s"):
        return timedelta()
    return parse_duration(int(text) if text.isdecimal() else text)


def read_share(text: str) -> float:
    """Return a percentage as a share.

    >>> read_share("10%")
    0.1
    """
    match = _PERCENT.fullmatch(text)
    if match is None or float(match[1]) > 100:
        raise InvalidValue(f"{text!r} is not a percentage", hint="write 0% to 100%")
    return float(match[1]) / 100


def read_tick(text: str) -> SharedTick:
    """Return the single tick of a text such as 60s=16.

    >>> read_tick("60s=16").a_day
    23040.0
    """
    interval, equals, calls = (part.strip() for part in text.partition("="))
    hint = "write how often it ticks and how many calls each tick makes: 60s=16"
    if not equals or not calls.isdecimal():
        raise InvalidValue(f"{text!r} is not a tick", hint=hint)
    try:
        return SharedTick(read_length(interval), int(calls))
    except InvalidDuration as error:
        raise InvalidValue(f"{text!r} is not a tick: {error.message}", hint=hint) from None
