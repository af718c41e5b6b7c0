"""The pages of runs and one run."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Query
from starlette.responses import Response

from rota.http.context import RunName, segment
from rota.http.pages.page import PageContext, Pages, VisitOf, fit
from rota.model.errors import RotaError
from rota.model.records import Run, cut
from rota.model.states import SHOWN, Reason, Trigger
from rota.operations.explain import ExplanationView, explain
from rota.operations.groups import GroupView, group_around
from rota.operations.output import fetch_output, last_lines, why_no_output
from rota.operations.run_actions import cancel_run, retry_run, stop_unattended
from rota.operations.runs import Query as RunQuery
from rota.operations.runs import RunsPage, RunView, page_of_runs, shorter, show_run
from rota.operations.text import (
    Stretch,
    collapsed,
    cost_words,
    run_pairs,
    started_words,
    stretch_of,
    token_words,
    unstarted_word,
    why_words,
)
from rota.text.ansi import StyledSpan, plain, styled_lines
from rota.text.format import read_instant

pages = Pages()
PATH = "/ui/runs"
LINES = 50
ROWS = 300
SAID = 400
"""So much of what a run says stands in its line; all of it on its page."""
SPANS = (("", "Any time"), ("1h", "Last hour"), ("1d", "Last day"), ("7d", "Last week"), ("30d", "Last 30 days"))
DOORS = tuple(one.value for one in Trigger if one is not Trigger.DIRECT)


@dataclass(frozen=True, slots=True)
class RunsForm:
    """What the form of the page says, as it was written."""

    q: str = ""
    job: str = ""
    status: str = ""
    reason: str = ""
    label: str = ""
    agent: str = ""
    trigger: str = ""
    since: str = ""
    until: str = ""

    @property
    def anything(self) -> bool:
        """Whether the page is narrowed down at all."""
        return any(getattr(self, name) for name in self.__slots__)

    @property
    def rarely(self) -> bool:
        """Whether something is asked for that the first line of the form does not show."""
        return any((self.reason, self.label, self.agent, self.trigger, self.until))


@dataclass(frozen=True, slots=True)
class RunRow:
    """A stretch of equal neighbours: its newest run, and how many there are."""

    run: Run
    path: str
    each: str
    times: int
    started: str
    unstarted: str
    """What the time is of a run that never started."""
    cost: str
    tokens: str
    why: str


@dataclass(frozen=True, slots=True)
class RunsView:
    """The page of runs."""

    asked: RunsForm
    rows: tuple[RunRow, ...]
    each: bool
    after: str
    first: str
    other: str
    """The same runs, collapsed or each on its line."""
    back_to: datetime | None
    """How far back a text was looked for, where the search goes on beyond this page."""
    problem: RotaError | None
    statuses: tuple[str, ...]
    reasons: tuple[str, ...]
    triggers: tuple[str, ...]
    spans: tuple[tuple[str, str], ...]

    @property
    def costs(self) -> bool:
        """Whether any run tells what it cost or used."""
        return any(row.cost or row.tokens for row in self.rows)


def asked_of(
    q: Annotated[str, Query(max_length=200)] = "",
    job: Annotated[str, Query(max_length=300)] = "",
    status: Annotated[str, Query(max_length=20)] = "",
    reason: Annotated[str, Query(max_length=50)] = "",
    label: Annotated[str, Query(max_length=100)] = "",
    agent: Annotated[str, Query(max_length=100)] = "",
    trigger: Annotated[str, Query(max_length=20)] = "",
    since: Annotated[str, Query(max_length=64)] = "",
    until: Annotated[str, Query(max_length=64)] = "",
) -> RunsForm:
    """Return what is asked for."""
    given = (q, job, status, reason, label, agent, trigger, since, until)
    return RunsForm(*(text.strip() for text in given))


@pages.show("/ui/runs")
def show_runs(
    visit: VisitOf,
    asked: Annotated[RunsForm, Depends(asked_of)],
    each: Annotated[bool, Query()] = False,  # noqa: FBT002
    cursor: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Show runs, newest first."""
    found, query, problem = _found(visit, asked, each=each, cursor=cursor)

    def show(runs: int) -> Response:
        part = found if query is None else shorter(found, query, count=runs)
        view = _view(visit, asked, part, each=each)
        view = replace(view, problem=problem, first=_href(visit, asked, each=each) if cursor else "")
        return visit.show("runs.html", view, title="Runs", section="runs")

    return fit(show, lines=len(found.runs))


