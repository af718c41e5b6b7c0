"""What a tick would do now: played in a transaction that is taken back, so that nothing is written (R-24)."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from rota.declare.files import home_of
from rota.engine.boot import fire_at_boot
from rota.engine.claim import Holder, claim, usable_slots
from rota.engine.fire import Fired, fire
from rota.engine.firing import FIRES_A_ROUND
from rota.engine.life import worker_here
from rota.engine.release import release_due
from rota.engine.replan import replan
from rota.engine.session import UNNAMED, dead_epochs, enter_worker
from rota.engine.ticks import KIND
from rota.model.clock import Clock
from rota.model.errors import RotaError
from rota.model.ids import new_id
from rota.operations.applying import apply_in, held_change
from rota.operations.loading import Loaded, load_project
from rota.operations.project import Place
from rota.runners.boot import machine_boot
from rota.runners.processes import identity
from rota.settings import FILE_NAME, Settings
from rota.store import jobs, order, processes, runs
from rota.store.driver import Database, Store

COUNTED = 10_000
NO_LOCK = "none"


@dataclass(frozen=True, slots=True)
class TickPreview:
    """What a tick would do; `recovered` are runs of processes that are gone, which it would look after first."""

    changes: tuple[str, ...]
    recovered: tuple[str, ...]
    fired: tuple[Fired, ...]
    claimed: tuple[str, ...]
    ready: int
    file_problem: str | None = None


class _TakenBack(Exception):
    """Ends the transaction without a commit."""

    def __init__(self, preview: TickPreview) -> None:
        self.preview = preview


def preview_tick(store: Store, place: Place, *, clock: Clock, environ: Mapping[str, str]) -> TickPreview:
    """Return what a tick would fire and claim now; nothing is written."""
    loaded, problem = _load(place, environ, clock.now())
    play = partial(_play, place=place, loaded=loaded, problem=problem, now=clock.now())
    try:
        store.write(play)
    except _TakenBack as played:
        return played.preview
    raise AssertionError("the play ends by being taken back")


def _load(place: Place, environ: Mapping[str, str], now: datetime) -> tuple[Loaded | None, str | None]:
    try:
        return load_project(place.folder, environ, state=place.state, now=now, lenient=True), None
    except RotaError as error:
        return None, str(error)


def _play(db: Database, *, place: Place, loaded: Loaded | None, problem: str | None, now: datetime) -> None:
    holder = _holder(db, place.state, now)
    recovered = _left_behind(db, place.state, holder=holder)
    held = held_change(db, file=place.folder / FILE_NAME, home=home_of(os.environ), now=now)
    loaded, problem = (None, held) if held else (loaded, problem)
    try:
        plan = apply_in(db, declared=loaded.declared, now=now) if loaded else None
    except RotaError as error:
        plan, problem = None, str(error)
    settings = loaded.declared.settings if loaded else Settings(place.folder, place.state)
    enabled = settings.scheduler.enabled
    fired = (*fire_at_boot(db, boot=machine_boot(), now=now), *_fire(db, now)) if enabled else ()
    free = usable_slots(db, holder, range(settings.scheduler.concurrency)) if enabled else []
    claimed = claim(db, holder, free, now=now)
    raise _TakenBack(
        TickPreview(
            changes=tuple(f"{change.kind.value} {change.name}" for change in plan.changing) if plan else (),
            recovered=recovered,
            fired=fired,
            claimed=tuple(one.run.handle for one in claimed),
            ready=order.count_ready(db, limit=COUNTED),
            file_problem=problem,
        )
    )


def _holder(db: Database, state: Path, now: datetime) -> Holder:
    me = identity(os.getpid())
    worker_id = enter_worker(db, worker_here(db, state) or new_id(now), UNNAMED, state=state, now=now)
    epoch = processes.open_process(db, worker_id=worker_id, kind=KIND, identity=me, lock=NO_LOCK, version="", now=now)
    return Holder(worker_id, epoch, me)


def _left_behind(db: Database, state: Path, *, holder: Holder) -> tuple[str, ...]:
    dead = dead_epochs(db, state=state, own=holder.epoch, worker_id=holder.worker_id)
    found = [runs.run_by_id(db, owned.id) for owned in runs.owned_runs(db, dead)]
    return tuple(run.handle for run in found if run is not None)


def _fire(db: Database, now: datetime) -> tuple[Fired, ...]:
    """Do what stands before a claim: let go what waited for its time, plan by mode, fire what has come."""
    release_due(db, now=now)
    replan(db, now=now)
    fired: list[Fired] = []
    seen: set[str] = set()
    while due := set(jobs.due_jobs(db, now=now, limit=FIRES_A_ROUND + len(seen))) - seen:
        seen |= due
        fired += [fire(db, job_id, now=now) for job_id in sorted(due)]
    return tuple(one for one in fired if one.runs or one.skips)
