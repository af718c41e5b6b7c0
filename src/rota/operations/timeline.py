"""The timeline: what ran and what will, a lane for each job; many runs of a job close together are one band."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.model.records import Job
from rota.model.states import Reason, Status
from rota.rules.coming import coming_fires
from rota.rules.quiet import QuietRun, next_quiet, quiet_run
from rota.store import timeline
from rota.store.driver import Database
from rota.store.timeline import Drawn, Ended

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
    newest = timeline.newest_run_of_jobs(db)
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
    runs = timeline.drawn_runs(db, job.id, limit=most + 1)
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
        found = timeline.ended_runs(db, job_id, status, since=now - span, width=width, limit=COUNTED)
        for group in _neighbours(found, width):
            count = sum(one.count for one in group)
            yield Bar(status.value.lower(), group[0].since, group[-1].until, count)


def _neighbours(found: Sequence[Ended], width: timedelta) -> Iterator[list[Ended]]:
    group: list[Ended] = []
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
