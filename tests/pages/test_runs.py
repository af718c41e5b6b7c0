"""The page of runs: filters, text, collapsed neighbours, pages; no scripts needed."""

from datetime import timedelta
from functools import partial

import pytest

from rota.model.ids import new_id
from rota.model.records import Outcome
from rota.model.states import Reason, Status, Trigger
from rota.operations.jobs import find_job
from rota.operations.runs import MAX_SCANNED_ROWS
from rota.store.tables.runs import NewRun, NewRunVariant, insert_runs
from tests.pages.conftest import Site

DONE = Outcome(Status.COMPLETED, exit_code=0, summary="all is well")
BROKEN = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3, error="disk <full>")


def play(site: Site, job: str, *outcomes: Outcome, output: str = "") -> None:
    for outcome in outcomes:
        site.project.ok("trigger", job)
        site.project.carry_out([outcome], output=output)
        site.clock.advance(timedelta(minutes=1))


@pytest.fixture
def ran(site: Site) -> Site:
    """Three good runs of `hello`, then one of `other` that failed."""
    play(site, "hello", DONE, DONE, DONE)
    play(site, "other", BROKEN)
    return site


def test_without_runs_the_page_says_how_to_get_one(site: Site) -> None:
    assert "No runs yet" in site.get("/ui/runs").words


def test_equal_neighbours_are_one_line_that_leads_to_each(ran: Site) -> None:
    page = ran.get("/ui/runs")
    assert "hello ×3" in page.words
    assert "/ui/runs/other:1" in page.links
    each = next(link for link in page.links if "job=hello" in link)
    assert [link for link in ran.get(each).links if link.startswith("/ui/runs/hello")] == [
        "/ui/runs/hello:3",
        "/ui/runs/hello:2",
        "/ui/runs/hello:1",
    ]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("status=FAILED", ["other:1"]),
        ("reason=exit_code", ["other:1"]),
        ("job=hello&each=true", ["hello:3", "hello:2", "hello:1"]),
        ("label=greeting&each=true", ["hello:3", "hello:2", "hello:1"]),
        ("trigger=manual&each=true", ["other:1", "hello:3", "hello:2", "hello:1"]),
        ("trigger=schedule", []),
        ("agent=claude", []),
        ("q=FULL", ["other:1"]),
        ("q=nowhere", []),
        ("since=90s&each=true", ["other:1"]),
        ("until=90s&each=true", ["hello:3", "hello:2", "hello:1"]),
    ],
)
def test_runs_are_found_by_what_they_are_and_say(ran: Site, query: str, found: list[str]) -> None:
    page = ran.get(f"/ui/runs?{query}")
    assert [link.removeprefix("/ui/runs/") for link in page.links if link.startswith("/ui/runs/")] == found
    if not found:
        assert "No run fits" in page.words


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("status=WRONG", "no status is named 'WRONG'"),
        ("reason=wrong", "no reason is named 'wrong'"),
        ("trigger=wrong", "no trigger is named 'wrong'"),
        ("since=wrong", "'wrong'"),
        ("job=nobody", "no job is named 'nobody'"),
        ("cursor=x", "the cursor is not valid"),
    ],
)
def test_a_filter_that_means_nothing_is_told_on_the_page(ran: Site, query: str, told: str) -> None:
    page = ran.get(f"/ui/runs?{query}")
    assert "Newest first" in page.words
    assert told in page.words
    assert not [link for link in page.links if link.startswith("/ui/runs/")]


def test_a_page_leads_to_the_older_runs_and_back(site: Site) -> None:
    for _ in range(51):
        site.project.ok("trigger", "hello")
    page = site.get("/ui/runs?each=true")
    older = next(link for link in page.links if "cursor=" in link)
    after = site.get(older)
    assert [link for link in after.links if link.startswith("/ui/runs/hello")] == ["/ui/runs/hello:1"]
    assert "Newest" in after.words


def test_a_search_that_has_far_to_go_says_how_far_it_came_and_goes_on(ran: Site) -> None:
    job = ran.store.read(partial(find_job, name="other"))
    at = ran.clock.now()
    siblings = [NewRunVariant(new_id(at)) for _ in range(MAX_SCANNED_ROWS)]
    shared = NewRun(id=new_id(at), job=job, trigger=Trigger.MANUAL, created_at=at)
    ran.store.write(partial(insert_runs, shared=shared, variants=siblings, first=2))
    page = ran.get("/ui/runs?q=full")
    assert "Nothing found so far" in page.words
    assert "Searched back to" in page.words
    further = next(found["href"] for found in page.all("a", rel="next"))
    assert "/ui/runs/other:1" in ran.get(further).links


def test_what_runs_say_is_escaped(ran: Site) -> None:
    page = ran.get("/ui/runs")
    assert "disk <full>" in page.words
    assert "<full>" not in page.html


def test_the_list_can_be_fetched_alone(ran: Site) -> None:
    page = ran.get("/ui/runs?status=FAILED&fragment=list")
    assert "other:1" in page.words
    assert not page.all("html")
