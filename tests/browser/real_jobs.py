"""Jobs and the queue in a browser: finding, making, changing and ending jobs; moving, editing and cancelling runs."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site
from tests.browser.real_actions import told


@pytest.fixture
def shelf(page: Page, site: Site) -> Iterator[Callable[[], str]]:
    """A job that was made in the browser and whose runs wait for the pool; call it for one more run."""
    page.goto("/ui/new")
    page.get_by_label("Name", exact=True).fill("shelf")
    page.get_by_label("The program, text or task").fill("true")
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Any other key").fill("pools: [gpu]\nparams: {page: 1}\noverlap: allow\n")
    page.get_by_role("button", name="Create job").click()
    told(page, "shelf is created")
    yield lambda: str(site.project.json("trigger", "shelf")["run"])
    site.project.rota("cancel", "--job", "shelf", "--yes")
    site.project.rota("remove", "shelf", "--yes")


def rows(page: Page, job: str) -> list[str]:
    """Return the runs of a job in the order of the queue."""
    found = page.locator("tr[data-run]").evaluate_all("rows => rows.map((row) => row.dataset.run)")
    return [run for run in found if run.startswith(f"{job}:")]


def test_jobs_are_found_while_somebody_types(page: Page) -> None:
    page.goto("/ui/jobs")
    page.get_by_label("Find", exact=True).press_sequentially("other disk")
    expect(page.locator("table.jobs tbody tr")).to_have_count(1)
    expect(page).to_have_url("/ui/jobs?q=other+disk")
    expect(page.locator("table.jobs")).to_contain_text("backup")


def test_runs_are_moved_by_keys_and_the_focus_goes_with_them(page: Page, shelf: Callable[[], str]) -> None:
    """DEC-005."""
    first, second = shelf(), shelf()
    page.goto("/ui/queue")
    page.get_by_role("link", name=second, exact=True).focus()
    page.keyboard.press("Alt+ArrowUp")
    expect(page.locator("#announce")).to_contain_text(f"{second} is at place")
    expect(page.get_by_role("link", name=second, exact=True)).to_be_focused()
    assert rows(page, "shelf") == [second, first]
    page.keyboard.press("Alt+End")
    expect(page.locator("tr[data-run]").last).to_have_attribute("data-run", second)


def test_params_of_a_queued_run_are_changed(page: Page, shelf: Callable[[], str], site: Site) -> None:
    """INV-001: while it is QUEUED."""
    run = shelf()
    page.goto("/ui/queue")
    page.get_by_role("link", name=f"Change {run}").click()
    page.get_by_label("page", exact=True).fill("7")
    page.get_by_role("button", name="Change", exact=True).click()
    told(page, f"{run}: page = 7")
    assert site.project.json("show", run)["params"] == {"page": 7}


def test_a_queued_run_is_cancelled_after_a_question(page: Page, shelf: Callable[[], str]) -> None:
    run = shelf()
    page.goto("/ui/queue")
    page.get_by_role("button", name=f"Cancel {run}").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("It leaves the queue and does not run.").wait_for()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert rows(page, "shelf") == [run]
    page.get_by_role("button", name=f"Cancel {run}").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel it").click()
    told(page, f"{run} is cancelled")
    assert rows(page, "shelf") == []


@pytest.mark.usefixtures("shelf")
def test_a_job_is_changed_disabled_enabled_and_deleted(page: Page) -> None:
    page.goto("/ui/new?change=shelf")
    page.get_by_label("When", exact=True).fill("mondays at 7")
    page.locator("#meaning").get_by_text('cron none -> "0 7 * * MON"').wait_for()
    page.get_by_role("button", name="Save changes").click()
    told(page, "shelf is changed: at 07:00 on Monday")
    for button, words in (
        ("Disable", "shelf is disabled"),
        ("Enable", "shelf is enabled"),
        ("Delete", "shelf is deleted"),
    ):
        page.locator("#more > summary").click()
        page.get_by_role("button", name=button, exact=True).click()
        if button != "Enable":
            page.get_by_role("dialog").get_by_role("button", name=button).click()
        told(page, words)


def test_a_job_is_edited_in_its_file_after_a_look_at_the_difference(page: Page, site: Site) -> None:
    file = site.project.folder / "rota.yaml"
    before = file.read_text()
    page.goto("/ui/jobs/report")
    page.get_by_role("link", name="rota.yaml:").click()
    lines = page.get_by_label("The lines of the job")
    written = lines.input_value()
    lines.fill(written.replace("30 5", "45 5"))
    page.locator(".diff .added").get_by_text("45 5").wait_for()
    page.locator("#meaning").get_by_text("at 05:45").first.wait_for()
    lines.press("Tab")
    page.keyboard.press("Enter")
    told(page, "report is saved in rota.yaml:")
    assert file.read_text() == before.replace("30 5", "45 5")
    file.write_text(before)


def test_chosen_jobs_are_paused_and_resumed_by_keys_alone(page: Page) -> None:
    page.goto("/ui/jobs?q=-check")
    buttons = page.get_by_role("group", name="Chosen jobs")
    expect(buttons.get_by_role("button", name="Pause")).to_be_disabled()
    page.get_by_role("checkbox", name="Choose all jobs of this page").focus()
    page.keyboard.press("Space")
    expect(page.get_by_role("checkbox", name="disk-check")).to_be_checked()
    expect(buttons.get_by_text("1 chosen")).to_be_visible()
    buttons.get_by_role("button", name="Pause").press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", name="Pause 1 job")).to_be_visible()
    page.keyboard.type("2h")
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 job paused: disk-check")).to_be_visible()
    page.get_by_role("checkbox", name="disk-check").focus()
    page.keyboard.press("Space")
    buttons.get_by_role("button", name="Resume").press("Enter")
    expect(page.get_by_text("1 job resumed: disk-check")).to_be_visible()


def test_chosen_jobs_stay_chosen_when_the_list_changes(page: Page, site: Site) -> None:
    page.goto("/ui/jobs?q=-check")
    box = page.get_by_role("checkbox", name="disk-check")
    box.check()
    page.evaluate("document.querySelector('[data-fragment=list]').dataset.old = 'yes'")
    site.project.rota("pause", "disk-check")
    page.locator("[data-fragment=list]:not([data-old])").wait_for()
    expect(box).to_be_checked()
    expect(page.get_by_text("1 chosen")).to_be_visible()
    site.project.rota("resume", "disk-check")


def test_chosen_jobs_are_acted_on_without_scripts(open_page: Callable[..., Page]) -> None:
    page = open_page(java_script_enabled=False)
    page.goto("/ui/jobs?q=-check")
    page.get_by_role("checkbox", name="disk-check").check()
    page.get_by_role("button", name="Pause the chosen jobs").click()
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_text("1 job paused: disk-check")).to_be_visible()
    page.get_by_role("checkbox", name="disk-check").check()
    page.get_by_role("button", name="Resume the chosen jobs").click()
    expect(page.get_by_text("1 job resumed: disk-check")).to_be_visible()
