"""The pages of jobs, and of one job with its actions and history chart."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import Annotated

from fastapi import Query
from msgspec import Struct
from starlette.responses import Response

from rota.http.context import JobName, segment
from rota.http.pages.page import PageContext, Pages, View, VisitOf, fit, given_params, param_fields, pause_end
from rota.http.pages.stats import Asked, AskedOf, job_stats, rows_of_jobs
from rota.model.amounts import counted
from rota.model.errors import InvalidParams, InvalidValue, Problem
from rota.model.records import Job, Run
from rota.model.spec import Kind
from rota.model.states import Status
from rota.operations import jobs
from rota.operations.activity import pauses
from rota.operations.admin.access import Scope
from rota.operations.bulk import JobAction, JobResult, act_on_each, resume_words
from rota.operations.explain import ExplanationView, explain
from rota.operations.pause import JobSelection, pause, resume
from rota.operations.project import apply, edit
from rota.operations.project.apply import FILE
from rota.operations.project.job_file import JobPlace, place_of
from rota.operations.project.locate import ProjectPaths
from rota.operations.project.transfer import Exported, export_jobs
from rota.operations.run_actions import trigger
from rota.operations.stats.stats import ranking
from rota.operations.status.attention import acknowledge
from rota.operations.status.status import needs_of
from rota.operations.text import kind_of, next_words, outcome_words, pause_words, schedule_words, spec_pairs, took
from rota.rules.schedule.instants import explain_schedule
from rota.rules.schedule.preview import UpcomingFire, fires_to_come, overdue_fire
from rota.store.tables import run_queries
from rota.text.format import briefly, full_time
from rota.text.jobs import say_made

pages = Pages()
LINES = 24
ORDERS = (
    (jobs.Sort.NAME, "By name"),
    (jobs.Sort.NEXT, "By next fire"),
    (jobs.Sort.FAILURES, "Most failures"),
    (jobs.Sort.SUCCESS, "Lowest success rate"),
    (jobs.Sort.DURATION, "Longest p95"),
    (jobs.Sort.COST, "Highest cost"),
)
"""The orders of the list; the statistics are those of the last 14 days."""
LABELS = 24
PATH = "/ui/jobs"


@pages.show("/ui/jobs")
def show_jobs(
    visit: VisitOf,
    q: Annotated[str, Query(max_length=200)] = "",
    label: Annotated[list[str] | None, Query(max_length=100)] = None,
    agent: Annotated[str, Query(max_length=200)] = "",
    state: Annotated[str, Query(max_length=40)] = "",
    sort: Annotated[jobs.Sort, Query()] = jobs.Sort.NAME,
    page: Annotated[int, Query(ge=1, le=100_000)] = 1,
) -> Response:
    """Show the jobs."""
    query = jobs.JobQuery(q.strip(), tuple(label or ()), agent, state, sort)
    ranks = ranking(sort, now=visit.now)
    jobs_page = jobs.page_of_jobs(visit.ctx.store, query, ranking=ranks, number=page, limit=LINES)
    recent = rows_of_jobs(visit, [line.view.job for line in jobs_page.lines])
    view = {
        "page": jobs_page,
        "query": query,
        "rows": [_row(visit, line, recent[line.view.job.name]) for line in jobs_page.lines],
        "states": list(_states(visit, query, jobs_page)),
        "labels": list(_labels(visit, query, jobs_page)),
        "orders": ORDERS,
        "paused": pauses(visit.ctx.store).everything,
        "before": _href(visit, query, page=jobs_page.number - 1) if jobs_page.number > 1 else "",
        "after": _href(visit, query, page=jobs_page.number + 1) if jobs_page.number < jobs_page.pages else "",
    }
    return visit.show("jobs.html", view, title="Jobs", section="jobs")


def _row(visit: PageContext, line: jobs.JobLine, recent: View) -> View:
    view = line.view
    paused = view.state == "paused"
    return {
        "view": view,
        "recent": recent,
        "failing": line.failing,
        "path": _page(view.job.name),
        "schedule": schedule_words(view, visit.zone),
        "fire": None if paused else next(iter(fires_to_come(view.job, n=1, now=visit.now)), None),
        "next": next_words(view, visit.zone, now=visit.now),
        "newest": next(iter((*view.unfinished, *view.last)), None),
        "enabling": visit.may_admin and view.state == "disabled" and edit.may_change(view.job),
    }


def _summary(runs: tuple[Run, ...]) -> str:
    """Return the outcomes of the last runs for screen readers: `last 10 runs: 8 completed, 2 failed`."""
    final = [run.status for run in runs if run.status.final]
    counts = [f"{final.count(status)} {status.lower()}" for status in Status if status in final]
    return f"last {counted(len(final), 'run')}: {', '.join(counts)}" if final else "no runs yet"


def _states(visit: PageContext, query: jobs.JobQuery, found: jobs.JobsPage) -> Iterator[View]:
    active = sum(count for state, count in found.states.items() if state not in ("failing", "retired"))
    for state, count in {"": active, **{state: found.states.get(state, 0) for state in jobs.STATES}}.items():
        chosen = state == query.state
        if count or chosen or not state:
            yield {"word": state or "all", "count": count, "href": _href(visit, query, state=state), "chosen": chosen}


def _labels(visit: PageContext, query: jobs.JobQuery, found: jobs.JobsPage) -> Iterator[View]:
    for label, count in [*found.labels.items()][:LABELS]:
        chosen = label in query.labels
        left = [other for other in query.labels if other != label] if chosen else [*query.labels, label]
        yield {"word": label, "count": count, "href": _href(visit, query, label=left), "chosen": chosen}


def _href(visit: PageContext, query: jobs.JobQuery, **changed: str | int | list[str]) -> str:
    sort = None if query.sort is jobs.Sort.NAME else query.sort.value
    same = {"q": query.text, "label": list(query.labels), "agent": query.agent, "state": query.state, "sort": sort}
    return visit.href(PATH, **{**same, **changed})


class Record(Struct, frozen=True):
    """A summary of finished runs. Durations are None where none of the runs did any work."""

    runs: int
    completed: int
    failed: int
    median: timedelta | None
    longest: timedelta | None

    @property
    def rate(self) -> int | None:
        """How many of a hundred runs completed, of those that did their work; None for none."""
        return 100 * self.completed // (self.completed + self.failed) if self.completed + self.failed else None


def record_of(runs: Sequence[Run]) -> Record:
    """Return what these runs tell together."""
    durations = sorted(_length(run, run.finished_at) for run in runs if run.started_at and run.finished_at)
    return Record(
        runs=sum(run.status.final for run in runs),
        completed=sum(run.status is Status.COMPLETED for run in runs),
        failed=sum(run.status is Status.FAILED for run in runs),
        median=durations[len(durations) // 2] if durations else None,
        longest=durations[-1] if durations else None,
    )


HEIGHT = 120
STEP = 12
SLOTS = 45
"""The number of bars that fit; the newest run is at the right."""
MIN_HEIGHT = 2.0


def _chart(runs: Sequence[Run], *, zone: str, now: datetime) -> View:
    """Return the chart of a job's newest runs, which come newest first; `median_at` is the distance from the top."""
    record = record_of(runs)
    highest = max((_length(run, now) for run in runs), default=timedelta()) or timedelta(seconds=1)
    shown = list(reversed(runs))
    first = max(SLOTS - len(shown), 0)
    scale = HEIGHT / highest.total_seconds()
    median = record.median
    return {
        "width": max(len(shown), SLOTS) * STEP,
        "height": HEIGHT,
        "step": STEP,
        "bars": [_bar(run, index, scale=scale, zone=zone, now=now) for index, run in enumerate(shown, first)],
        "record": record,
        "highest": briefly(highest),
        "median": briefly(median) if median is not None else "",
        "median_at": None if median is None else round(HEIGHT - median.total_seconds() * scale, 1),
    }


