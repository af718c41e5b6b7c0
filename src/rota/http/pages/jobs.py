"""The pages of jobs, of one job with its actions and history chart, and of a new one."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from rota.engine.activity import PauseState
from rota.http.context import JobName, segment
from rota.http.pages.page import (
    HTML,
    PageContext,
    Pages,
    ParamField,
    VisitOf,
    given_params,
    param_fields,
    pause_end,
    render,
)
from rota.model.amounts import counted
from rota.model.errors import InvalidValue, RotaError
from rota.model.records import Job, Run
from rota.model.spec import Kind
from rota.model.states import Status
from rota.operations import jobs
from rota.operations.admin.access import Scope
from rota.operations.explain import ExplanationView, explain
from rota.operations.pause import JobSelection, pause, resume
from rota.operations.project import apply, edit
from rota.operations.project.apply import FILE
from rota.operations.project.locate import ProjectPaths
from rota.operations.project.transfer import Exported, export_jobs
from rota.operations.run_actions import trigger
from rota.operations.text import kind_of, next_words, outcome_words, pause_words, schedule_words, spec_pairs, took
from rota.operations.views import pauses
from rota.rules.schedule.instants import explain_schedule
from rota.rules.schedule.preview import UpcomingFire, fires_to_come, overdue_fire
from rota.store.tables import run_queries
from rota.text.format import briefly, full_time
from rota.text.jobs import say_made

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
class JobRow:
    """A job of the page. `fire` None: `next` says why."""

    view: jobs.JobView
    failing: bool
    path: str
    schedule: str
    fire: UpcomingFire | None
    next: str
    newest: Run | None
    enabling: bool
    """Whether it is a disabled job that can be enabled here."""
    summary: str
    """The last outcomes in words, for who does not see the ticks."""


@dataclass(frozen=True, slots=True)
class JobsView:
    """The page of jobs."""

    page: jobs.JobsPage
    query: jobs.JobQuery
    rows: tuple[JobRow, ...]
    states: tuple[Choice, ...]
    labels: tuple[Choice, ...]
    paused: PauseState | None
    before: str
    after: str


@pages.show("/ui/jobs")
def show_jobs(
    visit: VisitOf,
    q: Annotated[str, Query(max_length=200)] = "",
    label: Annotated[list[str] | None, Query(max_length=100)] = None,
    state: Annotated[str, Query(max_length=40)] = "",
    sort: Annotated[jobs.Sort, Query()] = jobs.Sort.NAME,
    page: Annotated[int, Query(ge=1, le=100_000)] = 1,
) -> Response:
    """Show the jobs."""
    query = jobs.JobQuery(q.strip(), tuple(label or ()), state, sort)
    found = jobs.page_of_jobs(visit.desk.store, query, number=page, limit=LINES)
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


def _row(visit: PageContext, line: jobs.JobLine) -> JobRow:
    view = line.view
    paused = view.state == "paused"
    return JobRow(
        view=view,
        failing=line.failing,
        path=f"{PATH}/{segment(view.job.name)}",
        schedule=schedule_words(view, visit.zone),
        fire=None if paused else next(iter(fires_to_come(view.job, n=1, now=visit.now)), None),
        next=next_words(view, visit.zone, now=visit.now),
        newest=next(iter((*view.unfinished, *view.last)), None),
        enabling=visit.may_admin and view.state == "disabled" and edit.may_change(view.job),
        summary=summary_of(view.last),
    )


def summary_of(runs: tuple[Run, ...]) -> str:
    """Return how often the last runs ended in which way: `last 10 runs: 8 completed, 2 failed`."""
    final = [run.status for run in runs if run.status.final]
    told = [f"{final.count(status)} {status.lower()}" for status in Status if status in final]
    return f"last {counted(len(final), 'run')}: {', '.join(told)}" if final else "no runs yet"


def _states(visit: PageContext, query: jobs.JobQuery, found: jobs.JobsPage) -> Iterator[Choice]:
    living = sum(count for state, count in found.states.items() if state not in ("failing", "retired"))
    yield Choice("all", living, _href(visit, query, state=""), chosen=not query.state)
    for state in jobs.STATES:
        count = found.states.get(state, 0)
        if count or state == query.state:
            yield Choice(state, count, _href(visit, query, state=state), chosen=state == query.state)


def _labels(visit: PageContext, query: jobs.JobQuery, found: jobs.JobsPage) -> Iterator[Choice]:
    for label, count in [*found.labels.items()][:LABELS]:
        chosen = label in query.labels
        left = tuple(one for one in query.labels if one != label) if chosen else (*query.labels, label)
        yield Choice(label, count, _href(visit, query, labels=left), chosen=chosen)


def _href(
    visit: PageContext,
    query: jobs.JobQuery,
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
        sort=None if query.sort is jobs.Sort.NAME else query.sort.value,
        page=page,
    )


@dataclass(frozen=True, slots=True)
class Record:
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
    durations = sorted(took for run in runs if run.status.final and (took := duration_of(run)) is not None)
    return Record(
        runs=sum(run.status.final for run in runs),
        completed=sum(run.status is Status.COMPLETED for run in runs),
        failed=sum(run.status is Status.FAILED for run in runs),
        median=durations[len(durations) // 2] if durations else None,
        longest=durations[-1] if durations else None,
    )


def duration_of(run: Run) -> timedelta | None:
    """Return how long a finished run took; None where it never started or still runs."""
    if run.started_at is None or run.finished_at is None:
        return None
    return max(run.finished_at - run.started_at, timedelta())


HEIGHT = 120
STEP = 12
SLOTS = 45
"""How many runs there is room for; of fewer ones the newest still stands at the right."""
LOWEST = 2.0


@dataclass(frozen=True, slots=True)
class HistoryBar:
    """A run: its bar from `top` down, its place from the left, and what is told of it."""

    left: float
    top: float
    height: float
    kind: str
    path: str
    title: str


@dataclass(frozen=True, slots=True)
class Chart:
    """The drawing. `median_at`: how far from the top the line of the median lies, None for none."""

    width: int
    height: int
    step: int
    bars: tuple[HistoryBar, ...]
    record: Record
    highest: str
    median: str
    median_at: float | None


def draw_history(runs: Sequence[Run], *, zone: str, now: datetime) -> Chart:
    """Return the drawing of a job's newest runs; they come newest first, and the newest stands at the right."""
    record = record_of(runs)
    highest = max((_length(run, now) for run in runs), default=timedelta()) or timedelta(seconds=1)
    shown = list(reversed(runs))
    first = max(SLOTS - len(shown), 0)
    scale = HEIGHT / highest.total_seconds()
    median = record.median
    return Chart(
        width=max(len(shown), SLOTS) * STEP,
        height=HEIGHT,
        step=STEP,
        bars=tuple(_bar(run, index, scale=scale, zone=zone, now=now) for index, run in enumerate(shown, first)),
        record=record,
        highest=briefly(highest),
        median=briefly(median) if median is not None else "",
        median_at=None if median is None else round(HEIGHT - median.total_seconds() * scale, 1),
    )


