"""The overview: what needs somebody and was not seen yet, what runs, what comes, the budgets and the timeline."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from rota.model.records import Job, Run
from rota.model.states import Status
from rota.operations.attention import Need
from rota.operations.budgets import AccountView, account_views
from rota.operations.holds import held_runs
from rota.operations.needs import needs_in
from rota.operations.output import output_of
from rota.operations.pools import PoolView, pool_views
from rota.operations.system import Heartbeat, NextFire, with_ticks
from rota.operations.timeline import LANES, Timeline, draw
from rota.rules.ansi import clean_for_terminal
from rota.rules.coming import fires_to_come
from rota.store import counters, finding, jobs, order
from rota.store.driver import Database, Store

NEEDS, RUNNING, NEXT, ACCOUNTS = "needs", "running", "next", "budgets"
TIMELINE = "timeline"
ALL = frozenset({NEEDS, RUNNING, NEXT, ACCOUNTS, TIMELINE})
RUNNING_SHOWN = 8
NEXT_SHOWN = 8
WAITING_LOOKED_AT = 100
TAIL_LINES, TAIL_WIDTH = 3, 400


@dataclass(frozen=True, slots=True)
class Tailed:
    """A run under way and the last lines that it wrote."""

    run: Run
    tail: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything on the overview; what was not asked for is empty."""

    heartbeat: Heartbeat
    needs: tuple[Need, ...] = ()
    running: tuple[Tailed, ...] = ()
    running_count: int = 0
    queued: int = 0
    next: tuple[NextFire, ...] = ()
    pools: tuple[PoolView, ...] = ()
    budgets: tuple[AccountView, ...] = ()
    timeline: Timeline | None = None
    jobs: int = 0

    @property
    def open(self) -> tuple[Need, ...]:
        """What nobody has seen yet."""
        return tuple(need for need in self.needs if need.seen is None)

    @property
    def seen(self) -> tuple[Need, ...]:
        """What somebody has seen, and nothing new happened since."""
        return tuple(need for need in self.needs if need.seen is not None)


def look_over(
    store: Store,
    state: Path,
    *,
    beat: Heartbeat,
    zone: str,
    now: datetime,
    span: timedelta,
    lanes: int = LANES,
    parts: Collection[str] = ALL,
) -> Overview:
    """Return the overview, or those parts of it that are asked for."""
    found = store.read(partial(_look_over, beat=beat, zone=zone, now=now, span=span, lanes=lanes, parts=parts))
    tailed = tuple(Tailed(one.run, tail_of(state, one.run.id)) for one in found.running)
    return replace(found, running=tailed)


def _look_over(
    db: Database, *, beat: Heartbeat, zone: str, now: datetime, span: timedelta, lanes: int, parts: Collection[str]
) -> Overview:
    beat = with_ticks(db, beat, now=now)
    living = (
        [job for job in jobs.all_jobs(db) if job.retired_at is None] if {NEEDS, NEXT, TIMELINE} & set(parts) else []
    )
    running = finding.running_runs(db)
    budgets = tuple(account_views(db, now=now)) if {NEEDS, ACCOUNTS} & set(parts) else ()
    needs: tuple[Need, ...] = ()
    if {NEEDS, TIMELINE} & set(parts):
        needs = needs_in(db, beat, living=living, running=running, budgets=budgets, zone=zone, now=now)
    first = {need.attention.name for need in needs} | {run.job for run in running}
    return Overview(
        heartbeat=beat,
        needs=needs,
        running=tuple(Tailed(run, ()) for run in running[:RUNNING_SHOWN]) if RUNNING in parts else (),
        running_count=len(running),
        queued=sum(counters.counts(db).get(Status.QUEUED, {}).values()),
        next=tuple(_next(db, living, now=now)) if NEXT in parts else (),
        pools=tuple(pool_views(db)) if RUNNING in parts else (),
        budgets=budgets,
        timeline=draw(db, living, now=now, span=span, first=first, lanes=lanes) if TIMELINE in parts else None,
        jobs=len(living),
    )


def _next(db: Database, living: Sequence[Job], *, now: datetime) -> list[NextFire]:
    """Return the next fire of each job, and when runs start whose provider is held."""
    due = sorted((job for job in living if job.next_at is not None), key=lambda job: job.next_at or now)
    fires = {NextFire(fire.at, job.name) for job in due[: 4 * NEXT_SHOWN] for fire in fires_to_come(job, n=1, now=now)}
    queued = order.runs_of(db, order.ready(db, limit=WAITING_LOOKED_AT))
    kept = held_runs(db, queued=queued)
    waiting = {NextFire(kept[run.id].until or now, run.job) for run in queued if run.id in kept}
    return sorted(fires | waiting, key=lambda fire: (fire.at, fire.job))[:NEXT_SHOWN]


def tail_of(state: Path, run_id: str, *, lines: int = TAIL_LINES) -> tuple[str, ...]:
    """Return the last lines of what a run wrote, safe to show."""
    text = clean_for_terminal(b"".join(output_of(state, run_id, lines=lines)).decode("utf-8", "replace"))
    return tuple(line[:TAIL_WIDTH] for line in text.splitlines() if line.strip())[-lines:]
