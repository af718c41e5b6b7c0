"""The scheduler seen from outside: is it alive, what needs somebody, what runs, what is next; and stopping it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from rota.engine.lock import SERVE_LOCK, is_held, process_lock_held, serving_pid
from rota.engine.ticks import in_tick_mode, read_ticks, taken_by_all
from rota.engine.wake import ask
from rota.model.clock import iso
from rota.model.durations import say_duration
from rota.model.errors import NoScheduler, StateError
from rota.model.holds import ProviderHold, provider_pool
from rota.model.records import Run
from rota.model.spec import JobSpec
from rota.model.states import Held, Reason, Status
from rota.operations.budgets import AccountView, account_json, account_views
from rota.operations.cadence import CadenceView, cadence_json, look_at_cadence
from rota.operations.direct import DirectCalls, calls_json, direct_calls
from rota.operations.holds import HoldView, held_runs, hold_json, hold_views
from rota.operations.jobs import JobView, list_jobs
from rota.operations.pausing import Pauses, pauses
from rota.operations.pools import PoolView, pool_json, pool_views
from rota.operations.project import in_scope
from rota.operations.untold import given_up
from rota.operations.views import is_failing, iso_or_none, pause_json, run_json
from rota.rules.coming import coming_fires
from rota.rules.hold_words import say_hold
from rota.rules.retry_words import say_attempt, say_retrying
from rota.rules.ticks import Ticks
from rota.rules.times import day_time
from rota.store import deliveries, jobs, order, processes, runs
from rota.store.driver import Database, Store

QUEUE_SHOWN = 1000
NEXT_SHOWN = 5
STOP_PATIENCE = 10.0  # a busy machine answers late; a stop that was heard must not be called stalled
STUCK_AFTER = timedelta(minutes=1)
NOT_PAUSED = Pauses(None, ())
NO_CALLS = DirectCalls()


class Liveness(StrEnum):
    """Whether a scheduler serves a state folder (R-22), or ticks come instead (R-24)."""

    RUNNING = "running"
    TICKING = "ticking"
    STALLED = "stalled"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What the scheduler's loop answered; where none serves, when the last ticks looked."""

    liveness: Liveness
    pid: int | None = None
    answer: Mapping[str, Any] = field(default_factory=dict)
    ticks: Ticks | None = None

    @property
    def alive(self) -> bool:
        """Whether what is due will be done."""
        return self.liveness in (Liveness.RUNNING, Liveness.TICKING)

    @property
    def last_round(self) -> datetime | None:
        """When a loop last went round."""
        rounds = [datetime.fromisoformat(loop["last_at"]) for loop in self.answer.get("loops", ()) if loop["last_at"]]
        return max(rounds, default=None)


UNHEARD = timedelta(days=1)
"""How long notifications that failed are pointed out."""


@dataclass(frozen=True, slots=True)
class Attention:
    """One thing that needs somebody: the job or file, what is wrong, and the command that tells more."""

    name: str
    what: str
    command: str


@dataclass(frozen=True, slots=True)
class NextFire:
    """A coming fire of a job."""

    at: datetime
    job: str


@dataclass(frozen=True, slots=True)
class SystemView:
    """Everything that `rota status` shows."""

    heartbeat: Heartbeat
    attention: tuple[Attention, ...] = ()
    running: tuple[Run, ...] = ()
    queued: tuple[Run, ...] = ()
    next: tuple[NextFire, ...] = ()
    jobs: int = 0
    pauses: Pauses = NOT_PAUSED
    direct: DirectCalls = NO_CALLS
    pools: tuple[PoolView, ...] = ()
    cadence: CadenceView | None = None
    budgets: tuple[AccountView, ...] = ()
    holds: tuple[HoldView, ...] = ()
    held: Mapping[str, ProviderHold] = field(default_factory=dict)
    """Which of the queued runs wait since their provider is held, by identifier."""


