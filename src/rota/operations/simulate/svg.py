"""The drawing of a simulation."""

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from xml.sax.saxutils import escape, quoteattr

from msgspec import Struct

from rota.model.amounts import counted
from rota.model.spec import Mode, QuietHours
from rota.operations.simulate.player import span_words
from rota.operations.simulate.report import AccountReport, LevelReport, SimulationReport
from rota.operations.simulate.tally import PARTS, JobReport
from rota.rules.budgets import say_amount
from rota.rules.schedule.blackouts import next_quiet, quiet_run
from rota.rules.schedule.timezone import zone

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MAX_MARKS = 14
HOURS = (1, 2, 3, 6, 12)
DAYS = (1, 2, 7, 14, 28, 56)


class AxisMark(Struct, frozen=True):
    """A labelled moment of the axis; `strong` for the start of a day."""

    at: datetime
    words: str
    strong: bool = False


def marks(since: datetime, until: datetime, tz: str) -> list[AxisMark]:
    """Return at most about fourteen marks from `since` to before `until`."""
    span = until - since
    hours = next((step for step in HOURS if span / (step * HOUR) <= MAX_MARKS), None)
    candidates = _hours(since, until, tz, step=hours) if hours else _days(since, until, tz)
    return [mark for mark in candidates if since <= mark.at < until]


def _hours(since: datetime, until: datetime, tz: str, *, step: int) -> list[AxisMark]:
    place = zone(tz)
    local = since.astimezone(place).replace(minute=0, second=0, microsecond=0)
    axis: list[AxisMark] = []
    at = local.astimezone(UTC)
    while at < until:
        shown = at.astimezone(place)
        if shown.hour % step == 0:
            midnight = shown.hour == 0
            axis.append(AxisMark(at, f"{shown:%a} {shown.day}" if midnight else f"{shown:%H:%M}", strong=midnight))
        at += HOUR
    return axis


def _days(since: datetime, until: datetime, tz: str) -> list[AxisMark]:
    place = zone(tz)
    step = next((step for step in DAYS if (until - since) / (step * DAY) <= MAX_MARKS), DAYS[-1])
    day = since.astimezone(place).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None) + DAY
    axis: list[AxisMark] = []
    while (at := day.replace(tzinfo=place).astimezone(UTC)) < until:
        words = f"{day:%a} {day.day} {day:%b}" if step < 7 else f"{day.day} {day:%b}"
        axis.append(AxisMark(at, words, strong=day.weekday() == 0 and step < 7))
        day += step * DAY
    return axis


STYLE = """
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;font-size:12px;fill:#24292f}
.title{font-size:17px;font-weight:600}
.name{text-anchor:end}
.count{text-anchor:end;font-variant-numeric:tabular-nums}
.small{text-anchor:end;font-size:10.5px}
.start{text-anchor:start}
.when{font-size:10.5px}
.muted,.small,.when{fill:#68717b}
.strong{fill:#24292f;font-weight:600}
.paper{fill:#fdfdfc}
.hair,.hour,.day,.limit{fill:none;stroke:#eceeef;stroke-width:1}
.day{stroke:#d5d9dd}
.limit{stroke:#c3c9cf;stroke-dasharray:2 3}
.quiet{fill:#eceff3}
.tick{fill:#2f6690}
.band1{fill:#2f6690;fill-opacity:.22}
.band2{fill:#2f6690;fill-opacity:.38}
.band3{fill:#2f6690;fill-opacity:.56}
.band4{fill:#2f6690;fill-opacity:.78}
.skip{fill:#c8553d}
.level{fill:#81a594;fill-opacity:.75}
.full{fill:#d08c60;fill-opacity:.85}
.budget{fill:#8d7fb3;fill-opacity:.6}
.over{fill:#c8553d;fill-opacity:.6}
.active{fill:#2f6690}
.idle{fill:#8fb3cc}
.dormant{fill:#dbe4ea}
@media (prefers-color-scheme:dark){
text{fill:#dfe3e7}
.muted,.small,.when{fill:#8b949e}
.strong{fill:#dfe3e7}
.paper{fill:#15181c}
.hair,.hour{stroke:#23282e}
.day{stroke:#39414a}
.limit{stroke:#4a535c}
.quiet{fill:#1f252c}
.tick,.band1,.band2,.band3,.band4{fill:#7db3d8}
.skip{fill:#e8836b}
.level{fill:#6f9e8a}
.full{fill:#d9a06f}
.budget{fill:#a394cf}
.over{fill:#e8836b}
.active{fill:#7db3d8}
.idle{fill:#40647f}
.dormant{fill:#28323b}
}
"""


