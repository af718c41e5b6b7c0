"""The state of the scheduler: health, mode and loops."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from rota.engine.activity import (
    PauseState,
    ProjectMode,
    everything_paused,
    in_tick_mode,
    mode_of,
    project_mode,
    read_ticks,
    taken_by_all,
)
from rota.engine.membership.control import ask
from rota.engine.membership.locks import SERVE_LOCK, live_processes, serving_pid
from rota.model.agents import ProviderHold
from rota.model.clock import iso
from rota.model.errors import NoScheduler, StateError
from rota.model.records import Abandoned, Job, Run
from rota.model.serialize import iso_or_none, run_json
from rota.model.spec import Draw, Mode
from rota.model.states import Held
from rota.operations.budgets import AccountView, account_json, account_views
from rota.operations.capacity import HoldView, PoolView, held_runs, hold_json, hold_views, pool_json, pool_views
from rota.operations.direct_calls import DirectCallsView, calls_json, direct_calls
from rota.operations.jobs import ENABLED_KEY, list_jobs, project_timezone
from rota.operations.project.locate import in_scope
from rota.operations.status.attention import Attention, AttentionItem, need_json
from rota.operations.status.attention_items import needs_in
from rota.operations.views import Pauses, pause_json, pauses
from rota.operations.workers import WorkerState, anybody_takes, slots_of_all, worker_json, worker_states
from rota.rules.liveness import Ticks
from rota.rules.schedule.preview import NOTICED, coming_fires
from rota.store.driver import Database, Store
from rota.store.sqlite.store import is_held
from rota.store.tables import activity, jobs, processes, queue, run_queries

TOUCH = "touch"


class PollView(Struct, frozen=True):
    """The shared poll: its job, the newest result, and the number of runs that wait for the next."""

    job: Job
    last: activity.Polled | None
    waiting: int

    @property
    def interval(self) -> timedelta | None:
        """The current poll interval; None if it does not poll by itself."""
        return self.job.interval


class CadenceView(Struct, frozen=True):
    """The mode, the last activity, and the poll, if any."""

    project: ProjectMode
    activity: activity.Activity | None
    poll: PollView | None = None


def touch(store: Store, *, now: datetime) -> None:
    """Record activity: jobs with intervals by mode become active."""
    store.write(partial(activity.touch, what=TOUCH, now=now))


def look_at_cadence(db: Database, *, now: datetime) -> CadenceView:
    """Return the mode, the last activity and the poll."""
    job, poll = jobs.job_by_name(db, activity.POLL), None
    if job is not None and job.retired_at is None:
        if job.mode is not None:
            job = replace(job, mode=mode_of(db, job.spec, now=now))  # without a scheduler the stored mode is stale
        poll = PollView(job, activity.last_poll(db), len(activity.waiting(db)))
    return CadenceView(project_mode(db, now=now), activity.last_activity(db), poll)


def current_mode(store: Store, *, now: datetime) -> Mode:
    """Return the mode of the project."""
    return store.read(partial(project_mode, now=now)).mode


def cadence_json(view: CadenceView, *, now: datetime) -> dict[str, Any]:
    """Return the mode and the poll as JSON."""
    activity = view.activity
    return {
        "mode": view.project.mode,
        "last_activity_at": iso(activity.at) if activity else None,
        "last_activity": activity.what if activity else None,
        "poll": None if view.poll is None else _poll_json(view.poll, now=now),
    }


def _poll_json(view: PollView, *, now: datetime) -> dict[str, Any]:
    last = view.last
    return {
        "interval_seconds": view.interval.total_seconds() if view.interval else None,
        "next_at": iso_or_none(view.job.next_at),
        "waiting": view.waiting,
        "last": None
        if last is None
        else {
            "at": iso(last.at),
            "age_seconds": round((now - last.at).total_seconds(), 3),
            "ok": last.ok,
            "detail": last.detail,
            "run_id": last.run_id,
            "data_at": iso_or_none(last.good_at),
        },
    }


QUEUE_SHOWN = 1000
NEXT_SHOWN = 5
STOP_TIMEOUT_SECONDS = 10.0  # a busy machine answers late; a received stop must not be reported as stalled
NOT_PAUSED = Pauses(None, ())
NO_CALLS = DirectCallsView()


class Liveness(StrEnum):
    """The state of the scheduler of a state folder, or of the ticks or other machines that replace it.

    STOPPING: it starts no more runs. FAILING: two consecutive starts failed.
    """

    RUNNING = "running"
    STOPPING = "stopping"
    FAILING = "failing"
    ELSEWHERE = "elsewhere"
    TICKING = "ticking"
    STALLED = "stalled"
    DEAD = "dead"


class Heartbeat(Struct, frozen=True):
    """The answer of the scheduler's loop, or the last ticks if no scheduler runs.

    `workers`: all machines of a shared database; empty for a database of this folder alone.
    """

    liveness: Liveness
    pid: int | None = None
    answer: Mapping[str, Any] = field(default_factory=dict)
    ticks: Ticks | None = None
    state: Path | None = None
    workers: tuple[WorkerState, ...] = ()

    @property
    def alive(self) -> bool:
        """Whether due runs will start."""
        return self.liveness in (Liveness.RUNNING, Liveness.TICKING, Liveness.ELSEWHERE)

    @property
    def slots(self) -> int:
        """The number of slots of all machines."""
        slots: int = slots_of_all(self.workers)[0] if self.workers else self.answer.get("concurrency", 0)
        return slots

    @property
    def slots_taken(self) -> int:
        """The number of taken slots of all machines."""
        taken: int = slots_of_all(self.workers)[1] if self.workers else self.answer.get("slots_taken", 0)
        return taken

    def serves(self, draws: Sequence[Draw]) -> bool:
        """Return whether a live worker accepts a run with these draws."""
        return anybody_takes(self.workers, draws) if self.workers else self.liveness is not Liveness.DEAD

    @property
    def fires(self) -> bool:
        """Whether the next instant fires: not if the scheduler stops and no other machine serves."""
        others = any("serve" in worker.kinds and not worker.here for worker in self.workers)
        return self.liveness is not Liveness.STOPPING or others

    @property
    def last_round(self) -> datetime | None:
        """The time of the newest round of a loop."""
        rounds = [datetime.fromisoformat(loop["last_at"]) for loop in self.answer.get("loops", ()) if loop["last_at"]]
        return max(rounds, default=None)


class NextFire(Struct, frozen=True):
    """The next fire of a job."""

    at: datetime
    job: str


class SystemView(Struct, frozen=True):
    """The content of `rota status`."""

    heartbeat: Heartbeat
    attention: tuple[Attention, ...] = ()
    seen: tuple[AttentionItem, ...] = ()
    """The acknowledged items."""
    running: tuple[Run, ...] = ()
    abandoned: tuple[Abandoned, ...] = ()
    """Functions that still run after the end of their runs, and occupy their slots."""
    queued: tuple[Run, ...] = ()
    next: tuple[NextFire, ...] = ()
    overdue: tuple[NextFire, ...] = ()
    """Due instants that have not fired: no scheduler runs, or it is late."""
    jobs: int = 0
    pauses: Pauses = NOT_PAUSED
    direct: DirectCallsView = NO_CALLS
    pools: tuple[PoolView, ...] = ()
    cadence: CadenceView | None = None
    budgets: tuple[AccountView, ...] = ()
    holds: tuple[HoldView, ...] = ()
    held: Mapping[str, ProviderHold] = field(default_factory=dict)
    """The holds of queued runs that wait for their provider, by identifier."""


def heartbeat(state: Path) -> Heartbeat:
    """Query the scheduler's loop; a lock without an answer within a second means a stalled scheduler."""
    answer = ask(state, {"ask": "status"})
    if answer is not None and "pid" in answer:
        liveness = Liveness.FAILING if answer.get("failing") else Liveness.RUNNING
        liveness = Liveness.STOPPING if answer.get("stopping") else liveness
        return Heartbeat(liveness, answer["pid"], answer, state=state)
    if serves(state):
        return Heartbeat(Liveness.STALLED, serving_pid(state), state=state)
    return Heartbeat(Liveness.DEAD, state=state)


