"""What a person does with a mouse or a keyboard alone, and what appears by itself."""

import re
import threading
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Site, propose

HEARD_BY_THEN = 1.0
"""Seconds in which a page hears of what it did itself, and would fetch anew what it shows."""


def told(page: Page, text: str) -> None:
    page.locator("main > .message").get_by_text(text).wait_for()


def test_a_job_is_run_and_its_run_appears(page: Page) -> None:
    page.goto("/ui/jobs/disk-check")
    page.get_by_role("button", name="Run now").click()
    told(page, "is in the queue")


def test_a_job_is_paused_with_a_reason_and_resumed(page: Page) -> None:
    page.goto("/ui/jobs/disk-check")
    page.get_by_role("button", name="Pause", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("a new disk")
    dialog.get_by_role("button", name="Pause").click()
    told(page, "disk-check is paused")
    page.get_by_text("a new disk").first.wait_for()
    page.get_by_role("button", name="Resume", exact=True).click()
    told(page, "disk-check is resumed")


def test_a_question_is_asked_before_a_run_is_cancelled(page: Page, site: Site) -> None:
    handle = site.project.json("trigger", "hold")["run"]
    page.goto(f"/ui/runs/{handle}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text(f"Cancel {handle}?").wait_for()
    dialog.get_by_role("button", name="Cancel it").click()
    page.get_by_text("Cancelled").first.wait_for()


def test_a_failed_run_is_run_again(page: Page) -> None:
    page.goto("/ui/runs/report:1")
    page.get_by_role("button", name="Retry").click()
    told(page, "retries report:1")


def test_a_queued_run_is_moved_by_keys_alone(page: Page) -> None:
    page.goto("/ui/queue")
    rows = page.locator("tr[data-run]")
    expect(rows.first).to_have_attribute("data-run", "train:2")
    page.get_by_role("button", name="Move train:3 first").focus()
    page.keyboard.press("Enter")
    expect(page.locator("tr[data-run]").first).to_have_attribute("data-run", "train:3")
    page.get_by_role("button", name="Move train:2 first").focus()
    page.keyboard.press("Enter")
    expect(page.locator("tr[data-run]").first).to_have_attribute("data-run", "train:2")


def test_the_frame_is_reached_by_keys_alone(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the content")
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("/")
    expect(page.locator("#find")).to_be_focused()
    page.keyboard.type("backup")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="backup", exact=True).wait_for()


def test_a_new_job_is_checked_as_it_is_typed_and_saved(page: Page, site: Site) -> None:
    page.goto("/ui/new")
    page.get_by_label("Name", exact=True).fill("greet")
    page.get_by_label("The program, text or task").fill("echo hello")
    page.get_by_label("When", exact=True).fill("every day at 25:00")
    page.locator("#p-schedule > div").first.wait_for()
    page.get_by_label("When", exact=True).fill("every day at 9:00")
    page.get_by_text("09:00").first.wait_for()
    page.get_by_role("button", name="Create job").click()
    page.get_by_role("heading", name="greet", exact=True).wait_for()
    assert site.project.json("show", "greet")["source"] == "api"


def test_what_happens_appears_by_itself(page: Page, site: Site) -> None:
    page.goto("/ui/runs?job=backup&each=true")
    before = page.locator("table.runs tbody tr").count()
    site.project.rota("run", "backup")
    expect(page.locator("table.runs tbody tr")).to_have_count(before + 1)


def test_output_appears_as_it_is_written(page: Page, site: Site) -> None:
    handle = site.project.json("trigger", "speak")["run"]
    page.goto(f"/ui/runs/{handle}")
    page.locator("#output-lines").get_by_text("begun").wait_for()
    (site.project.folder / "go").touch()
    page.locator("#output-lines").get_by_text("went on").wait_for()


def test_lines_of_output_are_found(page: Page) -> None:
    page.goto("/ui/runs/train:1")
    page.locator("#output-lines").get_by_text("begun").wait_for()
    page.get_by_label("Find in the output").fill("nothing like it")
    page.get_by_text("0 of").wait_for()


def test_actions_work_without_scripts(open_page: Callable[..., Page]) -> None:
    page = open_page(java_script_enabled=False)
    page.goto("/ui/jobs/disk-check")
    page.get_by_role("button", name="Run now").click()
    told(page, "is in the queue")


def test_what_needs_a_person_is_acknowledged_and_stays_quiet(page: Page) -> None:
    page.goto("/")
    row = page.locator("li.need").filter(has_text="nightly").first
    row.get_by_role("button", name="Acknowledge").click()
    told(page, "nightly")
    page.get_by_text("1 acknowledged").wait_for()
    expect(page.locator("li.need").filter(has_text="nightly").first).to_be_hidden()
    page.get_by_text("1 acknowledged").click()
    page.locator("#needs-seen li.need").filter(has_text="nightly").get_by_role("button", name="Show again").click()
    told(page, "acknowledgement removed")


def test_a_proposal_is_read_and_approved(page: Page, site: Site) -> None:
    propose(site.project, "watch", f"{'Look at CI. ' * 1000}Then tell.")
    page.goto("/ui/agents")
    page.get_by_role("link", name="Read the whole prompt of watch").click()
    expect(page.get_by_label("Prompt of watch")).to_contain_text("Then tell.")
    page.get_by_role("button", name="Approve watch", exact=True).click()
    told(page, "watch is approved")
    assert site.project.json("show", "watch")["state"] == "idle"


def test_what_a_form_takes_away_is_not_asked_for_while_its_answer_is_on_the_way(page: Page, site: Site) -> None:
    """The page would complain: what it shows is no longer a proposal, and it hears of that before it is left."""

    def answer_late(route: Route) -> None:
        answer = route.fetch()
        threading.Event().wait(HEARD_BY_THEN)
        route.fulfill(response=answer)

    propose(site.project, "sweep", "Look for dead branches.")
    page.goto("/ui/agents/sweep")
    page.route("**/approve", answer_late)
    page.get_by_role("button", name="Approve sweep", exact=True).click()
    told(page, "sweep is approved")


def test_who_looks_at_a_proposal_that_is_approved_elsewhere_is_told(site: Site) -> None:
    propose(site.project, "weed", "Look for stale issues.")
    with site.context() as context:
        page = context.new_page()
        page.goto("/ui/agents/weed")
        site.project.rota("approve", "weed", "--yes")
        page.get_by_role("heading", name="This is not possible now").wait_for()
        page.get_by_text("does not wait for approval").wait_for()


def test_a_proposal_is_turned_down_after_a_question(page: Page, site: Site) -> None:
    propose(site.project, "nag", "Ask for reviews.")
    page.goto("/")
    page.get_by_role("link", name="Review nag").click()
    page.get_by_role("button", name="Reject nag").click()
    page.get_by_role("dialog").get_by_role("button", name="Reject").click()
    told(page, "nag is rejected")


@pytest.mark.parametrize("path", ["/", "/ui/jobs", "/ui/runs"])
def test_who_is_not_logged_in_is_asked_to(site: Site, path: str) -> None:
    with site.browser.new_context(base_url=site.base) as context:
        page = context.new_page()
        page.goto(path)
        page.get_by_role("heading", name="Please log in").wait_for()


def test_logging_out_ends_the_session(site: Site) -> None:
    own = replace(site, session=[])
    own.log_in()
    with own.context() as context:
        page = context.new_page()
        page.goto("/ui/jobs")
        page.get_by_role("button", name="Log out").click()
        page.get_by_role("heading", name="log in").first.wait_for()
        page.goto("/ui/jobs")
        page.get_by_role("heading", name="Please log in").wait_for()


def test_the_title_counts_what_needs_attention(page: Page) -> None:
    page.goto("/ui/groups")
    expect(page).to_have_title(re.compile(r"^\(\d+\) Groups"))
    assert "icon-attention" in (page.locator('link[rel="icon"]').get_attribute("href") or "")


def test_a_browser_that_wishes_it_is_notified_of_a_failure(site: Site, open_page: Callable[..., Page]) -> None:
    page = open_page(permissions=["notifications"])
    page.add_init_script(
        "window.Notification = class extends EventTarget {"
        " static permission = 'granted'; static requestPermission = async () => 'granted';"
        " constructor(title) { super(); document.body.dataset.notified = title; } };"
    )
    page.goto("/ui/runs")
    page.get_by_text("Europe/Berlin").first.click()
    button = page.get_by_role("button", name="Notify me of failures")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    site.project.rota("run", "report", check=False)
    expect(page.locator("body")).to_have_attribute("data-notified", re.compile(r"^report:\d+ failed$"))
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")


def test_a_coming_fire_that_has_passed_is_not_shown_as_coming(page: Page) -> None:
    page.clock.install()
    page.goto("/ui/jobs/disk-check")
    fires = page.locator("#fragment-fires [data-coming]")
    before = fires.count()
    assert before
    page.route("**/*fragment=*", lambda route: route.fulfill(status=200, content_type="text/html", body=""))
    page.clock.fast_forward("01:30:00")
    expect(fires).to_have_count(before - 1)
    expect(page.locator("#fragment-fires li:visible")).to_have_count(before - 1)