LEFT, PLOT, RIGHT = 210, 960, 110
WIDTH = LEFT + PLOT + RIGHT
PART = PLOT // PARTS
TOP = 96
ROW, BAR = 24, 12
STRIP = 40
MODE = 8
SHADES = 4
ROWS_SHOWN = 200
NAME_SHOWN = 28
QUIET_SHOWN = 2000
FULL = 0.999
_UNFIT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def draw(report: SimulationReport, *, alone: bool = True, rows: int = ROWS_SHOWN) -> str:
    """Return the timeline as SVG without scripts; every text is escaped.

    Unless it stands alone, it has no styles: those of a page colour its classes below `svg.simulation`.
    """
    return "\n".join(_Drawing(report, alone=alone, rows=rows).lines()) + "\n"


def fit(text: str, limit: int = 200) -> str:
    """Return a text for XML: escaped, cut, without characters that XML does not allow.

    >>> fit("a<b & c")
    'a&lt;b &amp; c'
    """
    plain = _UNFIT.sub("\ufffd", " ".join(text.split()))
    return escape(plain if len(plain) <= limit else plain[: limit - 1] + "…", {'"': "&quot;"})


class _Drawing:
    def __init__(self, report: SimulationReport, *, alone: bool, rows: int) -> None:
        self._report = report
        self._alone = alone
        self._span = report.until - report.since
        busy = [job for job in report.shown if any(job.parts) or any(job.skipped_parts)]
        self._jobs = busy[:rows]
        self._left_out = len(busy) - len(self._jobs)
        self._most = max((max(job.parts) for job in self._jobs), default=1)
        self._levels = [report.slots, *report.pools]
        self._adaptive = next((job for job in sorted(report.jobs, key=lambda job: not job.is_poll) if job.modes), None)
        self._rows_at = TOP + (MODE + 14 if self._adaptive else 0)
        self._strips_at = self._rows_at + ROW * len(self._jobs) + 22
        strips = len(self._levels) + len(report.accounts)
        self._legend_at = self._strips_at + (STRIP + 14) * strips + 8
        self._height = self._legend_at + 30
        self._top = 0 if self._alone else TOP - 32

    def lines(self) -> Iterator[str]:
        """Yield the document."""
        title = f"Simulation: {span_words(self._report)}"
        kind = "" if self._alone else ' class="simulation"'
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg"{kind} viewBox="0 {self._top} {WIDTH} {self._height - self._top}" '
            f'width="{WIDTH}" height="{self._height - self._top}" role="img" aria-label={quoteattr(fit(title))}>'
        )
        if self._alone:
            yield f"<title>{fit(title)}</title>"
            yield f"<style>{STYLE}</style>"
            yield f'<rect class="paper" width="{WIDTH}" height="{self._height}"/>'
            yield from self._head()
        yield from self._axis()
        if self._adaptive is not None:
            yield from self._modes(self._adaptive)
        for index, job in enumerate(self._jobs):
            yield from self._row(job, self._rows_at + ROW * index)
        yield from self._strips()
        yield from self._legend()
        yield "</svg>"

    # head and axis

    def _head(self) -> Iterator[str]:
        report = self._report
        jobs = report.shown
        skipped = sum(sum(job.skipped.values()) for job in jobs)
        figures = [counted(sum(job.fires for job in jobs), "fire"), counted(sum(job.runs for job in jobs), "run")]
        figures += [f"{skipped:,} skipped"] if skipped else []
        figures += [f"{report.calls / report.days:,.0f} remote calls a day"] if report.calls else []
        if report.against is not None:
            figures.append(f"{report.against.a_day:,.0f} with a single tick")
        yield f'<text class="title" x="24" y="34">{fit(span_words(report))}</text>'
        yield f'<text class="muted" x="24" y="54">{fit(" · ".join(figures))}</text>'

    def _axis(self) -> Iterator[str]:
        bottom = self._legend_at - 22
        for mark in marks(self._report.since, self._report.until, self._report.timezone):
            x = self._x(mark.at)
            kind = "day" if mark.strong else "hour"
            yield f'<path class="{kind}" d="M{x:.1f} {TOP - 14}V{bottom}"/>'
            label = "when strong" if mark.strong else "when"
            yield f'<text class="{label}" x="{x + 4:.1f}" y="{TOP - 18}">{fit(mark.words)}</text>'

    def _x(self, at: datetime) -> float:
        return LEFT + PLOT * ((at - self._report.since) / self._span)

    # rows

    def _modes(self, job: JobReport) -> Iterator[str]:
        yield f'<text class="name" x="{LEFT - 14}" y="{TOP + MODE + 1}">mode</text>'
        borders = [*(period.at for period in job.modes[1:]), self._report.until]
        for period, end in zip(job.modes, borders, strict=True):
            x, width = self._x(period.at), self._x(end) - self._x(period.at)
            yield (
                f'<rect class="{period.mode.value}" x="{x:.1f}" y="{TOP}" width="{max(width, 0.5):.1f}" '
                f'height="{MODE}"><title>{period.mode.value}</title></rect>'
            )

    def _row(self, job: JobReport, y: int) -> Iterator[str]:
        top = y + (ROW - BAR) // 2
        skipped = sum(job.skipped.values())
        title = f"{job.name}: {counted(job.fires, 'fire')}, {counted(job.runs, 'run')}, {skipped:,} skipped"
        yield f"<g><title>{fit(title)}</title>"
        yield f'<path class="hair" d="M24 {y + ROW}H{WIDTH - 24}"/>'
        if job.quiet is not None:
            yield from self._quiet(job.quiet, y)
        yield f'<text class="name" x="{LEFT - 14}" y="{y + 16}">{fit(job.name, NAME_SHOWN)}</text>'
        yield from self._fires(job, top)
        if any(job.skipped_parts):
            yield f'<path class="skip" d="{_bars(job.skipped_parts, top + BAR + 1, 4)}"/>'
        count = f"{job.fires:,}"
        yield f'<text class="count" x="{WIDTH - 24}" y="{y + 16}">{count}</text></g>'

    def _quiet(self, quiet: QuietHours, y: int) -> Iterator[str]:
        paths: list[str] = []
        at = self._report.since
        while at < self._report.until and len(paths) < QUIET_SHOWN:
            run = quiet_run(quiet, at)
            if run is not None:
                begin, end = max(run.since, self._report.since), min(run.until, self._report.until)
                paths.append(f"M{self._x(begin):.1f} {y + 1}H{self._x(end):.1f}v{ROW - 2}H{self._x(begin):.1f}z")
                at = run.until
            else:
                at = next_quiet(quiet, at)
        if paths:
            yield f'<path class="quiet" d="{"".join(paths)}"/>'

    def _fires(self, job: JobReport, y: int) -> Iterator[str]:
        """Yield ticks for single fires and bands for dense ones, darker with density."""
        shades = [_shade(job.parts, index, self._most) for index in range(PARTS)]
        for shade in range(1, SHADES + 2):
            chosen = [int(one == shade) for one in shades]
            if any(chosen):
                kind, path = ("tick", _ticks(chosen, y)) if shade > SHADES else (f"band{shade}", _bars(chosen, y, BAR))
                yield f'<path class="{kind}" d="{path}"/>'

    # strips

    def _strips(self) -> Iterator[str]:
        y = self._strips_at
        for level in self._levels:
            yield from self._level(level, y)
            y += STRIP + 14
        for account in self._report.accounts:
            yield from self._account(account, y)
            y += STRIP + 14

    def _level(self, level: LevelReport, y: int) -> Iterator[str]:
        name = level.name if level.name == "slots" else f"pool {level.name}"
        capacity = max(level.capacity, 1)
        heights = [min(part / capacity, 1.0) for part in level.parts]
        yield f'<path class="hair" d="M{LEFT} {y + STRIP}h{PLOT}"/><path class="limit" d="M{LEFT} {y}h{PLOT}"/>'
        yield f'<text class="name" x="{LEFT - 14}" y="{y + STRIP - 12}">{fit(name, NAME_SHOWN)}</text>'
        if any(heights):
            yield f'<path class="level" d="{_area(heights, y)}"/>'
        full = [int(part >= level.capacity * FULL) for part in level.parts]
        if any(full):
            yield f'<path class="full" d="{_bars(full, y, STRIP)}"/>'
        yield f'<text class="count" x="{WIDTH - 24}" y="{y + STRIP - 20}">{level.peak} of {level.capacity}</text>'
        yield f'<text class="small" x="{WIDTH - 24}" y="{y + STRIP - 5}">full {level.share_full:.1%}</text>'

    def _account(self, report: AccountReport, y: int) -> Iterator[str]:
        account = report.account
        limit = max(account.limit, 1)
        scale = max(1.0, report.most / limit)
        heights = [part / limit / scale for part in report.parts]
        line = y + STRIP - STRIP / scale
        yield f'<path class="hair" d="M{LEFT} {y + STRIP}h{PLOT}"/>'
        yield f'<path class="limit" d="M{LEFT} {line:.1f}h{PLOT}"/>'
        yield f'<text class="name" x="{LEFT - 14}" y="{y + STRIP - 12}">{fit(account.name, NAME_SHOWN)}</text>'
        if any(heights):
            kind = "over" if report.most > account.limit else "budget"
            yield f'<path class="{kind}" d="{_area(heights, y)}"/>'
        used = say_amount(report.most, account.unit, noun=False)
        of = say_amount(account.limit, account.unit, noun=False)
        yield f'<text class="count" x="{WIDTH - 24}" y="{y + STRIP - 20}">{fit(used)}</text>'
        yield f'<text class="small" x="{WIDTH - 24}" y="{y + STRIP - 5}">of {fit(of)} a {account.per}</text>'

    def _legend(self) -> Iterator[str]:
        y = self._legend_at
        entries = [("tick", "a fire"), ("band3", "many fires")]
        if any(any(job.skipped_parts) for job in self._jobs):
            entries.append(("skip", "skipped"))
        if any(job.quiet for job in self._jobs):
            entries.append(("quiet", "quiet hours"))
        if self._adaptive is not None:
            entries += [(mode.value, mode.value) for mode in Mode]
        x = LEFT
        for kind, words in entries:
            width = PART if kind == "tick" else 14
            yield f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="10"/>'
            yield f'<text class="small start" x="{x + width + 7}" y="{y + 9}">{words}</text>'
            x += width + 7 + 7 * len(words) + 22
        if self._left_out:
            yield f'<text class="small" x="{WIDTH - 24}" y="{y + 9}">and {counted(self._left_out, "more job")}</text>'


