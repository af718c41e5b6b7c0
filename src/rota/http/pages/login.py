"""Login by code or token, logout, and the preferences of a browser: theme and zone."""

from html import escape
from typing import Annotated
from urllib.parse import quote

from anyio.to_thread import run_sync
from fastapi import Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from rota.http.api.system import ContextOf, end_login
from rota.http.context import Routes, ServerContext
from rota.http.errors import HttpRefusal, NotFound, NoToken, OriginRefused, PersonRefused, TokenEnded
from rota.http.oidc import CALLBACK, LASTS, START, LoginFailed, SignOn
from rota.http.pages import page
from rota.http.security import Authenticator
from rota.log import log
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
    request: Request, context: ContextOf, code: Annotated[str | None, Query(max_length=100)] = None
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


BINDING = "_oidc"
"""The cookie of a login under way: the name of the session's cookie and this."""
RETURN = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>rota</title>'
    '<meta http-equiv="refresh" content="0; url={0}"><p><a href="{0}">Continue</a></p></html>'
)
"""A page that loads the next one: after a redirect, the browser would not send the strict cookie yet."""


@door.on("GET", START, scope=None, answer=str, media=page.HTML, shown=False)
async def begin_sign_on(
    request: Request, context: ContextOf, back: Annotated[str, Query(max_length=2000)] = ""
) -> Response:
    """Send a browser to the identity provider."""
    sign_on = _sign_on(request)
    try:
        started = await sign_on.begin(back if page.is_ours(back) else "/")
    except LoginFailed as error:
        return await _refused(request, context, error)
    response = RedirectResponse(started.url, 303)
    cookie, path = f"{request.state.authenticator.cookie}{BINDING}", f"{context.base_path}{CALLBACK}"
    lasts = int(LASTS.total_seconds())
    response.set_cookie(
        cookie, started.binding, max_age=lasts, path=path, secure=context.secure, httponly=True, samesite="lax"
    )
    return response


@door.on("GET", CALLBACK, scope=None, answer=str, media=page.HTML, shown=False)
async def end_sign_on(
    request: Request,
    context: ContextOf,
    state: Annotated[str, Query(max_length=200)] = "",
    code: Annotated[str, Query(max_length=4000)] = "",
) -> Response:
    """Log in the person that the identity provider names."""
    cookie = f"{request.state.authenticator.cookie}{BINDING}"
    try:
        caller, back = await _sign_on(request).finish(state=state, code=code, binding=request.cookies.get(cookie, ""))
    except (LoginFailed, PersonRefused) as error:
        return await _refused(request, context, error)
    response = HTMLResponse(RETURN.format(escape(f"{context.base_path}{back}")))
    _log_in(response, request, context, caller)
    response.delete_cookie(cookie, path=f"{context.base_path}{CALLBACK}")
    return response


def _sign_on(request: Request) -> SignOn:
    sign_on: SignOn | None = request.state.authenticator.sign_on
    if sign_on is None:
        raise NotFound
    return sign_on


async def _refused(request: Request, context: ServerContext, error: HttpRefusal) -> Response:
    log.info("login refused", error=error.message)
    note = f"{error.message[:1].upper()}{error.message[1:]}."
    return await run_sync(lambda: _form(request, context, note=note, status=error.status))


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
    back = getattr(request.state, "form", {}).get("back", "")
    response = RedirectResponse(f"{context.base_path}{back if page.is_ours(back) else '/'}", 303)
    _log_in(response, request, context, caller)
    return response


def _log_in(response: Response, request: Request, context: ServerContext, caller: Caller) -> None:
    authenticator: Authenticator = request.state.authenticator
    response.set_cookie(
        authenticator.cookie,
        make_session(authenticator.token(), caller, now=context.clock.now()),
        max_age=int(SESSION_LASTS.total_seconds()),
        path=context.base_path or "/",
        secure=context.secure,
        httponly=True,
        samesite="strict",
    )
