"""The overview: what needs somebody, the timeline, what runs, what is next, budgets."""

from datetime import timedelta

import pytest

from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.operations.admin.access import Scope
from tests.pages.conftest import Page, Site

DONE = Outcome(Status.COMPLETED, exit_code=0, summary="done")
FAILED = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3, error="exit 3: repository locked")
DENIED = Outcome(Status.COMPLETED, exit_code=0, denied_tools=("Bash", "Write"))


def ran(site: Site, job: str, outcome: Outcome = DONE) -> None:
    site.project.ok("trigger", job)
    site.project.carry_out([outcome])


def acknowledge(site: Site, page: Page) -> Page:
    form = {name: page.all("input", name=name)[0]["value"] for name in ("topic", "mark")}
    return site.post("/ui/attention/acknowledge", **form)


# what needs somebody


def test_nothing_needs_somebody_where_all_is_well(site: Site) -> None:
    ran(site, "hello")
    assert "Nothing needs you" in site.get("/").words


def test_a_failing_job_is_told_with_why_the_command_and_what_to_do(site: Site) -> None:
    ran(site, "hello", FAILED)
    page = site.get("/")
    assert "Needs attention 1 failing hello FAILED exit_code: exit 3: repository locked" in page.words
    assert "rota explain hello:1" in page.words
    assert {"/ui/runs/hello:1#output-title", "/ui/runs/hello:1#why-title", "/ui/jobs/hello"} <= set(page.links)
    assert {"/ui/jobs/hello/run", "/ui/attention/acknowledge"} <= set(page.actions)


def test_who_may_only_read_sees_no_buttons(site: Site) -> None:
    ran(site, "hello", FAILED)
    page = site.get("/", scope=Scope.READ)
    assert "repository locked" in page.words
    assert [path for path in page.actions if path not in ("/ui/preferences", "/ui/logout")] == []


def test_what_is_acknowledged_stays_quiet_until_something_new_happens(site: Site) -> None:
    ran(site, "hello", FAILED)
    page = acknowledge(site, site.get("/"))
    assert "hello is acknowledged until something new happens" in page.words
    assert "Nothing needs you" in page.words
    assert "1 acknowledged" in page.words
    assert "acknowledged by browser:owner" in page.words
    site.clock.advance(timedelta(hours=1))
    assert "Nothing needs you" in site.get("/").words
    ran(site, "hello", FAILED)
    assert "Needs attention 1 failing hello" in site.get("/").words


def test_what_was_seen_is_what_is_acknowledged_and_not_what_came_since(site: Site) -> None:
    ran(site, "hello", FAILED)
    page = site.get("/")
    ran(site, "hello", FAILED)
    after = acknowledge(site, page)
    assert "it has changed meanwhile" in after.words
    assert "Needs attention 1 failing hello" in after.words


def test_what_was_acknowledged_can_be_shown_again(site: Site) -> None:
    ran(site, "hello", FAILED)
    acknowledge(site, site.get("/"))
    page = site.post("/ui/attention/show", topic="failing:hello")
    assert "Needs attention 1 failing hello" in page.words


def test_an_acknowledgement_is_forgotten_once_nobody_is_needed(site: Site) -> None:
    ran(site, "hello", FAILED)
    before = site.get("/")
    acknowledge(site, before)
    ran(site, "hello")
    page = acknowledge(site, before)
    assert "this problem is resolved" in page.words
    assert site.store.read(lambda db: db.rows("acknowledgements_all")) == []


def test_a_part_of_the_list_is_no_fragment_of_the_page(site: Site) -> None:
    site.get("/?fragment=need", status=404)


def test_an_acknowledgement_of_nothing_is_refused(site: Site) -> None:
    assert "no item is named" in site.post("/ui/attention/acknowledge").words


def test_an_acknowledgement_is_in_the_audit(site: Site) -> None:
    ran(site, "hello", FAILED)
    acknowledge(site, site.get("/"))
    newest = site.api.get("/audit")["items"][0]
    assert (newest["actor"], newest["action"]) == ("browser:owner", "acknowledge_attention")


