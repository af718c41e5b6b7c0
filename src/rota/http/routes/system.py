"""What needs no token or is no JSON: the health of the loop, metrics, the description of the API; and the logout."""

from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.responses import Response

from rota.http import schemas
from rota.http.context import Context, Desk, DeskOf
from rota.http.doorman import Doorman
from rota.http.metrics import CONTENT_TYPE, exposition
from rota.http.routing import Routes, answer
from rota.operations.access import Scope
from rota.operations.login import end_session
from rota.operations.system import Liveness, heartbeat

routes = Routes("system")
door = Routes("door", prefix="")
"""What needs no token."""

HEALTH = {Liveness.RUNNING: "ok", Liveness.STOPPING: "stopping"}
STALLED: dict[int | str, dict[str, Any]] = {
    503: {"description": "It does not answer, or no run can start.", "model": schemas.Health}
}


def context_of(request: Request) -> Context:
    """Return the project that is served."""
    context: Context = request.app.state.context
    return context


ContextOf = Annotated[Context, Depends(context_of)]


@door.on("GET", "/healthz", scope=None, answer=schemas.Health, also=STALLED)
def healthz(context: ContextOf) -> Response:
    """Tell whether the scheduler's own loop answers and runs can start; nothing else: no token is asked for here.

    A scheduler that stops is well: a supervisor that took it for broken would kill what it waits for.
    """
    beat = heartbeat(context.state)
    failing = beat.answer.get("failing")
    if beat.answer.get("gone"):
        return answer({"status": "database_gone"}, status=503)
    if failing is not None:
        return answer({"status": "failing", "error": failing["code"]}, status=503)
    status = HEALTH.get(beat.liveness)
    return answer({"status": status or "stalled"}, status=200 if status else 503)


@routes.on("POST", "/logout", scope=Scope.READ, answer=schemas.Told)
def log_out(desk: DeskOf, request: Request) -> Response:
    """End a browser's session."""
    response = answer({"caller": desk.caller.name})
    end_login(desk, request, response)
    return response


def end_login(desk: Desk, request: Request, response: Response) -> None:
    """End the session that a request came with, so that no copy of its cookie is good, and drop the cookie."""
    doorman: Doorman = request.state.doorman
    session = doorman.session_in(request.headers.get("cookie", ""))
    if session is not None and doorman.know_session(session) is not None:
        doorman.ended = desk.store.write(partial(end_session, session=session, now=desk.now))
    response.delete_cookie(doorman.cookie, path=desk.context.base_path or "/", httponly=True, samesite="strict")


@routes.on("GET", "/openapi.json", scope=Scope.READ, answer=schemas.Told)
def get_openapi(request: Request) -> Response:
    """Describe the API (OpenAPI 3.1)."""
    return answer(request.app.openapi())


@routes.on("GET", "/metrics", scope=Scope.READ, answer=str, media="text/plain; version=0.0.4; charset=utf-8")
def get_metrics(desk: DeskOf) -> Response:
    """Return the figures of the scheduler in the text format of Prometheus."""
    return Response(exposition(desk.store, desk.state, now=desk.now), media_type=CONTENT_TYPE)