def _length(run: Run, now: datetime) -> timedelta:
    if run.started_at is None:
        return timedelta()
    return max((run.finished_at or now) - run.started_at, timedelta())


def _bar(run: Run, index: int, *, scale: float, zone: str, now: datetime) -> HistoryBar:
    length = _length(run, now)
    height = max(length.total_seconds() * scale, LOWEST if run.started_at else 0)
    when = full_time(run.started_at or run.created_at, zone, now=now, seconds=True)
    lasted = took(run, now=now)
    words = outcome_words(run, now=now)
    return HistoryBar(
        left=index * STEP,
        top=round(HEIGHT - height, 1),
        height=round(height, 1),
        kind=kind_of(run),
        path=f"/ui/runs/{segment(run.handle)}",
        title=f"{run.handle} {words}{f', {lasted}' if lasted and lasted not in words else ''}, {when}",
    )


FIRES = 10
HISTORY = SLOTS
RUNS = 10
VERSIONS = 5
MORE_VERSIONS = 50


@dataclass(frozen=True, slots=True)
class MemberLink:
    """A member of a group, and where it is shown."""

    name: str
    path: str
    always: bool


class JobDetails:
    """The page of a job; each part of it is looked at when it is shown, so that a part alone costs only its own."""

    def __init__(self, visit: PageContext, view: jobs.JobView, *, versions: int) -> None:
        self._visit = visit
        self._store = visit.desk.store
        self._versions = versions
        self.view = view
        self.job = view.job
        self.path = f"{PATH}/{segment(view.job.name)}"
        self.schedule = explain_schedule(view.job.spec.schedule)
        self.next = next_words(view, visit.zone, now=visit.now)
        self.summary = summary_of(view.last)
        self.source = _source(view.job)
        self.file = view.job.source.removeprefix(FILE) if view.job.source.startswith(FILE) else ""
        self.made = say_made(view.job, now=visit.now) or ""
        living = visit.may_admin and view.job.retired_at is None
        self.changeable = living and edit.may_change(view.job)
        self.copyable = visit.may_admin and edit.may_copy(view.job)
        self.deletable = living and not self.file

    @cached_property
    def fires(self) -> Sequence[UpcomingFire]:
        """When it fires next; what is overdue stands apart."""
        return fires_to_come(self.job, n=FIRES, now=self._visit.now)

    @cached_property
    def overdue(self) -> UpcomingFire | None:
        """What was due and has not fired."""
        return overdue_fire(self.job, now=self._visit.now)

    @cached_property
    def pause(self) -> str:
        """How long it is paused and why."""
        job, visit = self.job, self._visit
        return pause_words(job.paused_until, job.pause_reason, zone=visit.zone, now=visit.now).strip()

    @cached_property
    def everything_paused(self) -> bool:
        """Whether everything is paused."""
        return pauses(self._store).everything is not None

    @cached_property
    def newest(self) -> Sequence[Run]:
        """Its newest runs."""
        return self._store.read(lambda db: run_queries.newest_runs(db, self.job.id, limit=HISTORY))

    @cached_property
    def runs(self) -> Sequence[Run]:
        """Those that are listed."""
        return self.newest[:RUNS]

    @cached_property
    def chart(self) -> Chart:
        """How they went."""
        return draw_history(self.newest, zone=self._visit.zone, now=self._visit.now)

    @cached_property
    def why(self) -> ExplanationView:
        """Why it is where it is."""
        return explain(self._store, self.job.name, state=self._visit.desk.state, now=self._visit.now)

    @cached_property
    def pairs(self) -> Sequence[tuple[str, str]]:
        """What it is, in the words of the file."""
        return tuple(spec_pairs(self.job.spec))

    @cached_property
    def members(self) -> Sequence[MemberLink]:
        """The members of a group."""
        return [MemberLink(one.job, f"{PATH}/{segment(one.job)}", one.always) for one in self.job.spec.work.members]

    @cached_property
    def params(self) -> Sequence[ParamField]:
        """The fields of the params with which it may be run."""
        return param_fields(self.job.spec.work.params)

    @cached_property
    def versions(self) -> jobs.VersionsPage:
        """What it was before."""
        return jobs.list_versions(self._store, self.job.name, limit=self._versions)

    @property
    def more_versions(self) -> bool:
        """Whether there are older versions that another page would show."""
        return self.versions.below is not None and self._versions < MORE_VERSIONS

    @cached_property
    def text(self) -> Exported | None:
        """The job as a file would say it; only for those who may change everything: it holds the values of `env`."""
        if not self._visit.may_admin or self.job.spec.work.kind is Kind.POLL or self.job.retired_at is not None:
            return None
        context = self._visit.desk.context
        place = ProjectPaths(context.folder, context.state)
        return export_jobs(self._store, [self.job.name], place=place, home=context.environ.get("HOME", ""))