def test_tools_that_were_denied_need_somebody(site: Site) -> None:
    site.project.write("jobs:\n  write: {prompt: go, agent: claude}\n")
    site.project.ok("apply")
    ran(site, "write", DENIED)
    assert "denied write was denied Bash, Write and completed without them" in site.get("/").words


def test_all_jobs_that_need_somebody_come_after_what_is_broken(site: Site) -> None:
    ran(site, "other", FAILED)
    ran(site, "hello", FAILED)
    words = site.get("/").words
    assert words.index("failing hello") < words.index("failing other")


def test_a_pause_of_everything_is_told_with_how_to_go_on(site: Site) -> None:
    site.project.ok("pause", "--all", "--reason", "kernel upgrade")
    words = site.get("/").words
    assert "Everything is paused (kernel upgrade)" in words
    assert "rota resume --all" in words


# the timeline


def test_a_run_is_drawn_with_a_link_and_words_that_explain_it(site: Site) -> None:
    ran(site, "hello", FAILED)
    page = site.get("/")
    assert page.all("rect", class_="run failed")
    assert "<title>hello:1 failed, 12:00:00, took 2 s</title>" in page.html
    assert {"href": "/ui/runs/hello:1", "tabindex": "-1"} in page.all("a")


def test_coming_fires_are_ticks_in_words_too(site: Site) -> None:
    assert "no runs; next in 15 h: Mon 03:00" not in site.get("/").words
    assert "no runs; next in 15 h: Mon 03:00, Tue 03:00, Wed 03:00" in site.get("/?span=3d").words


def test_the_timeline_goes_as_far_as_is_asked_for(site: Site) -> None:
    ran(site, "hello")
    site.clock.advance(timedelta(hours=2))
    assert site.get("/?span=3h").all("rect", class_="run completed")[0]["x"] == "166.6"
    assert len(site.get("/?span=1h").all("rect", class_="run completed")) == 0
    site.get("/?span=5y", status=422)


def test_times_are_those_of_the_chosen_zone(site: Site) -> None:
    ran(site, "hello")
    assert "hello:1 completed, 21:00:00" in site.get("/", cookies={"rota_zone": "Asia%2FTokyo"}).html


# what runs, what is next, budgets


def test_a_run_under_way_is_shown_with_its_last_lines(site: Site) -> None:
    from rota.runners.output import folder_of, make_folder

    site.project.ok("trigger", "hello")
    site.project.begin()
    (run,) = site.api.get("/runs")["items"]
    written = "one\ntwo\nthree\n\x1b[31m<b>four</b>\x1b[0m\n"
    (make_folder(folder_of(site.project.state, run["id"])) / "output.0").write_text(written)
    page = site.get("/?fragment=running")
    assert "two three <b>four</b>" in page.words
    assert not page.all("b")
    assert page.all("section")[0]["data-every"] == "1500"


def test_what_is_next_and_the_budgets_are_told(site: Site) -> None:
    page = site.get("/")
    assert "Next 3 jobs hello in 15 h Mon 03:00" in page.words
    assert "day 0 of 100 runs today" in page.words


@pytest.mark.parametrize("part", ["needs", "timeline", "running", "next", "budgets"])
def test_each_part_is_given_alone(site: Site, part: str) -> None:
    page = site.get(f"/?fragment={part}")
    assert page.all("section", data_fragment=part)
    assert not page.all("main")


def test_names_and_errors_are_text_and_nothing_else(site: Site) -> None:
    ran(site, "hello", Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=1, error='"><script>alert(1)</script>'))
    page = site.get("/")
    assert '"><script>alert(1)</script>' in page.words
    assert len(page.all("script")) == 3


def test_the_page_is_small(site: Site) -> None:
    for _ in range(12):
        ran(site, "hello", FAILED)
        ran(site, "other")
    assert len(site.get("/").html) < 40_000
