"""The dashboard of a temporary project as a browser without scripts sees it; the clock stands still."""

import os
from collections.abc import Iterator
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from rota.model.ids import begin_again
from rota.operations.admin.access import Caller, Scope, make_session
from tests.api.conftest import BASE, FILE, Api, opened
from tests.asgi import Client
from tests.faces.conftest import Project

SILENT = frozenset({"script", "style", "title"})
VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "path", "rect", "circle", "line", "use"})


class Reader(HTMLParser):
    """Reads a page: its words, its elements, and whether what was opened is closed again."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        opened = self._open.pop() if self._open else None
        assert opened == tag, f"</{tag}> closes <{opened}>"

    def handle_data(self, data: str) -> None:
        if not SILENT.intersection(self._open):
            self.texts.append(data)


class Page:
    """An answer, read."""

    def __init__(self, response: Any) -> None:
        self.response = response
        self.status: int = response.status_code
        self.html: str = response.text
        self._read = Reader(self.html)

    @property
    def words(self) -> str:
        """All that is to read, with single spaces."""
        return " ".join(" ".join(self._read.texts).split())

    def all(self, tag: str, **attributes: str) -> list[dict[str, str]]:
        """Return the attributes of all elements of this kind that have these attributes (`class_`, `data_x`)."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [
            found
            for name, found in self._read.elements
            if name == tag and all(found.get(key) == value for key, value in wanted.items())
        ]

    @property
    def links(self) -> list[str]:
        return [found["href"] for found in self.all("a") if "href" in found]

    @property
    def actions(self) -> list[str]:
        """Where the forms go that change something."""
        return [found["action"] for found in self.all("form", method="post") if "action" in found]


class Site:
    """A project and its pages, seen by a browser that is logged in."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.project = api.project
        self.clock = api.project.clock
        self.store = api.store

    def browser(self, scope: Scope = Scope.ADMIN, *, name: str = "owner") -> Client:
        """Return a browser that is logged in."""
        made = Client(self.api.app, base_url=BASE, follow_redirects=False)
        made.portal = self.api.bare.portal
        session = make_session(self.api.token, Caller(name, scope), now=self.clock.now())
        made.cookies.set(self.api.doorman.cookie, session)
        made.headers["Accept"] = "text/html,application/xhtml+xml"
        return made

    def get(
        self, path: str, *, status: int = 200, scope: Scope = Scope.ADMIN, cookies: dict[str, str] | None = None
    ) -> Page:
        """Return a page."""
        with closing(self.browser(scope)) as browser:
            for key, value in (cookies or {}).items():
                browser.cookies.set(key, value)
            page = Page(browser.get(path))
        assert page.status == status, (page.status, page.words)
        return page

    def post(self, path: str, /, scope: Scope = Scope.ADMIN, **form: str | list[str]) -> Page:
        """Send a form, and return the page that it leads to; `page.response.history` has the way."""
        with closing(self.browser(scope)) as browser:
            browser.follow_redirects = True
            return Page(browser.post(path, data=form, headers={"Origin": BASE}))


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    begin_again(os.urandom)  # identifiers of other tests may lie in this one's future
    folder = tmp_path / "home"
    folder.mkdir()
    with opened(Project(folder).applied(FILE)) as made:
        yield made


@pytest.fixture
def site(api: Api) -> Site:
    return Site(api)