def _view(visit: PageContext, asked: RunsForm, found: RunsPage, *, each: bool) -> RunsView:
    stretches = [stretch_of([run]) for run in found.runs] if each else collapsed(found.runs)
    return RunsView(
        asked=asked,
        rows=tuple(_rows(visit, stretches)),
        each=each,
        after=_href(visit, asked, each=each, cursor=found.cursor) if found.cursor else "",
        first="",
        other=_href(visit, asked, each=not each),
        back_to=found.back_to if len(found.runs) < LINES else None,
        problem=None,
        statuses=tuple(SHOWN),
        reasons=tuple(sorted(Reason)),
        triggers=DOORS,
        spans=SPANS,
    )


def _found(
    visit: PageContext, asked: RunsForm, *, each: bool, cursor: str
) -> tuple[RunsPage, RunQuery | None, RotaError | None]:
    """Return the runs of the page and what finds them; a filter that means nothing finds none and says why."""
    try:
        query = RunQuery(
            job=asked.job or None,
            statuses=_list(asked.status),
            reasons=_list(asked.reason),
            labels=_list(asked.label),
            triggers=_list(asked.trigger),
            agent=asked.agent,
            text=asked.q,
            since=_instant(visit, asked.since),
            until=_instant(visit, asked.until),
        )
        limit = LINES if each or asked.q else ROWS
        return page_of_runs(visit.desk.store, query, cursor=cursor or None, limit=limit), query, None
    except RotaError as error:
        return RunsPage((), None), None, error


def _list(word: str) -> tuple[str, ...]:
    return (word,) if word else ()


def _instant(visit: PageContext, written: str) -> datetime | None:
    return read_instant(written, visit.zone, now=visit.now) if written else None


def _rows(visit: PageContext, stretches: list[Stretch]) -> Iterator[RunRow]:
    for stretch in stretches:
        newest = stretch.newest
        yield RunRow(
            run=newest,
            path=f"{PATH}/{segment(newest.handle)}",
            each=_href(visit, _alike(newest), each=True),
            times=stretch.times,
            started=started_words(stretch, visit.zone, now=visit.now),
            unstarted=unstarted_word(newest),
            cost=cost_words(stretch),
            tokens=token_words(stretch),
            why=cut(plain(why_words(newest, visit.zone, now=visit.now)), SAID),
        )


def _alike(run: Run) -> RunsForm:
    return RunsForm(job=run.job, status=run.status.shown.value, reason=run.reason or "")


def _href(visit: PageContext, asked: RunsForm, *, each: bool, cursor: str | None = None) -> str:
    given: dict[str, Any] = {name: getattr(asked, name) for name in asked.__slots__}
    return visit.href(PATH, **given, each="true" if each else "", cursor=cursor)


OUTPUT_LINES = 300
MOST_LINES = 5_000
LONGEST_LINE = 4_000
OWN_PARTS = ("error", "summary", "denied", "told", "chain", "attempt")
"""What the page shows in places of its own."""


@dataclass(frozen=True, slots=True)
class Written:
    """The last lines of what a run wrote."""

    lines: tuple[tuple[StyledSpan, ...], ...] = ()
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
    why: ExplanationView | None
    chain: tuple[Run, ...]
    group: GroupView | None
    written: Written
    successor: Run | None
    """The attempt that came after this one."""


@pages.show("/ui/runs/{run}")
def show_one_run(
    visit: VisitOf,
    run: RunName,
    lines: Annotated[int, Query(ge=1, le=MOST_LINES)] = OUTPUT_LINES,
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


def _written(visit: PageContext, found: RunView, *, lines: int) -> Written:
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
