"""The runs: past and present, found by what they are and what they say; equal neighbours as one line."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Query
from starlette.responses import Response

from rota.http.pages.fitting import fit
from rota.http.pages.routing import Pages
from rota.http.pages.visit import Visit, VisitOf
from rota.http.routes.names import segment
from rota.model.errors import RotaError
from rota.model.records import Run, cut
from rota.model.states import SHOWN, Reason, Trigger
from rota.operations.history_words import (
    Stretch,
    collapsed,
    cost_words,
    started_words,
    stretch_of,
    token_words,
    unstarted_word,
    why_words,
)
from rota.operations.paging import Page, page_of_runs, shorter
from rota.operations.paging import Query as RunQuery
from rota.operations.words import plain
from rota.rules.times import read_instant

pages = Pages()
PATH = "/ui/runs"
LINES = 50
ROWS = 300
SAID = 400
"""So much of what a run says stands in its line; all of it on its page."""
SPANS = (("", "Any time"), ("1h", "Last hour"), ("1d", "Last day"), ("7d", "Last week"), ("30d", "Last 30 days"))
DOORS = tuple(one.value for one in Trigger if one is not Trigger.DIRECT)


@dataclass(frozen=True, slots=True)
class Asked:
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
class Row:
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

    asked: Asked
    rows: tuple[Row, ...]
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
) -> Asked:
    """Return what is asked for."""
    given = (q, job, status, reason, label, agent, trigger, since, until)
    return Asked(*(text.strip() for text in given))


@pages.show("/ui/runs")
def show_runs(
    visit: VisitOf,
    asked: Annotated[Asked, Depends(asked_of)],
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


def _view(visit: Visit, asked: Asked, found: Page, *, each: bool) -> RunsView:
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


def _found(visit: Visit, asked: Asked, *, each: bool, cursor: str) -> tuple[Page, RunQuery | None, RotaError | None]:
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
        return Page((), None), None, error


def _list(word: str) -> tuple[str, ...]:
    return (word,) if word else ()


def _instant(visit: Visit, written: str) -> datetime | None:
    return read_instant(written, visit.zone, now=visit.now) if written else None


def _rows(visit: Visit, stretches: list[Stretch]) -> Iterator[Row]:
    for stretch in stretches:
        newest = stretch.newest
        yield Row(
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


def _alike(run: Run) -> Asked:
    return Asked(job=run.job, status=run.status.shown.value, reason=run.reason or "")


def _href(visit: Visit, asked: Asked, *, each: bool, cursor: str | None = None) -> str:
    given: dict[str, Any] = {name: getattr(asked, name) for name in asked.__slots__}
    return visit.href(PATH, **given, each="true" if each else "", cursor=cursor)
