"""The simulation itself: it plays the days and the people in them."""

import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Protocol, TypeVar

from rota.declare.project import Declared
from rota.model.clock import cut_to_ms, parse_duration, say_duration, to_ms
from rota.model.errors import InvalidDuration, InvalidValue, RotaError, UnknownJob
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
    afresh,
    copy_state,
    fresh_state,
    set_stage,
    takes,
)
from rota.operations.simulate.tally import Tally
from rota.operations.simulate.transitions import finish, fire, let_go, pass_gates
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
"""How often somebody who works does something."""
MOMENT = timedelta(milliseconds=1)


class Person(Protocol):
    """Somebody who may be there."""

    def activity(self, now: datetime) -> datetime | None:
        """Return when the last activity before or at `now` was, None for never."""
        ...

    def acts_at(self, now: datetime) -> datetime | None:
        """Return when the person does something next that was not to be expected, None for never."""
        ...

    @property
    def words(self) -> str:
        """What is assumed, for a reader."""
        ...


@dataclass(frozen=True, slots=True)
class Away:
    """Nobody does anything after `last`."""

    last: datetime | None = None

    def activity(self, now: datetime) -> datetime | None:
        """Return the last activity that is known."""
        return None if self.last is None else min(self.last, now)

    def acts_at(self, now: datetime) -> datetime | None:  # noqa: ARG002
        """Return None: never again."""
        return None

    @property
    def words(self) -> str:
        """What is assumed."""
        return "nobody does anything (--activity says otherwise)"


@dataclass(frozen=True, slots=True)
class AtWork:
    """Somebody does something every minute of these windows; `last` is what was done before the play began."""

    runs: Sequence[blackouts.QuietRun]
    last: datetime | None
    words: str

    def activity(self, now: datetime) -> datetime | None:
        """Return the last minute at which something was done."""
        index = bisect_right(self.runs, now, key=lambda run: run.since) - 1
        if index < 0:
            return None if self.last is None else min(self.last, now)
        run = self.runs[index]
        return run.since + (min(now, run.until - MOMENT) - run.since) // TOUCH * TOUCH

    def acts_at(self, now: datetime) -> datetime | None:
        """Return when the next window begins."""
        index = bisect_right(self.runs, now, key=lambda run: run.since)
        return self.runs[index].since if index < len(self.runs) else None


@dataclass(frozen=True, slots=True)
class Phase:
    """A mode, and how long it lasts."""

    mode: Mode
    lasts: timedelta


@dataclass(frozen=True, slots=True)
class Forced:
    """The modes follow each other from `since` on, again and again, whatever anybody does."""

    phases: tuple[Phase, ...]
    since: datetime
    whole: timedelta = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "whole", sum((phase.lasts for phase in self.phases), timedelta()))

    def activity(self, now: datetime) -> datetime | None:
        """Return an activity that makes the mode what it is to be."""
        phase, _ = self._phase(now)
        return {Mode.ACTIVE: now, Mode.IDLE: now - ACTIVE_FOR, Mode.DORMANT: None}[phase.mode]

    def acts_at(self, now: datetime) -> datetime | None:
        """Return when the next mode begins."""
        return self._phase(now)[1]

    def _phase(self, now: datetime) -> tuple[Phase, datetime]:
        end = self.since + (now - self.since) // self.whole * self.whole
        for phase in self.phases:
            end += phase.lasts
            if now < end:
                break
        return phase, end

    @property
    def words(self) -> str:
        """What is assumed."""
        told = ", ".join(f"{phase.mode} for {say_duration(phase.lasts)}" for phase in self.phases)
        return f"the modes are forced: {told}, and again"


def at_work(
    windows: Sequence[str], zone: str, *, since: datetime, until: datetime, last: datetime | None = None
) -> AtWork:
    """Return somebody who works in windows such as "mon-fri 09:00-17:00"; InvalidWindow where one is none."""
    parsed = [blackouts.parse_window(text) for text in windows]
    written = blackouts.canonical_windows(parsed)
    words = f"somebody is active {', '.join(written)} ({zone})"
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
    return tuple(_phase(part.strip(), text) for part in text.split(","))


def _phase(part: str, text: str) -> Phase:
    name, equals, lasts = (piece.strip() for piece in part.partition("="))
    if not equals or name not in tuple(Mode):
        raise InvalidValue(
            f"{text!r} names no modes", hint="write modes and how long each lasts: active=8h,idle=8h,dormant=8h"
        )
    return Phase(Mode(name), parse_duration(lasts))


HUNDRED = 10_000