@pages.show("/ui/jobs/{job}")
def show_one_job(
    visit: VisitOf,
    job: JobName,
    versions: Annotated[int, Query(ge=1, le=MORE_VERSIONS)] = VERSIONS,
) -> Response:
    """Show a job."""
    found = jobs.show_job(visit.desk.store, job)
    return visit.show("job.html", JobDetails(visit, found, versions=versions), title=found.job.name, section="jobs")


def _source(job: Job) -> str:
    if job.source.startswith(FILE):
        return os.path.basename(job.source.removeprefix(FILE))
    return {"api": "the API", "python": "Python code"}.get(job.source, job.source)


LIST = "/ui/jobs"


@pages.act("/ui/jobs/{job}/run", back=LIST)
def run_job(visit: VisitOf, job: JobName) -> Response:
    """Start a job now, with the params that were typed."""
    shown = jobs.show_job(visit.desk.store, job).job.spec.work.params
    params = given_params(visit.form, shown)
    force = visit.form.get("force") == "yes"
    born = trigger(visit.desk.store, job, params=params, force=force, by=visit.desk.maker, now=visit.now)
    visit.desk.wake()
    paused = ", and waits: everything is paused" if pauses(visit.desk.store).everything else ""
    return visit.done(f"{born.handle} is in the queue{paused}", back=_page(job))