def _shade(parts: Sequence[int], index: int, most: int) -> int:
    """Return the shade of a part: 0 for none, up to SHADES for a band, SHADES + 1 for a single tick."""
    count = parts[index]
    if not count:
        return 0
    if count == 1 and _apart(parts, index):
        return SHADES + 1
    return max(1, math.ceil(SHADES * math.log1p(count) / math.log1p(most)))


def _apart(parts: Sequence[int], index: int) -> bool:
    """Return whether a part stands alone or beside one other part."""
    further_back, back, _, on, further_on = (0, 0, *parts, 0, 0)[index : index + 5]
    if back and on:
        return False
    return not (back and further_back) and not (on and further_on)


def _ticks(parts: Sequence[int], y: int) -> str:
    """Return a path of single ticks with a gap between neighbours."""
    width = PART * 0.75
    places = [LEFT + PART * index for index, part in enumerate(parts) if part]
    return "".join(f"M{x} {y}h{width:g}v{BAR}h-{width:g}z" for x in places)


def _bars(parts: Sequence[int], y: int, height: int) -> str:
    """Return a path of rectangles over the non-empty parts, neighbours joined."""
    path: list[str] = []
    begin: int | None = None
    for index, part in enumerate([*parts, 0]):
        if part and begin is None:
            begin = index
        elif not part and begin is not None:
            width = PART * (index - begin)
            path.append(f"M{LEFT + PART * begin} {y}h{width}v{height}h-{width}z")
            begin = None
    return "".join(path)


def _area(heights: Sequence[float], y: int) -> str:
    """Return a path that fills the area under the heights, each from 0 to 1."""
    path = [f"M{LEFT} {y + STRIP}"]
    before: str | None = None
    for index, height in enumerate(heights):
        level = f"{y + STRIP - math.ceil(2 * STRIP * height) / 2:g}"  # a small value is still visible
        if level != before:
            path.append(f"H{LEFT + PART * index}V{level}")
            before = level
    return f"{''.join(path)}H{LEFT + PLOT}V{y + STRIP}z"
