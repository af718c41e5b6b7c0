"""Charts as SVG drawn on the server: bars, lines, small lines, strips and maps, each with the table behind it.

Colours are CSS classes, so a page in the dark needs no other drawing. Shapes stretch with the page; words stand beside
them as text, so they are readable on a phone.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from markupsafe import Markup
from msgspec import Struct

from rota.rules.schedule.timezone import zone as zone_of
from rota.rules.spans import Span

WIDTH, HEIGHT = 1000, 100
LABELS = 5
GAP = 0.18
"""The part of a bar's place that stays empty."""
MAX_MARKS = 40
CAP = 5
"""The height of the cap of a bar above its limit."""

Say = Callable[[float], str]


class Series(Struct, frozen=True):
    """A named row of values, one for each step; `style` is its CSS class. None: nothing was measured."""

    name: str
    style: str
    values: tuple[float | None, ...]


class Mark(Struct, frozen=True):
    """A point in time to mark, between 0 and 1, with its words."""

    place: float
    words: str


class ChartTable(Struct, frozen=True):
    """The numbers behind a chart."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Chart(Struct, frozen=True):
    """A chart of a page: `key` names it in the address, `legend` are the names and classes of its series."""

    key: str
    title: str
    about: str
    drawing: Markup
    table: ChartTable
    legend: tuple[tuple[str, str], ...] = ()
    top: str = ""
    labels: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not self.drawing


class Limit(Struct, frozen=True):
    """A level drawn as a line: a budget. What is above it is drawn in another colour."""

    value: float
    words: str


def number(value: float) -> str:
    """Return a count with thousands.

    >>> number(1204.0), number(0.25)
    ('1,204', '0.2')
    """
    return f"{value:,.0f}" if value == int(value) or value >= 10 else f"{value:.1f}"


def bars(
    key: str,
    title: str,
    *,
    steps: Sequence[str],
    series: Sequence[Series],
    say: Say = number,
    limit: Limit | None = None,
    first: str = "Time",
    added: bool = True,
) -> Chart:
    """Return stacked bars, one for each step; `added`: the sum of all steps means something."""
    if not series:
        return Chart(key, title, "nothing in this time", Markup(), ChartTable((first,), ()))
    sums = [sum(value or 0 for value in values) for values in zip(*(one.values for one in series), strict=True)]
    most = max([*sums, limit.value if limit else 0], default=0)
    shown = [one for one in series if any(one.values)]
    rows = tuple(
        (step, *(say(one.values[at] or 0) for one in shown), say(sums[at])) for at, step in enumerate(steps) if sums[at]
    )
    table = ChartTable((first, *(one.name for one in shown), "Total"), rows)
    if not most or not shown:
        return Chart(key, title, "nothing in this time", Markup(), table)
    whole = f"{say(sum(sums))} in all, " if added else ""
    about = f"{whole}at most {say(max(sums))} ({steps[sums.index(max(sums))]})"
    drawn = [_column(at, step, shown, most=most, say=say, limit=limit, of=len(steps)) for at, step in enumerate(steps)]
    if limit is not None:
        drawn.append(_level(limit, most=most))
    return Chart(
        key,
        title,
        about,
        _svg(title, about, drawn),
        table,
        tuple((one.name, one.style) for one in shown),
        say(most),
        _labels(steps),
    )


def _column(
    at: int, step: str, series: Sequence[Series], *, most: float, say: Say, limit: Limit | None, of: int
) -> Markup:
    width = WIDTH / of
    x, top, total = (at + GAP / 2) * width, float(HEIGHT), 0.0
    parts, words = Markup(), []
    for one in series:
        value = one.values[at] or 0
        if not value:
            continue
        height = value / most * HEIGHT
        top -= height
        total += value
        words.append(f"{one.name} {say(value)}")
        parts += _bar(one.style, x, top, width, height)
    if not words:
        return Markup()
    if limit is not None and total > limit.value:
        parts += _bar("above", x, top, width, min((total - limit.value) / most * HEIGHT, CAP))
        words.append(f"above the {limit.words}")
    return Markup("<g><title>{}</title>{}</g>").format(f"{step}: {', '.join(words)}", parts)


def _bar(style: str, x: float, y: float, width: float, height: float) -> Markup:
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(
        style, _short(x), _short(y), _short(width * (1 - GAP)), _short(height)
    )


def _level(limit: Limit, *, most: float) -> Markup:
    y = _short(HEIGHT - limit.value / most * HEIGHT)
    return Markup('<path class="level" d="M0 {}h{}"><title>{}</title></path>').format(y, WIDTH, limit.words)


def lines(
    key: str, title: str, *, steps: Sequence[str], series: Sequence[Series], say: Say, marks: Sequence[Mark] = ()
) -> Chart:
    """Return a line for each series; a step without a value is a gap."""
    known = [value for one in series for value in one.values if value is not None]
    rows = tuple(
        (step, *("–" if one.values[at] is None else say(one.values[at] or 0) for one in series))
        for at, step in enumerate(steps)
        if any(one.values[at] is not None for one in series)
    )
    table = ChartTable(("Time", *(one.name for one in series)), rows)
    most = max(known, default=0)
    if not known:
        return Chart(key, title, "nothing was measured in this time", Markup(), table)
    about = "; ".join(f"{one.name} {_span(one.values, say)}" for one in series)
    drawn = [
        Markup('<path class="mark" d="M{} 0v{}"><title>{}</title></path>').format(
            _short(mark.place * WIDTH), HEIGHT, mark.words
        )
        for mark in marks[:MAX_MARKS]
    ]
    drawn += [_line(one, steps, most=most or 1, say=say) for one in series]
    legend = tuple((one.name, one.style) for one in series)
    return Chart(key, title, about, _svg(title, about, drawn), table, legend, say(most), _labels(steps))


def _span(values: Sequence[float | None], say: Say) -> str:
    known = [value for value in values if value is not None]
    return f"{say(min(known))} to {say(max(known))}" if known else "unknown"


def _line(one: Series, steps: Sequence[str], *, most: float, say: Say) -> Markup:
    width = WIDTH / max(len(steps), 1)
    points = [
        None if value is None else f"{_short((at + 0.5) * width)} {_short(HEIGHT - value / most * (HEIGHT - 4) - 2)}"
        for at, value in enumerate(one.values)
    ]
    dots = Markup()
    for step, point, value in zip(steps, points, one.values, strict=True):
        if point is not None and value is not None:
            words = f"{step}: {one.name} {say(value)}"
            dots += Markup('<path class="dot {}" d="M{}h0"><title>{}</title></path>').format(one.style, point, words)
    return Markup('<path class="line {}" d="{}"/>{}').format(one.style, _path(points), dots)


def _path(points: Sequence[str | None]) -> str:
    """Return a line through points, with a gap at each that is not there."""
    before = [None, *points]
    return "".join(
        f"{'M' if last is None else 'L'}{point}"
        for last, point in zip(before, points, strict=False)
        if point is not None
    )


def spark(values: Sequence[float | None], label: str) -> Markup:
    """Return a small line of a few values, the newest at the right."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return Markup()
    low, high = min(known), max(known)
    step, span = 100 / (len(values) - 1), high - low
    heights = [None if value is None else 22 - (value - low) / span * 20 if span else 12.0 for value in values]
    path = _path([None if y is None else f"{_short(at * step)} {_short(y)}" for at, y in enumerate(heights)])
    return Markup(
        '<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<title>{}</title><path d="{}"/></svg>'
    ).format(label, label, path)