class Player:
    """Plays a stage up to a moment."""

    def __init__(self, stage: model.Stage, person: Person) -> None:
        self._stage = stage
        self._person = person
        self._adaptive = [played for played in stage.jobs.values() if played.job.spec.schedule.by_mode is not None]

    def play(self, until: datetime) -> None:
        """Play everything that comes up before `until`."""
        stage = self._stage
        if self._adaptive:
            stage.mode_at = stage.now
        self._claim()
        while (at := stage.next_at()) is not None and at < until:
            if at > stage.now:
                stage.now = at
            self._instant(stage, stage.now)
        stage.now = until

    def _instant(self, stage: model.Stage, now: datetime) -> None:
        """Do what is due at one moment, in the order in which the engine's loops look."""
        stage.observer.look(now)
        if stage.mode_at is not None and stage.mode_at <= now:
            self._replan()
            self._claim()
        if stage.ends and stage.ends[0][0] <= now:
            finish(stage, [_ending(run) for run in stage.due_ends()])
            if self._adaptive and stage.agent_ended_at == now:
                self._replan()
            self._claim()
        if stage.fires and stage.fires[0][0] <= now:
            for played in stage.due_fires():
                fire(stage, played)
            self._claim()
        if stage.others and stage.others[0][0] <= now:
            for kind, found in groupby(stage.due_others(), key=itemgetter(0)):
                self._look_at(kind, [subject for _, subject in found])

    def _look_at(self, kind: model.Due, subjects: Sequence[model.Subject]) -> None:
        """Do what one of the rarer looks of the engine does."""
        stage = self._stage
        runs = [one for one in subjects if isinstance(one, model.PlayedRun) and one.finished_at is None]
        for run in runs:
            finish(stage, _go_on(stage, kind, run))
        if kind is model.Due.PAUSE_END:
            stage.paused = stage.paused and None not in subjects
            for played in subjects:
                if isinstance(played, model.PlayedJob):
                    _end_pause(stage, played)
        self._claim()

    # claim

    def _claim(self) -> None:
        stage = self._stage
        while stage.waiting.lanes and not stage.paused and (chosen := stage.waiting.take(stage.now)):
            for run in chosen:
                self._start(run)
            at_once = [run for run in chosen if run.ends_at == stage.now]
            if at_once:  # what takes no time has ended before anything else is looked at
                finish(stage, [_ending(run) for run in at_once])

    def _start(self, run: model.PlayedRun) -> None:
        """Let a claimed run pass its gates and start, or go where they send it."""
        stage, played = self._stage, run.played
        if played.is_gated:
            run.status = Status.DISPATCHED
            if not self._pass(run):
                return
        run.status, run.started_at = model.RUNNING, stage.now
        stage.plan_end(run, stage.now + played.takes)

    def _pass(self, run: model.PlayedRun) -> bool:
        """Tell whether a run passes its gates; if not, let it go where they send it."""
        stage, admission = self._stage, pass_gates(self._stage, run)
        if isinstance(admission, Skip):
            finish(stage, [model.SimEnd(run, Status.SKIPPED, admission.reason)])
        elif isinstance(admission, Defer):
            stage.waiting.give_back(run, stage.now)
            stage.wait(run, admission.waiting_for, admission.until)
        return isinstance(admission, Admit)

    # modes

    def _replan(self) -> None:
        """Give every job with intervals by mode the cursor of the mode that holds now (R-18)."""
        stage, now = self._stage, self._stage.now
        activity = self._activity(now)
        changes = [self._person.acts_at(now)]
        for played in self._adaptive:
            quiet = dormant_hours(played.job.spec)
            mode = mode_at(now, activity=activity, quiet=quiet)
            if mode is not played.job.mode:
                self._replan_one(played, mode)
            elif now == stage.began:
                stage.observer.moded(played)
            changes.append(next_change(now, activity=activity, quiet=quiet))
        stage.mode_at = min((at for at in changes if at is not None and at > now), default=None)

    def _activity(self, now: datetime) -> datetime | None:
        """Return when the last activity was, of the person or by the end of an agent's run."""
        found, ended = self._person.activity(now), self._stage.agent_ended_at
        if ended is None or isinstance(self._person, Forced):
            return found
        return ended if found is None else max(found, ended)

    def _replan_one(self, played: model.PlayedJob, mode: Mode) -> None:
        """Re-plan one job. What has come is fired first: it belongs to the mode that it was planned in."""
        stage = self._stage
        fire(stage, played)
        job = replace(played.job)
        played.alter(mode=mode)
        stage.observer.moded(played)
        waits = job.next_for is None and played.scheduled_chain_unfinished
        if job.schedules and job.paused_at is None and not waits:
            cursor = cursor_in_mode(job, mode, now=stage.now)
            stage.move(played, cursor.next_for, cursor.next_at)


def _go_on(stage: model.Stage, kind: model.Due, run: model.PlayedRun) -> list[model.SimEnd]:
    """Let a run go on that waited, or return how it ends: it waited too long, or somebody wants it stopped."""
    if kind is model.Due.STOP and run.status is Status.RUNNING:
        cancelled = run.group is not None and run.group.cancelled
        return [model.SimEnd(run, Status.CANCELLED, Reason.GROUP_CANCELLED if cancelled else Reason.REPLACED)]
    if run.status is not Status.QUEUED:
        return []
    if kind is model.Due.EXPIRE and run.expires_at is not None and run.expires_at <= stage.now:
        return [model.SimEnd(run, Status.SKIPPED, Reason.EXPIRED)]
    if kind is model.Due.RELEASE and run.not_before is not None and run.not_before <= stage.now:
        return let_go(stage, run)
    return []


