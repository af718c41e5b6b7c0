"""The pages that change jobs: the form of a new one, and the lines of a job in its file, each with a live check."""

from typing import Annotated

from fastapi import Query
from msgspec.structs import replace
from starlette.responses import Response

from rota.http.context import JobName, segment
from rota.http.pages.page import HTML, PageContext, Pages, View, VisitOf, render
from rota.model.errors import InvalidValue, Problem, RotaError
from rota.model.records import Job
from rota.operations import jobs
from rota.operations.admin.access import Scope
from rota.operations.project import edit
from rota.operations.project.job_file import EditedJob, FileEditor, check_job, open_job, save_job

pages = Pages()
PATH = "/ui/jobs"
COPY_SUFFIX = "-2"
KINDS = (("command", "A program"), ("shell", "A shell script"), ("prompt", "A task for an agent"))
EXAMPLES = ("every 15m", "weekdays at 9:30", "0 8 * * mon-fri", "last friday at 17:00", "tomorrow at 9:00")
Name = Annotated[str, Query(max_length=400)]


@pages.show("/ui/new", scope=Scope.ADMIN)
def show_new_job(visit: VisitOf, change: Name = "", like: Name = "") -> Response:
    """Show the form of a job: empty, or filled from a job to change or to copy."""
    validator, replacing = _validator(visit), _changed(visit, change)
    draft = edit.Draft()
    if replacing is not None:
        draft = edit.draft_of(validator, replacing, name=replacing.name)
    elif like:
        job = visit.ctx.store.read(lambda db: jobs.find_job(db, like))
        if not edit.may_copy(job):
            raise InvalidValue(f"{job.name!r} is a {job.spec.work.kind}", hint="declare one like it in rota.yaml")
        draft = edit.draft_of(validator, job, name=f"{job.name.replace('/', '-')}{COPY_SUFFIX}")
    checked = edit.check_draft(validator, draft, now=visit.now, replacing=replacing)
    return _form(visit, checked, replacing, told=False)


@pages.on("POST", "/ui/new", scope=Scope.ADMIN, answer=str, media=HTML, shown=False)
def create_job_here(visit: VisitOf) -> Response:
    """Store the job of the form, or show its problems; with `check` only show them."""
    checked, replacing = _checked(visit)
    if "check" in visit.form or checked.troubles:
        return _form(visit, checked, replacing, told=True, status=200 if "check" in visit.form else 422)
    try:
        view = edit.save_draft(_validator(visit), checked, now=visit.now, new=replacing is None)
    except RotaError as error:  # another change came first, or the database refused
        refused = replace(checked, troubles=(edit.DraftProblem("", error.message, error.hint or ""),))
        return _form(visit, refused, replacing, told=True, status=422)
    visit.ctx.wake()
    done = "is changed" if replacing is not None else "is created"
    return visit.done(f"{view.job.name} {done}: {checked.reading}", back=_page(view.job.name))


@pages.on("POST", "/ui/new/check", scope=Scope.ADMIN, answer=str, media=HTML, shown=False)
def check_job_here(visit: VisitOf) -> Response:
    """Return the part of the page that shows the meaning of a form and its problems."""
    checked, replacing = _checked(visit)
    values = {"visit": visit, "view": _form_view(checked, replacing, told=True)}
    return Response(render("_new_job_meaning.html", values), media_type=HTML)


def _checked(visit: PageContext) -> tuple[edit.CheckedDraft, Job | None]:
    draft, replacing = edit.draft_from(visit.form), _changed(visit, visit.form.get("changing", ""))
    return edit.check_draft(_validator(visit), draft, now=visit.now, replacing=replacing), replacing


def _form_view(checked: edit.CheckedDraft, replacing: Job | None, *, told: bool) -> View:
    changing = replacing.name if replacing else ""
    common = {"kinds": KINDS, "examples": EXAMPLES}
    return {"draft": checked.draft, "checked": checked, "changing": changing, "told": told, **common}


def _form(
    visit: PageContext, checked: edit.CheckedDraft, replacing: Job | None, *, told: bool, status: int = 200
) -> Response:
    view = _form_view(checked, replacing, told=told)
    title = f"Change {replacing.name}" if replacing is not None else "New job"
    return visit.show("new_job.html", view, title=title, section="jobs", status=status)