def _length(run: Run, now: datetime) -> timedelta:
    if run.started_at is None:
        return timedelta()
    return max((run.finished_at or now) - run.started_at, timedelta())


def _bar(run: Run, index: int, *, scale: float, zone: str, now: datetime) -> View:
    height = max(_length(run, now).total_seconds() * scale, MIN_HEIGHT if run.started_at else 0)
    when = full_time(run.started_at or run.created_at, zone, now=now, seconds=True)
    lasted = took(run, now=now)
    words = outcome_words(run, now=now)
    return {
        "left": index * STEP,
        "top": round(HEIGHT - height, 1),
        "height": round(height, 1),
        "kind": kind_of(run),
        "path": f"/ui/runs/{segment(run.handle)}",
        "title": f"{run.handle} {words}{f', {lasted}' if lasted and lasted not in words else ''}, {when}",
    }


FIRES = 10
RUNS = 10
VERSIONS = 5
MORE_VERSIONS = 50


class JobDetails:
    """The page of a job; each part is read when the template shows it, so that one fragment reads only its own."""

    def __init__(self, visit: PageContext, view: jobs.JobView, of: Asked, *, versions: int, drawn: bool = True) -> None:
        self._visit = visit
        self._asked = of
        self.drawn = drawn
        """Whether the page has room for the charts of its statistics."""
        self._store = visit.ctx.store
        self._versions = versions
        self.view = view
        self.job = view.job
        self.path = _page(view.job.name)
        self.schedule = explain_schedule(view.job.spec.schedule)
        self.next = next_words(view, visit.zone, now=visit.now)
        self.summary = _summary(view.last)
        source = view.job.source
        self.file = source.removeprefix(FILE) if source.startswith(FILE) else ""
        names = {"api": "the API", "python": "Python code"}
        self.source = os.path.basename(self.file) if self.file else names.get(source, source)
        self.editable = bool(self.file) and visit.may_admin and view.job.retired_at is None
        self.made = say_made(view.job, now=visit.now) or ""
        living = visit.may_admin and view.job.retired_at is None
        self.changeable = living and edit.may_change(view.job)
        self.copyable = visit.may_admin and edit.may_copy(view.job)
        self.deletable = living and not self.file

    @cached_property
    def place(self) -> JobPlace | None:
        """Where its file declares it."""
        return place_of(self.job, environ=self._visit.ctx.context.environ)

    @cached_property
    def stats(self) -> View:
        """Its statistics."""
        return job_stats(self._visit, self._asked, self.job.name)

    @cached_property
    def fires(self) -> Sequence[UpcomingFire]:
        """The next fires, without an overdue one."""
        return fires_to_come(self.job, n=FIRES, now=self._visit.now)

    @cached_property
    def overdue(self) -> UpcomingFire | None:
        """The fire that was due and has not happened."""
        return overdue_fire(self.job, now=self._visit.now)

    @cached_property
    def pause(self) -> str:
        """The end of the pause and its reason."""
        job, visit = self.job, self._visit
        return pause_words(job.paused_until, job.pause_reason, zone=visit.zone, now=visit.now).strip()

    @cached_property
    def everything_paused(self) -> bool:
        """Whether everything is paused."""
        return pauses(self._store).everything is not None

    @cached_property
    def newest(self) -> Sequence[Run]:
        """Its newest runs."""
        return self._store.read(lambda db: run_queries.newest_runs(db, self.job.id, limit=SLOTS))

    @cached_property
    def runs(self) -> Sequence[Run]:
        """The runs that are listed."""
        return self.newest[:RUNS]

    @cached_property
    def chart(self) -> View:
        """The chart of the newest runs."""
        return _chart(self.newest, zone=self._visit.zone, now=self._visit.now)

    @cached_property
    def why(self) -> ExplanationView:
        """The explanation, as `rota explain` prints it."""
        return explain(self._store, self.job.name, state=self._visit.ctx.state, now=self._visit.now)

    @cached_property
    def pairs(self) -> Sequence[tuple[str, str]]:
        """The definition, by the keys of the file."""
        return tuple(spec_pairs(self.job.spec))

    @cached_property
    def members(self) -> Sequence[View]:
        """The members of a group."""
        members = self.job.spec.work.members
        return [{"name": member.job, "path": _page(member.job), "always": member.always} for member in members]

    @cached_property
    def params(self) -> Sequence[View]:
        """The form fields of its params."""
        work = self.job.spec.work
        return param_fields(work, work.params)

    @cached_property
    def versions(self) -> jobs.VersionsPage:
        """The older versions of its definition."""
        return jobs.list_versions(self._store, self.job.name, limit=self._versions)

    @property
    def more_versions(self) -> bool:
        """Whether there are older versions to show."""
        return self.versions.below is not None and self._versions < MORE_VERSIONS

    @cached_property
    def text(self) -> Exported | None:
        """The job as YAML, for the scope admin alone: it contains the values of `env`."""
        if not self._visit.may_admin or self.job.spec.work.kind is Kind.POLL or self.job.retired_at is not None:
            return None
        context = self._visit.ctx.context
        place = ProjectPaths(context.folder, context.state)
        return export_jobs(self._store, [self.job.name], place=place, home=context.environ.get("HOME", ""))


