"""A new job, or a change of one that was made here: told what it means and what is wrong while it is written."""

from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from rota.http.pages.rendering import render
from rota.http.pages.routing import HTML, Pages
from rota.http.pages.visit import Visit, VisitOf
from rota.http.routes.names import segment
from rota.model.errors import InvalidValue, RotaError
from rota.model.records import Job
from rota.operations.access import Scope
from rota.operations.drafting import (
    Checked,
    Draft,
    Trouble,
    Workshop,
    check_draft,
    draft_from,
    draft_of,
    may_change,
    may_copy,
    save_draft,
)
from rota.operations.jobs import find_job

pages = Pages()
PATH = "/ui/new"
LIKE = "-2"
KINDS = (("command", "A program"), ("shell", "A text for the shell"), ("prompt", "A task for an agent"))
EXAMPLES = ("every 15m", "weekdays at 9:30", "0 8 * * mon-fri", "last friday at 17:00", "tomorrow at 9:00")
Name = Annotated[str, Query(max_length=400)]


@dataclass(frozen=True, slots=True)
class NewJobView:
    """The form, and what it means so far; `changing` is the job that it replaces, `told`: whether it was checked."""

    draft: Draft
    checked: Checked
    changing: str
    told: bool
    kinds: tuple[tuple[str, str], ...] = KINDS
    examples: tuple[str, ...] = EXAMPLES


@pages.show("/ui/new", scope=Scope.ADMIN)
def show_new_job(visit: VisitOf, change: Name = "", like: Name = "") -> Response:
    """Show the form of a job: empty, as a stored job has it, or as a copy of one."""
    shop, replacing = _shop(visit), _changed(visit, change)
    draft = Draft()
    if replacing is not None:
        draft = draft_of(shop, replacing, name=replacing.name)
    elif like:
        found = visit.desk.store.read(lambda db: find_job(db, like))
        if not may_copy(found):
            raise InvalidValue(f"{found.name!r} is a {found.spec.work.kind}", hint="declare one like it in rota.yaml")
        draft = draft_of(shop, found, name=f"{found.name.replace('/', '-')}{LIKE}")
    checked = check_draft(shop, draft, now=visit.now, replacing=replacing)
    return _form(visit, checked, replacing, told=False)


@pages.on("POST", "/ui/new", scope=Scope.ADMIN, answer=str, media=HTML, shown=False)
def create_job_here(visit: VisitOf) -> Response:
    """Store the job that the form describes, or tell what is wrong with it; with `check` only tell."""
    draft, replacing = draft_from(visit.form), _changed(visit, visit.form.get("changing", ""))
    checked = check_draft(_shop(visit), draft, now=visit.now, replacing=replacing)
    if "check" in visit.form or checked.troubles:
        return _form(visit, checked, replacing, told=True, status=200 if "check" in visit.form else 422)
    try:
        view = save_draft(_shop(visit), checked, now=visit.now, new=replacing is None)
    except RotaError as error:  # somebody was faster, or the database says no
        refused = replace(checked, troubles=(Trouble("", error.message, error.hint or ""),))
        return _form(visit, refused, replacing, told=True, status=422)
    visit.desk.wake()
    done = "is changed" if replacing is not None else "is made"
    return visit.done(f"{view.job.name} {done}: {checked.reading}", back=f"/ui/jobs/{segment(view.job.name)}")


@pages.on("POST", "/ui/new/check", scope=Scope.ADMIN, answer=str, media=HTML, shown=False)
def check_job_here(visit: VisitOf) -> Response:
    """Tell what a form means and what is wrong with it, as the part of the page that shows it."""
    draft, replacing = draft_from(visit.form), _changed(visit, visit.form.get("changing", ""))
    checked = check_draft(_shop(visit), draft, now=visit.now, replacing=replacing)
    view = NewJobView(draft, checked, replacing.name if replacing else "", told=True)
    return Response(render("_new_job_meaning.html", {"visit": visit, "view": view}), media_type=HTML)


def _form(visit: Visit, checked: Checked, replacing: Job | None, *, told: bool, status: int = 200) -> Response:
    view = NewJobView(checked.draft, checked, replacing.name if replacing else "", told=told)
    title = f"Change {replacing.name}" if replacing is not None else "New job"
    return visit.show("new_job.html", view, title=title, section="jobs", status=status)


def _changed(visit: Visit, name: str) -> Job | None:
    """Return the job that is changed, None for a new one; one that a file declares is changed there."""
    if not name:
        return None
    job = visit.desk.store.read(lambda db: find_job(db, name))
    if not may_change(job):
        hint = "change it where it is declared; `Make one like it` begins a copy"
        raise InvalidValue(f"job {job.name!r} was not made here", hint=hint)
    return job


def _shop(visit: Visit) -> Workshop:
    context = visit.desk.context
    return Workshop(visit.desk.store, context.folder, context.state, context.environ)