def heartbeat(state: Path) -> Heartbeat:
    """Ask the scheduler's loop; a lock without an answer within a second is a stalled scheduler (R-22)."""
    answer = ask(state, {"ask": "status"})
    if answer is not None and "pid" in answer:
        return Heartbeat(Liveness.RUNNING, answer["pid"], answer)
    if is_held(state / SERVE_LOCK):
        return Heartbeat(Liveness.STALLED, serving_pid(state))
    return Heartbeat(Liveness.DEAD)


def with_ticks(db: Database, beat: Heartbeat, *, now: datetime) -> Heartbeat:
    """Return the heartbeat of a project that nobody serves with its ticks: they still come, or they have stopped."""
    if beat.liveness is not Liveness.DEAD or not in_tick_mode(db):
        return beat
    ticks = read_ticks(db)
    if not ticks.still_come(now):
        return replace(beat, ticks=ticks if ticks.last else None)
    answer = {"concurrency": ticks.slots, "slots_taken": taken_by_all(db)}
    return Heartbeat(Liveness.TICKING, answer=answer, ticks=ticks)


def attended(store: Store, state: Path, *, now: datetime, run: Run | None = None) -> bool:
    """Tell whether what is queued will start: a process serves, or ticks come; or whether somebody carries the run."""
    if serves(state) or (run is not None and carried(store, state, run)):
        return True
    return store.read(lambda db: in_tick_mode(db) and read_ticks(db).still_come(now))


def carried(store: Store, state: Path, run: Run) -> bool:
    """Tell whether the process that carries a run lives: it records how the run ends."""
    owner = next((one for one in store.read(processes.open_processes) if one.epoch == run.epoch), None)
    return owner is not None and process_lock_held(state, owner.lock)


def serves(state: Path) -> bool:
    """Tell whether a process holds the lock of a serving scheduler."""
    return is_held(state / SERVE_LOCK)


def look(store: Store, beat: Heartbeat, *, now: datetime, scope: str = "") -> SystemView:
    """Return how a project is; with a scope only the part that concerns the jobs of this included project."""
    beat = store.read(partial(with_ticks, beat=beat, now=now))
    views = [view for view in list_jobs(store) if in_scope(view.job.name, scope)]
    running = tuple(run for run in store.read(runs.running_runs) if in_scope(run.job, scope))
    paused = pauses(store)
    specs = store.read(partial(_specs, found=running))
    held = tuple(store.read(hold_views))
    needing = (note for view in views if (note := _needs(view, now, held)))
    queued = tuple(run for run in store.read(_queued) if in_scope(run.job, scope))
    kept = store.read(partial(held_runs, queued=queued))
    return SystemView(
        heartbeat=beat,
        attention=(
            *_broken_file(beat),
            *_failing_parts(beat),
            *_stuck(running, specs, now),
            *needing,
            *store.read(partial(_unheard, now=now, scope=scope)),
            *store.read(partial(_untold, now=now, scope=scope)),
        ),
        running=running,
        queued=queued,
        next=_next_fires(views, [NextFire(kept[run.id].until or now, run.job) for run in queued if run.id in kept]),
        jobs=len(views),
        pauses=Pauses(paused.everything, tuple(one for one in paused.jobs if in_scope(one.job or "", scope))),
        direct=store.read(direct_calls),
        pools=tuple(store.read(pool_views)),
        cadence=store.read(partial(look_at_cadence, now=now)),
        budgets=tuple(store.read(partial(account_views, now=now))),
        holds=held,
        held=kept,
    )


def _queued(db: Database) -> tuple[Run, ...]:
    """Return the head of the queue: what is ready, then what waits for something."""
    ready = order.ready(db, limit=QUEUE_SHOWN)
    waiting = order.waiting(db, limit=QUEUE_SHOWN - len(ready))
    return tuple(order.runs_of(db, [*ready, *waiting]))


def _specs(db: Database, found: Sequence[Run]) -> dict[str, JobSpec]:
    return {run.id: jobs.version_spec(db, run.job_id, run.version) for run in found}


def _broken_file(beat: Heartbeat) -> tuple[Attention, ...]:
    problem = beat.answer.get("file_problem")
    if not problem:
        return ()
    first, *more = str(problem).splitlines()
    rest = f" (and {len(more)} more)" if more else ""
    return (Attention("rota.yaml", f"{first}{rest}; the last good set goes on", "rota check"),)


