"""Queries over jobs: one, many, pages and versions."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from itertools import pairwise
from math import inf
from typing import Any

from msgspec import Struct

from rota.model.errors import InvalidValue, NotProvisional, UnknownJob, nearest
from rota.model.proposals import ANYBODY
from rota.model.records import Job, Run
from rota.model.states import Status
from rota.store.driver import Database, Store
from rota.store.tables import jobs, run_queries
from rota.store.tables.jobs import Version

HELD = "held: "
"""The beginning of the problem of a file whose change waits for a person."""
ENABLED_KEY = "scheduler_enabled"
LAST_OUTCOMES = 10
UNFINISHED_SHOWN = 100


class JobView(Struct, frozen=True):
    """A job with its unfinished and its newest runs; of a long queue the oldest ones."""

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

    @property
    def failing(self) -> bool:
        """Whether the newest run that completed or failed has failed."""
        finished = (run.status for run in self.last if run.status in (Status.COMPLETED, Status.FAILED))
        return next(finished, None) is Status.FAILED


def find_job(db: Database, name: str) -> Job:
    """Return the job of this name, or raise UnknownJob with the nearest name."""
    job = jobs.job_by_name(db, name)
    if job is None:
        by_lower = {other.lower(): other for other in jobs.job_names(db)}
        raise UnknownJob(name, [by_lower[near] for near in nearest(name.lower(), by_lower)])
    return job


def list_jobs(store: Store, *, labels: Sequence[str] = (), retired: bool = False) -> list[JobView]:
    """Return the jobs with all of `labels`, by name."""

    def read(db: Database) -> list[JobView]:
        chosen = [job for job in jobs.all_jobs(db) if has_labels(job, labels) and (retired or job.retired_at is None)]
        return job_views(db, chosen)

    return store.read(read)


def has_labels(job: Job, labels: Sequence[str]) -> bool:
    """Return whether a job has all of these labels."""
    return set(labels) <= set(job.spec.labels)


def job_view(db: Database, job: Job) -> JobView:
    """Return a job with its unfinished and newest runs."""
    return job_views(db, [job])[0]


def job_views(db: Database, chosen: Sequence[Job]) -> list[JobView]:
    """Return jobs with their unfinished and newest runs; only jobs with unfinished runs cost a query each."""
    ids = [job.id for job in chosen]
    newest, busy = run_queries.newest_of_jobs(db, ids, limit=LAST_OUTCOMES), run_queries.oldest_unfinished(db, ids)
    unfinished = {job_id: run_queries.some_unfinished_runs(db, job_id, limit=UNFINISHED_SHOWN) for job_id in busy}
    return [JobView(job, tuple(unfinished.get(job.id, ())), tuple(newest.get(job.id, ()))) for job in chosen]


def show_job(store: Store, name: str) -> JobView:
    """Return one job by name."""
    return store.read(lambda db: job_view(db, find_job(db, name)))


def job_data(store: Store, job_id: str) -> Mapping[str, Any]:
    """Return the state that the functions of a job stored for its next run."""
    return store.read(lambda db: jobs.job_state(db, job_id))


def project_timezone(store: Store) -> str:
    """Return the time zone of the project."""
    return store.read(jobs.timezone_of)


MAX_PAGE = 200
FAILING = "failing"
STATES = ("running", "idle", FAILING, "paused", "disabled", "provisional", "used up", "retired")
"""The filters of a page: the states of a job, and `failing` if its last run failed."""
_LAST = datetime.max.replace(tzinfo=UTC)


class Sort(StrEnum):
    """The order of a page; from FAILURES on by the statistics of the last days, the largest first."""

    NAME = "name"
    NEXT = "next"
    FAILURES = "failures"
    SUCCESS = "success"
    DURATION = "duration"
    COST = "cost"


Ranking = Callable[[Database, Sequence[Job]], Mapping[str, float]]
"""Returns what a page is ordered by, the largest first, by identifier of the job; absent ones come last."""


class JobQuery(Struct, frozen=True):
    """A filter of jobs: `text` searches name, description and labels. Without a state: all but retired jobs."""

    text: str = ""
    labels: tuple[str, ...] = ()
    agent: str = ""
    state: str = ""
    sort: Sort = Sort.NAME


class JobLine(Struct, frozen=True):
    """A job of a page; `failing`: its newest run that was not skipped failed."""

    view: JobView
    failing: bool


class JobsPage(Struct, frozen=True):
    """A page of matching jobs, with the number of matches by state and label, and the agents of all jobs."""

    lines: tuple[JobLine, ...]
    number: int
    pages: int
    matching: int
    stored: int
    states: Mapping[str, int]
    labels: Mapping[str, int]
    agents: tuple[str, ...]


def page_of_jobs(
    store: Store, query: JobQuery, *, ranking: Ranking | None = None, number: int = 1, limit: int = 50
) -> JobsPage:
    """Return one page of matching jobs; a number beyond the last page returns the last page."""
    if query.state and query.state not in STATES:
        raise InvalidValue(f"no job state is named {query.state[:60]!r}", hint=f"there are: {', '.join(STATES)}")
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidValue(f"a page size of {limit} is not allowed", hint=f"use 1 to {MAX_PAGE}")
    return store.read(partial(_page, query=query, ranking=ranking, number=number, limit=limit))


def _page(db: Database, *, query: JobQuery, ranking: Ranking | None, number: int, limit: int) -> JobsPage:
    stored = jobs.all_jobs(db)
    running, failing = defaultdict[str, list[Run]](list), jobs.failing_jobs(db)
    for run in run_queries.running_runs(db):
        running[run.job_id].append(run)
    matches = [job for job in stored if _matches(job, query)]
    states = {job.id: [JobView(job, tuple(running[job.id]), ()).state] for job in matches}
    for job in matches:
        states[job.id] += [FAILING] if job.id in failing and job.retired_at is None else []
    chosen = [job for job in matches if (query.state in states[job.id] if query.state else job.retired_at is None)]
    if query.sort is Sort.NEXT:
        chosen.sort(key=lambda job: (job.next_at or _LAST, job.name))
    elif ranking is not None:
        ranks = ranking(db, chosen)
        chosen.sort(key=lambda job: (-ranks.get(job.id, -inf), job.name))
    pages = max(1, -(-len(chosen) // limit))
    number = min(max(number, 1), pages)
    job_list = chosen[(number - 1) * limit : number * limit]
    labels = Counter(label for job in matches if job.retired_at is None for label in job.spec.labels)
    return JobsPage(
        lines=tuple(JobLine(view, view.job.id in failing) for view in _views(db, job_list, running)),
        number=number,
        pages=pages,
        matching=len(chosen),
        stored=sum(job.retired_at is None for job in stored),
        states=Counter(state for job_states in states.values() for state in job_states),
        labels=dict(sorted(labels.items(), key=lambda item: (-item[1], item[0]))),
        agents=tuple(sorted({name for job in stored if job.retired_at is None for name in agents_of(job)})),
    )


def agents_of(job: Job) -> tuple[str, ...]:
    """Return the agents that may do the work of a job, the preferred one first."""
    work = job.spec.work.agent
    return () if work is None else tuple(dict.fromkeys(one.agent for one in (work.choices or (work,))))


def _matches(job: Job, query: JobQuery) -> bool:
    words = query.text.casefold().split()
    text = "\n".join((job.name, job.spec.description or "", *job.spec.labels)).casefold()
    fits = has_labels(job, query.labels) and (not query.agent or query.agent in agents_of(job))
    return fits and all(word in text for word in words)


def _views(db: Database, shown: Sequence[Job], running: Mapping[str, Sequence[Run]]) -> list[JobView]:
    ids = [job.id for job in shown]
    newest, oldest = run_queries.newest_of_jobs(db, ids, limit=LAST_OUTCOMES), run_queries.oldest_unfinished(db, ids)
    return [
        JobView(job, tuple(running.get(job.id, ())) or tuple(oldest.get(job.id, ())), tuple(newest.get(job.id, ())))
        for job in shown
    ]


NEWEST = 2**62
FIRST = ("created",)


class VersionView(Struct, frozen=True):
    """A version of a job, and its differences from the previous one, by key."""

    version: Version
    changes: tuple[str, ...]


class VersionsPage(Struct, frozen=True):
    """Some versions of a job, newest first; `below` is the position of the next page, None at the end."""

    shown: tuple[VersionView, ...]
    below: int | None


def list_versions(store: Store, name: str, *, below: int | None = None, limit: int = 10) -> VersionsPage:
    """Return the newest versions of a job, or the next ones below a number."""
    return store.read(partial(versions_in, name=name, below=below, limit=limit))


def versions_in(db: Database, *, name: str, below: int | None = None, limit: int = 10) -> VersionsPage:
    """Return versions inside a transaction."""
    versions = jobs.versions(db, find_job(db, name).id, below=NEWEST if below is None else below, limit=limit + 1)
    version_views = [VersionView(after, _changes(before, after)) for after, before in pairwise(versions)]
    if len(versions) <= limit:
        version_views += [VersionView(oldest, FIRST) for oldest in versions[-1:]]
    return VersionsPage(
        tuple(version_views), version_views[-1].version.number if len(versions) > limit and version_views else None
    )


def _changes(before: Version, after: Version) -> tuple[str, ...]:
    """Return the changes of a version: keys of the job, or whether it fires."""
    from rota.declare.plan import differences

    changes = differences(before.spec, after.spec)
    if before.paused != after.paused:
        return (*changes, "paused" if after.paused else "resumed")
    if before.schedules != after.schedules and before.spec.enabled == after.spec.enabled:
        return (*changes, "fires from now on" if after.schedules else "fires no more")
    return tuple(changes) or ("stored again",)


def made_jobs(db: Database, maker: str) -> list[Job]:
    """Return the present jobs of an author; of all authors for `agent`."""
    return [job for job in jobs.all_jobs(db) if job.retired_at is None and made_by(job, maker)]


def made_by(job: Job, maker: str) -> bool:
    """Return whether a job has this author; `agent` stands for all of them."""
    return job.made is not None and (maker in (ANYBODY, job.made.by))


def waiting(db: Database) -> Sequence[Job]:
    """Return the jobs that wait for approval."""
    return jobs.provisional_jobs(db)


def proposal(db: Database, *, name: str) -> Job:
    """Return a job that waits for approval."""
    job = find_job(db, name)
    if job.provisional_at is None or job.retired_at is not None:
        raise NotProvisional(name)
    return job
