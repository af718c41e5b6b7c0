"""How a page is declared: what it shows needs a scope like every route, and what it does comes by a form."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from starlette.responses import Response

from rota.http.pages.visit import Visit
from rota.http.routing import F, Routes
from rota.model.errors import RotaError
from rota.operations.access import Scope

HTML = "text/html; charset=utf-8"


class Pages(Routes):
    """The routes of pages: they are no part of the API, so its description leaves them out."""

    def __init__(self) -> None:
        super().__init__("pages", prefix="")

    def show(self, path: str, *, scope: Scope = Scope.READ) -> Callable[[F], F]:
        """Declare a page; the function takes `visit: VisitOf` and returns `visit.show(…)`."""
        return self.on("GET", path, scope=scope, answer=str, media=HTML, shown=False)

    def act(self, path: str, *, back: str, scope: Scope = Scope.RUN) -> Callable[[F], F]:
        """Declare what a form does; the function ends with `visit.done(…)`. What is refused is told on `back`."""

        def declare(action: F) -> F:
            self.on("POST", path, scope=scope, answer=str, media=HTML, shown=False)(_told_there(action, back))
            return action

        return declare


def _told_there(action: Callable[..., Response], back: str) -> Callable[..., Response]:
    """Return an action whose refusal is a message on the page it came from."""

    @wraps(action)
    def act(visit: Visit, **given: Any) -> Response:
        try:
            return action(visit, **given)
        except RotaError as error:
            return visit.refused(error, back=back)

    return act
