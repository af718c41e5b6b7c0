"""Routes of jobs, and their deprecated aliases."""

from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any

from fastapi import Body, Query
from starlette.responses import Response

from rota.http import schemas
from rota.http.api import runs
from rota.http.context import (
    NEW_JOB,
    DeskOf,
    FilterWord,
    JobName,
    NewJobName,
    RequestContext,
    Routes,
    RunName,
    StatusWord,
    answer,
    coming,
    instant,
    page,
)
from rota.model.errors import InvalidValue
from rota.model.serialize import RunJson, run_json
from rota.operations.admin.access import Scope
from rota.operations.bulk import Range, backfill, backfilled_json, paused_json, resumed_json, trigger_many
from rota.operations.explain import ExplanationJson, explain, explanation_json
from rota.operations.jobs import JobView, job_data, list_jobs, show_job
from rota.operations.pause import JobSelection, pause, resume
from rota.operations.project import apply
from rota.operations.proposals import refuse_start
from rota.operations.run_actions import trigger
from rota.operations.runs import Query as RunQuery
from rota.operations.runs import page_of_runs, show_run
from rota.operations.views import WholeJobJson, fires_json, job_json, pauses, whole_job_json

jobs_routes = Routes("jobs")
JobBody = Annotated[
    dict[str, Any], Body(description="The keys of a job in rota.yaml.", examples=[{"command": ["echo", "hello"]}])
]
NamedJobBody = Annotated[
    dict[str, Any],
    Body(
        description="The keys of a job in rota.yaml, and its name.",
        examples=[{"name": "hello", "command": ["echo", "hello"]}],
        json_schema_extra={"required": ["name"], "properties": {"name": {"type": "string", "pattern": NEW_JOB}}},
    ),
]
TRIED: dict[int | str, dict[str, Any]] = {
    200: {"description": "A dry run: the job would be started.", "model": schemas.DryStart}
}
Dry = Annotated[bool, Query(description="Tell what would happen; change nothing.")]


@jobs_routes.on("GET", "/jobs", scope=Scope.READ, answer=schemas.JobPage)
def get_jobs(
    desk: DeskOf,
    label: Annotated[
        list[FilterWord] | None, Query(max_length=100, description="Only jobs that carry all of these.")
    ] = None,
    retired: Annotated[bool, Query(description="Also retired jobs.")] = False,  # noqa: FBT002
) -> Response:
    """List the jobs, by name."""
    views = list_jobs(desk.store, labels=label or (), retired=retired)
    return answer(page([job_json(view) for view in views], following=None))


@jobs_routes.on("POST", "/jobs", scope=Scope.ADMIN, answer=schemas.MadeJob, status=201)
def create_job(desk: DeskOf, body: NamedJobBody, dry_run: Dry = False) -> Response:  # noqa: FBT002
    """Make a job: the keys of rota.yaml, and its `name`."""
    keys = dict(body)
    name = keys.pop("name", None)
    if not isinstance(name, str):
        raise InvalidValue("the job has no name", hint='write it as `"name"` beside the other keys')
    view, _ = apply.put(desk.store, _read(desk, name, keys), new=True, now=desk.now, dry_run=dry_run)
    return _made(desk, view, new=True, dry_run=dry_run)


@jobs_routes.on("GET", "/jobs/{job}", scope=Scope.READ, answer=WholeJobJson)
def get_job(desk: DeskOf, job: JobName) -> Response:
    """Show a job with its definition."""
    view = show_job(desk.store, job)
    return answer(whole_job_json(view, data=job_data(desk.store, view.job.id)))


@jobs_routes.on(
    "PUT",
    "/jobs/{job}",
    scope=Scope.ADMIN,
    answer=schemas.MadeJob,
    also={201: {"description": "Made.", "model": schemas.MadeJob}},
)
def put_job(desk: DeskOf, job: NewJobName, body: JobBody, dry_run: Dry = False) -> Response:  # noqa: FBT002
    """Make a job, or replace the one of this name that was made through the API."""
    view, new = apply.put(desk.store, _read(desk, job, body), now=desk.now, dry_run=dry_run)
    return _made(desk, view, new=new, dry_run=dry_run)


