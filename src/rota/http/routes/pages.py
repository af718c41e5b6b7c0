"""The page that a browser sees after its login, and the description of the API."""

import html

from fastapi import Request
from starlette.responses import HTMLResponse, Response

from rota.http.context import DeskOf
from rota.http.routes.system import PAGE
from rota.http.routing import PREFIX, Routes, answer
from rota.http.schemas import Told
from rota.operations.access import Scope

routes = Routes("system", prefix="")


@routes.on("GET", "/", scope=Scope.READ, answer=str, media="text/html; charset=utf-8")
def get_front_page(desk: DeskOf) -> Response:
    """Show that a browser is logged in, and where the API is."""
    base = html.escape(desk.context.base_path + PREFIX)
    links = "".join(
        f'<li><a href="{base}/{path}">{about}</a></li>'
        for path, about in (
            ("scheduler/status", "how the scheduler is"),
            ("jobs", "jobs"),
            ("runs", "runs"),
            ("queue", "the queue"),
            ("openapi.json", "the description of the API"),
        )
    )
    told = f"<h1>rota</h1><p>Logged in as {html.escape(desk.caller.name)}.</p><ul>{links}</ul>"
    return HTMLResponse(PAGE.format(content=told))


@routes.on("GET", f"{PREFIX}/openapi.json", scope=Scope.READ, answer=Told)
def get_openapi(request: Request) -> Response:
    """Describe the API (OpenAPI 3.1)."""
    return answer(request.app.openapi())