@pages.act("/ui/jobs/{job}/pause", back=LIST)
def pause_one_job(visit: VisitOf, job: JobName) -> Response:
    """Hold a job back; asked for without an answer yet, ask how long and why."""
    if "for" not in visit.form:
        return _ask_pause(visit, job)
    until = pause_end(visit.form, zone=visit.zone, now=visit.now)
    reason = visit.form.get("reason", "").strip()
    told = pause(visit.desk.store, JobSelection(names=(job,)), until=until, reason=reason, now=visit.now)
    visit.desk.tell_pauses()
    running = f"; {', '.join(told.running)} left to finish" if told.running else ""
    return visit.done(
        f"{job} is paused{pause_words(until, reason, zone=visit.zone, now=visit.now)}{running}", back=_page(job)
    )


def _ask_pause(visit: PageContext, job: str) -> Response:
    found = jobs.show_job(visit.desk.store, job).job
    view = {"job": found, "back": visit.safe_back(_page(job)), "path": f"{_page(job)}/pause"}
    return visit.show("job_pause.html", view, title=f"Pause {job}", section="jobs")


@pages.act("/ui/jobs/{job}/resume", back=LIST)
def resume_one_job(visit: VisitOf, job: JobName) -> Response:
    """Let a paused job go."""
    catch_up = visit.form.get("catch_up") == "once"
    ended = resume(visit.desk.store, JobSelection(names=(job,)), catch_up=catch_up, now=visit.now)
    visit.desk.tell_pauses()
    counts = [one.count for one in ended if one.count]
    skipped = f"; {counted(counts[0], 'instant')} in the pause skipped" if counts else ""
    caught = next((f"; {one.caught_up.handle} makes up for them" for one in ended if one.caught_up), "")
    return visit.done(f"{job} is resumed{skipped}{caught}" if ended else f"{job} was not paused", back=_page(job))


@pages.act("/ui/jobs/{job}/enable", back=LIST, scope=Scope.ADMIN)
def enable_one_job(visit: VisitOf, job: JobName) -> Response:
    """Let a job of the API fire again."""
    apply.enable(visit.desk.store, job, enabled=True, now=visit.now)
    visit.desk.wake()
    return visit.done(f"{job} is enabled", back=_page(job))


@pages.act("/ui/jobs/{job}/disable", back=LIST, scope=Scope.ADMIN)
def disable_one_job(visit: VisitOf, job: JobName) -> Response:
    """Let a job of the API neither fire nor be started."""
    if not visit.confirmed:
        says = f"{job} will neither fire nor be started until it is enabled again. What runs or is queued goes on."
        return visit.confirm(f"Disable {job}?", says=says, button="Disable", back=_page(job), detail=_hit(visit, job))
    apply.enable(visit.desk.store, job, enabled=False, now=visit.now)
    visit.desk.wake()
    return visit.done(f"{job} is disabled", back=_page(job))


@pages.act("/ui/jobs/{job}/delete", back=LIST, scope=Scope.ADMIN)
def delete_one_job(visit: VisitOf, job: JobName) -> Response:
    """Take a job of the API away."""
    if not visit.confirmed:
        says = f"{job} will fire no more. Its runs go on and its history stays; a job of the same name is a new one."
        return visit.confirm(f"Delete {job}?", says=says, button="Delete", back=_page(job), detail=_hit(visit, job))
    apply.delete(visit.desk.store, job, now=visit.now)
    visit.desk.wake()
    return visit.done(f"{job} is deleted", back=LIST)


def _hit(visit: PageContext, job: str) -> tuple[str, ...]:
    """Return what an end of a job leaves behind: its unfinished runs."""
    view = jobs.show_job(visit.desk.store, job)
    started = [run.handle for run in view.unfinished if run.started_at is not None]
    queued = len(view.unfinished) - len(started)
    told = [f"running now: {', '.join(started[:5])}"] if started else []
    return (*told, *([f"in the queue: {counted(queued, 'run')}"] if queued else []))


def _page(job: str) -> str:
    return f"{LIST}/{segment(job)}"


