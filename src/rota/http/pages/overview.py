"""The overview page with its timeline, the digest, and the search."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Annotated, Literal

from fastapi import Query
from msgspec import Struct
from starlette.responses import RedirectResponse, Response

from rota.http.context import segment
from rota.http.pages.page import PageContext, Pages, View, VisitOf, fit
from rota.http.pages.stats import Asked, AskedOf, overview_stats
from rota.model.errors import InvalidValue, RotaError
from rota.model.ids import is_id
from rota.operations.budgets import AccountView
from rota.operations.jobs import find_job
from rota.operations.runs import find_run
from rota.operations.status.attention import acknowledge, point_out
from rota.operations.status.digest import look_at_digest
from rota.operations.status.overview import ALL, LANES, MOST_LANES, Bar, Lane, Overview, Timeline, look_over
from rota.operations.status.status import needs_of
from rota.rules.budgets import say_amount, say_this, say_used
from rota.rules.schedule.blackouts import QuietRun
from rota.store.driver import Database
from rota.text import messages
from rota.text.format import briefly, clock_time, day_time, from_now

WIDTH, HEIGHT = 1000, 20
HEIGHTS = {"failed": 18, "partial": 14, "running": 12, "missed": 12, "skipped": 4, "quiet": 20, "band": 6}
"""Kinds differ by height, not by colour alone."""
MIN_WIDTH = 3.0
SPANS = {"1h": timedelta(hours=1), "3h": timedelta(hours=3), "12h": timedelta(hours=12), "3d": timedelta(days=3)}
NAMED_FIRES = 4
_DAY = timedelta(days=1)


class Stroke(Struct, frozen=True):
    """A bar as it is drawn."""

    kind: str
    x: str
    width: str
    title: str
    run: str = ""

    @property
    def y(self) -> int:
        """The distance from the top: bars are centred."""
        return (HEIGHT - self.height) // 2

    @property
    def height(self) -> int:
        """The height: important kinds are higher."""
        return HEIGHTS.get(self.kind, 8)


class TimelineRow(Struct, frozen=True):
    """A lane as it is drawn: bars of past runs, ticks or a band of coming fires, quiet hours."""

    job: str
    strokes: tuple[Stroke, ...]
    ticks: str
    band: Stroke | None
    ahead: str
    quiet: tuple[Stroke, ...]
    summary: str
    paused: bool


class Drawing(Struct, frozen=True):
    """All lanes, and the labels above them."""

    rows: tuple[TimelineRow, ...]
    labels: tuple[str, ...]
    more: int
    span: str


class Scale:
    """Converts instants of a timeline to positions and words."""

    def __init__(self, line: Timeline, zone: str) -> None:
        self._line = line
        self._zone = zone

    def x(self, at: datetime) -> float:
        """Return the position of an instant."""
        share = (at - self._line.since) / (self._line.until - self._line.since)
        return min(max(share, 0.0), 1.0) * WIDTH

    def stroke(self, kind: str, since: datetime, until: datetime, *, title: str, run: str = "") -> Stroke:
        """Return a bar from one instant to another."""
        x, end = self.x(since), self.x(until)
        if end - x < MIN_WIDTH:
            x = min(x, WIDTH - MIN_WIDTH)
            end = x + MIN_WIDTH
        return Stroke(kind, _short(x), _short(end - x), title, run)

    def words(self, at: datetime) -> str:
        """Return an instant in its shortest unambiguous form."""
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


def _row(lane: Lane, scale: Scale, *, now: datetime, until: datetime) -> TimelineRow:
    ahead = _ahead(lane, scale, now)
    band = scale.stroke("band", lane.fires[0], until, title=ahead) if lane.band else None
    return TimelineRow(
        job=lane.job,
        strokes=tuple(_stroke(lane.job, bar, scale) for bar in lane.bars),
        ticks="" if lane.band else "".join(f"M{_short(scale.x(at))} 4v12" for at in lane.fires),
        band=band,
        ahead=ahead,
        quiet=tuple(_quiet(quiet, scale) for quiet in lane.quiet),
        summary=_summary(lane, ahead),
        paused=lane.paused,
    )


def _stroke(job: str, bar: Bar, scale: Scale) -> Stroke:
    """Return the bar of a run, titled as `backup:112 completed, 02:15:00, took 11 min`."""
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


def _ahead(lane: Lane, scale: Scale, now: datetime) -> str:
    if not lane.fires:
        return ""
    named = ", ".join(scale.words(at) for at in lane.fires[:NAMED_FIRES])
    more = len(lane.fires) - NAMED_FIRES
    rest = " and on" if lane.band else f" and {more} more" if more > 0 else ""
    return f"next {from_now(lane.fires[0], now)}: {named}{rest}"


def _quiet(quiet: QuietRun, scale: Scale) -> Stroke:
    title = f"quiet hours, {scale.words(quiet.since)} to {scale.words(quiet.until)}"
    return scale.stroke("quiet", quiet.since, quiet.until, title=title)


def _summary(lane: Lane, ahead: str) -> str:
    """Return a lane in words, for screen readers."""
    counted: Counter[str] = Counter()
    for bar in lane.bars:
        counted[bar.kind] += bar.count
    past = ", ".join(f"{number:,} {kind}" for kind, number in counted.items()) or "no runs"
    return "; ".join(part for part in (past, ahead, "paused" if lane.paused else "") if part)


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


pages = Pages()
BAD = ("failing", "stuck", "abandoned", "damage", "storage", "loop", "workers")
LEVELS = {**dict.fromkeys(BAD, "bad"), "approval": "accent"}
Span = Annotated[Literal["1h", "3h", "12h", "3d"], Query(description="Hours before and after now on the timeline.")]
Rows = Annotated[
    Literal["", "all"], Query(description="Show all jobs on the timeline, not only the most relevant ones.")
]


@pages.show("/")
def show_overview(visit: VisitOf, of: AskedOf, span: Span = "12h", rows: Rows = "") -> Response:
    """Show the overview."""
    kept = {name: value for name, value in (("span", span if span != "12h" else ""), ("rows", rows)) if value}
    stats = overview_stats(visit, of, kept=kept) if visit.wants("figures", "charts") else None

    overview = look_over(
        visit.ctx.store,
        visit.ctx.state,
        beat=visit.health.heartbeat,
        zone=visit.zone,
        now=visit.now,
        span=SPANS[span],
        lanes=MOST_LANES if rows else LANES,
        parts=set(visit.fragments) & ALL if visit.fragments else ALL,
    )

    def show(lanes: int) -> Response:
        return _show(visit, of, span, rows, found=overview, lanes=lanes, stats=stats)

    return fit(show, lines=len(overview.timeline.lanes) if overview.timeline else 1)


def _show(
    visit: PageContext, of: Asked, span: str, rows: str, *, found: Overview, lanes: int, stats: View | None
) -> Response:
    drawing = drawing_of(found.timeline.first(lanes), zone=visit.zone, span=span) if found.timeline else None
    view = {
        "stats": stats,
        "address": of.query(),
        "found": found,
        "drawing": drawing,
        "budgets": [_budget(view) for view in found.budgets],
        "levels": LEVELS,
        "spans": tuple(SPANS),
        "rows": rows,
    }
    return visit.show("overview.html", view, title="Overview", section="overview")


def _budget(view: AccountView) -> View:
    unit, limit = view.account.unit, view.account.limit
    expected = view.forecast.amount
    return {
        "view": view,
        "used": say_used(view.used, limit, unit),
        "window": say_this(view.account.per),
        "forecast": "" if expected is None else say_amount(expected, unit),
        "over": say_amount(view.over, unit) if view.over else "",
    }


@pages.act("/ui/attention/acknowledge", back="/")
def acknowledge_attention(visit: VisitOf) -> Response:
    """Acknowledge an item: hide it until something new happens to it."""
    topic, mark = visit.form.get("topic", ""), visit.form.get("mark", "")
    if not topic or not mark:
        raise InvalidValue("no item is named", hint="reload the page")
    needs = needs_of(visit.ctx.store, beat=visit.health.heartbeat, zone=visit.zone, now=visit.now)
    attentions = [need for need in needs if need.attention.topic == topic]
    same = [need for need in attentions if need.mark == mark]
    acknowledge(visit.ctx.store, same, needs=needs, actor=visit.ctx.actor, now=visit.now)
    if not attentions:
        return visit.done("this problem is resolved")
    if not same:
        return visit.done("it has changed meanwhile: check it again")
    return visit.done(f"{same[0].attention.name} is acknowledged until something new happens")


@pages.act("/ui/attention/show", back="/")
def point_out_attention(visit: VisitOf) -> Response:
    """Show an acknowledged item again."""
    point_out(visit.ctx.store, [visit.form.get("topic", "")])
    return visit.done("acknowledgement removed")


@pages.show("/ui/search")
def search(visit: VisitOf, q: Annotated[str, Query(max_length=200)] = "") -> Response:
    """Redirect to the run or the job of this name, else to the jobs that contain the words."""
    words = q.strip()
    found = visit.ctx.store.read(lambda db: _named(db, words)) if words else None
    return RedirectResponse(visit.href(found) if found else visit.href("/ui/jobs", q=words), 303)


def _named(db: Database, words: str) -> str | None:
    try:
        if ":" in words or is_id(words):
            return f"/ui/runs/{segment(find_run(db, words).handle)}"
        return f"/ui/jobs/{segment(find_job(db, words).name)}"
    except RotaError:
        return None


DIGEST_SPANS = {"last": None, "12h": timedelta(hours=12), "1d": timedelta(days=1), "7d": timedelta(days=7)}


@pages.show("/ui/digest")
def show_digest(visit: VisitOf, since: Annotated[str, Query(max_length=10)] = "last") -> Response:
    """Show what happened since the last digest, or within a span."""
    span = DIGEST_SPANS.get(since)
    begin = None if span is None else visit.now - span
    beat = visit.health.heartbeat
    digest = look_at_digest(visit.ctx.store, beat=beat, since=begin, zone=visit.zone, now=visit.now)
    view = {
        "digest": digest,
        "title": messages.title({**digest, "event": "digest"}),
        "say_counts": lambda one: messages.say_counts({**one, "job": 0}),
        "chosen": since if since in DIGEST_SPANS else "last",
        "spans": tuple(DIGEST_SPANS),
    }
    return visit.show("digest.html", view, title="Digest", section="overview")
