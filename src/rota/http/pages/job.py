"""One job: how it stands, when it fires, how it went, why, what it is, and what it was."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from rota.http.pages.history_chart import SLOTS, Chart, draw_history
from rota.http.pages.jobs import PATH, summary_of
from rota.http.pages.routing import Pages
from rota.http.pages.typed import ParamField, param_fields
from rota.http.pages.visit import Visit, VisitOf
from rota.http.routes.names import JobName, segment
from rota.model.records import Job, Run
from rota.model.spec import Kind
from rota.operations.declaring import FILE
from rota.operations.drafting import may_change, may_copy
from rota.operations.explaining import Explanation, explain
from rota.operations.exporting import Exported, export_jobs
from rota.operations.jobs import JobView, show_job
from rota.operations.pauses import pauses
from rota.operations.project import Place
from rota.operations.spec_words import spec_pairs
from rota.operations.versions import Versions, list_versions
from rota.operations.words import next_words, pause_words
from rota.rules.coming import Fire, fires_to_come, overdue_fire
from rota.rules.instants import explain_schedule
from rota.rules.making_words import say_made
from rota.store import finding

pages = Pages()
FIRES = 10
HISTORY = SLOTS
RUNS = 10
VERSIONS = 5
MORE_VERSIONS = 50


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group, and where it is shown."""

    name: str
    path: str
    always: bool


class JobPage:
    """The page of a job; each part of it is looked at when it is shown, so that a part alone costs only its own."""

    def __init__(self, visit: Visit, view: JobView, *, versions: int) -> None:
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
        self.changeable = living and may_change(view.job)
        self.copyable = visit.may_admin and may_copy(view.job)
        self.deletable = living and not self.file

    @cached_property
    def fires(self) -> Sequence[Fire]:
        """When it fires next; what is overdue stands apart."""
        return fires_to_come(self.job, n=FIRES, now=self._visit.now)

    @cached_property
    def overdue(self) -> Fire | None:
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
        return self._store.read(lambda db: finding.newest_runs(db, self.job.id, limit=HISTORY))

    @cached_property
    def runs(self) -> Sequence[Run]:
        """Those that are listed."""
        return self.newest[:RUNS]

    @cached_property
    def chart(self) -> Chart:
        """How they went."""
        return draw_history(self.newest, zone=self._visit.zone, now=self._visit.now)

    @cached_property
    def why(self) -> Explanation:
        """Why it is where it is."""
        return explain(self._store, self.job.name, state=self._visit.desk.state, now=self._visit.now)

    @cached_property
    def pairs(self) -> Sequence[tuple[str, str]]:
        """What it is, in the words of the file."""
        return tuple(spec_pairs(self.job.spec))

    @cached_property
    def members(self) -> Sequence[Member]:
        """The members of a group."""
        return [Member(one.job, f"{PATH}/{segment(one.job)}", one.always) for one in self.job.spec.work.members]

    @cached_property
    def params(self) -> Sequence[ParamField]:
        """The fields of the params with which it may be run."""
        return param_fields(self.job.spec.work.params)

    @cached_property
    def versions(self) -> Versions:
        """What it was before."""
        return list_versions(self._store, self.job.name, limit=self._versions)

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
        place = Place(context.folder, context.state)
        return export_jobs(self._store, [self.job.name], place=place, home=context.environ.get("HOME", ""))


@pages.show("/ui/jobs/{job}")
def show_one_job(
    visit: VisitOf,
    job: JobName,
    versions: Annotated[int, Query(ge=1, le=MORE_VERSIONS)] = VERSIONS,
) -> Response:
    """Show a job."""
    found = show_job(visit.desk.store, job)
    return visit.show("job.html", JobPage(visit, found, versions=versions), title=found.job.name, section="jobs")


def _source(job: Job) -> str:
    if job.source.startswith(FILE):
        return os.path.basename(job.source.removeprefix(FILE))
    return {"api": "the API", "python": "Python code"}.get(job.source, job.source)
