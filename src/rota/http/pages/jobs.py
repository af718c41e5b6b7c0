"""The jobs: found by text, label and state, each with its last outcomes and its next fire."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from rota.engine.pauses import Pause
from rota.http.pages.routing import Pages
from rota.http.pages.visit import Visit, VisitOf
from rota.http.routes.names import segment
from rota.model.records import Run
from rota.model.states import Status
from rota.operations.drafting import may_change
from rota.operations.job_pages import STATES, JobLine, JobPage, JobQuery, Sort, page_of_jobs
from rota.operations.jobs import JobView
from rota.operations.pauses import pauses
from rota.operations.words import counted, next_words, schedule_words
from rota.rules.coming import Fire, fires_to_come

pages = Pages()
LINES = 25
LABELS = 24
PATH = "/ui/jobs"


@dataclass(frozen=True, slots=True)
class Choice:
    """A way to narrow the page down: how many jobs it leaves, and whether it is chosen."""

    word: str
    count: int
    href: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class Row:
    """A job of the page. `fire` None: `next` says why."""

    view: JobView
    failing: bool
    path: str
    schedule: str
    fire: Fire | None
    next: str
    newest: Run | None
    enabling: bool
    """Whether it is a disabled job that can be enabled here."""
    summary: str
    """The last outcomes in words, for who does not see the ticks."""


@dataclass(frozen=True, slots=True)
class JobsView:
    """The page of jobs."""

    page: JobPage
    query: JobQuery
    rows: tuple[Row, ...]
    states: tuple[Choice, ...]
    labels: tuple[Choice, ...]
    paused: Pause | None
    before: str
    after: str


@pages.show("/ui/jobs")
def show_jobs(
    visit: VisitOf,
    q: Annotated[str, Query(max_length=200)] = "",
    label: Annotated[list[str] | None, Query(max_length=100)] = None,
    state: Annotated[str, Query(max_length=40)] = "",
    sort: Annotated[Sort, Query()] = Sort.NAME,
    page: Annotated[int, Query(ge=1, le=100_000)] = 1,
) -> Response:
    """Show the jobs."""
    query = JobQuery(q.strip(), tuple(label or ()), state, sort)
    found = page_of_jobs(visit.desk.store, query, number=page, limit=LINES)
    view = JobsView(
        page=found,
        query=query,
        rows=tuple(_row(visit, line) for line in found.lines),
        states=tuple(_states(visit, query, found)),
        labels=tuple(_labels(visit, query, found)),
        paused=pauses(visit.desk.store).everything,
        before=_href(visit, query, page=found.number - 1) if found.number > 1 else "",
        after=_href(visit, query, page=found.number + 1) if found.number < found.pages else "",
    )
    return visit.show("jobs.html", view, title="Jobs", section="jobs")


def _row(visit: Visit, line: JobLine) -> Row:
    view = line.view
    paused = view.state == "paused"
    return Row(
        view=view,
        failing=line.failing,
        path=f"{PATH}/{segment(view.job.name)}",
        schedule=schedule_words(view, visit.zone),
        fire=None if paused else next(iter(fires_to_come(view.job, n=1, now=visit.now)), None),
        next=next_words(view, visit.zone, now=visit.now),
        newest=next(iter((*view.unfinished, *view.last)), None),
        enabling=visit.may_admin and view.state == "disabled" and may_change(view.job),
        summary=summary_of(view.last),
    )


def summary_of(runs: tuple[Run, ...]) -> str:
    """Return how often the last runs ended in which way: `last 10 runs: 8 completed, 2 failed`."""
    final = [run.status for run in runs if run.status.final]
    told = [f"{final.count(status)} {status.lower()}" for status in Status if status in final]
    return f"last {counted(len(final), 'run')}: {', '.join(told)}" if final else "no runs yet"


def _states(visit: Visit, query: JobQuery, found: JobPage) -> Iterator[Choice]:
    living = sum(count for state, count in found.states.items() if state not in ("failing", "retired"))
    yield Choice("all", living, _href(visit, query, state=""), chosen=not query.state)
    for state in STATES:
        count = found.states.get(state, 0)
        if count or state == query.state:
            yield Choice(state, count, _href(visit, query, state=state), chosen=state == query.state)


def _labels(visit: Visit, query: JobQuery, found: JobPage) -> Iterator[Choice]:
    for label, count in [*found.labels.items()][:LABELS]:
        chosen = label in query.labels
        left = tuple(one for one in query.labels if one != label) if chosen else (*query.labels, label)
        yield Choice(label, count, _href(visit, query, labels=left), chosen=chosen)


def _href(
    visit: Visit,
    query: JobQuery,
    *,
    state: str | None = None,
    labels: tuple[str, ...] | None = None,
    page: int | None = None,
) -> str:
    """Return the link of the same page, but for what is named."""
    return visit.href(
        PATH,
        q=query.text,
        label=list(query.labels if labels is None else labels),
        state=query.state if state is None else state,
        sort=None if query.sort is Sort.NAME else query.sort.value,
        page=page,
    )
