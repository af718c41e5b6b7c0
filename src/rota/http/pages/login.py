"""Login by code or token, logout, and the preferences of a browser: theme and zone."""

from typing import Annotated
from urllib.parse import quote

from anyio.to_thread import run_sync
from fastapi import Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from rota.http.api.system import ContextOf, end_login
from rota.http.context import Routes, ServerContext
from rota.http.errors import NoToken, OriginRefused, TokenEnded
from rota.http.pages import page
from rota.http.security import Authenticator
from rota.operations.admin.access import LOGIN_SCOPES, SESSION_LASTS, Caller, Scope, make_session, owner
from rota.rules.schedule.timezone import zone as known_zone

door = Routes("door", prefix="")
pages = page.Pages()
CHOICE_LASTS = 365 * 86_400
USED = "The code has been used, or is older than a minute."
WRONG = "That is not this project's token."
FOR_PROGRAMS = "A token of the scope {scope} is for programs: log in with one of the scope read, run or admin."


@door.on("GET", "/login", scope=None, answer=str, media=page.HTML, shown=False)
def login_page(
    request: Request,
    context: ContextOf,
    code: Annotated[str | None, Query(max_length=100)] = None,
) -> Response:
    """Show the login form; with the one-time code of `rota open` log the browser in."""
    if code is None:
        return _form(request, context)
    if not context.codes.take(code, at=context.clock.monotonic()):
        return _form(request, context, note=USED, status=401)
    return _logged_in(request, context, owner())


@door.on("POST", "/login", scope=None, answer=str, media=page.HTML, shown=False)
async def log_in(request: Request, context: ContextOf) -> Response:
    """Log a browser in by a typed token."""
    if "origin" not in request.headers:
        raise OriginRefused("a login comes from our own page")
    form: dict[str, str] = getattr(request.state, "form", {})
    client = request.client.host if request.client else ""
    try:
        caller: Caller = await request.state.authenticator.admit_token(form.get("token", "").strip(), client=client)
    except NoToken as error:
        note = f"{error.message[:1].upper()}{error.message[1:]}." if isinstance(error, TokenEnded) else WRONG
        return await run_sync(lambda: _form(request, context, note=note, status=401))
    if caller.scope not in LOGIN_SCOPES:
        return await run_sync(lambda: _form(request, context, note=FOR_PROGRAMS.format(scope=caller.scope), status=403))
    return _logged_in(request, context, caller)


@pages.act("/ui/logout", back="/", scope=Scope.READ)
def leave(visit: page.VisitOf) -> Response:
    """End the session of a browser on the server."""
    response = RedirectResponse(f"{visit.base}/login", 303)
    end_login(visit.ctx, visit.request, response)
    return response


@pages.act("/ui/preferences", back="/", scope=Scope.READ)
def set_preferences(visit: page.VisitOf) -> Response:
    """Store the theme or the zone in a cookie."""
    response = RedirectResponse(f"{visit.base}{visit.safe_back('/')}", 303)
    if "theme" in visit.form:
        _keep(response, visit, page.THEME_COOKIE, visit.form["theme"] if visit.form["theme"] in page.THEMES else "")
    if "zone" in visit.form:
        chosen = visit.form["zone"].strip()
        _keep(response, visit, page.ZONE_COOKIE, quote(known_zone(chosen).key, safe="") if chosen else "")
    return response


def _keep(response: Response, visit: page.VisitOf, name: str, value: str) -> None:
    path = visit.base or "/"
    if value:
        secure = visit.ctx.context.secure
        response.set_cookie(name, value, max_age=CHOICE_LASTS, path=path, samesite="strict", secure=secure)
    else:
        response.delete_cookie(name, path=path, samesite="strict")


def _form(request: Request, context: ServerContext, *, note: str = "", status: int = 200) -> Response:
    values = {
        **page.bare_frame(request, context.base_path),
        "title": "Log in",
        "note": note,
        "back": getattr(request.state, "form", {}).get("back", ""),
        "status": status,
    }
    return HTMLResponse(page.render("login.html", values), status)


def _logged_in(request: Request, context: ServerContext, caller: Caller) -> Response:
    authenticator: Authenticator = request.state.authenticator
    back = getattr(request.state, "form", {}).get("back", "")
    response = RedirectResponse(f"{context.base_path}{back if page.is_ours(back) else '/'}", 303)
    response.set_cookie(
        authenticator.cookie,
        make_session(authenticator.token(), caller, now=context.clock.now()),
        max_age=int(SESSION_LASTS.total_seconds()),
        path=context.base_path or "/",
        secure=context.secure,
        httponly=True,
        samesite="strict",
    )
    return response
