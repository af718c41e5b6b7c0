"""The history of a job as a drawing: a bar for each run, as high as it took, and below it the mark of its outcome."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.http.routes.names import segment
from rota.model.records import Run
from rota.operations.words import kind_of, outcome_words, took
from rota.rules.history import Record, record_of
from rota.rules.times import briefly, full_time

HEIGHT = 120
STEP = 12
SLOTS = 45
"""How many runs there is room for; of fewer ones the newest still stands at the right."""
LOWEST = 2.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A run: its bar from `top` down, its place from the left, and what is told of it."""

    left: float
    top: float
    height: float
    kind: str
    path: str
    title: str


@dataclass(frozen=True, slots=True)
class Chart:
    """The drawing. `median_at`: how far from the top the line of the median lies, None for none."""

    width: int
    height: int
    step: int
    bars: tuple[Bar, ...]
    record: Record
    highest: str
    median: str
    median_at: float | None


def draw_history(runs: Sequence[Run], *, zone: str, now: datetime) -> Chart:
    """Return the drawing of a job's newest runs; they come newest first, and the newest stands at the right."""
    record = record_of(runs)
    highest = max((_length(run, now) for run in runs), default=timedelta()) or timedelta(seconds=1)
    shown = list(reversed(runs))
    first = max(SLOTS - len(shown), 0)
    scale = HEIGHT / highest.total_seconds()
    median = record.median
    return Chart(
        width=max(len(shown), SLOTS) * STEP,
        height=HEIGHT,
        step=STEP,
        bars=tuple(_bar(run, index, scale=scale, zone=zone, now=now) for index, run in enumerate(shown, first)),
        record=record,
        highest=briefly(highest),
        median=briefly(median) if median is not None else "",
        median_at=None if median is None else round(HEIGHT - median.total_seconds() * scale, 1),
    )


def _length(run: Run, now: datetime) -> timedelta:
    if run.started_at is None:
        return timedelta()
    return max((run.finished_at or now) - run.started_at, timedelta())


def _bar(run: Run, index: int, *, scale: float, zone: str, now: datetime) -> Bar:
    length = _length(run, now)
    height = max(length.total_seconds() * scale, LOWEST if run.started_at else 0)
    when = full_time(run.started_at or run.created_at, zone, now=now, seconds=True)
    lasted = took(run, now=now)
    words = outcome_words(run, now=now)
    return Bar(
        left=index * STEP,
        top=round(HEIGHT - height, 1),
        height=round(height, 1),
        kind=kind_of(run),
        path=f"/ui/runs/{segment(run.handle)}",
        title=f"{run.handle} {words}{f', {lasted}' if lasted and lasted not in words else ''}, {when}",
    )
