"""The overview: attention items, timeline and running work."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rota.model.records import Job, Run
from rota.model.states import Reason, Status
from rota.operations.budgets import AccountView, account_views
from rota.operations.capacity import PoolView, held_runs, pool_views
from rota.operations.output import output_of
from rota.operations.status.attention import AttentionItem, needs_in
from rota.operations.status.heartbeat import Heartbeat, with_ticks
from rota.operations.status.status import NextFire
from rota.rules.schedule.blackouts import QuietRun, next_quiet, quiet_run
from rota.rules.schedule.preview import coming_fires, fires_to_come
from rota.store.driver import Database, Store
from rota.store.tables import jobs, queue, run_queries, runs
from rota.store.tables.run_queries import Drawn
from rota.text.ansi import clean_for_terminal

LANES = 20
MOST_LANES = 200
BARS = 240
"""The maximum number of bars of a page; lanes with more than their share become bands."""
LEAST_BARS = 8
PARTS = 120
"""The number of parts of the past in which runs are counted."""
MAX_COUNTED_RUNS = 20_000
MAX_QUIET_HOURS = 40
DRAWN = ("missed", "skipped", "cancelled", "completed", "partial", "running", "failed")
"""The drawing order: failures come last and are never hidden."""
FINAL = (Status.COMPLETED, Status.SKIPPED, Status.CANCELLED, Status.FAILED)


class Bar(Struct, frozen=True):
    """The time of a run, or of `count` runs with equal ends; `number` is the number of a single run."""

    kind: str
    since: datetime
    until: datetime
    count: int = 1
    number: int | None = None


class Lane(Struct, frozen=True):
    """A job: past runs as bars, next fires, quiet hours. `band`: draw the fires as one band, as they are too many."""

    job: str
    bars: tuple[Bar, ...]
    fires: tuple[datetime, ...]
    band: bool
    quiet: tuple[QuietRun, ...]
    paused: bool = False
    rank: int = 0
    """The place among all lanes by relevance."""


class Timeline(Struct, frozen=True):
    """The lanes of the most relevant jobs, by name, and the number of all jobs with something to draw."""

    since: datetime
    until: datetime
    now: datetime
    lanes: tuple[Lane, ...]
    jobs: int

    def first(self, count: int) -> "Timeline":
        """Return the same with only the most relevant lanes."""
        return replace(self, lanes=tuple(lane for lane in self.lanes if lane.rank < count))


def draw(
    db: Database,
    jobs: Sequence[Job],
    *,
    now: datetime,
    span: timedelta,
    first: Collection[str] = (),
    lanes: int = LANES,
    bars: int = BARS,
) -> Timeline:
    """Return the timeline from `span` ago to `span` ahead; jobs in `first` come before others if there are too many."""
    newest = run_queries.newest_run_of_jobs(db)
    alive = [job for job in jobs if job.retired_at is None and _is_drawn(job, newest.get(job.id), now=now, span=span)]

    def distance(job: Job) -> timedelta:
        near = now - newest.get(job.id, now - span)
        return near if job.next_at is None else min(near, abs(job.next_at - now))

    ranked = sorted(alive, key=lambda job: (job.name not in first, distance(job)))
    chosen = sorted(enumerate(ranked[:lanes]), key=lambda place: place[1].name)
    most = max(LEAST_BARS, bars // max(len(chosen), 1))
    drawn = tuple(replace(_lane(db, job, now=now, span=span, most=most), rank=rank) for rank, job in chosen)
    return Timeline(now - span, now + span, now, drawn, len(alive))


def _is_drawn(job: Job, newest: datetime | None, *, now: datetime, span: timedelta) -> bool:
    """Return whether a job has something to draw; a long run may have started before the span."""
    ahead = job.next_at is not None and job.next_at <= now + span
    return ahead or (newest is not None and newest >= now - 2 * span)


def _lane(db: Database, job: Job, *, now: datetime, span: timedelta, most: int) -> Lane:
    runs = run_queries.drawn_runs(db, job.id, limit=most + 1)
    inside = [run for run in runs if run.finished_at is None or run.finished_at >= now - span]
    bars = [_bar(run, now) for run in reversed(inside) if run.finished_at is not None or run.started_at is not None]
    if len(inside) > most:
        bars = [*_counted(db, job.id, now=now, span=span), *(bar for bar in bars if bar.kind == "running")]
    bars.sort(key=lambda bar: DRAWN.index(bar.kind))
    fires = [fire.at for fire in coming_fires(job, n=most + 1) if fire.at <= now + span]
    quiet = tuple(_quiet(job, now - span, now + span))
    return Lane(job.name, tuple(bars), tuple(fires), len(fires) > most, quiet, job.paused_at is not None)


def _bar(run: Drawn, now: datetime) -> Bar:
    special = {Reason.MISSED: "missed", Reason.MEMBERS_FAILED: "partial"}
    kind = (special.get(run.reason) if run.reason else None) or run.status.shown.value.lower()
    if run.started_at is not None:
        return Bar(kind, run.started_at, run.finished_at or now, run.count or 1, run.number)
    since = run.scheduled_for or run.created_at
    return Bar(kind, since, run.covers_to or since, run.count or 1, run.number)


def _counted(db: Database, job_id: str, *, now: datetime, span: timedelta) -> Iterator[Bar]:
    """Yield bars for many runs: one for neighbouring parts with the same status, failures last."""
    width = span / PARTS
    for status in FINAL:
        parts = run_queries.ended_runs(db, job_id, status, since=now - span, width=width, limit=MAX_COUNTED_RUNS)
        bar: Bar | None = None
        for part in parts:
            if bar is not None and part.since - bar.until <= 2 * width:
                bar = replace(bar, until=part.until, count=bar.count + part.count)
                continue
            if bar is not None:
                yield bar
            bar = Bar(status.value.lower(), part.since, part.until, part.count)
        if bar is not None:
            yield bar


def _quiet(job: Job, since: datetime, until: datetime) -> Iterator[QuietRun]:
    quiet, at = job.spec.schedule.quiet, since
    for _ in range(MAX_QUIET_HOURS):
        if quiet is None or at >= until:
            return
        hours = quiet_run(quiet, at)
        if hours is not None:
            yield QuietRun(max(hours.since, since), min(hours.until, until))
        at = next_quiet(quiet, at) if hours is None else hours.until


NEEDS, RUNNING, NEXT, ACCOUNTS = "needs", "running", "next", "budgets"
TIMELINE = "timeline"
ALL = frozenset({NEEDS, RUNNING, NEXT, ACCOUNTS, TIMELINE})
RUNNING_SHOWN = 8
NEXT_SHOWN = 8
WAITING_LOOKED_AT = 100
TAIL_LINES, TAIL_WIDTH = 3, 400


class Tailed(Struct, frozen=True):
    """A running run and the last lines of its output."""

    run: Run
    tail: tuple[str, ...]


class Overview(Struct, frozen=True):
    """The content of the overview; parts that were not requested are empty."""

    heartbeat: Heartbeat
    needs: tuple[AttentionItem, ...] = ()
    running: tuple[Tailed, ...] = ()
    running_count: int = 0
    queued: int = 0
    next: tuple[NextFire, ...] = ()
    pools: tuple[PoolView, ...] = ()
    budgets: tuple[AccountView, ...] = ()
    timeline: Timeline | None = None
    jobs: int = 0

    @property
    def open(self) -> tuple[AttentionItem, ...]:
        """The items that are not acknowledged."""
        return tuple(need for need in self.needs if need.seen is None)

    @property
    def seen(self) -> tuple[AttentionItem, ...]:
        """The acknowledged items."""
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
    """Return the requested parts of the overview."""
    overview = store.read(partial(_look_over, beat=beat, zone=zone, now=now, span=span, lanes=lanes, parts=parts))
    tailed = tuple(Tailed(row.run, tail_of(state, row.run.id)) for row in overview.running)
    return replace(overview, running=tailed)


def _look_over(
    db: Database, *, beat: Heartbeat, zone: str, now: datetime, span: timedelta, lanes: int, parts: Collection[str]
) -> Overview:
    beat = with_ticks(db, beat, now=now)
    living = (
        [job for job in jobs.all_jobs(db) if job.retired_at is None] if {NEEDS, NEXT, TIMELINE} & set(parts) else []
    )
    running = run_queries.running_runs(db)
    budgets = tuple(account_views(db, now=now)) if {NEEDS, ACCOUNTS} & set(parts) else ()
    needs: tuple[AttentionItem, ...] = ()
    if {NEEDS, TIMELINE} & set(parts):
        needs = needs_in(db, beat, living=living, running=running, budgets=budgets, zone=zone, now=now)
    first = {need.attention.name for need in needs} | {run.job for run in running}
    return Overview(
        heartbeat=beat,
        needs=needs,
        running=tuple(Tailed(run, ()) for run in running[:RUNNING_SHOWN]) if RUNNING in parts else (),
        running_count=len(running),
        queued=sum(runs.counts(db).get(Status.QUEUED, {}).values()),
        next=tuple(_next(db, living, now=now)) if NEXT in parts else (),
        pools=tuple(pool_views(db)) if RUNNING in parts else (),
        budgets=budgets,
        timeline=draw(db, living, now=now, span=span, first=first, lanes=lanes) if TIMELINE in parts else None,
        jobs=len(living),
    )


def _next(db: Database, living: Sequence[Job], *, now: datetime) -> list[NextFire]:
    """Return the next fire of each job, and the next start of runs that wait for a provider."""
    due = sorted((job for job in living if job.next_at is not None), key=lambda job: job.next_at or now)
    fires = {NextFire(fire.at, job.name) for job in due[: 4 * NEXT_SHOWN] for fire in fires_to_come(job, n=1, now=now)}
    queued = queue.runs_of(db, queue.ready(db, limit=WAITING_LOOKED_AT))
    held = held_runs(db, queued=queued)
    waiting = {NextFire(held[run.id].until or now, run.job) for run in queued if run.id in held}
    return sorted(fires | waiting, key=lambda fire: (fire.at, fire.job))[:NEXT_SHOWN]


def tail_of(state: Path, run_id: str, *, lines: int = TAIL_LINES) -> tuple[str, ...]:
    """Return the last lines of a run's output, safe to show."""
    text = clean_for_terminal(b"".join(output_of(state, run_id, lines=lines)).decode("utf-8", "replace"))
    return tuple(line[:TAIL_WIDTH] for line in text.splitlines() if line.strip())[-lines:]