def with_ticks(db: Database, beat: Heartbeat, *, now: datetime) -> Heartbeat:
    """Return a heartbeat with the ticks, if no scheduler runs, and the other machines of the database."""
    if processes.is_shared(db):
        beat = replace(beat, workers=worker_states(db, beat.state))
        if beat.liveness is Liveness.DEAD and any("serve" in worker.kinds for worker in beat.workers):
            return replace(beat, liveness=Liveness.ELSEWHERE)
    if beat.liveness is not Liveness.DEAD or not in_tick_mode(db):
        return beat
    ticks = read_ticks(db)
    if not ticks.still_come(now):
        return replace(beat, ticks=ticks if ticks.last else None)
    answer = {"concurrency": ticks.slots, "slots_taken": taken_by_all(db, beat.state) if beat.state else 0}
    return replace(beat, liveness=Liveness.TICKING, answer=answer, ticks=ticks)


def attended(store: Store, state: Path, *, now: datetime, run: Run | None = None) -> bool:
    """Return whether queued runs will start: a scheduler runs, or ticks come; or whether a process executes `run`."""
    if serves(state) or (run is not None and carried(store, state, run)):
        return True
    return store.read(lambda db: with_ticks(db, Heartbeat(Liveness.DEAD, state=state), now=now)).alive


