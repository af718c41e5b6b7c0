"""A refusal as whoever asked can read it: a page for a browser that wants one, problem+json for everybody else."""

from functools import partial

from anyio.to_thread import run_sync
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from rota.http.problems import problem
from rota.http.refusals import HostRefused
from rota.model.errors import RotaError


async def refused(error: RotaError, scope: Scope, *, base: str) -> Response:
    """Return an error as a response."""
    if not _wants_page(scope) or isinstance(error, HostRefused):
        return problem(error)
    from rota.http.pages.refusing import error_page  # templates are loaded when the first page is asked for

    return await run_sync(partial(error_page, error, scope, base=base))


def _wants_page(scope: Scope) -> bool:
    """Tell whether a browser goes to a page; scripts of pages and programs do not ask for HTML first."""
    return not scope["path"].startswith("/api/") and Headers(scope=scope).get("accept", "").startswith("text/html")
