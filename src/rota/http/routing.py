"""How a route is declared: it names the scope it needs, what it answers, and nothing is served that does not."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fastapi import FastAPI
from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from rota.http.context import PREFIX, needs
from rota.operations.access import Scope

F = TypeVar("F", bound=Callable[..., Any])
SCOPE_KEY = "x-rota-scope"
__all__ = ["PREFIX", "REFUSALS", "SCOPE_KEY", "JsonAnswer", "Routes", "Wish", "answer", "page"]
PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
REFUSALS: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "The request is refused; nothing was changed.", "content": PROBLEM},
    "5XX": {"description": "The scheduler cannot do it now.", "content": PROBLEM},
}


class Routes:
    """A set of routes about one thing, each with the scope that it needs; None only at the door itself."""

    def __init__(self, tag: str, *, prefix: str = PREFIX) -> None:
        self._tag = tag
        self._prefix = prefix
        self._declared: list[tuple[str, Callable[..., Any], dict[str, Any]]] = []

    def on(
        self,
        method: str,
        path: str,
        *,
        scope: Scope | None,
        answer: Any,
        status: int = 200,
        also: Mapping[int | str, dict[str, Any]] | None = None,
        media: str = "application/json",
        deprecated: bool = False,
        shown: bool = True,
    ) -> Callable[[F], F]:
        """Declare a route: `answer` is the model of what it answers, `also` further answers it may give."""

        def declare(endpoint: F) -> F:
            told: dict[str, Any] = {"description": "Done."}
            told |= {"content": {media: {"schema": {"type": "string"}}}} if answer is str else {"model": answer}
            options: dict[str, Any] = {
                "methods": [method],
                "status_code": status,
                "response_model": None,
                "response_class": Response if answer is str else JsonAnswer,
                "responses": {status: told, **(also or {}), **REFUSALS},
                "dependencies": [] if scope is None else [needs(scope)],
                "operation_id": endpoint.__name__,
                "summary": (endpoint.__doc__ or "").partition("\n")[0].rstrip("."),
                "openapi_extra": {} if scope is None else {SCOPE_KEY: scope.value},
                "deprecated": deprecated or None,
                "include_in_schema": shown,
                "tags": [self._tag],
            }
            self._declared.append((f"{self._prefix}{path}", endpoint, options))
            return endpoint

        return declare

    def add_to(self, app: FastAPI) -> None:
        """Let an application serve them."""
        for path, endpoint, options in self._declared:
            app.add_api_route(path, endpoint, **options)


class JsonAnswer(JSONResponse):
    """A JSON answer; the values are made by the operations in their fixed shapes, so they are not checked again."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
            "utf-8", "surrogatepass"
        )


def answer(content: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON answer."""
    return JsonAnswer(content, status, headers)


def page(items: list[Any], *, following: str | None) -> dict[str, Any]:
    """Return one page of a list; `next` is the cursor of the following one, null at the end."""
    return {"items": items, "next": following}


class Wish(BaseModel):
    """The body of a request that changes something: unknown fields are refused."""

    model_config = {"extra": "forbid", "strict": True}
