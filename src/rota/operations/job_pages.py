"""Pages of jobs: those that a person looks for, by name, with their last outcomes in one look at the database."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial

from rota.model.errors import InvalidValue
from rota.model.records import Job, Run
from rota.operations.jobs import LAST_OUTCOMES, JobView, has_labels
from rota.store import finding, jobs
from rota.store.driver import Database, Store

LARGEST = 200
FAILING = "failing"
STATES = ("running", "idle", FAILING, "paused", "disabled", "provisional", "used up", "retired")
"""What a page may be narrowed to: the states of a job, and whether its last run failed."""
_LAST = datetime.max.replace(tzinfo=UTC)


class Sort(StrEnum):
    """The order of a page."""

    NAME = "name"
    NEXT = "next"


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Which jobs are meant: `text` is looked for in name, description and labels. No state: all but retired ones."""

    text: str = ""
    labels: tuple[str, ...] = ()
    state: str = ""
    sort: Sort = Sort.NAME


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job of a page; `failing`: its newest run that did its work failed."""

    view: JobView
    failing: bool


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs, where they stand among those that match, and how many of these there are of each state and label."""

    lines: tuple[JobLine, ...]
    number: int
    pages: int
    matching: int
    stored: int
    states: Mapping[str, int]
    labels: Mapping[str, int]


def page_of_jobs(store: Store, query: JobQuery, *, number: int = 1, limit: int = 50) -> JobPage:
    """Return one page of the jobs that are looked for; a page beyond the last is the last."""
    if query.state and query.state not in STATES:
        raise InvalidValue(f"jobs have no state {query.state[:60]!r}", hint=f"there are: {', '.join(STATES)}")
    if not 1 <= limit <= LARGEST:
        raise InvalidValue(f"a page of {limit} is not possible", hint=f"ask for 1 to {LARGEST}")
    return store.read(partial(_page, query=query, number=number, limit=limit))


def _page(db: Database, *, query: JobQuery, number: int, limit: int) -> JobPage:
    stored = jobs.all_jobs(db)
    running, failing = _running(db), jobs.failing_jobs(db)
    found = [job for job in stored if _matches(job, query)]
    states = {job.id: _states(job, running=running, failing=failing) for job in found}
    chosen = [job for job in found if (query.state in states[job.id] if query.state else job.retired_at is None)]
    pages = max(1, -(-len(chosen) // limit))
    number = min(max(number, 1), pages)
    shown = _sorted(chosen, query.sort)[(number - 1) * limit : number * limit]
    return JobPage(
        lines=tuple(JobLine(view, view.job.id in failing) for view in _views(db, shown, running)),
        number=number,
        pages=pages,
        matching=len(chosen),
        stored=sum(job.retired_at is None for job in stored),
        states=Counter(state for told in states.values() for state in told),
        labels=_labels(found),
    )


def _running(db: Database) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in finding.running_runs(db):
        found.setdefault(run.job_id, []).append(run)
    return found


def _matches(job: Job, query: JobQuery) -> bool:
    words = query.text.casefold().split()
    spec = job.spec
    text = "\n".join((job.name, spec.description or "", *spec.labels)).casefold()
    return has_labels(job, query.labels) and all(word in text for word in words)


def _states(job: Job, *, running: Mapping[str, Sequence[Run]], failing: set[str]) -> tuple[str, ...]:
    state = JobView(job, tuple(running.get(job.id, ())), ()).state
    return (state, FAILING) if job.id in failing and job.retired_at is None else (state,)


def _sorted(found: Sequence[Job], sort: Sort) -> list[Job]:
    if sort is Sort.NAME:
        return list(found)  # they are read by name
    return sorted(found, key=lambda job: (job.next_at or _LAST, job.name))


def _labels(found: Iterable[Job]) -> Mapping[str, int]:
    """Return the labels of jobs, those of most jobs first."""
    counted = Counter(label for job in found if job.retired_at is None for label in job.spec.labels)
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def _views(db: Database, shown: Sequence[Job], running: Mapping[str, Sequence[Run]]) -> list[JobView]:
    ids = [job.id for job in shown]
    newest, oldest = finding.newest_of_jobs(db, ids, limit=LAST_OUTCOMES), finding.oldest_unfinished(db, ids)
    return [
        JobView(job, tuple(running.get(job.id, ())) or tuple(oldest.get(job.id, ())), tuple(newest.get(job.id, ())))
        for job in shown
    ]
