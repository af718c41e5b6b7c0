"""Routes of jobs, and their deprecated aliases."""

from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import Body, Query
from starlette.responses import Response

from rota.http import schemas
from rota.http.api import runs
from rota.http.context import (
    NEW_JOB,
    Ctx,
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
from rota.operations.activity import pauses
from rota.operations.admin.access import Scope
from rota.operations.bulk import Range, backfill, backfilled_json, paused_json, resumed_json, trigger_many
from rota.operations.explain import ExplanationJson, explain, explanation_json
from rota.operations.jobs import JobView, job_data, list_jobs, show_job
from rota.operations.pause import JobSelection, pause, resume
from rota.operations.project import apply
from rota.operations.run_actions import refuse_start, trigger_operation
from rota.operations.runs import Query as RunQuery
from rota.operations.runs import find_run, page_of_runs
from rota.operations.views import WholeJobJson, fires_json, job_json, whole_job_json

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
Dry = Annotated[bool, Query(description="Dry run: return the effect, change nothing.")]


@jobs_routes.on("GET", "/jobs", scope=Scope.READ, answer=schemas.JobPage)
async def get_jobs(
    ctx: Ctx,
    label: Annotated[
        list[FilterWord] | None, Query(max_length=100, description="Only jobs with all of these labels.")
    ] = None,
    retired: Annotated[bool, Query(description="Also retired jobs.")] = False,  # noqa: FBT002
) -> Response:
    """List the jobs, by name."""
    return await _jobs(ctx, labels=tuple(label or ()), retired=retired)


async def _jobs(ctx: RequestContext, *, labels: tuple[str, ...] = (), retired: bool = False) -> Response:
    def look() -> dict[str, Any]:
        views = list_jobs(ctx.store, labels=labels, retired=retired)
        return page([job_json(view) for view in views], following=None)

    return Response(await ctx.shared(("jobs", labels, retired), look), media_type="application/json")


@jobs_routes.on("POST", "/jobs", scope=Scope.ADMIN, answer=schemas.MadeJob, status=201)
def create_job(ctx: Ctx, body: NamedJobBody, dry_run: Dry = False) -> Response:  # noqa: FBT002
    """Create a job from the keys of rota.yaml and its `name`."""
    keys = dict(body)
    name = keys.pop("name", None)
    if not isinstance(name, str):
        raise InvalidValue("the job has no name", hint='write it as `"name"` beside the other keys')
    view, _ = apply.put(ctx.store, _read(ctx, name, keys), new=True, now=ctx.now, dry_run=dry_run)
    return _made(ctx, view, new=True, dry_run=dry_run)


@jobs_routes.on("GET", "/jobs/{job}", scope=Scope.READ, answer=WholeJobJson)
def get_job(ctx: Ctx, job: JobName) -> Response:
    """Show a job with its definition."""
    view = show_job(ctx.store, job)
    return answer(whole_job_json(view, data=job_data(ctx.store, view.job.id)))


@jobs_routes.on(
    "PUT",
    "/jobs/{job}",
    scope=Scope.ADMIN,
    answer=schemas.MadeJob,
    also={201: {"description": "Made.", "model": schemas.MadeJob}},
)
def put_job(ctx: Ctx, job: NewJobName, body: JobBody, dry_run: Dry = False) -> Response:  # noqa: FBT002
    """Create a job, or replace the job of this name that was created through the API."""
    view, new = apply.put(ctx.store, _read(ctx, job, body), now=ctx.now, dry_run=dry_run)
    return _made(ctx, view, new=new, dry_run=dry_run)


@jobs_routes.on("DELETE", "/jobs/{job}", scope=Scope.ADMIN, answer=WholeJobJson)
def delete_job(ctx: Ctx, job: JobName, dry_run: Dry = False) -> Response:  # noqa: FBT002
    """Delete a job that was created through the API: it fires no more, its runs continue, its history stays."""
    return answer(_told(ctx, apply.delete(ctx.store, job, now=ctx.now, dry_run=dry_run), dry_run=dry_run))


@jobs_routes.on("POST", "/jobs/{job}/enable", scope=Scope.ADMIN, answer=WholeJobJson)
def enable_job(ctx: Ctx, job: JobName, wish: schemas.OptionalDryRun) -> Response:
    """Enable a job that was created through the API."""
    return _enable(ctx, job, wish, enabled=True)


@jobs_routes.on("POST", "/jobs/{job}/disable", scope=Scope.ADMIN, answer=WholeJobJson)
def disable_job(ctx: Ctx, job: JobName, wish: schemas.OptionalDryRun) -> Response:
    """Disable a job that was created through the API: it neither fires nor starts."""
    return _enable(ctx, job, wish, enabled=False)


@jobs_routes.on("POST", "/jobs/{job}/pause", scope=Scope.RUN, answer=schemas.Told)
def pause_job(ctx: Ctx, job: JobName, wish: schemas.OptionalPauseWish) -> Response:
    """Pause a job: it does not fire until it is resumed, or until a time."""
    return answer(pause_jobs(ctx, JobSelection(names=(job,)), wish))


@jobs_routes.on("POST", "/jobs/{job}/resume", scope=Scope.RUN, answer=schemas.Told)
def resume_job(ctx: Ctx, job: JobName, wish: schemas.OptionalResumeWish) -> Response:
    """End the pause of a job."""
    return answer(resume_jobs(ctx, JobSelection(names=(job,)), catch_up=wish.catch_up == "once", dry_run=wish.dry_run))


@jobs_routes.on("POST", "/jobs/{job}/trigger", scope=Scope.AGENT, answer=RunJson, status=202, also=TRIED)
async def trigger_job(ctx: Ctx, job: JobName, wish: schemas.OptionalTriggerWish) -> Response:
    """Start a job now; return its queued run."""
    return await _trigger(ctx, job, wish)


async def _trigger(ctx: RequestContext, job: str, wish: schemas.TriggerWish) -> Response:
    if wish.dry_run:
        return await run_sync(_try_trigger, ctx, job, wish)
    start = trigger_operation(job, params=wish.params, force=wish.force, by=ctx.maker, now=ctx.now)
    run = await ctx.write(lambda db: find_run(db, start(db).id))
    ctx.wake_once()
    return answer(run_json(run), status=202, headers={"Location": ctx.path(f"/runs/{run.id}")})


def _try_trigger(ctx: RequestContext, job: str, wish: schemas.TriggerWish) -> Response:
    ctx.store.read(partial(refuse_start, by=ctx.maker, force=wish.force, now=ctx.now))
    born = trigger_many(ctx.store, job, [wish.params], now=ctx.now, force=wish.force, dry_run=True)[0]
    return answer({"dry_run": True, "run": born.handle}, status=200)


@jobs_routes.on("GET", "/jobs/{job}/runs", scope=Scope.READ, answer=schemas.RunPage)
def get_job_runs(
    ctx: Ctx,
    job: JobName,
    status: Annotated[list[StatusWord] | None, Query(max_length=20)] = None,
    cursor: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    """List the runs of a job, newest first."""
    runs_page = page_of_runs(ctx.store, RunQuery(job=job, statuses=tuple(status or ())), cursor=cursor, limit=limit)
    return answer(page([run_json(run) for run in runs_page.runs], following=runs_page.cursor))


@jobs_routes.on("POST", "/jobs/{job}/runs", scope=Scope.RUN, answer=schemas.Told, status=202)
def trigger_job_many(ctx: Ctx, job: JobName, wish: schemas.BulkWish) -> Response:
    """Start a job once for each of the params, all of them or none."""
    born = trigger_many(ctx.store, job, wish.params, now=ctx.now, force=wish.force, dry_run=wish.dry_run)
    ctx.wake(dry_run=wish.dry_run)
    runs = [{"id": run.id, "run": run.handle} for run in born]
    first, last = born[0].handle, born[-1].handle
    result = {"dry_run": wish.dry_run, "job": job, "count": len(born), "first": first, "last": last, "runs": runs}
    return answer(result, status=202)


@jobs_routes.on("GET", "/jobs/{job}/preview", scope=Scope.READ, answer=schemas.Preview)
def preview_job(ctx: Ctx, job: JobName, n: Annotated[int, Query(ge=1, le=500)] = 5) -> Response:
    """Show the next fires of a job."""
    found = show_job(ctx.store, job).job
    return answer({"job": found.name, "timezone": found.spec.schedule.timezone, "fires": fires_json(found, n=n)})


@jobs_routes.on("GET", "/jobs/{job}/explain", scope=Scope.READ, answer=ExplanationJson)
def explain_job(ctx: Ctx, job: JobName) -> Response:
    """Explain why a job did, did not, or will run."""
    return answer(explanation_json(explain(ctx.store, job, state=ctx.state, now=ctx.now)))


@jobs_routes.on("POST", "/jobs/{job}/backfill", scope=Scope.RUN, answer=schemas.Told, status=202)
def backfill_job(ctx: Ctx, job: JobName, wish: schemas.BackfillWish) -> Response:
    """Create the runs of a past range."""
    wanted = Range(
        instant(wish.since, now=ctx.now),
        instant(wish.until, now=ctx.now),
        parallel=wish.parallel,
        only_missed=wish.only_missed,
    )
    done = backfill(ctx.store, job, wanted, now=ctx.now, dry_run=wish.dry_run)
    ctx.wake(dry_run=wish.dry_run)
    return answer(backfilled_json(done, parallel=wish.parallel, dry_run=wish.dry_run), status=202)


def pause_jobs(ctx: RequestContext, chosen: JobSelection, wish: schemas.PauseWish) -> dict[str, Any]:
    """Pause jobs, or everything."""
    until = _end(wish, now=ctx.now)
    result = pause(ctx.store, chosen, until=until, reason=wish.reason, now=ctx.now, dry_run=wish.dry_run)
    if not wish.dry_run:
        ctx.notify_pauses()
    return paused_json(result, until=until, reason=wish.reason, everything=chosen.everything, dry_run=wish.dry_run)


def resume_jobs(ctx: RequestContext, chosen: JobSelection, *, catch_up: bool, dry_run: bool) -> dict[str, Any]:
    """End pauses."""
    before = pauses(ctx.store).everything
    ended = resume(ctx.store, chosen, catch_up=catch_up, now=ctx.now, dry_run=dry_run)
    if not dry_run:
        ctx.notify_pauses()
    return resumed_json(ended, None if chosen.everything else before, was=before, dry_run=dry_run)


def _end(wish: schemas.PauseWish, *, now: datetime) -> datetime | None:
    if wish.until is not None and wish.seconds is not None:
        raise InvalidValue("`until` and `seconds` cannot be combined", hint="name one of them")
    if wish.seconds is not None:
        return now + timedelta(seconds=wish.seconds)
    return None if wish.until is None else coming(wish.until, now=now)


def _read(ctx: RequestContext, name: str, body: dict[str, Any]) -> Any:
    context = ctx.context
    return apply.read_job(name, body, folder=context.folder, state=context.state, environ=context.environ)


def _enable(ctx: RequestContext, job: str, wish: schemas.DryRun, *, enabled: bool) -> Response:
    view = apply.enable(ctx.store, job, enabled=enabled, now=ctx.now, dry_run=wish.dry_run)
    return answer(_told(ctx, view, dry_run=wish.dry_run))


def _made(ctx: RequestContext, view: JobView, *, new: bool, dry_run: bool) -> Response:
    context = ctx.context
    notes = list(apply.notes_of(view, state=context.state, environ=context.environ, now=ctx.now))
    return answer({**_told(ctx, view, dry_run=dry_run), "notes": notes}, status=201 if new else 200)


def _told(ctx: RequestContext, view: JobView, *, dry_run: bool) -> dict[str, Any]:
    if dry_run:
        return {"dry_run": True, **whole_job_json(view, data={})}
    ctx.wake()
    return {**whole_job_json(view, data=job_data(ctx.store, view.job.id))}


legacy_routes = Routes("legacy", prefix="")
SINCE = "@1794700800"
"""The date of deprecation (RFC 9745): 15 November 2026."""


def _instead(response: Response, ctx: RequestContext, below: str) -> Response:
    response.headers["Deprecation"] = SINCE
    response.headers["Link"] = f'<{ctx.path(below)}>; rel="successor-version"'
    return response


@legacy_routes.on("GET", "/jobs", scope=Scope.READ, answer=schemas.JobPage, deprecated=True)
async def legacy_get_jobs(ctx: Ctx) -> Response:
    """List the jobs; use /api/v1/jobs."""
    return _instead(await _jobs(ctx), ctx, "/jobs")


@legacy_routes.on("GET", "/jobs/{job}", scope=Scope.READ, answer=WholeJobJson, deprecated=True)
def legacy_get_job(ctx: Ctx, job: JobName) -> Response:
    """Show a job; use /api/v1/jobs/{job}."""
    return _instead(get_job(ctx, job), ctx, f"/jobs/{job.replace('/', '~')}")


@legacy_routes.on(
    "POST", "/jobs/{job}/trigger", scope=Scope.AGENT, answer=RunJson, status=202, also=TRIED, deprecated=True
)
async def legacy_trigger_job(ctx: Ctx, job: JobName, wish: schemas.OptionalTriggerWish) -> Response:
    """Start a job; use /api/v1/jobs/{job}/trigger."""
    return _instead(await _trigger(ctx, job, wish), ctx, f"/jobs/{job.replace('/', '~')}/trigger")


@legacy_routes.on("GET", "/jobs/{job}/runs", scope=Scope.READ, answer=schemas.RunPage, deprecated=True)
def legacy_get_job_runs(ctx: Ctx, job: JobName) -> Response:
    """List the runs of a job; use /api/v1/jobs/{job}/runs."""
    return _instead(runs.get_runs(ctx, job=job), ctx, f"/jobs/{job.replace('/', '~')}/runs")


@legacy_routes.on("POST", "/jobs/{job}/pause", scope=Scope.RUN, answer=schemas.Told, deprecated=True)
def legacy_pause_job(ctx: Ctx, job: JobName, wish: schemas.OptionalPauseWish) -> Response:
    """Pause a job; use /api/v1/jobs/{job}/pause."""
    return _instead(pause_job(ctx, job, wish), ctx, f"/jobs/{job.replace('/', '~')}/pause")


@legacy_routes.on("POST", "/jobs/{job}/resume", scope=Scope.RUN, answer=schemas.Told, deprecated=True)
def legacy_resume_job(ctx: Ctx, job: JobName, wish: schemas.OptionalResumeWish) -> Response:
    """End the pause of a job; use /api/v1/jobs/{job}/resume."""
    return _instead(resume_job(ctx, job, wish), ctx, f"/jobs/{job.replace('/', '~')}/resume")


@legacy_routes.on(
    "POST", "/api/job-runs/{run}/retry", scope=Scope.RUN, answer=schemas.RetriedRun, status=202, deprecated=True
)
def legacy_retry_run(ctx: Ctx, run: RunName, wish: schemas.OptionalRetryWish) -> Response:
    """Run a finished run again; use /api/v1/runs/{run}/retry."""
    response = runs.retry(ctx, run, wish)
    return _instead(response, ctx, f"/runs/{run.replace('/', '~')}/retry")
