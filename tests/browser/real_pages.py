"""Each page in a real browser: it shows, in dark and on a phone, without scripts, and axe finds nothing serious."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import AXE, PHONE, Site

PAGES = {
    "overview": "/",
    "jobs": "/ui/jobs",
    "job": "/ui/jobs/backup",
    "new-job": "/ui/new",
    "queue": "/ui/queue",
    "runs": "/ui/runs",
    "run": "/ui/runs/report:1",
    "running": "/ui/runs/train:1",
    "diff": "/ui/runs/report:2/diff",
    "groups": "/ui/groups",
    "group": "/ui/groups/nightly:1",
    "agents": "/ui/agents",
    "costs": "/ui/costs",
    "forecast": "/ui/forecast?days=2&job=backup&schedule=every+6h",
    "calendar": "/ui/calendar?view=month",
    "week": "/ui/calendar",
    "job-file": "/ui/jobs/backup/file",
    "api": "/ui/api",
    "api-operation": "/ui/api?operation=get_jobs",
    "proposal": "/ui/agents/tidy",
    "questions": "/ui/questions",
    "digest": "/ui/digest",
    "changes": "/ui/runs/report:1/changes",
    "system": "/ui/system",
}
EXPECTED = {
    "overview": "Needs attention",
    "jobs": "disk-check",
    "job": "Copies the database",
    "new-job": "New job",
    "queue": "train:2",
    "runs": "no such table",
    "run": "exit 3",
    "running": "begun",
    "diff": "No difference.",
    "groups": "nightly:1",
    "group": "Where the time went",
    "agents": "claude-day",
    "costs": "Most expensive runs",
    "forecast": "Slots and pools",
    "calendar": "In a calendar program",
    "week": "In a calendar program",
    "job-file": "comments and all other lines stay",
    "api": "OpenAPI document",
    "api-operation": "Answers",
    "proposal": "Close issues",
    "questions": "approve",
    "digest": "failed",
    "changes": "worktree",
    "system": "Workers",
}
LARGEST = 100 * 1024
IMAGES = Path(__file__).parents[2] / "docs" / "images"
each_page = pytest.mark.parametrize("name", PAGES)


def shown(page: Page, name: str) -> Page:
    page.goto(PAGES[name])
    page.get_by_text(EXPECTED[name]).first.wait_for()
    return page


@each_page
def test_each_page_shows_itself_and_is_small(page: Page, name: str) -> None:
    answer = page.goto(PAGES[name])
    assert answer is not None
    assert answer.status == 200
    assert len(answer.body()) <= LARGEST
    page.get_by_text(EXPECTED[name]).first.wait_for()
    expect(page.get_by_role("main")).to_have_count(1)
    assert page.locator("[style]").count() == 0


@each_page
def test_each_page_can_be_read_without_scripts(open_page: Callable[..., Page], name: str) -> None:
    shown(open_page(java_script_enabled=False), name)


@each_page
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_page_passes_axe(open_page: Callable[..., Page], name: str, scheme: str) -> None:
    page = shown(open_page(color_scheme=scheme, bypass_csp=True), name)
    page.add_script_tag(path=AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    serious = [
        (one["id"], [node["html"] for node in one["nodes"]])
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []


@each_page
def test_each_page_fits_a_phone(open_page: Callable[..., Page], name: str) -> None:
    page = shown(open_page(viewport=PHONE), name)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


NUMBERED = """() => {
  const radios = new Set();
  const controls = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")];
  return controls.filter((one) => {
    if (!one.checkVisibility({visibilityProperty: true}) || one.disabled || one.tabIndex < 0) return false;
    if (one.type === "hidden") return false;
    if (one.type !== "radio") return true;
    const first = !radios.has(one.name);
    radios.add(one.name);
    return first;
  }).map((one, number) => one.dataset.number = number).length;
}"""
"""Numbers the controls that keys should reach; Tab reaches one radio button of a group."""
FOCUSED = """() => {
  const one = document.activeElement, style = getComputedStyle(one);
  return [Number(one.dataset.number ?? -1), style.outlineStyle !== "none" || style.boxShadow !== "none"];
}"""


@each_page
def test_each_page_is_used_by_keys_alone(page: Page, name: str) -> None:
    """Tab reaches every control in the order of the page, and the focus is seen."""
    controls = shown(page, name).evaluate(NUMBERED)
    reached = []
    for _ in range(controls):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(FOCUSED))
    assert reached == [[number, True] for number in range(controls)]


@each_page
def test_each_page_is_drawn_for_the_docs(
    open_page: Callable[..., Page], name: str, request: pytest.FixtureRequest
) -> None:
    """The images of docs/ and the README; kept only where they are wished for, so that a test changes no file."""
    page = shown(open_page(device_scale_factor=1), name)
    image = page.screenshot(full_page=True)
    assert image.startswith(b"\x89PNG")
    if request.config.getoption("--draw"):
        IMAGES.mkdir(exist_ok=True)
        (IMAGES / f"{name}.png").write_bytes(image)


def test_a_page_in_dark_is_dark(open_page: Callable[..., Page]) -> None:
    colours = {
        scheme: shown(open_page(color_scheme=scheme), "overview").evaluate(
            "getComputedStyle(document.body.parentElement).backgroundColor"
        )
        for scheme in ("light", "dark")
    }
    assert colours["light"] != colours["dark"]


def test_the_theme_is_switched_and_kept(page: Page) -> None:
    shown(page, "overview")
    page.locator("[data-theme-switch]").first.click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_page_that_is_not_there_says_so(open_page: Callable[..., Page], site: Site) -> None:
    with site.context() as context:
        page = context.new_page()
        answer = page.goto("/ui/jobs/nobody")
        assert answer is not None
        assert answer.status == 404
        page.get_by_text("nobody").first.wait_for()


def test_a_page_is_painted(page: Page) -> None:
    """How soon, `make bench BENCH=pages` measures."""
    shown(page, "overview")
    page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length > 0")