def _changed(visit: PageContext, name: str) -> Job | None:
    """Return the job to change, None for a new one; a job of the file is refused."""
    if not name:
        return None
    job = visit.ctx.store.read(lambda db: jobs.find_job(db, name))
    if not edit.may_change(job):
        hint = "change it where it is declared; `Duplicate` creates a copy"
        raise InvalidValue(f"job {job.name!r} was not created here", hint=hint)
    return job


def _validator(visit: PageContext) -> edit.DraftValidator:
    context = visit.ctx.context
    return edit.DraftValidator(visit.ctx.store, context.folder, context.state, context.environ)


MOST_PROBLEMS = 20
MOST_LINES = 400
"""The lines of a difference that a page shows."""
KINDS_OF_LINES = {"+": "added", "-": "removed", "@": "place"}


@pages.show("/ui/jobs/{job}/file", scope=Scope.ADMIN)
def show_job_file(visit: VisitOf, job: JobName) -> Response:
    """Show the lines of a job in its file, to edit them."""
    found = jobs.show_job(visit.ctx.store, job).job
    return _lines_form(visit, found, open_job(_editor(visit), found), told=False)


@pages.on("POST", "/ui/jobs/{job}/file", scope=Scope.ADMIN, answer=str, media=HTML, shown=False)
def save_job_file(visit: VisitOf, job: JobName) -> Response:
    """Write the lines whose difference the page showed; else show the difference, or the problems."""
    found = jobs.show_job(visit.ctx.store, job).job
    checked = _checked_lines(visit, found)
    seen = bool(checked.shown) and visit.form.get("seen", "") == checked.shown
    if "check" in visit.form or not seen:
        status = 422 if checked.problems and "check" not in visit.form else 200
        return _lines_form(visit, found, checked, told=True, status=status)
    try:
        held = save_job(_editor(visit), checked, now=visit.now)
    except RotaError as error:  # the file changed meanwhile, or cannot be written
        problem = Problem(error.message, error.code, hint=error.hint or "")
        refused = EditedJob(checked.place, checked.digest, checked.text, (problem,))
        return _lines_form(visit, found, refused, told=True, status=409)
    visit.ctx.wake()
    applied = held or "a running scheduler applies it by itself; else: `rota apply`"
    return visit.done(f"{found.name} is saved in {checked.place.words}", back=_page(found.name), hint=applied)


@pages.on("POST", "/ui/jobs/{job}/file/check", scope=Scope.ADMIN, answer=str, media=HTML, shown=False)
def check_job_file(visit: VisitOf, job: JobName) -> Response:
    """Return the part of the page that shows the difference and the problems."""
    found = jobs.show_job(visit.ctx.store, job).job
    values = {"visit": visit, "view": _lines_view(found, _checked_lines(visit, found), told=True)}
    return Response(render("_job_file_meaning.html", values), media_type=HTML)


def _checked_lines(visit: PageContext, job: Job) -> EditedJob:
    text, digest = visit.form.get("text", ""), visit.form.get("digest", "")
    return check_job(_editor(visit), job, text, digest, now=visit.now)


def _lines_view(job: Job, edited: EditedJob, *, told: bool) -> View:
    return {
        "job": job,
        "path": _page(job.name),
        "edited": edited,
        "told": told,
        "problems": edited.problems[:MOST_PROBLEMS],
        "more": max(len(edited.problems) - MOST_PROBLEMS, 0),
        "diff": [{"kind": KINDS_OF_LINES.get(line[:1], "same"), "text": line} for line in edited.diff[:MOST_LINES]],
        "cut": len(edited.diff) > MOST_LINES,
        "rows": min(max(edited.text.count("\n") + 3, 10), 40),
    }


def _lines_form(visit: PageContext, job: Job, edited: EditedJob, *, told: bool, status: int = 200) -> Response:
    view = _lines_view(job, edited, told=told)
    return visit.show("job_file.html", view, title=f"Edit {job.name}", section="jobs", status=status)


def _editor(visit: PageContext) -> FileEditor:
    context = visit.ctx.context
    return FileEditor(visit.ctx.store, context.folder, context.state, context.environ)


def _page(job: str) -> str:
    return f"{PATH}/{segment(job)}"