@pages.show("/ui/jobs/{job}")
def show_one_job(
    visit: VisitOf, job: JobName, of: AskedOf, versions: Annotated[int, Query(ge=1, le=MORE_VERSIONS)] = VERSIONS
) -> Response:
    """Show a job."""
    job_view = jobs.show_job(visit.ctx.store, job)

    def show(charts: int) -> Response:
        details = JobDetails(visit, job_view, of, versions=versions, drawn=charts > 1)
        return visit.show("job.html", details, title=job_view.job.name, section="jobs")

    return fit(show, lines=2)


@pages.show("/ui/jobs/{job}/run", scope=Scope.RUN)
def ask_params(visit: VisitOf, job: JobName) -> Response:
    """Show the form of a job's params."""
    return _param_form(visit, jobs.show_job(visit.ctx.store, job).job)


def _param_form(visit: PageContext, job: Job, *, problems: Sequence[Problem] = ()) -> Response:
    """Return the form of a job's params; with problems it keeps what was typed."""
    work, path = job.spec.work, _page(job.name)
    typed = visit.form if problems else None
    view = {
        "job": job,
        "path": path,
        "fields": param_fields(work, work.params, typed=typed, problems=problems),
        "force": visit.form.get("force") == "yes",
        "back": visit.safe_back(path),
        "wrong": len(problems),
    }
    return visit.show("job_run.html", view, title=f"Run {job.name}", section="jobs", status=422 if problems else 200)


