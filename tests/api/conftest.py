"""The API of a temporary project, called in this process; the clock stands still and no scheduler runs."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from fastapi import FastAPI

from rota.http.app import around, make_routes
from rota.http.context import AnswerCache, ServerContext
from rota.http.feed import Feed
from rota.http.security import Authenticator
from rota.model.records import Outcome
from rota.model.states import Status
from rota.operations.admin.access import Scope, derive_token, make_token, read_token
from rota.operations.admin.tokens import TokenDesk
from rota.operations.project.locate import SQLITE, open_state
from tests.asgi import Client
from tests.faces.conftest import Project

FILE = """
pools: {gpu: 1}
defaults: {retry: false}
budgets: {day: {runs: 100, per: day}}
jobs:
  hello: {command: [echo, hello], cron: "0 3 * * *", labels: [greeting], overlap: allow, params: {who: world}}
  other: {command: [echo, other], pools: [gpu], budget: day}
groups:
  both: {members: [hello, other]}
"""
BASE = "http://127.0.0.1:7682"
COMPLETED = Outcome(Status.COMPLETED, exit_code=0, summary="done")


@cache
def routes() -> FastAPI:
    """Return the routes, made once: to describe them costs more than a test; each project puts its context in."""
    return make_routes(None)  # type: ignore[arg-type]


class Api:
    """A project and its API."""

    def __init__(self, project: Project, *, store: str = SQLITE) -> None:
        self.project = project
        self.store = open_state(project.state, project.clock, create=False, store=store)
        make_token(project.state)
        self.token = read_token(project.state)
        self.context = ServerContext(
            self.store,
            project.clock,
            project.folder,
            project.state,
            environ={"HOME": str(project.folder)},
            feed=Feed(self.store),
            answers=AnswerCache(self.store.commits(), project.clock),
        )
        desk = TokenDesk(self.store, project.clock)
        self.doorman = Authenticator(project.clock, token=lambda: self.token, desk=desk)
        self.routes = routes()
        self._behind = around(self.routes, self.context, self.doorman)
        self.bare = Client(self.app, base_url=BASE)

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request of this project: the routes serve all projects of the tests, one at a time."""
        self.routes.state.context = self.context
        await self._behind(scope, receive, send)

    def token_of(self, scope: Scope) -> str:
        return derive_token(self.token, scope, "tester")

    def headers(self, scope: Scope | None = None) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token if scope is None else self.token_of(scope)}"}

    def call(self, method: str, path: str, body: Any = None, *, scope: Scope | None = None, **headers: str) -> Any:
        """Send a request with a token; return the response."""
        sent = {**self.headers(scope), **{name.replace("_", "-"): value for name, value in headers.items()}}
        content = None
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.bare.request(method, path, content=content, headers=sent)

    def get(self, path: str) -> Any:
        """Return the JSON of a GET that works."""
        found = self.call("GET", f"/api/v1{path}")
        assert found.status_code == 200, (found.status_code, found.text)
        return found.json()

    def post(self, path: str, body: Any = None, *, status: int = 200) -> Any:
        """Return the JSON of a POST that works."""
        found = self.call("POST", f"/api/v1{path}", body)
        assert found.status_code == status, (found.status_code, found.text)
        return found.json()

    def refused(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
        """Return status and code of a request that is refused."""
        found = self.call(method, path, body, **headers)
        assert found.headers["content-type"] == "application/problem+json", (found.status_code, found.text)
        told = found.json()
        assert told["status"] == found.status_code
        return found.status_code, told["code"]

    def cli(self, *arguments: str) -> Any:
        """Return what the command line tells with --json."""
        return self.project.json(*arguments)


@contextmanager
def opened(project: Project, *, raises: bool = True, store: str = SQLITE) -> Iterator[Api]:
    """Yield the API of a project; one event loop answers all its requests, where else each would begin one."""
    made = Api(project, store=store)
    if not raises:
        made.bare = Client(made.app, base_url=BASE, raises=False)
    with start_blocking_portal() as made.bare.portal:
        yield made
    made.bare.close()
    made.store.close()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    folder = tmp_path / "home"
    folder.mkdir()
    with opened(Project(folder).applied(FILE)) as made:
        yield made
