"""The dashboard below a path of a proxy: login, files, live events, forms and dialogs all stay below it."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Playwright, expect

from tests.browser.conftest import CHROMIUM, FLAGS, Site, watch
from tests.service.serving import Project

BELOW = "/tools/rota"
FILE = f"""
http: {{base_path: {BELOW}}}
jobs:
  hello: {{command: [echo, hello], cron: "0 3 * * *"}}
  wait: {{command: [sleep, "3600"], overlap: allow}}
"""
PAGES = ("/", "/ui/jobs", "/ui/jobs/hello", "/ui/new", "/ui/queue", "/ui/runs", "/ui/agents", "/ui/system")


@pytest.fixture(scope="module")
def below(playwright: Playwright, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("below") / "garden"
    folder.mkdir()
    project = Project(folder)
    project.write(FILE)
    project.serve(http=True)
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
    try:
        address = urlsplit(str(project.json("status")["http"]))
        yield Site(project, f"{address.scheme}://{address.netloc}", browser)
    finally:
        browser.close()
        project.rota("stop", "--now")


def test_everything_stays_below_the_path(below: Site) -> None:
    """Issue 9: it works behind a path prefix."""
    with below.context() as context:
        watched = watch(context.new_page())
        page = watched.page
        asked: list[str] = []
        page.on("request", lambda request: asked.append(urlsplit(request.url).path))
        page.goto(f"{BELOW}/ui/jobs")
        page.get_by_label("token").fill((below.project.state / "token").read_text().strip())
        page.get_by_role("button", name="Log in").click()
        expect(page).to_have_url(f"{below.base}{BELOW}/ui/jobs")
        for path in PAGES:
            page.goto(f"{BELOW}{path}")
            expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.goto(f"{BELOW}/ui/runs?each=true")
        expect(page.get_by_text("No runs yet")).to_be_visible()
        below.project.rota("trigger", "wait")
        page.get_by_role("link", name="wait:1").click()
        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("button", name="Cancel it").click()
        expect(page.get_by_text("wait:1 is being stopped")).to_be_visible()
        expect(page).to_have_url(f"{below.base}{BELOW}/ui/runs/wait:1")
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("token").wait_for()
        assert f"{BELOW}/api/v1/events" in asked
        assert [path for path in asked if not path.startswith(f"{BELOW}/")] == []
        refused = [text for text in watched.complaints if "401" not in text]  # the page before the login
        assert refused == []
