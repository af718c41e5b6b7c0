"""The overview: needs, timeline and running work."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from rota.model.records import Job, Run
from rota.model.states import Reason, Status
from rota.operations.budgets import AccountView, account_views
from rota.operations.capacity import PoolView, held_runs, pool_views
from rota.operations.output import output_of
from rota.operations.status.attention import AttentionItem
from rota.operations.status.attention_items import needs_in
from rota.operations.status.status import Heartbeat, NextFire, with_ticks
from rota.rules.schedule.blackouts import QuietRun, next_quiet, quiet_run
from rota.rules.schedule.preview import coming_fires, fires_to_come
from rota.store.driver import Database, Store
from rota.store.tables import jobs, queue, run_queries, runs
from rota.store.tables.run_queries import Drawn, EndCount
from rota.text.ansi import clean_for_terminal

LANES = 20
MOST_LANES = 200
BARS = 240
"""So many bars are drawn in all, so that a page stays small; lanes with more than their part are bands."""
LEAST_BARS = 8
PARTS = 120
"""Into how many parts the past is cut where runs are counted."""
COUNTED = 20_000
QUIETS = 40
DRAWN = ("missed", "skipped", "cancelled", "completed", "partial", "running", "failed")
"""What is drawn over what: a failure is never hidden."""
FINAL = (Status.COMPLETED, Status.SKIPPED, Status.CANCELLED, Status.FAILED)


@dataclass(frozen=True, slots=True)
class Bar:
    """A run, or `count` of them that ended alike: from when to when; `number` is that of a single run."""

    kind: str
    since: datetime
    until: datetime
    count: int = 1
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """A job: its past as bars, its coming fires, when it is quiet. `band`: so many fires that they are one."""

    job: str
    bars: tuple[Bar, ...]
    fires: tuple[datetime, ...]
    band: bool
    quiet: tuple[QuietRun, ...]
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Timeline:
    """The lanes of the jobs that matter most, by name, and how many there would be."""

    since: datetime
    until: datetime
    now: datetime
    lanes: tuple[Lane, ...]
    jobs: int


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
    alive = [job for job in jobs if job.retired_at is None and _matters(job, newest.get(job.id), now=now, span=span)]
    far = now - span
    ranked = sorted(alive, key=lambda job: (job.name not in first, _distance(job, newest.get(job.id, far), now)))
    chosen = sorted(ranked[:lanes], key=lambda job: job.name)
    most = max(LEAST_BARS, bars // max(len(chosen), 1))
    drawn = tuple(_lane(db, job, now=now, span=span, most=most) for job in chosen)
    return Timeline(now - span, now + span, now, drawn, len(alive))


def _matters(job: Job, newest: datetime | None, *, now: datetime, span: timedelta) -> bool:
    """Tell whether a job has anything to draw; of a long run the beginning may lie before."""
    ahead = job.next_at is not None and job.next_at <= now + span
    return ahead or (newest is not None and newest >= now - 2 * span)


def _distance(job: Job, newest: datetime, now: datetime) -> timedelta:
    """Return how far a job's last or next doing is away."""
    near = now - newest
    return near if job.next_at is None else min(near, abs(job.next_at - now))


def _lane(db: Database, job: Job, *, now: datetime, span: timedelta, most: int) -> Lane:
    runs = run_queries.drawn_runs(db, job.id, limit=most + 1)
    inside = [run for run in runs if run.finished_at is None or run.finished_at >= now - span]
    bars = list(_single(inside, now=now))
    if len(inside) > most:
        bars = [*_counted(db, job.id, now=now, span=span), *(bar for bar in bars if bar.kind == "running")]
    bars.sort(key=lambda bar: DRAWN.index(bar.kind))
    fires = [fire.at for fire in coming_fires(job, n=most + 1) if fire.at <= now + span]
    quiet = tuple(_quiet(job, now - span, now + span))
    return Lane(job.name, tuple(bars), tuple(fires), len(fires) > most, quiet, job.paused_at is not None)


def _single(runs: Sequence[Drawn], *, now: datetime) -> Iterator[Bar]:
    """Yield a bar for each run that has started or ended; what is queued is not on the line yet."""
    for run in reversed(runs):
        if run.finished_at is not None or run.started_at is not None:
            since, until = _span(run, now)
            yield Bar(_kind(run), since, until, run.count or 1, run.number)


def _span(run: Drawn, now: datetime) -> tuple[datetime, datetime]:
    if run.started_at is not None:
        return run.started_at, run.finished_at or now
    since = run.scheduled_for or run.created_at
    return since, run.covers_to or since


def _kind(run: Drawn) -> str:
    if run.reason is Reason.MISSED:
        return "missed"
    return "partial" if run.reason is Reason.MEMBERS_FAILED else run.status.shown.value.lower()


def _counted(db: Database, job_id: str, *, now: datetime, span: timedelta) -> Iterator[Bar]:
    """Yield bars for many runs: those of one status that lie in neighbouring parts are one, failures drawn last."""
    width = span / PARTS
    for status in FINAL:
        found = run_queries.ended_runs(db, job_id, status, since=now - span, width=width, limit=COUNTED)
        for group in _neighbours(found, width):
            count = sum(one.count for one in group)
            yield Bar(status.value.lower(), group[0].since, group[-1].until, count)


def _neighbours(found: Sequence[EndCount], width: timedelta) -> Iterator[list[EndCount]]:
    group: list[EndCount] = []
    for one in found:
        if group and one.since - group[-1].until > 2 * width:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _quiet(job: Job, since: datetime, until: datetime) -> Iterator[QuietRun]:
    """Yield the quiet hours of a job within a timeline."""
    quiet, at = job.spec.schedule.quiet, since
    for _ in range(QUIETS):
        if quiet is None or at >= until:
            return
        found = quiet_run(quiet, at)
        if found is not None:
            yield QuietRun(max(found.since, since), min(found.until, until))
            at = found.until
        else:
            at = next_quiet(quiet, at)


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
        """What nobody has seen yet."""
        return tuple(need for need in self.needs if need.seen is None)

    @property
    def seen(self) -> tuple[AttentionItem, ...]:
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
    """Return the next fire of each job, and when runs start whose provider is held."""
    due = sorted((job for job in living if job.next_at is not None), key=lambda job: job.next_at or now)
    fires = {NextFire(fire.at, job.name) for job in due[: 4 * NEXT_SHOWN] for fire in fires_to_come(job, n=1, now=now)}
    queued = queue.runs_of(db, queue.ready(db, limit=WAITING_LOOKED_AT))
    kept = held_runs(db, queued=queued)
    waiting = {NextFire(kept[run.id].until or now, run.job) for run in queued if run.id in kept}
    return sorted(fires | waiting, key=lambda fire: (fire.at, fire.job))[:NEXT_SHOWN]


def tail_of(state: Path, run_id: str, *, lines: int = TAIL_LINES) -> tuple[str, ...]:
    """Return the last lines of what a run wrote, safe to show."""
    text = clean_for_terminal(b"".join(output_of(state, run_id, lines=lines)).decode("utf-8", "replace"))
    return tuple(line[:TAIL_WIDTH] for line in text.splitlines() if line.strip())[-lines:]
