"""The page of jobs: finding them, their last outcomes and next fires, and what is done from the list."""

from datetime import timedelta

import pytest

from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.operations.admin.access import Scope
from rota.operations.admin.audit import read_trail
from rota.operations.runs import history
from tests.pages.conftest import Page, Site

GOOD = Outcome(Status.COMPLETED, exit_code=0)
BAD = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3)


def listed(page: Page) -> list[str]:
    """Return the jobs that a page lists, in order."""
    paths = [link.partition("/ui/jobs/")[2] for link in page.links if "/ui/jobs/" in link]
    return list(dict.fromkeys(paths))


def test_each_job_is_listed_with_its_schedule_its_state_and_its_next_fire(site: Site) -> None:
    page = site.get("/ui/jobs")
    assert listed(page) == ["both", "hello", "other"]
    assert "hello at 03:00 every day Idle – – – in 15 h Mon 03:00" in page.words
    assert "3 jobs" in page.words


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?q=HELL", ["hello"]),
        ("?q=greeting", ["hello"]),
        ("?label=greeting", ["hello"]),
        ("?state=idle&sort=next", ["hello", "both", "other"]),
        ("?state=paused", []),
        ("?q=nothing+like+it", []),
    ],
)
def test_jobs_are_found_by_text_label_and_state(site: Site, query: str, found: list[str]) -> None:
    assert listed(site.get(f"/ui/jobs{query}")) == found


def test_a_search_without_a_match_says_so_and_leads_back(site: Site) -> None:
    page = site.get("/ui/jobs?q=nothing+like+it")
    assert "No matching jobs" in page.words
    assert "/ui/jobs" in page.links


def test_a_state_that_does_not_exist_is_told_on_a_page(site: Site) -> None:
    assert "no job state is named 'red'" in site.get("/ui/jobs?state=red", status=422).words.lower()


def test_the_last_days_are_a_strip_that_a_screen_reader_can_say(site: Site) -> None:
    for outcome in (GOOD, BAD, GOOD):
        site.project.ok("trigger", "hello")
        site.project.carry_out([outcome])
    page = site.get("/ui/jobs")
    drawn = [strip["aria-label"] for strip in page.all("svg", class_="strip")]
    assert "last 14 days: 2 completed, 1 failed, 0 skipped" in drawn
    assert "66.7 %" in page.words


def test_a_job_that_fails_is_told_as_such_and_counted(site: Site) -> None:
    site.project.ok("trigger", "hello")
    site.project.carry_out([BAD])
    page = site.get("/ui/jobs")
    assert "Failing 1" in page.words
    assert "FAILED exit 3" in page.words
    assert listed(site.get("/ui/jobs?state=failing")) == ["hello"]


def test_a_job_is_run_from_the_list(site: Site) -> None:
    page = site.post("/ui/jobs/hello/run", back="/ui/jobs?q=hello")
    assert "hello:1 is in the queue" in page.words
    assert str(page.response.url).endswith("/ui/jobs?q=hello")
    assert [run.handle for run in history(site.store, limit=9)] == ["hello:1"]


def test_what_is_refused_is_told_where_the_form_was(site: Site) -> None:
    site.post("/ui/jobs/other/run", back="/ui/jobs")
    page = site.post("/ui/jobs/other/run", back="/ui/jobs")
    assert page.all("div", class_="message bad")
    assert "other" in page.words


def test_a_pause_asks_how_long_and_why_and_is_shown(site: Site) -> None:
    asked = site.post("/ui/jobs/hello/pause", back="/ui/jobs")
    assert "It does not fire until it is resumed" in asked.words
    page = site.post("/ui/jobs/hello/pause", **{"for": "2h", "until": "", "reason": "upgrade", "back": "/ui/jobs"})
    assert "hello is paused until 14:00 (upgrade)" in page.words
    assert "paused until 14:00 (upgrade)" in site.get("/ui/jobs?state=paused").words


def test_a_pause_that_ends_in_two_ways_is_refused(site: Site) -> None:
    page = site.post("/ui/jobs/hello/pause", **{"for": "2h", "until": "22:00", "back": "/ui/jobs"})
    assert "not both" in page.words


def test_a_paused_job_is_resumed_from_the_list(site: Site) -> None:
    site.project.ok("pause", "hello")
    site.clock.advance(timedelta(days=2))
    page = site.post("/ui/jobs/hello/resume", back="/ui/jobs")
    assert "hello is resumed; 2 instants in the pause skipped" in page.words


def test_a_disabled_job_that_was_made_here_is_enabled_from_the_list(site: Site) -> None:
    site.post("/ui/new", name="mine", kind="command", work="true", others="enabled: false")
    page = site.get("/ui/jobs?state=disabled")
    assert [button["formaction"] for button in page.all("button", form="act")] == ["/ui/jobs/mine/enable"]
    assert "mine is enabled" in site.post("/ui/jobs/mine/enable", back="/ui/jobs").words