SWITCHED_OFF = "the scheduler is switched off by `scheduler.enabled: false`: nothing fires and nothing starts"


def switched_off(db: Database, beat: Heartbeat) -> bool:
    """Return whether `scheduler.enabled: false` applies, by the running scheduler, else by the applied file."""
    if "enabled" in beat.answer:
        return not beat.answer["enabled"]
    return db.row("meta_get", key=ENABLED_KEY) == ("off",)


def carried(store: Store, state: Path, run: Run) -> bool:
    """Return whether the process that executes a run is alive and will record its end."""
    return any(process.epoch == run.epoch for process in store.read(partial(live_processes, state=state)))


def serves(state: Path) -> bool:
    """Return whether a process holds the lock of the scheduler."""
    return is_held(state / SERVE_LOCK)


def look(store: Store, beat: Heartbeat, *, now: datetime, scope: str = "") -> SystemView:
    """Return the state of a project; with a scope only of the jobs of this included project."""
    beat = store.read(partial(with_ticks, beat=beat, now=now))
    views = [view for view in list_jobs(store) if in_scope(view.job.name, scope)]
    running = tuple(run for run in store.read(run_queries.running_runs) if in_scope(run.job, scope))
    paused = pauses(store)
    budgets = tuple(store.read(partial(account_views, now=now)))
    queued = tuple(run for run in store.read(_queued) if in_scope(run.job, scope))
    held = store.read(partial(held_runs, queued=queued))
    needs = store.read(
        partial(
            needs_in,
            beat=beat,
            living=[view.job for view in views],
            running=running,
            budgets=budgets,
            zone=project_timezone(store),
            now=now,
            scope=scope,
        )
    )
    fires = [NextFire(fire.at, view.job.name) for view in views for fire in coming_fires(view.job, n=1)]
    overdue = [fire for fire in fires if now - fire.at > NOTICED]
    starts = [NextFire(held[run.id].until or now, run.job) for run in queued if run.id in held]
    return SystemView(
        heartbeat=beat,
        attention=tuple(need.attention for need in needs if need.seen is None),
        seen=tuple(need for need in needs if need.seen is not None),
        running=running,
        abandoned=tuple(left for left in store.read(queue.abandoned) if left.job is None or in_scope(left.job, scope)),
        queued=queued,
        next=_first({*fires, *starts}.difference(overdue)) if beat.fires else (),
        overdue=_first(overdue),
        jobs=len(views),
        pauses=Pauses(paused.everything, tuple(pause for pause in paused.jobs if in_scope(pause.job or "", scope))),
        direct=store.read(direct_calls),
        pools=tuple(store.read(pool_views)),
        cadence=store.read(partial(look_at_cadence, now=now)),
        budgets=budgets,
        holds=tuple(store.read(hold_views)),
        held=held,
    )


def needs_of(store: Store, *, beat: Heartbeat, zone: str, now: datetime, scope: str = "") -> tuple[AttentionItem, ...]:
    """Return all attention items, also acknowledged ones."""

    def read(db: Database) -> tuple[AttentionItem, ...]:
        living = [job for job in jobs.all_jobs(db) if job.retired_at is None and in_scope(job.name, scope)]
        running = [run for run in run_queries.running_runs(db) if in_scope(run.job, scope)]
        full, budgets = with_ticks(db, beat, now=now), account_views(db, now=now)
        return needs_in(db, full, living=living, running=running, budgets=budgets, zone=zone, now=now, scope=scope)

    return store.read(read)


def _queued(db: Database) -> tuple[Run, ...]:
    """Return the head of the queue: ready runs, then waiting ones."""
    ready = queue.ready(db, limit=QUEUE_SHOWN)
    waiting = queue.waiting(db, limit=QUEUE_SHOWN - len(ready))
    return tuple(queue.runs_of(db, [*ready, *waiting]))


def _first(fires: Iterable[NextFire]) -> tuple[NextFire, ...]:
    return tuple(sorted(fires, key=lambda fire: (fire.at, fire.job))[:NEXT_SHOWN])