def _ending(run: model.PlayedRun) -> model.SimEnd:
    """Return how a run ends: well, or as often as was asked for badly, chosen by hash so that it repeats."""
    share = run.played.fails
    if share:
        key = f"{run.played.name}\0{to_ms(run.scheduled_for or run.created_at)}\0{run.attempt}"
        if zlib.crc32(key.encode()) % HUNDRED < share * HUNDRED:
            return model.SimEnd(run, Status.FAILED, Reason.EXIT_CODE)
    return model.SimEnd(run, model.COMPLETED)


def _end_pause(stage: model.Stage, played: model.PlayedJob) -> None:
    """End a timed pause at its stored end: one counted row, and the cursor from there on (R-20)."""
    job = played.job
    if job.paused_until is None or job.paused_until > stage.now:
        return
    end = job.paused_until
    plan = plan_pause_end(job, end=end, catch_up=False, now=stage.now)
    played.alter(
        paused_at=None,
        paused_until=None,
        pause_reason=None,
        held_for=None,
        anchored_at=end if plan.skip is not None and job.spec.schedule.follows_runs else job.anchored_at,
        fire_number=job.fire_number + (plan.skip is not None),
    )
    if plan.skip is not None:
        row = model.Skipped(plan.skip.reason, plan.skip.scheduled_for, plan.skip.covers_to, plan.skip.count)
        stage.observer.skipped(played, row)
    stage.move(played, plan.cursor.next_for, plan.cursor.next_at)


SHARED = "all projects are played; slots, pools, budgets, remote calls and collisions are those of all of them together"


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """What is to be played. `since`: a time as people write it; None: from now on, with everything as it stands."""

    days: float
    since: str | None = None
    activity: tuple[str, ...] = ()
    modes: str | None = None
    assumptions: Assumptions = field(default_factory=Assumptions)
    unapplied: bool = False
    against: SharedTick | None = None
    jobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Scene:
    state: State
    settings: Settings
    notes: tuple[str, ...]


def simulate(
    place: ProjectPaths, request: SimulationRequest, *, store: Store | None, environ: Mapping[str, str], now: datetime
) -> SimulationReport:
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


def _scene(
    place: ProjectPaths, request: SimulationRequest, *, store: Store | None, environ: Mapping[str, str], now: datetime
) -> _Scene:
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
        return _Scene(rolled_back(store, partial(_applied, declared=declared, now=now)), declared.settings, (note,))
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


def _person(request: SimulationRequest, state: State, zone_name: str, *, since: datetime, until: datetime) -> Person:
    if request.modes is not None:
        return Forced(read_phases(request.modes), since)
    if request.activity:
        return at_work(request.activity, zone_name, since=since, until=until, last=state.activity)
    return Away(state.activity)


def _hour_of(at: datetime, zone_name: str) -> datetime:
    """Return the beginning of the hour that clocks show."""
    local = at.astimezone(zone(zone_name))
    return at - timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)


def _assumed(person: Person, assumptions: Assumptions, known: Mapping[str, RunDuration], state: State) -> list[str]:
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


def _unseen(known: Mapping[str, RunDuration], state: State) -> list[str]:
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


def span_words(report: SimulationReport) -> str:
    """Return when the played span begins and ends."""
    first = full_time(report.since, report.timezone, now=report.since)
    last = full_time(report.until, report.timezone, now=report.since)
    return f"{first} to {last} ({report.timezone})"


T = TypeVar("T")
_MILLISECONDS = re.compile(r"([0-9]{1,9})ms", re.ASCII)
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,2})?)%", re.ASCII)


def read_assumptions(durations: Iterable[str], failures: Iterable[str]) -> Assumptions:
    """Return what is assumed of jobs, from texts such as backup=3m and backup=10%."""
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
    """Return how long a run takes: a duration, also in milliseconds, or 0.

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
    found = _PERCENT.fullmatch(text)
    if found is None or float(found[1]) > 100:
        raise InvalidValue(f"{text!r} is no percentage", hint="write 0% to 100%")
    return float(found[1]) / 100


def read_tick(text: str) -> SharedTick:
    """Return the single tick that a text such as 60s=16 names.

    >>> read_tick("60s=16").a_day
    23040.0
    """
    interval, equals, calls = (part.strip() for part in text.partition("="))
    hint = "write how often it ticks and how many calls each tick makes: 60s=16"
    if not equals or not calls.isdecimal():
        raise InvalidValue(f"{text!r} is no tick", hint=hint)
    try:
        return SharedTick(read_length(interval), int(calls))
    except InvalidDuration as error:
        raise InvalidValue(f"{text!r} is no tick: {error.message}", hint=hint) from None
