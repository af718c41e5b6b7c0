"""The timeline as a drawing: where each bar of a lane begins and how wide it is, and the words that explain it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.operations.timeline import Bar, Lane, Timeline
from rota.rules.quiet import QuietRun
from rota.rules.times import briefly, clock_time, day_time, from_now

WIDTH, HEIGHT = 1000, 20
HEIGHTS = {"failed": 18, "partial": 14, "running": 12, "missed": 12, "skipped": 4, "quiet": 20, "band": 6}
"""Kinds are told apart by height, not by colour alone."""
LEAST = 3.0
"""A bar is at least so wide, so that it is seen."""
SPANS = {"1h": timedelta(hours=1), "3h": timedelta(hours=3), "12h": timedelta(hours=12), "3d": timedelta(days=3)}
NAMED_FIRES = 4
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Stroke:
    """A bar as it is drawn."""

    kind: str
    x: str
    width: str
    title: str
    run: str = ""

    @property
    def y(self) -> int:
        """Where it begins from above: bars are as high as they matter, and each in the middle."""
        return (HEIGHT - self.height) // 2

    @property
    def height(self) -> int:
        """How high it is."""
        return HEIGHTS.get(self.kind, 8)


@dataclass(frozen=True, slots=True)
class Row:
    """A lane as it is drawn: bars of the past, ticks or a band for what comes, quiet hours."""

    job: str
    strokes: tuple[Stroke, ...]
    ticks: str
    band: Stroke | None
    ahead: str
    quiet: tuple[Stroke, ...]
    summary: str
    paused: bool


@dataclass(frozen=True, slots=True)
class Drawing:
    """All lanes, and what stands above them."""

    rows: tuple[Row, ...]
    labels: tuple[str, ...]
    more: int
    span: str


class Scale:
    """Places instants of a timeline, and tells them in a zone."""

    def __init__(self, line: Timeline, zone: str) -> None:
        self._line = line
        self._zone = zone

    def x(self, at: datetime) -> float:
        """Return where an instant lies."""
        share = (at - self._line.since) / (self._line.until - self._line.since)
        return min(max(share, 0.0), 1.0) * WIDTH

    def stroke(self, kind: str, since: datetime, until: datetime, *, title: str, run: str = "") -> Stroke:
        """Return a bar from one instant to another."""
        x, end = self.x(since), self.x(until)
        if end - x < LEAST:
            x = min(x, WIDTH - LEAST)
            end = x + LEAST
        return Stroke(kind, _short(x), _short(end - x), title, run)

    def words(self, at: datetime) -> str:
        """Return an instant as short as it stays clear."""
        return day_time(at, self._zone, now=self._line.now)

    def exactly(self, at: datetime) -> str:
        """Return an instant to the second."""
        return day_time(at, self._zone, now=self._line.now, seconds=True)

    def label(self, at: datetime) -> str:
        """Return an instant for the line above the lanes."""
        whole = self._line.until - self._line.since > 2 * _DAY
        return self.words(at) if whole else clock_time(at, self._zone)[:5]


def drawing_of(line: Timeline, *, zone: str, span: str) -> Drawing:
    """Return a timeline as it is drawn."""
    scale = Scale(line, zone)
    half = (line.now - line.since) / 2
    marks = (line.since, line.since + half, line.now, line.now + half, line.until)
    rows = tuple(_row(lane, scale, now=line.now, until=line.until) for lane in line.lanes)
    return Drawing(rows, tuple(scale.label(at) for at in marks), line.jobs - len(rows), span)


def _row(lane: Lane, scale: Scale, *, now: datetime, until: datetime) -> Row:
    ahead = _ahead(lane, scale, now)
    band = scale.stroke("band", lane.fires[0], until, title=ahead) if lane.band else None
    return Row(
        job=lane.job,
        strokes=tuple(_stroke(lane.job, bar, scale) for bar in lane.bars),
        ticks="" if lane.band else _ticks(lane.fires, scale),
        band=band,
        ahead=ahead,
        quiet=tuple(_quiet(one, scale) for one in lane.quiet),
        summary=_summary(lane, ahead),
        paused=lane.paused,
    )


def _stroke(job: str, bar: Bar, scale: Scale) -> Stroke:
    """Return a run as it is drawn, with what it was: `backup:112 completed, 02:15:00, took 11 min`."""
    if bar.number is None:
        since, until = scale.words(bar.since), scale.words(bar.until)
        when = since if since == until else f"{since} to {until}"
        return scale.stroke(bar.kind, bar.since, bar.until, title=f"{bar.count:,} {bar.kind}, {when}")
    run = f"{job}:{bar.number}"
    lasted = bar.until - bar.since
    took = f", {'for' if bar.kind == 'running' else 'took'} {briefly(lasted)}" if lasted else ""
    times = f" ({bar.count:,} times)" if bar.count > 1 else ""
    title = f"{run} {bar.kind}{times}, {scale.exactly(bar.since)}{took}"
    return scale.stroke(bar.kind, bar.since, bar.until, title=title, run=run)


def _ticks(fires: Sequence[datetime], scale: Scale) -> str:
    """Return coming fires as one path."""
    return "".join(f"M{_short(scale.x(at))} 4v12" for at in fires)


def _ahead(lane: Lane, scale: Scale, now: datetime) -> str:
    """Return the coming fires in words."""
    if not lane.fires:
        return ""
    named = ", ".join(scale.words(at) for at in lane.fires[:NAMED_FIRES])
    more = len(lane.fires) - NAMED_FIRES
    rest = " and on" if lane.band else f" and {more} more" if more > 0 else ""
    return f"next {from_now(lane.fires[0], now)}: {named}{rest}"


def _quiet(one: QuietRun, scale: Scale) -> Stroke:
    title = f"quiet hours, {scale.words(one.since)} to {scale.words(one.until)}"
    return scale.stroke("quiet", one.since, one.until, title=title)


def _summary(lane: Lane, ahead: str) -> str:
    """Return a lane for those who do not see it."""
    counted: Counter[str] = Counter()
    for bar in lane.bars:
        counted[bar.kind] += bar.count
    past = ", ".join(f"{number:,} {kind}" for kind, number in counted.items()) or "no runs"
    return "; ".join(part for part in (past, ahead, "paused" if lane.paused else "") if part)


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