LIKE = "-2"
KINDS = (("command", "A program"), ("shell", "A text for the shell"), ("prompt", "A task for an agent"))
EXAMPLES = ("every 15m", "weekdays at 9:30", "0 8 * * mon-fri", "last friday at 17:00", "tomorrow at 9:00")
Name = Annotated[str, Query(max_length=400)]


@dataclass(frozen=True, slots=True)
class NewJobView:
    """The form, and what it means so far; `changing` is the job that it replaces, `told`: whether it was checked."""

    draft: edit.Draft
    checked: edit.CheckedDraft
    changing: str
    told: bool
    kinds: tuple[tuple[str, str], ...] = KINDS
    examples: tuple[str, ...] = EXAMPLES


@pages.show("/ui/new", scope=Scope.ADMIN)
def show_new_job(visit: VisitOf, change: Name = "", like: Name = "") -> Response:
    """Show the form of a job: empty, as a stored job has it, or as a copy of one."""
    shop, replacing = _shop(visit), _changed(visit, change)
    draft = edit.Draft()
    if replacing is not None:
        draft = edit.draft_of(shop, replacing, name=replacing.name)
    elif like:
        found = visit.desk.store.read(lambda db: jobs.find_job(db, like))
        if not edit.may_copy(found):
            raise InvalidValue(f"{found.name!r} is a {found.spec.work.kind}", hint="declare one like it in rota.yaml")
        draft = edit.draft_of(shop, found, name=f"{found.name.replace('/', '-')}{LIKE}")
    checked = edit.check_draft(shop, draft, now=visit.now, replacing=replacing)
    return _form(visit, checked, replacing, told=False)


@pages.on("POST", "/ui/new", scope=Scope.ADMIN, answer=str, media=HTML, shown=False)
def create_job_here(visit: VisitOf) -> Response:
    """Store the job that the form describes, or tell what is wrong with it; with `check` only tell."""
    draft, replacing = edit.draft_from(visit.form), _changed(visit, visit.form.get("changing", ""))
    checked = edit.check_draft(_shop(visit), draft, now=visit.now, replacing=replacing)
    if "check" in visit.form or checked.troubles:
        return _form(visit, checked, replacing, told=True, status=200 if "check" in visit.form else 422)
    try:
        view = edit.save_draft(_shop(visit), checked, now=visit.now, new=replacing is None)
    except RotaError as error:  # somebody was faster, or the database says no
        refused = replace(checked, troubles=(edit.DraftProblem("", error.message, error.hint or ""),))
        return _form(visit, refused, replacing, told=True, status=422)
    visit.desk.wake()
    done = "is changed" if replacing is not None else "is made"
    return visit.done(f"{view.job.name} {done}: {checked.reading}", back=f"/ui/jobs/{segment(view.job.name)}")


@pages.on("POST", "/ui/new/check", scope=Scope.ADMIN, answer=str, media=HTML, shown=False)
def check_job_here(visit: VisitOf) -> Response:
    """Tell what a form means and what is wrong with it, as the part of the page that shows it."""
    draft, replacing = edit.draft_from(visit.form), _changed(visit, visit.form.get("changing", ""))
    checked = edit.check_draft(_shop(visit), draft, now=visit.now, replacing=replacing)
    view = NewJobView(draft, checked, replacing.name if replacing else "", told=True)
    return Response(render("_new_job_meaning.html", {"visit": visit, "view": view}), media_type=HTML)


def _form(
    visit: PageContext, checked: edit.CheckedDraft, replacing: Job | None, *, told: bool, status: int = 200
) -> Response:
    view = NewJobView(checked.draft, checked, replacing.name if replacing else "", told=told)
    title = f"Change {replacing.name}" if replacing is not None else "New job"
    return visit.show("new_job.html", view, title=title, section="jobs", status=status)


def _changed(visit: PageContext, name: str) -> Job | None:
    """Return the job that is changed, None for a new one; one that a file declares is changed there."""
    if not name:
        return None
    job = visit.desk.store.read(lambda db: jobs.find_job(db, name))
    if not edit.may_change(job):
        hint = "change it where it is declared; `Duplicate` creates a copy"
        raise InvalidValue(f"job {job.name!r} was not made here", hint=hint)
    return job


def _shop(visit: PageContext) -> edit.DraftValidator:
    context = visit.desk.context
    return edit.DraftValidator(visit.desk.store, context.folder, context.state, context.environ)
