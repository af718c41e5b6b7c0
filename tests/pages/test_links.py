"""No page leads nowhere: every link, form and file on every page has a route."""

from collections.abc import Iterator
from itertools import chain
from urllib.parse import urlsplit

import pytest
from starlette.routing import Match

from tests.api.conftest import FILE, opened
from tests.faces.conftest import Project
from tests.pages.conftest import Page, Site
from tests.pages.test_overview import FAILED, ran

PAGES = (
    "/",
    "/?span=3d&rows=all",
    "/ui/jobs",
    "/ui/jobs/hello",
    "/ui/new",
    "/ui/queue",
    "/ui/runs",
    "/ui/runs/hello:1",
    "/ui/runs/other:1",
    "/ui/runs/hello:2/diff",
    "/ui/groups",
    "/ui/groups/both:1",
    "/ui/agents",
    "/ui/system",
    "/ui/system/doctor",
)


def has_route(site: Site, method: str, address: str) -> bool:
    scope = {"type": "http", "method": method, "path": urlsplit(address).path}
    return any(route.matches(scope)[0] is Match.FULL for route in site.api.routes.routes)


def leads(page: Page) -> list[tuple[str, str]]:
    """Return where a page leads to: links and files by GET, forms and their buttons by their method."""
    gets = [link for link in page.links if not link.startswith(("#", "?"))]
    files = [found["src"] for found in page.all("script")] + [found["href"] for found in page.all("link")]
    forms = [(found.get("method", "get").upper(), found["action"]) for found in page.all("form") if "action" in found]
    buttons = [("POST", found["formaction"]) for found in page.all("button") if "formaction" in found]
    return [*(("GET", address) for address in chain(gets, files)), *forms, *buttons]


@pytest.fixture(scope="module")
def lively(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A project in which something failed, something runs and something waits; nobody changes it here."""
    folder = tmp_path_factory.mktemp("lively") / "home"
    folder.mkdir()
    with opened(Project(folder).applied(FILE)) as api:
        site = Site(api)
        ran(site, "hello", FAILED)
        site.project.ok("trigger", "other")
        site.project.begin()
        site.project.ok("trigger", "hello")
        site.project.ok("trigger", "both")
        yield site


@pytest.fixture(scope="module", params=PAGES)
def page(lively: Site, request: pytest.FixtureRequest) -> Page:
    return lively.get(request.param)


def test_every_link_and_form_of_a_page_has_a_route(lively: Site, page: Page) -> None:
    found = leads(page)
    assert len(found) > 10
    assert [(method, address) for method, address in found if not has_route(lively, method, address)] == []


def test_ids_are_there_once_and_labels_have_their_fields(page: Page) -> None:
    ids = [found["id"] for _, found in page._read.elements if "id" in found]
    assert sorted(set(ids)) == sorted(ids)
    named = [found[key] for _, found in page._read.elements for key in ("for", "aria-labelledby") if key in found]
    assert set(chain.from_iterable(name.split() for name in named)) <= set(ids)


def test_no_page_has_a_style_or_a_script_of_its_own(page: Page) -> None:
    assert not page.all("style")
    assert all("src" in found for found in page.all("script"))
    attributes = {name for _, found in page._read.elements for name in found}
    assert not [name for name in attributes if name == "style" or name.startswith("on")]


def test_pages_are_small(page: Page) -> None:
    assert len(page.html) < 60_000
