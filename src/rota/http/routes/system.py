"""What needs no token or is no JSON: the health of the loop, metrics, and the login of browsers."""

import html
from typing import Annotated, Any
from urllib.parse import parse_qs

from anyio.to_thread import run_sync
from fastapi import Depends, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from rota.http import schemas
from rota.http.context import Context, DeskOf
from rota.http.doorman import Doorman
from rota.http.metrics import CONTENT_TYPE, exposition
from rota.http.refusals import NoToken, OriginRefused
from rota.http.routing import Routes, answer
from rota.operations.access import SESSION_LASTS, Scope, make_session
from rota.operations.system import Liveness, heartbeat

routes = Routes("system")
door = Routes("door", prefix="")
"""The two paths that need no token."""

STALLED: dict[int | str, dict[str, Any]] = {503: {"description": "It does not answer.", "model": schemas.Health}}
PAGES = "text/html; charset=utf-8"
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>rota</title></head>
<body><main>{content}</main></body></html>
"""
FORM = """<h1>rota</h1>{note}
<form method="post" action="{base}/login">
<p><label for="token">Token</label> <input id="token" name="token" type="password" autocomplete="off" required></p>
<p><button>Log in</button></p></form>
<p><code>rota open</code> logs a browser in without it; <code>rota token</code> prints it.</p>"""


def context_of(request: Request) -> Context:
    """Return the project that is served."""
    context: Context = request.app.state.context
    return context


ContextOf = Annotated[Context, Depends(context_of)]


@door.on("GET", "/healthz", scope=None, answer=schemas.Health, also=STALLED)
def healthz(context: ContextOf) -> Response:
    """Tell whether the scheduler's own loop answers; nothing else, since nobody asks for a token here."""
    alive = heartbeat(context.state).liveness is Liveness.RUNNING
    return answer({"status": "ok" if alive else "stalled"}, status=200 if alive else 503)


@door.on("GET", "/login", scope=None, answer=str, media=PAGES, shown=False)
def login_page(
    request: Request, context: ContextOf, code: Annotated[str | None, Query(max_length=100)] = None
) -> Response:
    """Show the login form; with the one-time code of `rota open` log the browser in."""
    if code is None:
        return _form(context)
    if not context.codes.take(code, at=context.clock.monotonic()):
        return _form(context, note="The code has been used, or is older than a minute.", status=401)
    return _logged_in(request, context)


@door.on("POST", "/login", scope=None, answer=str, media=PAGES, shown=False)
async def log_in(request: Request, context: ContextOf) -> Response:
    """Log a browser in by the token that somebody typed."""
    doorman: Doorman = request.state.doorman
    if "origin" not in request.headers:
        raise OriginRefused("a login comes from our own page")
    given = parse_qs((await request.body()).decode("utf-8", "replace")).get("token", [""])[0]
    client = request.client.host if request.client else ""
    try:
        caller = doorman.admit_token(given.strip(), client=client)
    except NoToken:
        return _form(context, note="That is not this project's token.", status=401)
    if caller.scope is not Scope.ADMIN:
        return _form(context, note="A browser needs the owner's token, or one of the scope admin.", status=403)
    return await run_sync(_logged_in, request, context)


@routes.on("POST", "/logout", scope=Scope.READ, answer=schemas.Told)
def log_out(desk: DeskOf, request: Request) -> Response:
    """End a browser's session."""
    doorman: Doorman = request.state.doorman
    response = answer({"caller": desk.caller.name})
    response.delete_cookie(doorman.cookie, path=desk.context.base_path or "/", httponly=True, samesite="strict")
    return response


@routes.on("GET", "/metrics", scope=Scope.READ, answer=str, media="text/plain; version=0.0.4; charset=utf-8")
def get_metrics(desk: DeskOf) -> Response:
    """Return the figures of the scheduler in the text format of Prometheus."""
    return Response(exposition(desk.store, desk.state, now=desk.now), media_type=CONTENT_TYPE)


def _form(context: Context, *, note: str = "", status: int = 200) -> Response:
    told = f"<p>{html.escape(note)}</p>" if note else ""
    return HTMLResponse(PAGE.format(content=FORM.format(note=told, base=html.escape(context.base_path))), status)


def _logged_in(request: Request, context: Context) -> Response:
    doorman: Doorman = request.state.doorman
    response = RedirectResponse(f"{context.base_path}/", 303)
    response.set_cookie(
        doorman.cookie,
        make_session(doorman.token(), now=context.clock.now()),
        max_age=int(SESSION_LASTS.total_seconds()),
        path=context.base_path or "/",
        secure=context.secure,
        httponly=True,
        samesite="strict",
    )
    return response
