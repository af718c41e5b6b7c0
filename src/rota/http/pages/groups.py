"""The pages of groups: the list, and one group with the graph of its members and where its time went."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from markupsafe import Markup
from msgspec import Struct
from starlette.responses import Response

from rota.http.context import GroupName, segment
from rota.http.pages import charts
from rota.http.pages.charts import ChartTable
from rota.http.pages.page import PageContext, Pages, View, VisitOf, fit
from rota.http.pages.stats import As
from rota.model.amounts import counted
from rota.model.records import Run, cut
from rota.model.spec import GroupMode
from rota.operations import group_actions
from rota.operations.groups import (
    GroupLine,
    GroupView,
    SeatView,
    count_groups,
    counts,
    list_groups,
    newest_groups_of,
    running_members,
    show_group,
)
from rota.operations.run_actions import stop_unattended
from rota.operations.stats.spans import SpanRow, SpansView, spans_by_name, spans_of_group
from rota.operations.text import kind_of, shown_status, took
from rota.rules.schedule.instants import explain_schedule
from rota.text.ansi import plain
from rota.text.format import briefly, clock_time, day_time
from rota.text.runs import PHASE_WORDS, say_spans

pages = Pages()
PATH = "/ui/groups"
LISTED = 100
OLDER = 20
ROWS = 400
NODES = 60
LONG_WAIT = timedelta(seconds=1)
"""A run alone has bars from this wait on."""
ACROSS = 5
WIDTH, HEIGHT, GAP = 176, 40, 26
NAME_LENGTH = 19
BRIEF = timedelta(milliseconds=100)
"""Shorter waits are left out of the words beside a bar; its label and the table have them."""


@pages.show(PATH)
def show_groups(visit: VisitOf) -> Response:
    """Show the groups, each with its newest instance."""
    group_lines = list_groups(visit.ctx.store, limit=LISTED)
    rows = [_row(visit, line) for line in group_lines]
    every = count_groups(visit.ctx.store) if len(group_lines) == LISTED else len(group_lines)

    def show(count: int) -> Response:
        view = {"rows": rows[:count], "left_out": every - min(count, len(rows))}
        return visit.show("groups.html", view, title="Groups", section="groups")

    return fit(show, lines=len(rows))


def _row(visit: PageContext, line: GroupLine) -> View:
    newest = line.newest
    return {
        "name": line.name,
        "job": line.job,
        "path": "" if newest is None else group_path(newest.group.handle),
        "newest": newest,
        "kind": "" if newest is None else newest.group.status.value.lower(),
        "members": "" if newest is None else _counted(newest),
        "took": "" if newest is None else _length(newest, visit.now),
        "schedule": explain_schedule(line.job.spec.schedule) if line.job else "made at run time",
        "next": _coming(line, visit.now),
    }


def _coming(line: GroupLine, now: datetime) -> datetime | None:
    """Return the next fire of a group; an overdue fire is not coming."""
    job = line.job
    if job is None or not job.schedules or job.paused_at is not None or job.next_at is None:
        return None
    return job.next_at if job.next_at > now else None


def _counted(view: GroupView) -> str:
    return ", ".join(f"{number:,} {word}" for word, number in counts(view).items())


def _length(view: GroupView, now: datetime) -> str:
    return briefly((view.group.finished_at or now) - view.group.created_at)


def group_path(handle: str) -> str:
    """Return the path of the page of a group."""
    return f"{PATH}/{segment(handle)}"


@pages.show(f"{PATH}/{{group}}")
def show_one_group(visit: VisitOf, group: GroupName, shown: As = "") -> Response:
    """Show a group: its members as a graph, and where its time went."""
    ctx = visit.ctx
    group_view = show_group(ctx.store, group)
    handle = group_view.group.handle
    older = newest_groups_of(ctx.store, group_view.group.name, limit=OLDER)
    spans = spans_of_group(ctx.store, group_view.group.id, state=ctx.state, now=visit.now)
    view = {
        "found": group_view,
        "path": group_path(handle),
        "kind": group_view.group.status.value.lower(),
        "took": _length(group_view, visit.now),
        "members": _counted(group_view),
        "graph": _graph(visit, group_view) if visit.wants("graph") else None,
        "nodes": min(len(group_view.seats), NODES),
        "older": [{"group": one, "path": group_path(one.handle)} for one in older],
    }

    def show(count: int) -> Response:
        gantt = gantt_of(visit, spans, rows=count, path=group_path(handle), as_table=shown == "table")
        return visit.show("group.html", {**view, "gantt": gantt}, title=handle, section="groups")

    return fit(show, lines=min(len(spans.rows), ROWS))


@pages.act(f"{PATH}/{{group}}/cancel", back=PATH)
def cancel_one_group(visit: VisitOf, group: GroupName) -> Response:
    """Cancel a group: remove queued members, stop running ones."""
    ctx = visit.ctx
    view = group_actions.cancel(ctx.store, group, now=visit.now, dry_run=not visit.confirmed)
    handle, running = view.group.handle, running_members(view)
    if not visit.confirmed:
        says = f"{counted(len(running), 'running member')} will be stopped; queued members will not start."
        return visit.confirm(f"Cancel {handle}?", says=says, button="Cancel it", back=group_path(handle))
    ctx.wake()
    stop_unattended(ctx.store, ctx.state, [run.id for run in running])
    return visit.done(f"{handle} is being cancelled", back=group_path(handle))


@pages.act(f"{PATH}/{{group}}/retry", back=PATH)
def retry_one_group(visit: VisitOf, group: GroupName) -> Response:
    """Create a new group of the failed members."""
    made = group_actions.retry(visit.ctx.store, group, now=visit.now)
    visit.ctx.wake()
    old = made.of.handle
    if made.view is None:
        waits = "the earlier runs of the group" if made.run is None else made.run.handle
        return visit.done(f"{old} is retried after {waits}", back=group_path(old))
    new = made.view.group.handle
    return visit.done(f"{new} retries {old}", back=group_path(new))


class GanttRow(Struct, frozen=True):
    """A run of the Gantt: its bar, and its longer phases in words."""

    run: Run
    bar: Markup
    words: str


class Gantt(Struct, frozen=True):
    """Where the time went: a bar for each run, the phases with their sums, the ends of the axis, and the table."""

    rows: tuple[GanttRow, ...]
    legend: tuple[tuple[str, str, str], ...]
    axis: tuple[str, ...]
    about: str
    left_out: int
    table: ChartTable
    as_table: bool
    to: str


def gantt_of(visit: PageContext, view: SpansView, *, rows: int, path: str, as_table: bool) -> Gantt:
    """Return the Gantt of a group or chain, with its first rows."""
    chosen = view.rows[:rows]
    drawn = () if as_table else tuple(_gantt_row(view, row) for row in chosen)
    middle = view.since + (view.until - view.since) / 2
    legend = tuple((PHASE_WORDS[phase], f"ph-{phase}", briefly(length)) for phase, length in view.totals.items())
    return Gantt(
        rows=drawn,
        legend=legend,
        axis=tuple(_axis(visit, at, view) for at in (view.since, middle, view.until)),
        about=f"{briefly(view.until - view.since)}{' so far' if view.open else ''}",
        left_out=len(view.rows) - len(chosen),
        table=_table(visit, chosen, tuple(view.totals)) if as_table else ChartTable((), ()),
        as_table=as_table,
        to=visit.href(path) if as_table else visit.href(path, **{"as": "table"}),
    )


def _axis(visit: PageContext, at: datetime, view: SpansView) -> str:
    if at == view.until and view.open:
        return "now"
    return clock_time(at, visit.zone) if at.date() == visit.now.date() else day_time(at, visit.zone, now=visit.now)


def _gantt_row(view: SpansView, row: SpanRow) -> GanttRow:
    label = f"{row.run.handle}: {say_spans(row.spans) or 'no time'}"
    long = [span for span in row.spans if span.length >= BRIEF or span.works or span.open]
    return GanttRow(row.run, charts.span_bar(row.spans, view.since, view.until, label), say_spans(long))


def _table(visit: PageContext, rows: Sequence[SpanRow], phases: Sequence[str]) -> ChartTable:
    cells = []
    for row in rows:
        lengths = {phase: [span.length for span in row.spans if span.phase == phase] for phase in phases}
        told = ("–" if not found else briefly(sum(found[1:], found[0])) for found in lengths.values())
        began = day_time(row.run.created_at, visit.zone, now=visit.now, seconds=True)
        cells.append((row.run.handle, str(row.run.attempt), shown_status(row.run).capitalize(), began, *told))
    columns = ("Run", "Attempt", "Status", "Created", *(PHASE_WORDS[phase].capitalize() for phase in phases))
    return ChartTable(columns, tuple(cells))


def run_gantt(visit: PageContext, run: Run, *, path: str, as_table: bool) -> Gantt | None:
    """Return the Gantt on the page of a run: of its group if it represents one, of its retries, or of a long wait."""
    view = spans_by_name(visit.ctx.store, run.id, state=visit.ctx.state, now=visit.now)
    waited = any(span.length >= LONG_WAIT for row in view.rows for span in row.spans if not span.works)
    if not view.rows or not (view.group or len(view.rows) > 1 or waited or as_table):
        return None
    return gantt_of(visit, view, rows=OLDER, path=path, as_table=as_table)


def _graph(visit: PageContext, found: GroupView) -> Markup:
    """Return the members as a drawing: a sequence with arrows, or a box of what runs in parallel."""
    seats = found.seats[:NODES]
    ordinary = [seat for seat in seats if not seat.run.always]
    always = [seat for seat in seats if seat.run.always]
    if found.group.mode is GroupMode.SEQUENTIAL:
        drawn, height = _sequence(visit, [*ordinary, *always])
    else:
        drawn, height = _parallel(visit, [part for part in (ordinary, always) if part])
    across = min(max(len(ordinary) + len(always), 1), ACROSS)
    width = across * (WIDTH + GAP) - GAP + 20
    label = f"{found.group.handle}: {counted(len(found.seats), 'member')}, {found.group.mode.value}"
    return Markup(
        '<svg class="graph" viewBox="0 0 {} {}" width="{}" height="{}" role="group" aria-label="{}">'
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="arrow-head" d="M0 0l8 4-8 4z"/></marker></defs>{}</svg>'
    ).format(width, height, width, height, label, drawn)


def _place(at: int, top: int = 0) -> tuple[int, int]:
    return 10 + at % ACROSS * (WIDTH + GAP), top + at // ACROSS * (HEIGHT + GAP)


def _sequence(visit: PageContext, seats: Sequence[SeatView]) -> tuple[Markup, int]:
    drawn = Markup()
    for at, seat in enumerate(seats):
        x, y = _place(at, 4)
        drawn += _node(visit, seat, x, y)
        if at + 1 < len(seats):
            always = seats[at + 1].run.always
            drawn += _arrow(_step(at, x, y), always=always)
    rows = -(-len(seats) // ACROSS) or 1
    return drawn, rows * (HEIGHT + GAP) - GAP + 8


def _step(at: int, x: int, y: int) -> str:
    """Return the path to the next place: to the right, or down to the begin of the next row."""
    if (at + 1) % ACROSS:
        return f"M{x + WIDTH} {y + HEIGHT // 2}h{GAP - 2}"
    back = (ACROSS - 1) * (WIDTH + GAP)
    return f"M{x + WIDTH // 2} {y + HEIGHT}v{GAP // 2}h-{back}v{GAP // 2 - 2}"


def _parallel(visit: PageContext, stages: Sequence[Sequence[SeatView]]) -> tuple[Markup, int]:
    drawn, top = Markup(), 1
    for number, stage in enumerate(stages):
        rows = -(-len(stage) // ACROSS)
        across = min(len(stage), ACROSS)
        high = rows * (HEIGHT + GAP) - GAP + 18
        if number:
            drawn += _arrow(f"M{10 + WIDTH // 2} {top - GAP}v{GAP - 2}", always=True)
        drawn += Markup('<rect class="stage" x="1" y="{}" width="{}" height="{}" rx="8"/>').format(
            top, across * (WIDTH + GAP) - GAP + 18, high
        )
        for at, seat in enumerate(stage):
            drawn += _node(visit, seat, *_place(at, top + 9))
        top += high + GAP
    return drawn, top - GAP + 2


def _arrow(path: str, *, always: bool) -> Markup:
    style = "edge edge-always" if always else "edge"
    return Markup('<path class="{}" d="{}" marker-end="url(#arrow)"/>').format(style, path)


def _node(visit: PageContext, seat: SeatView, x: int, y: int) -> Markup:
    from rota.http.pages.components import icon  # with the templates, at the first page

    run = seat.run
    kind = kind_of(run)
    waits = str(run.waiting_for or "").replace("_", " ")
    told = took(run, now=visit.now) if run.started_at else f"{shown_status(run).lower()} {waits}".strip()
    below = f"{told}, attempt {run.attempt}" if seat.earlier else told
    name = plain(run.handle)
    return Markup(
        '<a href="{}" class="node node-{}" aria-label="{}"><title>{}</title>'
        '<rect x="{}" y="{}" width="{}" height="{}" rx="6"/><svg x="{}" y="{}" width="14" height="14">{}</svg>'
        '<text x="{}" y="{}">{}</text><text class="below" x="{}" y="{}">{}</text></a>'
    ).format(
        visit.href(f"/ui/runs/{segment(run.handle)}"),
        kind.replace(" ", "-"),
        f"{name} {shown_status(run).lower()}: {below}{', always' if run.always else ''}",
        f"{name}: {below}",
        x,
        y,
        WIDTH,
        HEIGHT,
        x + 8,
        y + 7,
        icon(kind),
        x + 27,
        y + 18,
        cut(name, NAME_LENGTH),
        x + 27,
        y + 33,
        cut(below, NAME_LENGTH + 5),
    )