@jobs_routes.on("DELETE", "/jobs/{job}", scope=Scope.ADMIN, answer=WholeJobJson)
def delete_job(desk: DeskOf, job: JobName, dry_run: Dry = False) -> Response:  # noqa: FBT002
    """Take a job away that was made through the API: it fires no more, its runs go on, its history stays."""
    return _changed(desk, apply.delete(desk.store, job, now=desk.now, dry_run=dry_run), dry_run=dry_run)


@jobs_routes.on("POST", "/jobs/{job}/enable", scope=Scope.ADMIN, answer=WholeJobJson)
def enable_job(desk: DeskOf, job: JobName, wish: schemas.OptionalDryRun) -> Response:
    """Let a job fire and be started that was made through the API."""
    return _enable(desk, job, wish, enabled=True)


@jobs_routes.on("POST", "/jobs/{job}/disable", scope=Scope.ADMIN, answer=WholeJobJson)
def disable_job(desk: DeskOf, job: JobName, wish: schemas.OptionalDryRun) -> Response:
    """Let a job neither fire nor be started that was made through the API."""
    return _enable(desk, job, wish, enabled=False)


@jobs_routes.on("POST", "/jobs/{job}/pause", scope=Scope.RUN, answer=schemas.Told)
def pause_job(desk: DeskOf, job: JobName, wish: schemas.OptionalPauseWish) -> Response:
    """Hold a job back: it does not fire until it is resumed, or until a time."""
    return answer(hold_back(desk, JobSelection(names=(job,)), wish))


@jobs_routes.on("POST", "/jobs/{job}/resume", scope=Scope.RUN, answer=schemas.Told)
def resume_job(desk: DeskOf, job: JobName, wish: schemas.OptionalResumeWish) -> Response:
    """Let a paused job go."""
    return answer(let_go(desk, JobSelection(names=(job,)), catch_up=wish.catch_up == "once", dry_run=wish.dry_run))


@jobs_routes.on("POST", "/jobs/{job}/trigger", scope=Scope.AGENT, answer=RunJson, status=202, also=TRIED)
def trigger_job(desk: DeskOf, job: JobName, wish: schemas.OptionalTriggerWish) -> Response:
    """Start a job now: the answer is its run in the queue."""
    if wish.dry_run:
        desk.store.read(partial(refuse_start, by=desk.maker, force=wish.force, now=desk.now))
        born = trigger_many(desk.store, job, [wish.params], now=desk.now, force=wish.force, dry_run=True)[0]
        return answer({"dry_run": True, "run": born.handle}, status=200)
    started = trigger(desk.store, job, params=wish.params, force=wish.force, by=desk.maker, now=desk.now)
    desk.wake()
    run = show_run(desk.store, started.id).run
    return answer(run_json(run), status=202, headers={"Location": desk.path(f"/runs/{run.id}")})


