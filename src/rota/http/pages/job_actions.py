"""What is done with a job from its page or the list: run, pause, resume, enable, disable, delete."""

from starlette.responses import Response

from rota.http.pages.routing import Pages
from rota.http.pages.typed import given_params, pause_end
from rota.http.pages.visit import Visit, VisitOf
from rota.http.routes.names import JobName, segment
from rota.operations import api_jobs
from rota.operations.access import Scope
from rota.operations.jobs import show_job
from rota.operations.pauses import pauses
from rota.operations.pausing import Chosen, pause, resume
from rota.operations.starting import trigger
from rota.operations.words import counted, pause_words

pages = Pages()
LIST = "/ui/jobs"


@pages.act("/ui/jobs/{job}/run", back=LIST)
def run_job(visit: VisitOf, job: JobName) -> Response:
    """Start a job now, with the params that were typed."""
    shown = show_job(visit.desk.store, job).job.spec.work.params
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
    told = pause(visit.desk.store, Chosen(names=(job,)), until=until, reason=reason, now=visit.now)
    visit.desk.tell_pauses()
    running = f"; {', '.join(told.running)} left to finish" if told.running else ""
    return visit.done(
        f"{job} is paused{pause_words(until, reason, zone=visit.zone, now=visit.now)}{running}", back=_page(job)
    )


def _ask_pause(visit: Visit, job: str) -> Response:
    found = show_job(visit.desk.store, job).job
    view = {"job": found, "back": visit.safe_back(_page(job)), "path": f"{_page(job)}/pause"}
    return visit.show("job_pause.html", view, title=f"Pause {job}", section="jobs")


@pages.act("/ui/jobs/{job}/resume", back=LIST)
def resume_one_job(visit: VisitOf, job: JobName) -> Response:
    """Let a paused job go."""
    catch_up = visit.form.get("catch_up") == "once"
    ended = resume(visit.desk.store, Chosen(names=(job,)), catch_up=catch_up, now=visit.now)
    visit.desk.tell_pauses()
    counts = [one.count for one in ended if one.count]
    skipped = f"; {counted(counts[0], 'instant')} in the pause skipped" if counts else ""
    caught = next((f"; {one.caught_up.handle} makes up for them" for one in ended if one.caught_up), "")
    return visit.done(f"{job} is resumed{skipped}{caught}" if ended else f"{job} was not paused", back=_page(job))


@pages.act("/ui/jobs/{job}/enable", back=LIST, scope=Scope.ADMIN)
def enable_one_job(visit: VisitOf, job: JobName) -> Response:
    """Let a job of the API fire again."""
    api_jobs.enable(visit.desk.store, job, enabled=True, now=visit.now)
    visit.desk.wake()
    return visit.done(f"{job} is enabled", back=_page(job))


@pages.act("/ui/jobs/{job}/disable", back=LIST, scope=Scope.ADMIN)
def disable_one_job(visit: VisitOf, job: JobName) -> Response:
    """Let a job of the API neither fire nor be started."""
    if not visit.confirmed:
        says = f"{job} will neither fire nor be started until it is enabled again. What runs or is queued goes on."
        return visit.confirm(f"Disable {job}?", says=says, button="Disable", back=_page(job), detail=_hit(visit, job))
    api_jobs.enable(visit.desk.store, job, enabled=False, now=visit.now)
    visit.desk.wake()
    return visit.done(f"{job} is disabled", back=_page(job))


@pages.act("/ui/jobs/{job}/delete", back=LIST, scope=Scope.ADMIN)
def delete_one_job(visit: VisitOf, job: JobName) -> Response:
    """Take a job of the API away."""
    if not visit.confirmed:
        says = f"{job} will fire no more. Its runs go on and its history stays; a job of the same name is a new one."
        return visit.confirm(f"Delete {job}?", says=says, button="Delete", back=_page(job), detail=_hit(visit, job))
    api_jobs.delete(visit.desk.store, job, now=visit.now)
    visit.desk.wake()
    return visit.done(f"{job} is deleted", back=LIST)


def _hit(visit: Visit, job: str) -> tuple[str, ...]:
    """Return what an end of a job leaves behind: its unfinished runs."""
    view = show_job(visit.desk.store, job)
    started = [run.handle for run in view.unfinished if run.started_at is not None]
    queued = len(view.unfinished) - len(started)
    told = [f"running now: {', '.join(started[:5])}"] if started else []
    return (*told, *([f"in the queue: {counted(queued, 'run')}"] if queued else []))


def _page(job: str) -> str:
    return f"{LIST}/{segment(job)}"
