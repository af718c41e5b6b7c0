"""The page that edits a job in its file: its lines, a live check, the difference, and the write."""

from starlette.responses import Response

from rota.http.context import JobName, segment
from rota.http.pages.page import HTML, PageContext, Pages, View, VisitOf, render
from rota.model.errors import Problem, RotaError
from rota.model.records import Job
from rota.operations import jobs
from rota.operations.admin.access import Scope
from rota.operations.project.job_file import EditedJob, FileEditor, check_job, open_job, save_job

pages = Pages()
MOST_PROBLEMS = 20
MOST_LINES = 400
"""The lines of a difference that a page shows."""


@pages.show("/ui/jobs/{job}/file", scope=Scope.ADMIN)
def show_job_file(visit: VisitOf, job: JobName) -> Response:
    """Show the lines of a job in its file, to edit them."""
    found = jobs.show_job(visit.ctx.store, job).job
    return _form(visit, found, open_job(_editor(visit), found), told=False)


@pages.on("POST", "/ui/jobs/{job}/file", scope=Scope.ADMIN, answer=str, media=HTML, shown=False)
def save_job_file(visit: VisitOf, job: JobName) -> Response:
    """Write the lines whose difference the page showed; else show the difference, or the problems."""
    found = jobs.show_job(visit.ctx.store, job).job
    checked = _checked(visit, found)
    seen = bool(checked.shown) and visit.form.get("seen", "") == checked.shown
    if "check" in visit.form or not seen:
        status = 422 if checked.problems and "check" not in visit.form else 200
        return _form(visit, found, checked, told=True, status=status)
    try:
        held = save_job(_editor(visit), checked, now=visit.now)
    except RotaError as error:  # the file changed meanwhile, or cannot be written
        problem = Problem(error.message, error.code, hint=error.hint or "")
        refused = EditedJob(checked.place, checked.digest, checked.text, (problem,))
        return _form(visit, found, refused, told=True, status=409)
    visit.ctx.wake()
    applied = held or "a running scheduler applies it by itself; else: `rota apply`"
    return visit.done(f"{found.name} is saved in {checked.place.words}", back=_path(found), hint=applied)


@pages.on("POST", "/ui/jobs/{job}/file/check", scope=Scope.ADMIN, answer=str, media=HTML, shown=False)
def check_job_file(visit: VisitOf, job: JobName) -> Response:
    """Return the part of the page that shows the difference and the problems."""
    found = jobs.show_job(visit.ctx.store, job).job
    values = {"visit": visit, "view": _view(found, _checked(visit, found), told=True)}
    return Response(render("_job_file_meaning.html", values), media_type=HTML)


def _checked(visit: PageContext, job: Job) -> EditedJob:
    text, digest = visit.form.get("text", ""), visit.form.get("digest", "")
    return check_job(_editor(visit), job, text, digest, now=visit.now)


def _view(job: Job, edited: EditedJob, *, told: bool) -> View:
    return {
        "job": job,
        "path": _path(job),
        "edited": edited,
        "told": told,
        "problems": edited.problems[:MOST_PROBLEMS],
        "more": max(len(edited.problems) - MOST_PROBLEMS, 0),
        "diff": [_diff_line(line) for line in edited.diff[:MOST_LINES]],
        "cut": len(edited.diff) > MOST_LINES,
        "rows": min(max(edited.text.count("\n") + 3, 10), 40),
    }


def _diff_line(line: str) -> View:
    kind = {"+": "added", "-": "removed", "@": "place"}.get(line[:1], "same")
    return {"kind": kind, "text": line}


def _form(visit: PageContext, job: Job, edited: EditedJob, *, told: bool, status: int = 200) -> Response:
    view = _view(job, edited, told=told)
    return visit.show("job_file.html", view, title=f"Edit {job.name}", section="jobs", status=status)


def _path(job: Job) -> str:
    return f"/ui/jobs/{segment(job.name)}"


def _editor(visit: PageContext) -> FileEditor:
    context = visit.ctx.context
    return FileEditor(visit.ctx.store, context.folder, context.state, context.environ)
