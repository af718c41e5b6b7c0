"""The pages of groups: the list, the graph of members, and where the time went."""

from datetime import timedelta

import pytest

from rota.operations.admin.access import Scope
from tests.pages.conftest import Site
from tests.pages.test_run import retrying
from tests.pages.test_runs import BROKEN, DONE, play


@pytest.fixture
def ran(site: Site) -> Site:
    """A group whose first member took a minute, and whose second one failed."""
    site.project.ok("trigger", "both")
    site.project.carry_out([DONE], took=timedelta(minutes=1))
    site.project.carry_out([BROKEN], took=timedelta(minutes=2))
    return site


def test_the_list_names_groups_with_their_newest_run(ran: Site) -> None:
    page = ran.get("/ui/groups")
    assert "both both:1 Partial" in page.words
    assert "1 completed, 1 failed" in page.words
    assert "/ui/groups/both:1" in page.links
    assert page.all("a", aria_current="page") == [{"href": "/ui/groups", "aria-current": "page"}]


def test_without_groups_the_list_says_how_to_declare_one(site: Site) -> None:
    site.project.applied("jobs:\n  hello: {command: [echo, hello]}\n")
    assert "No groups" in site.get("/ui/groups").words


def test_a_group_is_drawn_with_links_to_its_members(ran: Site) -> None:
    page = ran.get("/ui/groups/both:1")
    (graph,) = page.all("svg", class_="graph")
    assert graph["aria-label"] == "both:1: 2 members, sequential"
    assert {"/ui/runs/hello:1", "/ui/runs/other:1"} <= set(page.links)
    assert len(page.all("path", class_="edge")) == 1


def test_a_group_shows_where_its_time_went(ran: Site) -> None:
    page = ran.get("/ui/groups/both:1")
    labels = [svg["aria-label"] for svg in page.all("svg", class_="span-bar")]
    assert labels == ["hello:1: running 1 min", "other:1: runs before it 1 min, running 2 min"]
    assert "runs before it 1 min running 3 min" in page.words


def test_the_same_numbers_are_a_table_and_an_answer_of_the_api(ran: Site) -> None:
    page = ran.get("/ui/groups/both:1?as=table")
    assert not page.all("svg", class_="span-bar")
    assert "other:1 1 Failed" in page.words
    told = ran.api.get("/stats/groups/both:1")
    assert told["totals"] == {"predecessor": 60_000, "running": 180_000}
    assert told == ran.api.get("/stats/runs/both:1")
    assert [row["run"] for row in told["runs"]] == ["hello:1", "other:1"]


def test_a_group_that_failed_is_retried_and_one_that_runs_is_cancelled(ran: Site) -> None:
    page = ran.post("/ui/groups/both:1/retry")
    assert "both:2 retries both:1" in page.words
    assert "Cancel both:2?" in ran.post("/ui/groups/both:2/cancel").words
    done = ran.post("/ui/groups/both:2/cancel", confirm="yes")
    assert "both:2 is being cancelled" in done.words


def test_a_login_that_may_only_read_has_no_buttons(ran: Site) -> None:
    assert not [one for one in ran.get("/ui/groups/both:1", scope=Scope.READ).actions if "/ui/groups" in one]


def test_a_group_that_is_not_there_is_not_found(site: Site) -> None:
    assert "There is no group" in site.get("/ui/groups/nothing:1", status=404).words


@pytest.mark.parametrize("fragment", ["head", "graph", "spans", "older"])
def test_each_part_can_be_fetched_alone(ran: Site, fragment: str) -> None:
    page = ran.get(f"/ui/groups/both:1?fragment={fragment}")
    found = [one["data-fragment"] for tag in ("div", "section") for one in page.all(tag) if "data-fragment" in one]
    assert found == [fragment]


def test_a_chain_of_retries_has_its_own_bars_on_the_page_of_the_run(site: Site) -> None:
    retrying(site)
    play(site, "other", BROKEN)
    page = site.get("/ui/runs/other:2")
    labels = [svg["aria-label"] for svg in page.all("svg", class_="span-bar")]
    assert labels[0] == "other:1: running 2 s"
    assert labels[1].startswith("other:2: backoff 1 min")
    assert "backoff 1 min" in site.project.ok("spans", "other:1")