@pages.act("/ui/jobs/{job}/run", back=PATH)
def run_job(visit: VisitOf, job: JobName) -> Response:
    """Start a job now with the params of the form; ask for one that has no default."""
    found = jobs.show_job(visit.ctx.store, job).job
    params = given_params(visit.form, found.spec.work, found.spec.work.params)
    force = visit.form.get("force") == "yes"
    try:
        born = trigger(visit.ctx.store, job, params=params, force=force, by=visit.ctx.maker, now=visit.now)
    except InvalidParams as error:
        return _param_form(visit, found, problems=error.problems)
    visit.ctx.wake()
    paused = ", and waits: everything is paused" if pauses(visit.ctx.store).everything else ""
    return visit.done(f"{born.handle} is in the queue{paused}", back=_page(job))


@pages.act("/ui/jobs/{job}/pause", back=PATH)
def pause_one_job(visit: VisitOf, job: JobName) -> Response:
    """Pause a job; without `for` in the form, ask for the duration and the reason."""
    if "for" not in visit.form:
        jobs.show_job(visit.ctx.store, job)
        view = {"back": visit.safe_back(_page(job)), "path": f"{_page(job)}/pause", "chosen": ()}
        return visit.show("job_pause.html", view, title=f"Pause {job}", section="jobs")
    until = pause_end(visit.form, zone=visit.zone, now=visit.now)
    reason = visit.form.get("reason", "").strip()
    result = pause(visit.ctx.store, JobSelection(names=(job,)), until=until, reason=reason, now=visit.now)
    visit.ctx.notify_pauses()
    running = f"; {', '.join(result.running)} left to finish" if result.running else ""
    return visit.done(
        f"{job} is paused{pause_words(until, reason, zone=visit.zone, now=visit.now)}{running}", back=_page(job)
    )


