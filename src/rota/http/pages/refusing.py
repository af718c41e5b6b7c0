"""Refusals for people: the page of an error where a browser asks for a page, the login where nobody is logged in."""

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

from rota.http.pages.rendering import render
from rota.http.pages.visit import bare_frame
from rota.http.problems import TITLES, headers_of, status_of
from rota.http.refusals import NotFound, NoToken
from rota.model.errors import RotaError

LOST = "it may have moved, or been forgotten by `retention`"
WORDS = {
    401: "Please log in",
    403: "Not allowed",
    404: "Nothing is here",
    405: "Not like this",
    409: "It cannot be done now",
    422: "That is not understood",
    429: "Too many wrong tokens",
    503: "rota cannot answer now",
    507: "The disk is full",
}


def error_page(error: RotaError, scope: Scope, *, base: str) -> Response:
    """Return the page of an error."""
    request = Request(scope)
    status = status_of(error)
    values = {
        **bare_frame(request, base),
        "error": error,
        "hint": LOST if isinstance(error, NotFound) else error.hint,
        "problems": error.problems,
        "status": status,
        "title": WORDS.get(status, TITLES.get(status, "Something went wrong")),
        "back": _wanted(request) if request.method == "GET" and (status == 401 or status >= 429) else "",
        "note": "",
    }
    template = "login.html" if isinstance(error, NoToken) else "error.html"
    return HTMLResponse(render(template, values), status, headers_of(error))


def _wanted(request: Request) -> str:
    """Return the page that was asked for, to go there after the login."""
    query = request.url.query
    return f"{request.scope['path']}{f'?{query}' if query else ''}"[:1000]