def system_json(view: SystemView, *, now: datetime) -> dict[str, Any]:
    """Return the state of a project as JSON."""
    answer, ticks, everything = view.heartbeat.answer, view.heartbeat.ticks, view.pauses.everything
    return {
        "state": view.heartbeat.liveness.value,
        "pid": view.heartbeat.pid,
        "started_at": answer.get("started_at"),
        "last_round_at": iso_or_none(view.heartbeat.last_round),
        "ticks": None
        if ticks is None or ticks.last is None
        else {"last_at": iso(ticks.last), "every_seconds": ticks.usual.total_seconds()},
        "enabled": answer.get("enabled"),
        "slots": answer.get("concurrency"),
        "slots_taken": answer.get("slots_taken"),
        "file_problem": answer.get("file_problem"),
        "storage_problem": answer.get("storage_problem"),
        "damage": answer.get("damage"),
        "failing": answer.get("failing"),
        "stopping": answer.get("stopping"),
        "http": answer.get("http"),
        "workers": [worker_json(worker) for worker in view.heartbeat.workers],
        "paused": pause_json(everything.since, everything.until, reason=everything.reason) if everything else None,
        "paused_jobs": [
            {"job": pause.job, **(pause_json(pause.since, pause.until, reason=pause.reason) or {})}
            for pause in view.pauses.jobs
        ],
        "loops": answer.get("loops", []),
        "jobs": view.jobs,
        "attention": [{"name": one.name, "what": one.what, "command": one.command} for one in view.attention],
        "acknowledged": [need_json(need) for need in view.seen],
        "running": [run_json(run) for run in view.running],
        "abandoned": [
            {"run": one.handle, "job": one.job, "since": iso_or_none(one.since), "slot": one.slot}
            for one in view.abandoned
        ],
        "queued": [{**run_json(run), **_held_json(view.held.get(run.id))} for run in view.queued],
        "holds": [hold_json(one) for one in view.holds],
        "direct": calls_json(view.direct),
        "next": [{"at": iso(fire.at), "job": fire.job} for fire in view.next],
        "overdue": [{"at": iso(fire.at), "job": fire.job} for fire in view.overdue],
        "pools": [pool_json(one) for one in view.pools],
        "budgets": [account_json(one) for one in view.budgets],
        **({} if view.cadence is None else cadence_json(view.cadence, now=now)),
    }


def _held_json(hold: ProviderHold | None) -> dict[str, Any]:
    if hold is None:
        return {"held": None, "held_until": None}
    return {"held": Held.PROVIDER_HOLD.value, "held_until": iso_or_none(hold.until)}


class Carries(Struct, frozen=True):
    """The numbers of runs and direct calls that a scheduler executes."""

    running: int
    direct: int = 0


def ask_to_stop(state: Path, *, mode: str, within: timedelta | None = None) -> Carries:
    """Send a stop to the scheduler; return its unfinished work. Raise if none runs or it does not answer."""
    if not serves(state):
        raise NoScheduler(str(state))
    question = {"ask": "stop", "mode": mode, "within": within.total_seconds() if within is not None else None}
    answer = ask(state, question, timeout=STOP_TIMEOUT_SECONDS)
    if answer is None or "running" not in answer:
        pid = serving_pid(state)
        raise StateError(
            f"the scheduler (pid {pid}) holds its lock but does not answer: it is stalled",
            hint=f"end it with `kill {pid}`, then `kill -9 {pid}`; the next `rota serve` recovers its runs",
        )
    return Carries(answer["running"], answer.get("direct", 0))


BEHIND = timedelta(seconds=5)
"""The age of a due instant from which the scheduler counts as late."""

WORDS = {Liveness.DEAD: "not running", Liveness.ELSEWHERE: "running elsewhere"}


class Health(Struct, frozen=True):
    """The health of the scheduler: `lag` is the age of the earliest due instant."""

    heartbeat: Heartbeat
    lag: timedelta
    mode: Mode
    paused: PauseState | None

    @property
    def level(self) -> str:
        """The severity: ok, warning, bad."""
        answer = self.heartbeat.answer
        stopping = self.heartbeat.liveness is Liveness.STOPPING
        if not (self.heartbeat.alive or stopping) or answer.get("storage_problem") or answer.get("damage"):
            return "bad"
        if self.paused is not None or stopping or not answer.get("enabled", True) or self.lag > BEHIND:
            return "warning"
        return "ok"

    @property
    def word(self) -> str:
        """The state in a word or two."""
        if self.heartbeat.liveness is Liveness.RUNNING and self.paused is not None:
            return "paused"
        if self.heartbeat.liveness is Liveness.RUNNING and not self.heartbeat.answer.get("enabled", True):
            return "switched off"
        return WORDS.get(self.heartbeat.liveness, self.heartbeat.liveness.value)


def look_at_health(store: Store, state: Path, *, now: datetime) -> Health:
    """Return the health of the scheduler."""
    beat = heartbeat(state)

    def read(db: Database) -> Health:
        due = jobs.next_due(db)
        lag = max(now - due, timedelta()) if due is not None else timedelta()
        return Health(with_ticks(db, beat, now=now), lag, project_mode(db, now=now).mode, everything_paused(db))

    return store.read(read)
