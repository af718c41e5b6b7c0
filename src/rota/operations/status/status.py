"""The state of the scheduler: health, mode and loops."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from rota.engine.activity import PauseState, everything_paused, project_mode
from rota.engine.membership.control import ask
from rota.engine.membership.locks import serving_pid
from rota.model.agents import ProviderHold
from rota.model.attention import Attention
from rota.model.clock import iso
from rota.model.errors import NoScheduler, StateError
from rota.model.records import Abandoned, Run
from rota.model.serialize import fields_json, iso_or_none, run_json
from rota.model.spec import Mode
from rota.model.states import Held
from rota.operations.activity import CadenceView, Pauses, cadence_json, look_at_cadence, pause_json, pauses
from rota.operations.budgets import AccountView, account_json, account_views
from rota.operations.capacity import HoldView, PoolView, held_runs, hold_json, hold_views, pool_json, pool_views
from rota.operations.direct_calls import DirectCallsView, calls_json, direct_calls
from rota.operations.jobs import list_jobs, project_timezone
from rota.operations.project.locate import in_scope
from rota.operations.status.attention import AttentionItem, need_json, needs_in
from rota.operations.status.heartbeat import Heartbeat, Liveness, heartbeat, serves, with_ticks
from rota.operations.workers import worker_json
from rota.rules.schedule.preview import NOTICED, coming_fires
from rota.store.driver import Database, Store
from rota.store.tables import jobs, queue, run_queries

ANSWERED = ("file_problem", "storage_problem", "damage", "failing", "stopping", "http")
"""The parts of the scheduler's answer that are shown as they are."""
QUEUE_SHOWN = 1000
NEXT_SHOWN = 5
STOP_TIMEOUT_SECONDS = 10.0  # a busy machine answers late; a received stop must not be reported as stalled
NOT_PAUSED = Pauses(None, ())
NO_CALLS = DirectCallsView()


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

    return store.read(partial(needs_at, beat=beat, zone=zone, now=now, scope=scope))


def needs_at(db: Database, *, beat: Heartbeat, zone: str, now: datetime, scope: str = "") -> tuple[AttentionItem, ...]:
    """Return all attention items inside a transaction."""
    living = [job for job in jobs.all_jobs(db) if job.retired_at is None and in_scope(job.name, scope)]
    running = [run for run in run_queries.running_runs(db) if in_scope(run.job, scope)]
    full, budgets = with_ticks(db, beat, now=now), account_views(db, now=now)
    return needs_in(db, full, living=living, running=running, budgets=budgets, zone=zone, now=now, scope=scope)


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
        **{key: answer.get(key) for key in ANSWERED},
        "workers": [worker_json(worker) for worker in view.heartbeat.workers],
        "paused": pause_json(everything.since, everything.until, reason=everything.reason) if everything else None,
        "paused_jobs": [
            {"job": pause.job, **(pause_json(pause.since, pause.until, reason=pause.reason) or {})}
            for pause in view.pauses.jobs
        ],
        "loops": answer.get("loops", []),
        "jobs": view.jobs,
        "attention": [fields_json(attention, "name", "kind", "what", "command") for attention in view.attention],
        "acknowledged": [need_json(need) for need in view.seen],
        "running": [run_json(run) for run in view.running],
        "abandoned": [
            {"run": one.handle, "job": one.job, "since": iso_or_none(one.since), "slot": one.slot}
            for one in view.abandoned
        ],
        "queued": [{**run_json(run), **_held_json(view.held.get(run.id))} for run in view.queued],
        "holds": [hold_json(hold) for hold in view.holds],
        "direct": calls_json(view.direct),
        "next": [{"at": iso(fire.at), "job": fire.job} for fire in view.next],
        "overdue": [{"at": iso(fire.at), "job": fire.job} for fire in view.overdue],
        "pools": [pool_json(pool) for pool in view.pools],
        "budgets": [account_json(account) for account in view.budgets],
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