@jobs_routes.on("GET", "/jobs/{job}/runs", scope=Scope.READ, answer=schemas.RunPage)
def get_job_runs(
    desk: DeskOf,
    job: JobName,
    status: Annotated[list[StatusWord] | None, Query(max_length=20)] = None,
    cursor: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    """List the runs of a job, newest first."""
    found = page_of_runs(desk.store, RunQuery(job=job, statuses=tuple(status or ())), cursor=cursor, limit=limit)
    return answer(page([run_json(run) for run in found.runs], following=found.cursor))


@jobs_routes.on("POST", "/jobs/{job}/runs", scope=Scope.RUN, answer=schemas.Told, status=202)
def trigger_job_many(desk: DeskOf, job: JobName, wish: schemas.BulkWish) -> Response:
    """Start a job once for each of the params, all of them or none."""
    born = trigger_many(desk.store, job, wish.params, now=desk.now, force=wish.force, dry_run=wish.dry_run)
    if not wish.dry_run:
        desk.wake()
    runs = [{"id": one.id, "run": one.handle} for one in born]
    first, last = born[0].handle, born[-1].handle
    told = {"dry_run": wish.dry_run, "job": job, "count": len(born), "first": first, "last": last, "runs": runs}
    return answer(told, status=202)


@jobs_routes.on("GET", "/jobs/{job}/preview", scope=Scope.READ, answer=schemas.Preview)
def preview_job(desk: DeskOf, job: JobName, n: Annotated[int, Query(ge=1, le=500)] = 5) -> Response:
    """Show when a job fires next."""
    found = show_job(desk.store, job).job
    return answer({"job": found.name, "timezone": found.spec.schedule.timezone, "fires": fires_json(found, n=n)})


@jobs_routes.on("GET", "/jobs/{job}/explain", scope=Scope.READ, answer=ExplanationJson)
def explain_job(desk: DeskOf, job: JobName) -> Response:
    """Tell why a job did, did not, or will run."""
    return answer(explanation_json(explain(desk.store, job, state=desk.state, now=desk.now)))


@jobs_routes.on("POST", "/jobs/{job}/backfill", scope=Scope.RUN, answer=schemas.Told, status=202)
def backfill_job(desk: DeskOf, job: JobName, wish: schemas.BackfillWish) -> Response:
    """Create the runs of a past range."""
    wanted = Range(
        instant(wish.since, now=desk.now),
        instant(wish.until, now=desk.now),
        parallel=wish.parallel,
        only_missed=wish.only_missed,
    )
    done = backfill(desk.store, job, wanted, now=desk.now, dry_run=wish.dry_run)
    if not wish.dry_run:
        desk.wake()
    return answer(backfilled_json(done, parallel=wish.parallel, dry_run=wish.dry_run), status=202)


def hold_back(desk: RequestContext, chosen: JobSelection, wish: schemas.PauseWish) -> dict[str, Any]:
    """Pause jobs, or everything."""
    until = _end(wish, now=desk.now)
    told = pause(desk.store, chosen, until=until, reason=wish.reason, now=desk.now, dry_run=wish.dry_run)
    if not wish.dry_run:
        desk.tell_pauses()
    return paused_json(told, until=until, reason=wish.reason, everything=chosen.everything, dry_run=wish.dry_run)


def let_go(desk: RequestContext, chosen: JobSelection, *, catch_up: bool, dry_run: bool) -> dict[str, Any]:
    """End pauses."""
    before = pauses(desk.store).everything
    ended = resume(desk.store, chosen, catch_up=catch_up, now=desk.now, dry_run=dry_run)
    if not dry_run:
        desk.tell_pauses()
    return resumed_json(ended, None if chosen.everything else before, was=before, dry_run=dry_run)


def _end(wish: schemas.PauseWish, *, now: datetime) -> datetime | None:
    if wish.until is not None and wish.seconds is not None:
        raise InvalidValue("`until` and `seconds` do not go together", hint="name one of them")
    if wish.seconds is not None:
        return now + timedelta(seconds=wish.seconds)
    return None if wish.until is None else coming(wish.until, now=now)


def _read(desk: RequestContext, name: str, body: dict[str, Any]) -> Any:
    context = desk.context
    return apply.read_job(name, body, folder=context.folder, state=context.state, environ=context.environ)


def _enable(desk: RequestContext, job: str, wish: schemas.DryRun, *, enabled: bool) -> Response:
    dry_run = wish.dry_run
    view = apply.enable(desk.store, job, enabled=enabled, now=desk.now, dry_run=dry_run)
    return _changed(desk, view, dry_run=dry_run)


def _made(desk: RequestContext, view: JobView, *, new: bool, dry_run: bool) -> Response:
    context = desk.context
    notes = list(apply.notes_of(view, state=context.state, environ=context.environ, now=desk.now))
    return answer({**_told(desk, view, dry_run=dry_run), "notes": notes}, status=201 if new else 200)


def _changed(desk: RequestContext, view: JobView, *, dry_run: bool) -> Response:
    return answer(_told(desk, view, dry_run=dry_run))


def _told(desk: RequestContext, view: JobView, *, dry_run: bool) -> dict[str, Any]:
    if dry_run:
        return {"dry_run": True, **whole_job_json(view, data={})}
    desk.wake()
    return {**whole_job_json(view, data=job_data(desk.store, view.job.id))}


legacy_routes = Routes("legacy", prefix="")
SINCE = "@1794700800"
"""Since when these paths are deprecated (RFC 9745): 15 November 2026."""


def _instead(response: Response, desk: RequestContext, below: str) -> Response:
    response.headers["Deprecation"] = SINCE
    response.headers["Link"] = f'<{desk.path(below)}>; rel="successor-version"'
    return response


@legacy_routes.on("GET", "/jobs", scope=Scope.READ, answer=schemas.JobPage, deprecated=True)
def legacy_get_jobs(desk: DeskOf) -> Response:
    """List the jobs; use /api/v1/jobs."""
    return _instead(get_jobs(desk), desk, "/jobs")


@legacy_routes.on("GET", "/jobs/{job}", scope=Scope.READ, answer=WholeJobJson, deprecated=True)
def legacy_get_job(desk: DeskOf, job: JobName) -> Response:
    """Show a job; use /api/v1/jobs/{job}."""
    return _instead(get_job(desk, job), desk, f"/jobs/{job.replace('/', '~')}")


@legacy_routes.on(
    "POST",
    "/jobs/{job}/trigger",
    scope=Scope.AGENT,
    answer=RunJson,
    status=202,
    also=TRIED,
    deprecated=True,
)
def legacy_trigger_job(desk: DeskOf, job: JobName, wish: schemas.OptionalTriggerWish) -> Response:
    """Start a job; use /api/v1/jobs/{job}/trigger."""
    return _instead(trigger_job(desk, job, wish), desk, f"/jobs/{job.replace('/', '~')}/trigger")


@legacy_routes.on("GET", "/jobs/{job}/runs", scope=Scope.READ, answer=schemas.RunPage, deprecated=True)
def legacy_get_job_runs(desk: DeskOf, job: JobName) -> Response:
    """List the runs of a job; use /api/v1/jobs/{job}/runs."""
    return _instead(runs.get_runs(desk, job=job), desk, f"/jobs/{job.replace('/', '~')}/runs")


@legacy_routes.on("POST", "/jobs/{job}/pause", scope=Scope.RUN, answer=schemas.Told, deprecated=True)
def legacy_pause_job(desk: DeskOf, job: JobName, wish: schemas.OptionalPauseWish) -> Response:
    """Hold a job back; use /api/v1/jobs/{job}/pause."""
    return _instead(pause_job(desk, job, wish), desk, f"/jobs/{job.replace('/', '~')}/pause")


@legacy_routes.on("POST", "/jobs/{job}/resume", scope=Scope.RUN, answer=schemas.Told, deprecated=True)
def legacy_resume_job(desk: DeskOf, job: JobName, wish: schemas.OptionalResumeWish) -> Response:
    """Let a job go; use /api/v1/jobs/{job}/resume."""
    return _instead(resume_job(desk, job, wish), desk, f"/jobs/{job.replace('/', '~')}/resume")


@legacy_routes.on(
    "POST", "/api/job-runs/{run}/retry", scope=Scope.RUN, answer=schemas.RetriedRun, status=202, deprecated=True
)
def legacy_retry_run(desk: DeskOf, run: RunName, wish: schemas.OptionalRetryWish) -> Response:
    """Run a finished run again (002 DEC-007); use /api/v1/runs/{run}/retry."""
    response = runs.retry(desk, run, wish)
    return _instead(response, desk, f"/runs/{run.replace('/', '~')}/retry")