def _failing_parts(beat: Heartbeat) -> tuple[Attention, ...]:
    """Return what the scheduler says goes wrong inside it: its storage, or a loop."""
    storage, damage = beat.answer.get("storage_problem"), beat.answer.get("damage")
    if damage:
        return (Attention("database", str(damage), "rota doctor"),)
    if storage:
        return (Attention("storage", str(storage), "rota doctor"),)
    failing = [loop for loop in beat.answer.get("loops", ()) if loop["error"]]
    return tuple(Attention(f"{loop['name']} loop", str(loop["error"]), "rota status --loops") for loop in failing)


def _unheard(db: Database, *, now: datetime, scope: str) -> list[Attention]:
    """Return the targets that were not told of something since yesterday."""
    prefix = f"{scope}/" if scope else ""
    found = deliveries.failed_since(db, now - UNHEARD, prefix=prefix)
    return [
        Attention(target, f"{count} notification{'s' if count > 1 else ''} failed: {error}", "rota deliveries --failed")
        for target, count, error in found
    ]


def _untold(db: Database, *, now: datetime, scope: str) -> list[Attention]:
    """Return the work sources that were not told since yesterday how runs ended."""
    found = given_up(db, now - UNHEARD, prefix=f"{scope}/" if scope else "")
    return [Attention(one.source, one.text, f"rota show {one.newest.handle}") for one in found]


def _stuck(running: Sequence[Run], specs: Mapping[str, JobSpec], now: datetime) -> list[Attention]:
    return [note for run in running if (note := _late_end(run, specs[run.id], now))]


def _late_end(run: Run, spec: JobSpec, now: datetime) -> Attention | None:
    timeout, started = spec.work.timeout, run.started_at
    if timeout is None or started is None or now - started <= timeout + spec.work.term_grace + STUCK_AFTER:
        return None
    what = f"stuck: runs for {say_duration(now - started)}, its timeout is {say_duration(timeout)}"
    return Attention(run.job, what, f"rota explain {run.handle}")


def _needs(view: JobView, now: datetime, holds: Sequence[HoldView] = ()) -> Attention | None:
    newest, name = next((run for run in view.last if run.status.final), None), view.job.name
    if view.state == "provisional":
        whose = f", made by {view.job.made.by}" if view.job.made else ""
        return Attention(name, f"waits for approval{whose}", f"rota approve {name}")
    if newest is None:
        return None
    if is_failing(view):
        failed = next(run for run in view.last if run.status is Status.FAILED)
        why = f": {failed.error}" if failed.error else ""
        parts = (f"FAILED {failed.reason}", *_tried(view, failed, now), _refused(view, holds, now))
        told = ", ".join(part for part in parts if part)
        return Attention(name, f"{told}{why}", f"rota explain {failed.handle}")
    if newest.reason is Reason.MISSED:
        count = f"{newest.count} instants" if (newest.count or 0) > 1 else "an instant"
        return Attention(name, f"missed {count}, {say_duration(now - newest.created_at)} ago", f"rota explain {name}")
    if newest.reason in (Reason.CONDITION_ERROR, Reason.EXPIRED):
        why = f": {newest.error}" if newest.error else ""
        return Attention(name, f"SKIPPED {newest.reason}{why}", f"rota explain {name}")
    return None


def _refused(view: JobView, holds: Sequence[HoldView], now: datetime) -> str:
    """Return how the provider of a job is held, nothing where it is not."""
    agent, zone = view.job.spec.work.agent, view.job.spec.schedule.timezone
    held = next((one.hold for one in holds if agent is not None and one.hold.provider == agent.provider), None)
    return "" if held is None else say_hold(provider_pool(held.provider), held.until, zone=zone, now=now)


