"""The overview: what needs somebody, what ran and will, what runs now, what is next, and the budgets."""

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Query
from starlette.responses import Response

from rota.http.pages.fitting import fit
from rota.http.pages.routing import Pages
from rota.http.pages.timeline import SPANS, Drawing, drawing_of
from rota.http.pages.visit import Visit, VisitOf
from rota.model.errors import InvalidValue
from rota.operations.budgets import AccountView
from rota.operations.needs import acknowledge, point_out
from rota.operations.overview import ALL, Overview, look_over
from rota.operations.system import needs_of
from rota.operations.timeline import LANES, MOST_LANES
from rota.rules.budget_words import say_amount, say_this, say_used

pages = Pages()
LEVELS = {
    "failing": "bad",
    "stuck": "bad",
    "abandoned": "bad",
    "damage": "bad",
    "storage": "bad",
    "loop": "bad",
    "workers": "bad",
    "approval": "accent",
}
Span = Annotated[Literal["1h", "3h", "12h", "3d"], Query(description="How far back and ahead the timeline goes.")]
Rows = Annotated[Literal["", "all"], Query(description="All jobs on the timeline, not only those that matter most.")]


@dataclass(frozen=True, slots=True)
class Budget:
    """An account in words."""

    view: AccountView
    used: str
    window: str
    forecast: str
    over: str


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """What the overview shows."""

    found: Overview
    drawing: Drawing | None
    budgets: tuple[Budget, ...]
    levels: dict[str, str]
    spans: tuple[str, ...]
    rows: str


@pages.show("/")
def show_overview(visit: VisitOf, span: Span = "12h", rows: Rows = "") -> Response:
    """Show how everything is."""
    return fit(lambda lanes: _show(visit, span, rows, lanes=lanes), lines=MOST_LANES if rows else LANES)


def _show(visit: Visit, span: str, rows: str, *, lanes: int) -> Response:
    parts = set(visit.fragments) & ALL if visit.fragments else ALL
    found = look_over(
        visit.desk.store,
        visit.desk.state,
        beat=visit.health.heartbeat,
        zone=visit.zone,
        now=visit.now,
        span=SPANS[span],
        lanes=lanes,
        parts=parts,
    )
    drawing = drawing_of(found.timeline, zone=visit.zone, span=span) if found.timeline else None
    budgets = tuple(_budget(view) for view in found.budgets)
    view = OverviewPage(found, drawing, budgets, LEVELS, tuple(SPANS), rows)
    return visit.show("overview.html", view, title="Overview", section="overview")


def _budget(view: AccountView) -> Budget:
    unit, limit = view.account.unit, view.account.limit
    expected = view.forecast.amount
    return Budget(
        view,
        used=say_used(view.used, limit, unit),
        window=say_this(view.account.per),
        forecast="" if expected is None else say_amount(expected, unit),
        over=say_amount(view.over, unit) if view.over else "",
    )


@pages.act("/ui/attention/acknowledge", back="/")
def acknowledge_attention(visit: VisitOf) -> Response:
    """Keep something quiet that needs somebody, until something new happens to it."""
    topic, mark = visit.form.get("topic", ""), visit.form.get("mark", "")
    if not topic or not mark:
        raise InvalidValue("nothing is named to be kept quiet", hint="load the page again")
    needs = needs_of(visit.desk.store, beat=visit.health.heartbeat, zone=visit.zone, now=visit.now)
    found = [need for need in needs if need.attention.topic == topic]
    same = [need for need in found if need.mark == mark]
    acknowledge(visit.desk.store, same, needs=needs, actor=visit.desk.actor, now=visit.now)
    if not found:
        return visit.done("it does not need anybody any more")
    if not same:
        return visit.done("something new has happened to it meanwhile: look again")
    return visit.done(f"{same[0].attention.name} is quiet until something new happens")


@pages.act("/ui/attention/show", back="/")
def point_out_attention(visit: VisitOf) -> Response:
    """Show something again that was kept quiet."""
    point_out(visit.desk.store, [visit.form.get("topic", "")])
    return visit.done("it is shown again")