def test_who_may_only_read_sees_no_buttons_and_changes_nothing(site: Site) -> None:
    page = site.get("/ui/jobs", scope=Scope.READ)
    assert not page.all("button", form="act")
    assert "/ui/new" not in page.links
    refused = site.post("/ui/jobs/hello/run", scope=Scope.READ)
    assert refused.status == 403
    assert history(site.store, limit=9) == []


def test_a_pause_of_everything_stands_above_the_list(site: Site) -> None:
    site.project.ok("pause", "--all", "--reason", "kernel upgrade")
    assert "Everything is paused since 12:00 : kernel upgrade" in site.get("/ui/jobs").words


def test_a_project_without_jobs_tells_how_to_begin(site: Site) -> None:
    site.project.write("jobs: {}\n")
    site.project.ok("apply", "--allow-empty")
    assert "No jobs yet" in site.get("/ui/jobs").words


def test_the_list_alone_is_given_for_a_live_page(site: Site) -> None:
    part = site.get("/ui/jobs?q=hello&fragment=list")
    assert part.all("div", id="fragment-list")
    assert not part.all("html")
    assert listed(part) == ["hello"]


CHOSEN = ["hello", "other"]


def test_chosen_jobs_are_started_after_a_question(site: Site) -> None:
    asked = site.post("/ui/chosen/run", job=CHOSEN)
    assert "Start 2 jobs now?" in asked.words
    assert history(site.store, limit=9) == []
    page = site.post("/ui/chosen/run", job=CHOSEN, confirm="yes", back="/ui/jobs?sort=next")
    assert "2 jobs started: hello, other" in page.words
    assert str(page.response.url).endswith("/ui/jobs?sort=next")
    assert {run.handle for run in history(site.store, limit=9)} == {"hello:1", "other:1"}


def test_a_refused_job_costs_the_chosen_others_nothing(site: Site) -> None:
    page = site.post("/ui/chosen/run", job=["hello", "nothere", "other"], confirm="yes")
    assert "2 jobs started: hello, other; 1 refused" in page.words
    assert "nothere: no job is named 'nothere'" in page.words
    assert page.all("div", class_="message bad")


def test_chosen_jobs_are_paused_together_with_one_reason_and_resumed(site: Site) -> None:
    asked = site.post("/ui/chosen/pause", job=CHOSEN)
    assert "Pause 2 jobs" in asked.words
    assert [box["value"] for box in asked.all("input", type="hidden", name="job")] == CHOSEN
    page = site.post("/ui/chosen/pause", **{"job": CHOSEN, "for": "2h", "reason": "new disk"})
    assert "2 jobs paused: hello, other" in page.words
    assert "paused until 14:00 (new disk)" in page.words
    page = site.post("/ui/chosen/resume", job=["both", *CHOSEN])
    assert "2 jobs resumed: hello, other; both was not paused" in page.words


def test_what_chosen_jobs_need_is_acknowledged(site: Site) -> None:
    for job in CHOSEN:
        site.project.ok("trigger", job)
        site.project.carry_out([BAD])
    page = site.post("/ui/chosen/acknowledge", job=["both", *CHOSEN])
    assert "2 jobs acknowledged: hello, other; both needs no attention" in page.words
    page = site.post("/ui/chosen/acknowledge", job=["hello"])
    assert "no job acknowledged; hello needs no attention" in page.words


def test_an_action_on_no_job_says_so(site: Site) -> None:
    assert "no job is chosen" in site.post("/ui/chosen/pause").words
    assert site.post("/ui/chosen/delete", job=CHOSEN).status == 422


def test_the_audit_names_the_chosen_jobs(site: Site) -> None:
    site.post("/ui/chosen/resume", job=CHOSEN)
    entry = read_trail(site.store, limit=1)[0]
    assert (entry.action, entry.target) == ("act_on_chosen_jobs", "resume: hello, other")


def test_a_token_that_only_reads_sees_no_boxes(site: Site) -> None:
    page = site.get("/ui/jobs", scope=Scope.READ)
    assert page.all("input", type="checkbox") == []
    assert site.post("/ui/chosen/run", Scope.READ, job=CHOSEN).status == 403


def test_jobs_are_ordered_by_the_statistics_of_the_last_days(site: Site) -> None:
    for job, outcome in (("hello", GOOD), ("other", BAD), ("other", BAD)):
        site.project.ok("trigger", job)
        site.project.carry_out([outcome])
    assert listed(site.get("/ui/jobs?sort=failures"))[:2] == ["other", "hello"]
    assert listed(site.get("/ui/jobs?sort=success"))[:2] == ["other", "hello"]