def budget_bar(used: float, expected: float | None, limit: float, label: str) -> Markup:
    """Return a bar of the used and the expected amount with the limit as a mark; what is above the limit is red."""
    most = max(used, expected or 0, limit) or 1
    parts = Markup()
    for value, style in ((expected or 0, "expected"), (used, "used")):
        parts += Markup('<rect class="{}" y="5" width="{}" height="10"/>').format(style, _short(value / most * 100))
    if max(used, expected or 0) > limit:
        for value, style in ((expected or 0, "expected over"), (used, "used over")):
            if value > limit:
                parts += Markup('<rect class="{}" x="{}" y="5" width="{}" height="10"/>').format(
                    style, _short(limit / most * 100), _short((value - limit) / most * 100)
                )
    return Markup(
        '<svg class="budget-bar" viewBox="0 0 100 20" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<title>{}</title>{}<path class="level" d="M{} 1v18"/></svg>'
    ).format(label, label, parts, _short(limit / most * 100))


class Day(Struct, frozen=True):
    """A day of a strip: the share of its failures, and its words."""

    kind: str
    words: str


def strip(days: Sequence[Day], label: str) -> Markup:
    """Return one small block for each day, oldest first; failures also differ by height."""
    paths: dict[str, str] = {}
    for at, day in enumerate(days):
        y, height = _BLOCKS[day.kind]
        paths[day.kind] = f"{paths.get(day.kind, '')}M{at * 8} {y}h6v{height}h-6z"
    drawn = (Markup('<path class="day-{}" d="{}"/>').format(kind, path) for kind, path in paths.items())
    width = 8 * len(days)
    return Markup(
        '<svg class="strip" viewBox="0 0 {} 16" width="{}" height="16" role="img" aria-label="{}">{}</svg>'
    ).format(width, width, label, Markup("").join(drawn))