@pages.act("/ui/jobs/{job}/resume", back=PATH)
def resume_one_job(visit: VisitOf, job: JobName) -> Response:
    """End the pause of a job."""
    catch_up = visit.form.get("catch_up") == "once"
    ended = resume(visit.ctx.store, JobSelection(names=(job,)), catch_up=catch_up, now=visit.now)
    visit.ctx.notify_pauses()
    return visit.done(f"{job} {resume_words(ended) or 'was not paused'}", back=_page(job))


@pages.act("/ui/jobs/{job}/enable", back=PATH, scope=Scope.ADMIN)
def enable_one_job(visit: VisitOf, job: JobName) -> Response:
    """Enable a job of the API."""
    return _enable(visit, job, enabled=True)


@pages.act("/ui/jobs/{job}/disable", back=PATH, scope=Scope.ADMIN)
def disable_one_job(visit: VisitOf, job: JobName) -> Response:
    """Disable a job of the API: it neither fires nor starts."""
    if not visit.confirmed:
        says = f"{job} will neither fire nor be started until it is enabled again. Running and queued runs continue."
        return visit.confirm(f"Disable {job}?", says=says, button="Disable", back=_page(job), detail=_hit(visit, job))
    return _enable(visit, job, enabled=False)


def _enable(visit: PageContext, job: str, *, enabled: bool) -> Response:
    apply.enable(visit.ctx.store, job, enabled=enabled, now=visit.now)
    visit.ctx.wake()
    return visit.done(f"{job} is {'enabled' if enabled else 'disabled'}", back=_page(job))


@pages.act("/ui/jobs/{job}/delete", back=PATH, scope=Scope.ADMIN)
def delete_one_job(visit: VisitOf, job: JobName) -> Response:
    """Delete a job of the API."""
    if not visit.confirmed:
        says = f"{job} will fire no more. Its runs continue and its history stays; a job of the same name is a new one."
        return visit.confirm(f"Delete {job}?", says=says, button="Delete", back=_page(job), detail=_hit(visit, job))
    apply.delete(visit.ctx.store, job, now=visit.now)
    visit.ctx.wake()
    return visit.done(f"{job} is deleted", back=PATH)


def _hit(visit: PageContext, job: str) -> tuple[str, ...]:
    """Return the unfinished runs of a job in words."""
    view = jobs.show_job(visit.ctx.store, job)
    started = [run.handle for run in view.unfinished if run.started_at is not None]
    queued = len(view.unfinished) - len(started)
    running = [f"running now: {', '.join(started[:5])}"] if started else []
    return (*running, *([f"in the queue: {counted(queued, 'run')}"] if queued else []))


def _page(job: str) -> str:
    return f"{PATH}/{segment(job)}"


NAMED = 12
"""The jobs that a message or a question names."""
DONE_WORDS = {
    JobAction.RUN: "started",
    JobAction.PAUSE: "paused",
    JobAction.RESUME: "resumed",
    JobAction.ACKNOWLEDGE: "acknowledged",
}
NOTHING = {JobAction.RESUME: "was not paused", JobAction.ACKNOWLEDGE: "needs no attention"}
"""Why an action had no effect."""


