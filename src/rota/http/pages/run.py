"""One run: how it went and why, its chain and group, what it wrote, what it used, and who was told."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from rota.http.pages.fitting import fit
from rota.http.pages.routing import Pages
from rota.http.pages.runs import PATH
from rota.http.pages.visit import Visit, VisitOf
from rota.http.routes.names import RunName, segment
from rota.model.records import Run, cut
from rota.operations.explaining import Explanation, explain
from rota.operations.groups import GroupView, group_around
from rota.operations.output import fetch_output, last_lines, why_no_output
from rota.operations.retrying import retry_run
from rota.operations.run_words import run_pairs
from rota.operations.runs import RunView, show_run
from rota.operations.stopping import cancel_run, stop_unattended
from rota.rules.ansi import Span, styled_lines

pages = Pages()
LINES = 300
MOST_LINES = 5_000
LONGEST_LINE = 4_000
OWN_PARTS = ("error", "summary", "denied", "told", "chain", "attempt")
"""What the page shows in places of its own."""


@dataclass(frozen=True, slots=True)
class Written:
    """The last lines of what a run wrote."""

    lines: tuple[tuple[Span, ...], ...] = ()
    cut: bool = False
    large: bool = False
    """Whether the page would be too large with more lines."""
    why: str = ""
    more: str = ""
    all: str = ""


@dataclass(frozen=True, slots=True)
class RunPageView:
    """The page of a run."""

    view: RunView
    path: str
    job_path: str
    pairs: tuple[tuple[str, str], ...]
    why: Explanation | None
    chain: tuple[Run, ...]
    group: GroupView | None
    written: Written
    successor: Run | None
    """The attempt that came after this one."""


@pages.show("/ui/runs/{run}")
def show_one_run(
    visit: VisitOf,
    run: RunName,
    lines: Annotated[int, Query(ge=1, le=MOST_LINES)] = LINES,
) -> Response:
    """Show a run."""
    desk = visit.desk
    found = show_run(desk.store, run)
    handle = found.run.handle
    following = [one for one in found.chain if one.attempt == found.run.attempt + 1]
    written = _written(visit, found, lines=lines) if visit.wants("output") else Written()
    view = RunPageView(
        view=found,
        path=_page(handle),
        job_path=f"/ui/jobs/{segment(found.run.job)}",
        pairs=tuple(pair for pair in run_pairs(found, zone=visit.zone, now=visit.now) if pair[0] not in OWN_PARTS),
        why=explain(desk.store, found.run.id, state=desk.state, now=visit.now) if visit.wants("why") else None,
        chain=found.chain if len(found.chain) > 1 else (),
        group=desk.store.read(partial(group_around, run=found.run)),
        written=written,
        successor=following[0] if following else None,
    )

    def show(count: int) -> Response:
        shown = replace(view, written=_last(written, count))
        return visit.show("run.html", shown, title=handle, section="runs")

    return fit(show, lines=len(written.lines))


def _written(visit: Visit, found: RunView, *, lines: int) -> Written:
    desk = visit.desk
    fetch_output(desk.store, desk.state, found)
    shown = last_lines(desk.state, found, lines=lines + 1)
    path, goes_on = _page(found.run.handle), len(shown) > lines
    why = "" if shown else why_no_output(desk.state, found, now=visit.now) or ""
    return Written(
        lines=tuple(styled_lines(cut(line, LONGEST_LINE) for line in shown[-lines:])),
        cut=goes_on,
        why=why,
        more=visit.href(path, lines=min(lines * 4, MOST_LINES)) if goes_on and lines < MOST_LINES else "",
        all=visit.href(f"/api/v1/runs/{segment(found.run.handle)}/output") if shown else "",
    )


def _last(written: Written, count: int) -> Written:
    """Return the last lines of those; where that leaves some out, more of them would not fit either."""
    if count >= len(written.lines):
        return written
    return replace(written, lines=written.lines[-count:], cut=True, large=True, more="")


@pages.act("/ui/runs/{run}/cancel", back=PATH)
def cancel_one_run(visit: VisitOf, run: RunName) -> Response:
    """Cancel a run: a queued one at once, a running one by stopping it."""
    if not visit.confirmed:
        found = cancel_run(visit.desk.store, run, now=visit.now, dry_run=True)
        says = "It has not started, and will not." if found.final else "It runs now: its processes are stopped."
        return visit.confirm(f"Cancel {found.run.handle}?", says=says, button="Cancel it", back=_page(run))
    done = cancel_run(visit.desk.store, run, now=visit.now)
    visit.desk.wake()
    if not done.final:
        stop_unattended(visit.desk.store, visit.desk.state, [done.run.id])
    told = "is cancelled" if done.final else "is being stopped"
    return visit.done(f"{done.run.handle} {told}", back=_page(run))


@pages.act("/ui/runs/{run}/retry", back=PATH)
def retry_one_run(visit: VisitOf, run: RunName) -> Response:
    """Run a finished run again, as a new run."""
    again = visit.form.get("again") == "yes"
    done = retry_run(visit.desk.store, run, now=visit.now, again=again)
    visit.desk.wake()
    made = show_run(visit.desk.store, done.born.id).run if done.born else done.run
    return visit.done(f"{made.handle} runs {done.run.handle} again", back=_page(made.handle))


def _page(handle: str) -> str:
    return f"{PATH}/{segment(handle)}"
