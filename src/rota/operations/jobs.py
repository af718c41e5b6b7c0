"""Queries over jobs: one, many, pages and versions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from itertools import pairwise
from typing import Any

from rota.declare.plan import differences
from rota.model.errors import InvalidValue, UnknownJob
from rota.model.records import Job, Run
from rota.model.states import Status
from rota.store.driver import Database, Store
from rota.store.tables import jobs, run_queries
from rota.store.tables.jobs import Version

TIMEZONE_KEY = "timezone"
HELD = "held: "
"""How the problem of a file begins whose change waits for a person."""
ENABLED_KEY = "scheduler_enabled"
LAST_OUTCOMES = 10
UNFINISHED_SHOWN = 100


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as lists show it: with its unfinished and its newest runs; of a long queue the oldest ones."""

    job: Job
    unfinished: tuple[Run, ...]
    last: tuple[Run, ...]

    @property
    def state(self) -> str:
        """Derived, never stored: retired, provisional, disabled, used up, paused, running, idle."""
        if self.job.retired_at is not None:
            return "retired"
        if self.job.provisional_at is not None:
            return "provisional"
        if not self.job.enabled:
            return "disabled"
        if self.job.used_up_at is not None:
            return "used up"
        if self.job.paused_at is not None:
            return "paused"
        return "running" if any(run.status is not Status.QUEUED for run in self.unfinished) else "idle"


def find_job(db: Database, name: str) -> Job:
    """Return the job of this name, or raise UnknownJob with the nearest name."""
    job = jobs.job_by_name(db, name)
    if job is None:
        known = {one.lower(): one for one in jobs.job_names(db)}
        raise UnknownJob(name, [known[one] for one in get_close_matches(name.lower(), known, n=1)])
    return job


def list_jobs(store: Store, *, labels: Sequence[str] = (), retired: bool = False) -> list[JobView]:
    """Return the jobs that carry all of `labels`, by name."""
    return store.read(partial(_list_jobs, labels=labels, retired=retired))


def _list_jobs(db: Database, *, labels: Sequence[str], retired: bool) -> list[JobView]:
    chosen = [job for job in jobs.all_jobs(db) if has_labels(job, labels) and (retired or job.retired_at is None)]
    return [job_view(db, job) for job in chosen]


def has_labels(job: Job, labels: Sequence[str]) -> bool:
    """Tell whether a job carries all of these labels."""
    return set(labels) <= set(job.spec.labels)


def job_view(db: Database, job: Job) -> JobView:
    """Return a job with its unfinished and newest runs."""
    newest = run_queries.newest_runs(db, job.id, limit=LAST_OUTCOMES)
    return JobView(job, tuple(run_queries.some_unfinished_runs(db, job.id, limit=UNFINISHED_SHOWN)), tuple(newest))


def show_job(store: Store, name: str) -> JobView:
    """Return one job by name."""
    return store.read(lambda db: job_view(db, find_job(db, name)))


def job_data(store: Store, job_id: str) -> Mapping[str, Any]:
    """Return what the functions of a job have stored for its next run."""
    return store.read(lambda db: jobs.job_state(db, job_id))


def project_timezone(store: Store) -> str:
    """Return the zone in which people of this project read times."""
    row = store.read(lambda db: db.row("meta_get", key=TIMEZONE_KEY))
    return str(row[0]) if row else "UTC"


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
class JobsPage:
    """Some jobs, where they stand among those that match, and how many of these there are of each state and label."""

    lines: tuple[JobLine, ...]
    number: int
    pages: int
    matching: int
    stored: int
    states: Mapping[str, int]
    labels: Mapping[str, int]


def page_of_jobs(store: Store, query: JobQuery, *, number: int = 1, limit: int = 50) -> JobsPage:
    """Return one page of the jobs that are looked for; a page beyond the last is the last."""
    if query.state and query.state not in STATES:
        raise InvalidValue(f"jobs have no state {query.state[:60]!r}", hint=f"there are: {', '.join(STATES)}")
    if not 1 <= limit <= LARGEST:
        raise InvalidValue(f"a page of {limit} is not possible", hint=f"ask for 1 to {LARGEST}")
    return store.read(partial(_page, query=query, number=number, limit=limit))


def _page(db: Database, *, query: JobQuery, number: int, limit: int) -> JobsPage:
    stored = jobs.all_jobs(db)
    running, failing = _running(db), jobs.failing_jobs(db)
    found = [job for job in stored if _matches(job, query)]
    states = {job.id: _states(job, running=running, failing=failing) for job in found}
    chosen = [job for job in found if (query.state in states[job.id] if query.state else job.retired_at is None)]
    pages = max(1, -(-len(chosen) // limit))
    number = min(max(number, 1), pages)
    shown = _sorted(chosen, query.sort)[(number - 1) * limit : number * limit]
    return JobsPage(
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
    for run in run_queries.running_runs(db):
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
    newest, oldest = run_queries.newest_of_jobs(db, ids, limit=LAST_OUTCOMES), run_queries.oldest_unfinished(db, ids)
    return [
        JobView(job, tuple(running.get(job.id, ())) or tuple(oldest.get(job.id, ())), tuple(newest.get(job.id, ())))
        for job in shown
    ]


NEWEST = 2**62
FIRST = ("made",)


@dataclass(frozen=True, slots=True)
class VersionView:
    """A version of a job, and what differs from the one before it, in the words of the file."""

    version: Version
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VersionsPage:
    """Some versions of a job, newest first; `below` is where the older ones begin, None at the end."""

    shown: tuple[VersionView, ...]
    below: int | None


def list_versions(store: Store, name: str, *, below: int | None = None, limit: int = 10) -> VersionsPage:
    """Return the newest versions of a job, or the next ones below a number."""
    return store.read(partial(versions_in, name=name, below=below, limit=limit))


def versions_in(db: Database, *, name: str, below: int | None = None, limit: int = 10) -> VersionsPage:
    """Return versions inside a transaction."""
    found = jobs.versions(db, find_job(db, name).id, below=NEWEST if below is None else below, limit=limit + 1)
    shown = [VersionView(after, _changes(before, after)) for after, before in pairwise(found)]
    if len(found) <= limit:
        shown += [VersionView(oldest, FIRST) for oldest in found[-1:]]
    return VersionsPage(tuple(shown), shown[-1].version.number if len(found) > limit and shown else None)


def _changes(before: Version, after: Version) -> tuple[str, ...]:
    """Return what a version changed: keys of the job, or only whether it fires."""
    told = (*differences(before.spec, after.spec), *_turned(before, after))
    return told or ("stored again",)


def _turned(before: Version, after: Version) -> Sequence[str]:
    if before.paused != after.paused:
        return ("paused",) if after.paused else ("resumed",)
    if before.schedules != after.schedules and before.spec.enabled == after.spec.enabled:
        return ("fires from here on",) if after.schedules else ("fires no more",)
    return ()