_BLOCKS = {"failed": (0, 16), "mixed": (2, 14), "completed": (4, 12), "skipped": (8, 8), "none": (13, 3)}


def year(key: str, title: str, days: Sequence[tuple[datetime, Day]], table: ChartTable) -> Chart:
    """Return a block for each day of a year: a column is a week, a row a weekday."""
    if not days:
        return Chart(key, title, "nothing ran", Markup(), table)
    shift = days[0][0].weekday()
    places = [(day.kind, (at + shift) // 7 * 11, (at + shift) % 7 * 11) for at, (_, day) in enumerate(days)]
    cells = _squares("day", places, size=9)
    width = ((len(days) + shift) // 7 + 1) * 11
    failed = sum(day.kind in ("failed", "mixed") for _, day in days)
    ran = sum(day.kind != "none" for _, day in days)
    about = f"{ran} of {len(days)} days with runs, {failed} with failures"
    drawing = Markup(
        '<svg class="year" viewBox="0 0 {} 77" width="{}" height="77" role="img" aria-label="{}">'
        "<desc>{}</desc>{}</svg>"
    ).format(width, width, f"{title}: {about}", about, cells)
    legend = (("completed", "day-completed"), ("some failed", "day-mixed"), ("failed", "day-failed"))
    return Chart(key, title, about, drawing, table, (*legend, ("skipped", "day-skipped")))


def _squares(style: str, places: Sequence[tuple[str, int, int]], *, size: int) -> Markup:
    """Return a square at each place: one path for all of a kind, since a page has a thousand of them."""
    paths: dict[str, str] = {}
    for kind, x, y in places:
        paths[kind] = f"{paths.get(kind, '')}M{x} {y}h{size}v{size}h-{size}z"
    drawn = (Markup('<path class="{}-{}" d="{}"/>').format(style, kind, path) for kind, path in paths.items())
    return Markup("").join(drawn)


SPAN_HEIGHTS = {"running": (1, 14), "retrying": (1, 14), "start": (4, 8)}
"""The top and the height of phases: work is higher than waits, so that they differ without colours."""
SPAN_WIDTH = 3.0


def span_bar(spans: Sequence[Span], since: datetime, until: datetime, label: str) -> Markup:
    """Return the spans of a run as a bar on the time between two instants."""
    drawn = Markup()
    for span in spans:
        x = place_of(span.since, since, until) * WIDTH
        width = max(place_of(span.until, since, until) * WIDTH - x, SPAN_WIDTH)
        y, height = SPAN_HEIGHTS.get(span.phase, (6, 4))
        drawn += Markup('<rect class="ph-{}" x="{}" y="{}" width="{}" height="{}"/>').format(
            span.phase, _short(min(x, WIDTH - SPAN_WIDTH)), y, _short(width), height
        )
    return Markup(
        '<svg class="span-bar" viewBox="0 0 {} 16" preserveAspectRatio="none" role="img" aria-label="{}">'
        "<title>{}</title>{}</svg>"
    ).format(WIDTH, label, label, drawn)


WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
SHADES = 5


def heat(key: str, title: str, *, style: str, values: Sequence[Sequence[float | None]], say: Say) -> Chart:
    """Return seven rows of 24 hours; a darker cell has more."""
    known = [value for row in values for value in row if value]
    rows = tuple((WEEKDAYS[day], *("" if not value else say(value) for value in row)) for day, row in enumerate(values))
    table = ChartTable(("Day", *(f"{hour:02}" for hour in range(24))), rows)
    if not known:
        return Chart(key, title, "none in the last eight weeks", Markup(), table)
    most = max(known)
    places = [
        (str(shade(value, most)), 28 + hour * 13, day * 13)
        for day, row in enumerate(values)
        for hour, value in enumerate(row)
    ]
    cells = _squares("heat", places, size=11)
    names = Markup("").join(
        Markup('<text x="0" y="{}">{}</text>').format(day * 13 + 9, name) for day, name in enumerate(WEEKDAYS)
    )
    hours = Markup("").join(
        Markup('<text x="{}" y="103">{:02}</text>').format(28 + at * 13, at) for at in (0, 6, 12, 18)
    )
    busiest = max((value or 0, day, hour) for day, row in enumerate(values) for hour, value in enumerate(row))
    about = f"most on {WEEKDAYS[busiest[1]]} at {busiest[2]:02}:00, {say(busiest[0])}"
    drawing = Markup(
        '<svg class="heat {}" viewBox="0 0 340 106" role="img" aria-label="{}"><desc>{}</desc>{}{}{}</svg>'
    ).format(style, f"{title}: {about}", about, names, cells, hours)
    return Chart(key, title, about, drawing, table)


def shade(value: float | None, most: float) -> int:
    """Return the shade of a value, 0 for none.

    >>> [shade(value, 100) for value in (None, 0, 1, 50, 100)]
    [0, 0, 1, 3, 5]
    """
    return 0 if not value else min(SHADES, 1 + int(value / most * (SHADES - 0.001)))


def _svg(title: str, about: str, drawn: Sequence[Markup]) -> Markup:
    rules = Markup("").join(Markup('<path class="rule" d="M0 {}h{}"/>').format(y, WIDTH) for y in (0, 50, 100))
    return Markup(
        '<svg class="plot" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">'
        "<desc>{}</desc>{}{}</svg>"
    ).format(WIDTH, HEIGHT, f"{title}: {about}", about, rules, Markup("").join(drawn))


def _labels(steps: Sequence[str]) -> tuple[str, ...]:
    """Return a few of the steps, the first and the last among them."""
    if len(steps) <= LABELS:
        return tuple(steps)
    last = len(steps) - 1
    return tuple(steps[round(at * last / (LABELS - 1))] for at in range(LABELS))


def step_names(instants: Sequence[datetime], tz: str, *, hours: bool) -> list[str]:
    """Return the names of steps: hours of the day, or dates."""
    place = zone_of(tz)
    local = [at.astimezone(place) for at in instants]
    several = hours and len({at.date() for at in local}) > 2
    if hours:
        return [f"{at:%a %H:%M}" if several else f"{at:%H:%M}" for at in local]
    years = len({at.year for at in local}) > 1
    return [f"{at.day} {at:%b}{f' {at.year}' if years else ''}" for at in local]


def place_of(at: datetime, since: datetime, until: datetime) -> float:
    """Return where an instant lies between two others, from 0 to 1."""
    return min(max((at - since) / max(until - since, timedelta(milliseconds=1)), 0.0), 1.0)


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
