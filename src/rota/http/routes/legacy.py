"""Older paths (CON-004): thin aliases that say which path to use instead."""

from starlette.responses import Response

from rota.http import schemas, wishes
from rota.http.context import Desk, DeskOf
from rota.http.routes import jobs, runs
from rota.http.routes.names import JobName, RunName
from rota.http.routing import Routes
from rota.operations.access import Scope

routes = Routes("legacy", prefix="")
SINCE = "@1794700800"
"""Since when these paths are deprecated (RFC 9745): 15 November 2026."""


def _instead(response: Response, desk: Desk, below: str) -> Response:
    response.headers["Deprecation"] = SINCE
    response.headers["Link"] = f'<{desk.path(below)}>; rel="successor-version"'
    return response


@routes.on("GET", "/jobs", scope=Scope.READ, answer=schemas.JobPage, deprecated=True)
def legacy_get_jobs(desk: DeskOf) -> Response:
    """List the jobs; use /api/v1/jobs."""
    return _instead(jobs.get_jobs(desk), desk, "/jobs")


@routes.on("GET", "/jobs/{job}", scope=Scope.READ, answer=schemas.WholeJob, deprecated=True)
def legacy_get_job(desk: DeskOf, job: JobName) -> Response:
    """Show a job; use /api/v1/jobs/{job}."""
    return _instead(jobs.get_job(desk, job), desk, f"/jobs/{job.replace('/', '~')}")


@routes.on(
    "POST",
    "/jobs/{job}/trigger",
    scope=Scope.AGENT,
    answer=schemas.Run,
    status=202,
    also=jobs.TRIED,
    deprecated=True,
)
def legacy_trigger_job(desk: DeskOf, job: JobName, wish: wishes.OptionalTriggerWish) -> Response:
    """Start a job; use /api/v1/jobs/{job}/trigger."""
    return _instead(jobs.trigger_job(desk, job, wish), desk, f"/jobs/{job.replace('/', '~')}/trigger")


@routes.on("GET", "/jobs/{job}/runs", scope=Scope.READ, answer=schemas.RunPage, deprecated=True)
def legacy_get_job_runs(desk: DeskOf, job: JobName) -> Response:
    """List the runs of a job; use /api/v1/jobs/{job}/runs."""
    return _instead(runs.get_runs(desk, job=job), desk, f"/jobs/{job.replace('/', '~')}/runs")


@routes.on("POST", "/jobs/{job}/pause", scope=Scope.RUN, answer=schemas.Told, deprecated=True)
def legacy_pause_job(desk: DeskOf, job: JobName, wish: wishes.OptionalPauseWish) -> Response:
    """Hold a job back; use /api/v1/jobs/{job}/pause."""
    return _instead(jobs.pause_job(desk, job, wish), desk, f"/jobs/{job.replace('/', '~')}/pause")


@routes.on("POST", "/jobs/{job}/resume", scope=Scope.RUN, answer=schemas.Told, deprecated=True)
def legacy_resume_job(desk: DeskOf, job: JobName, wish: wishes.OptionalResumeWish) -> Response:
    """Let a job go; use /api/v1/jobs/{job}/resume."""
    return _instead(jobs.resume_job(desk, job, wish), desk, f"/jobs/{job.replace('/', '~')}/resume")


@routes.on("POST", "/api/job-runs/{run}/retry", scope=Scope.RUN, answer=schemas.RetriedRun, status=202, deprecated=True)
def legacy_retry_run(desk: DeskOf, run: RunName, wish: wishes.OptionalRetryWish) -> Response:
    """Run a finished run again (002 DEC-007); use /api/v1/runs/{run}/retry."""
    response = runs.retry(desk, run, wish)
    return _instead(response, desk, f"/runs/{run.replace('/', '~')}/retry")