def _tried(view: JobView, failed: Run, now: datetime) -> tuple[str, str]:
    """Return whether a failure is the last word: its retry or attempt, and whether the job is held back."""
    job = view.job
    retry = next((run for run in view.unfinished if run.retry_of == failed.id), None)
    tried = say_retrying(retry, job.spec) if retry else say_attempt(failed, job.spec)
    until = job.backing_off_until if job.spec.on_repeated_failure else None
    held = until is not None and until > now
    zone = job.spec.schedule.timezone
    return tried, f"held back until {day_time(until, zone, now=now)}" if until is not None and held else ""


def _next_fires(views: Sequence[JobView], held: Sequence[NextFire] = ()) -> tuple[NextFire, ...]:
    """Return the next fire of each job, and when the runs start whose provider is held."""
    found = [NextFire(fire.at, view.job.name) for view in views for fire in coming_fires(view.job, n=1)]
    return tuple(sorted({*found, *held}, key=lambda fire: (fire.at, fire.job))[:NEXT_SHOWN])


def system_json(view: SystemView, *, now: datetime) -> dict[str, Any]:
    """Return how a project is as JSON."""
    answer = view.heartbeat.answer
    return {
        "state": view.heartbeat.liveness.value,
        "pid": view.heartbeat.pid,
        "started_at": answer.get("started_at"),
        "last_round_at": iso(view.heartbeat.last_round) if view.heartbeat.last_round else None,
        "ticks": _ticks_json(view.heartbeat.ticks),
        "enabled": answer.get("enabled"),
        "slots": answer.get("concurrency"),
        "slots_taken": answer.get("slots_taken"),
        "file_problem": answer.get("file_problem"),
        "storage_problem": answer.get("storage_problem"),
        "damage": answer.get("damage"),
        "http": answer.get("http"),
        "paused": _everything_json(view.pauses),
        "paused_jobs": [
            {"job": one.job, **(pause_json(one.since, one.until, reason=one.reason) or {})} for one in view.pauses.jobs
        ],
        "loops": answer.get("loops", []),
        "jobs": view.jobs,
        "attention": [{"name": one.name, "what": one.what, "command": one.command} for one in view.attention],
        "running": [run_json(run) for run in view.running],
        "queued": [{**run_json(run), **_held_json(view.held.get(run.id))} for run in view.queued],
        "holds": [hold_json(one) for one in view.holds],
        "direct": calls_json(view.direct),
        "next": [{"at": iso(fire.at), "job": fire.job} for fire in view.next],
        "pools": [pool_json(one) for one in view.pools],
        "budgets": [account_json(one) for one in view.budgets],
        **({} if view.cadence is None else cadence_json(view.cadence, now=now)),
    }


def _held_json(hold: ProviderHold | None) -> dict[str, Any]:
    if hold is None:
        return {"held": None, "held_until": None}
    return {"held": Held.PROVIDER_HOLD.value, "held_until": iso_or_none(hold.until)}


def _ticks_json(ticks: Ticks | None) -> dict[str, Any] | None:
    if ticks is None or ticks.last is None:
        return None
    return {"last_at": iso(ticks.last), "every_seconds": ticks.usual.total_seconds()}


def _everything_json(found: Pauses) -> dict[str, Any] | None:
    everything = found.everything
    return pause_json(everything.since, everything.until, reason=everything.reason) if everything else None


@dataclass(frozen=True, slots=True)
class Carries:
    """How much a scheduler carries: runs, and direct calls."""

    running: int
    direct: int = 0


def ask_to_stop(state: Path, *, mode: str, within: timedelta | None = None) -> Carries:
    """Ask the scheduler to stop; return how much it carries. Raises when none runs or it does not answer."""
    if not serves(state):
        raise NoScheduler(str(state))
    question = {"ask": "stop", "mode": mode, "within": within.total_seconds() if within is not None else None}
    answer = ask(state, question, timeout=STOP_PATIENCE)
    if answer is None or "running" not in answer:
        pid = serving_pid(state)
        raise StateError(
            f"the scheduler (pid {pid}) holds its lock but does not answer: it is stalled",
            hint=f"end it with `kill {pid}`, then `kill -9 {pid}`; the next `rota serve` records what really happened",
        )
    return Carries(answer["running"], answer.get("direct", 0))
