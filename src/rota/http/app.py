"""The application: API routes, pages, errors, OpenAPI and the middleware around them."""

from functools import partial
from typing import Any

from anyio.to_thread import run_sync
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Scope

from rota.http import schemas
from rota.http.api import agents as agents_api
from rota.http.api import forecast as forecast_api
from rota.http.api import jobs as jobs_api
from rota.http.api import runs as runs_api
from rota.http.api import stats as stats_api
from rota.http.api import system as system_api
from rota.http.context import ServerContext, model_of
from rota.http.errors import HostRefused, HttpRefusal, MethodRefused, NotFound, problem
from rota.http.pages import (
    agents,
    forecast,
    groups,
    job_editor,
    jobs,
    login,
    overview,
    page,
    queue,
    reference,
    runs,
    stats,
    system,
)
from rota.http.security import Authenticator, Guard, IdempotencyMiddleware
from rota.model.errors import JobProblems, Problem, RotaError

PAGES = (
    login.door,
    page.routes,
    login.pages,
    overview.pages,
    system.pages,
    jobs.pages,
    job_editor.pages,
    queue.pages,
    runs.pages,
    groups.pages,
    agents.pages,
    stats.pages,
    forecast.pages,
    reference.pages,
)


async def refused(error: RotaError, scope: Scope, *, base: str) -> Response:
    """Return an error as a response."""
    # Programs, and scripts of pages, do not accept HTML first.
    page = not scope["path"].startswith("/api/") and Headers(scope=scope).get("accept", "").startswith("text/html")
    if not page or isinstance(error, HostRefused):
        return problem(error)
    from rota.http.pages.page import error_page  # the first page loads the templates

    return await run_sync(partial(error_page, error, scope, base=base))


ABOUT = "The scheduler over HTTP. Names and shapes are those of `rota … --json`; errors are problem+json."
PARTS = (
    jobs_api.jobs_routes,
    runs_api.runs_routes,
    runs_api.queue_routes,
    runs_api.direct_routes,
    system_api.scheduler_routes,
    system_api.attention_routes,
    system_api.events_routes,
    agents_api.people_routes,
    agents_api.questions_routes,
    stats_api.stats_routes,
    forecast_api.forecast_routes,
    forecast_api.feed_routes,
    agents_api.tools_routes,
    system_api.system_routes,
    system_api.door,
    jobs_api.legacy_routes,
    *PAGES,
)


def make_app(context: ServerContext, authenticator: Authenticator) -> ASGIApp:
    """Return the application: guard, idempotency keys, routes."""
    return around(make_routes(context), context, authenticator)


def around(routes: FastAPI, context: ServerContext, authenticator: Authenticator) -> ASGIApp:
    """Return routes behind authentication and idempotency keys."""
    return Guard(IdempotencyMiddleware(routes, context), authenticator, refuse=refused, base_path=context.base_path)


def make_routes(context: ServerContext) -> FastAPI:
    """Return the routes alone."""
    app = FastAPI(title="rota", version="1", description=ABOUT, openapi_url=None, docs_url=None, redoc_url=None)
    app.state.context = context
    for routes in PARTS:
        routes.add_to(app)
    app.add_exception_handler(RotaError, _told)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.openapi = lambda: described(app)  # type: ignore[method-assign]
    return app


def described(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document."""
    if app.openapi_schema is None:
        from fastapi.openapi.utils import get_openapi

        document = get_openapi(title=app.title, version=app.version, description=ABOUT, routes=app.routes)
        parts = document.setdefault("components", {})
        place = model_of(schemas.Problem).model_json_schema(ref_template="#/components/schemas/{model}")
        parts.setdefault("schemas", {}).update({**place.pop("$defs", {}), "Problem": place})
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        _take_null_from_params(document)
        document["paths"].get("/healthz", {}).get("get", {})["security"] = []
        app.openapi_schema = document
    return app.openapi_schema


def _take_null_from_params(document: dict[str, Any]) -> None:
    """Remove null from the schemas of optional params: a query cannot contain it."""
    for operations in document["paths"].values():
        for operation in operations.values():
            for param in operation.get("parameters", ()):
                schema = param["schema"]
                values = [value for value in schema.get("anyOf", ()) if value != {"type": "null"}]
                if len(values) == 1:
                    del schema["anyOf"]
                    schema |= values[0]


async def _told(request: Request, error: Exception) -> Response:
    assert isinstance(error, RotaError)
    return await refused(error, request.scope, base=request.app.state.context.base_path)


async def _invalid(request: Request, error: Exception) -> Response:
    """Return the problems of the params or the body of a request."""
    assert isinstance(error, RequestValidationError)
    return await _told(request, Invalid([_problem(problem) for problem in error.errors()]))


class Invalid(JobProblems, code="request_invalid"):
    """A request has invalid, unknown or missing fields or params."""


def _problem(one: Any) -> Problem:
    kind, where = one["type"], [str(part) for part in one["loc"]]
    code = {"extra_forbidden": "unknown_key", "missing": "missing_value"}.get(kind, "invalid_value")
    message = {"unknown_key": "unknown field", "missing_value": "is missing"}.get(code) or str(one["msg"])
    return Problem(message[:1].lower() + message[1:200], code, at=tuple(where))


async def _http(request: Request, error: Exception) -> Response:
    """Return the refusal of the router: no such path, no such method."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return await _told(request, NotFound())
    if error.status_code == 405:
        return await _told(request, MethodRefused(", ".join(_methods(request))))
    return await _told(request, HttpRefusal(str(error.detail)[:200]))


def _methods(request: Request) -> list[str]:
    """Return the methods of the nearest path: those of `/runs/cancel`, not of `/runs/{run}`."""
    fitting = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    nearest = min((route.path.count("{") for route in fitting), default=0)
    return sorted(
        {
            method
            for route in fitting
            if route.path.count("{") == nearest
            for method in getattr(route, "methods", None) or ()
        }
    )
