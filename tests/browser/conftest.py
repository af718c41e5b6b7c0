"""The dashboard in a real Chromium: one project with a history, one scheduler, one browser; a fresh page for each test.

Chromium is the system's (`make test-browser` installs it), axe-core comes with axe-playwright-python.
"""

from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, field
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

from rota.engine.clock import SystemClock
from rota.model.proposals import Author
from rota.operations.project.locate import locate, open_state
from rota.operations.tools.context import project_declares
from rota.operations.tools.toolbox import Toolbox
from tests.browser.chromium import CHROMIUM, FLAGS
from tests.service.serving import Project
from tests.waiting import LONGEST_WAIT, until

AXE = Path(str(files("axe_playwright_python"))) / "axe.min.js"
WIDE = {"width": 1280, "height": 900}
PHONE = {"width": 360, "height": 740}
FILE = r"""
timezone: Europe/Berlin
pools: {gpu: 1}
budgets:
  claude-day: {usd: 10, per: day}
defaults: {retry: false}
agent_policy: {approval: required}
agents:
  helper: {adapter: claude, access: read}
  reviewer:
    adapter: custom
    options:
      argv: [sh, said.sh]
      prompt: stdin
      parser: json
      paths: {result: said, tokens_in: in, tokens_out: out, usd: usd}
jobs:
  disk-check: {command: [echo, "/dev/sda1 36 % used"], interval: 1h, labels: [ops]}
  backup:
    command: [sh, -c, 'for part in 1 2 3; do printf "\033[32mok\033[0m part %s of 3\n" $part; done']
    cron: "0 3 * * *"
    labels: [ops, nightly]
    description: Copies the database to the other disk
    params: {target: disk2}
  report:
    command: [sh, -c, "echo building; echo 'no such table: sales' >&2; exit 3"]
    cron: "30 5 * * *"
    labels: [reports]
  train: {command: [sh, -c, "echo begun; exec sleep 3600"], pools: [gpu], overlap: allow}
  hold: {command: [sleep, "3600"], overlap: allow}
  speak: {command: [sh, -c, "echo begun; until test -e go; do sleep 0.1; done; echo went on; exec sleep 3600"]}
  review:
    agent: reviewer
    access: full
    prompt: Review the open pull requests.
    cron: "0 8 * * *"
    budget: claude-day
    estimate: 1
groups:
  nightly: {members: [backup, report]}
"""

SAID = """cat > /dev/null
echo '{"said": "Reviewed 4 pull requests", "in": 12000, "out": 800, "usd": 0.42}'
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--draw", action="store_true", help="keep the images of docs/images")


class Site(Struct):
    """The project, where it is served, and how to look at it."""

    project: Project
    base: str
    browser: Browser
    session: list[Any] = field(default_factory=list)

    def context(self, **choices: Any) -> BrowserContext:
        """Return a browser of its own that is logged in."""
        made = self.browser.new_context(**{"viewport": WIDE, "base_url": self.base, **choices})
        made.set_default_timeout(LONGEST_WAIT * 1000)
        if self.session:
            made.add_cookies(self.session)
        return made

    def log_in(self) -> None:
        """Log in as a person does, and keep the cookie for all that follow."""
        with self.context() as context:
            page = context.new_page()
            page.goto("/")
            page.get_by_label("token").fill((self.project.state / "token").read_text().strip())
            page.get_by_role("button", name="Log in").click()
            page.get_by_role("heading", name="Timeline").wait_for()
            self.session = context.cookies()


class Watched(Struct):
    """A page, and what it complained about."""

    page: Page
    complaints: list[str] = field(default_factory=list)


def watch(page: Page) -> Watched:
    """Note what a page complains about."""
    watched = Watched(page)
    page.on("console", lambda told: told.type == "error" and watched.complaints.append(told.text))
    page.on("pageerror", lambda error: watched.complaints.append(str(error)))
    return watched


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    expect.set_options(timeout=LONGEST_WAIT * 1000)
    with sync_playwright() as made:
        yield made


@pytest.fixture(scope="session")
def site(playwright: Playwright, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A project in which things have happened, served, and a browser that is logged in."""
    folder = tmp_path_factory.mktemp("home") / "garden"
    folder.mkdir()
    project = Project(folder)
    project.write(FILE)
    (folder / "said.sh").write_text(SAID)
    project.serve(http=True)
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
    try:
        made = Site(project, str(project.json("status")["http"]), browser)
        _live(project)
        made.log_in()
        yield made
    finally:
        browser.close()
        project.rota("stop", "--now")


def _live(project: Project) -> None:
    """Let things happen: good and bad runs, a group, an agent and what it proposes, something that runs and waits."""
    for job in ("backup", "report", "review", "nightly"):
        project.rota("run", job, check=False)
    for _ in range(3):
        project.rota("trigger", "train")
    propose(project, "tidy", "Close issues that nobody has answered for a month.\nTell me which.")
    until(lambda: project.json("show", "train:1")["status"] == "RUNNING", what="train:1 to run")


def propose(project: Project, name: str, task: str) -> None:
    """Let an agent propose a job, which then waits for a person."""
    place = locate(None, {"HOME": str(project.folder)}, project.folder)
    store = open_state(place.state, SystemClock(), create=False)
    try:
        maker, declare = Author("agent:reviewer"), project_declares(place, {})
        box = Toolbox(store, place.state, SystemClock(), maker=maker, declare=declare)
        box.call("schedule_job", {"name": name, "task": task, "schedule": "0 9 * * mon-fri", "provider": "helper"})
    finally:
        store.close()


@pytest.fixture
def page(site: Site) -> Iterator[Page]:
    """A page that must not complain."""
    context = site.context()
    watched = watch(context.new_page())
    yield watched.page
    context.close()
    assert watched.complaints == []


@pytest.fixture
def open_page(site: Site) -> Iterator[Callable[..., Page]]:
    """Opens pages with choices of their own (`color_scheme`, `viewport`, `java_script_enabled`), none may complain."""
    contexts: list[BrowserContext] = []
    watched: list[Watched] = []

    def open_one(**choices: Any) -> Page:
        contexts.append(site.context(**choices))
        watched.append(watch(contexts[-1].new_page()))
        return watched[-1].page

    yield open_one
    for context in contexts:
        context.close()
    assert [complaint for one in watched for complaint in one.complaints] == []