@pages.act("/ui/chosen/{action}", back=PATH)
def act_on_chosen_jobs(visit: VisitOf, action: JobAction) -> Response:
    """Run, pause, resume or acknowledge the chosen jobs, each on its own, after a question."""
    chosen = list(dict.fromkeys(visit.forms.get("job", [])))
    if not chosen:
        raise InvalidValue("no job is chosen", hint="tick the boxes before their names")
    if action is JobAction.PAUSE and "for" not in visit.form:
        view = {"back": visit.safe_back(PATH), "path": "/ui/chosen/pause", "chosen": chosen}
        return visit.show("job_pause.html", view, title=f"Pause {counted(len(chosen), 'job')}", section="jobs")
    if action is JobAction.RUN and len(chosen) > 1 and not visit.confirmed:
        says = f"Each of the {len(chosen)} jobs gets a run in the queue, with the default params."
        title = f"Start {counted(len(chosen), 'job')} now?"
        return visit.confirm(title, says=says, button="Start", back=PATH, detail=_some(chosen))
    results = act_on_each(chosen, _ACTIONS[action](visit))
    visit.ctx.wake()
    visit.ctx.notify_pauses()
    return _tell_results(visit, action, results)


def _some(names: Sequence[str]) -> tuple[str, ...]:
    more = len(names) - NAMED
    return (*names[:NAMED], *([f"and {more} more"] if more > 0 else []))


def _tell_results(visit: PageContext, action: JobAction, results: Sequence[JobResult]) -> Response:
    done = [job.job for job in results if job.told]
    same = [job.job for job in results if not job.told and job.refusal is None]
    refused = [f"{job.job}: {job.refusal.message}" for job in results if job.refusal is not None]
    word = DONE_WORDS[action]
    parts = [f"{counted(len(done), 'job')} {word}: {', '.join(_some(done))}" if done else f"no job {word}"]
    if same:
        parts.append(f"{', '.join(_some(same))} {NOTHING.get(action, 'unchanged')}")
    parts += [f"{len(refused)} refused"] if refused else []
    return visit.done("; ".join(parts), back=PATH, hint="; ".join(_some(refused)), bad=bool(refused))


def _starter(visit: PageContext) -> Callable[[str], str]:
    return lambda job: trigger(visit.ctx.store, job, by=visit.ctx.maker, now=visit.now).handle


def _pauser(visit: PageContext) -> Callable[[str], str]:
    until = pause_end(visit.form, zone=visit.zone, now=visit.now)
    reason = visit.form.get("reason", "").strip()

    def act(job: str) -> str:
        pause(visit.ctx.store, JobSelection(names=(job,)), until=until, reason=reason, now=visit.now)
        return "is paused"

    return act


def _resumer(visit: PageContext) -> Callable[[str], str]:
    return lambda job: resume_words(resume(visit.ctx.store, JobSelection(names=(job,)), catch_up=False, now=visit.now))


def _acknowledger(visit: PageContext) -> Callable[[str], str]:
    needs = needs_of(visit.ctx.store, beat=visit.health.heartbeat, zone=visit.zone, now=visit.now)

    def act(job: str) -> str:
        name = jobs.show_job(visit.ctx.store, job).job.name
        same = [need for need in needs if need.seen is None and need.about(name)]
        if not same:
            return ""
        acknowledge(visit.ctx.store, same, needs=needs, actor=visit.ctx.actor, now=visit.now)
        return "is acknowledged"

    return act


_ACTIONS: Mapping[JobAction, Callable[[PageContext], Callable[[str], str]]] = {
    JobAction.RUN: _starter,
    JobAction.PAUSE: _pauser,
    JobAction.RESUME: _resumer,
    JobAction.ACKNOWLEDGE: _acknowledger,
}
