"""The search at the top of every page: straight to a run or a job that is named, else to the jobs that fit."""

from typing import Annotated

from fastapi import Query
from starlette.responses import RedirectResponse, Response

from rota.http.pages.routing import Pages
from rota.http.pages.visit import VisitOf
from rota.http.routes.names import segment
from rota.model.errors import RotaError
from rota.model.ids import is_id
from rota.operations.jobs import find_job
from rota.operations.runs import find_run
from rota.store.driver import Database

pages = Pages()


@pages.show("/ui/search")
def search(visit: VisitOf, q: Annotated[str, Query(max_length=200)] = "") -> Response:
    """Go to the run or the job of this name; else to the jobs that have the words in them."""
    words = q.strip()
    found = visit.desk.store.read(lambda db: _named(db, words)) if words else None
    return RedirectResponse(visit.href(found) if found else visit.href("/ui/jobs", q=words), 303)


def _named(db: Database, words: str) -> str | None:
    """Return the path of the run or job of this name, None where there is none."""
    try:
        if ":" in words or is_id(words):
            return f"/ui/runs/{segment(find_run(db, words).handle)}"
        return f"/ui/jobs/{segment(find_job(db, words).name)}"
    except RotaError:
        return None
