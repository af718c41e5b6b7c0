"""The page of the queue: order, pools, why the first waits, and what is done about it."""

from datetime import timedelta

import pytest

from rota.model.states import Status
from rota.operations.admin.access import Scope
from rota.operations.queue import look_at_queue
from rota.operations.runs import show_run
from tests.pages.conftest import Site


@pytest.fixture
def queued(site: Site) -> Site:
    """A project with three queued runs of `hello`."""
    for _ in range(3):
        site.project.ok("trigger", "hello")
        site.clock.advance(timedelta(seconds=1))
    return site


def order(site: Site) -> list[int]:
    found = look_at_queue(site.store, site.project.state, limit=9, now=site.clock.now())
    return [one.run.number for one in found.ready]


def test_an_empty_queue_says_so(site: Site) -> None:
    assert "The queue is empty" in site.get("/ui/queue").words


def test_the_queue_shows_its_order_and_why_the_first_waits(queued: Site) -> None:
    page = queued.get("/ui/queue")
    assert "hello:1 is first and waits: no scheduler is running" in page.words
    assert [row["data-run"] for row in page.all("tr") if "data-run" in row] == ["hello:1", "hello:2", "hello:3"]
    assert "who=world" in page.words


def test_pools_are_shown_as_gauges_with_who_draws_on_them(site: Site) -> None:
    site.project.ok("trigger", "other")
    site.project.begin()
    page = site.get("/ui/queue")
    assert "gpu: 1 of 1 taken" in [found.get("aria-label") for found in page.all("svg")]
    assert "/ui/runs/other:1" in page.links


def test_what_waits_for_something_stands_apart_with_what_for(site: Site) -> None:
    text = (site.project.folder / "rota.yaml").read_text()
    site.project.applied(text.replace("overlap: allow", "overlap: queue"))
    for _ in range(2):
        site.project.ok("trigger", "hello")
    assert "waits for predecessor hello:1" in site.get("/ui/queue").words


@pytest.mark.parametrize(
    ("run", "to", "after"),
    [(3, "up", [1, 3, 2]), (1, "down", [2, 1, 3]), (3, "first", [3, 1, 2]), (1, "last", [2, 3, 1])],
)
def test_a_run_is_moved(queued: Site, run: int, to: str, after: list[int]) -> None:
    """DEC-005."""
    page = queued.post(f"/ui/queue/hello:{run}/move", to=to, back="/ui/queue")
    assert order(queued) == after
    assert f"hello:{run} is at place {after.index(run) + 1}" in page.words


def test_a_move_to_nowhere_is_refused(queued: Site) -> None:
    assert "cannot be moved 'away'" in queued.post("/ui/queue/hello:1/move", to="away").words
    assert order(queued) == [1, 2, 3]


def test_a_cancel_asks_and_says_what_it_hits(queued: Site) -> None:
    queued.clock.advance(timedelta(minutes=5))
    asked = queued.post("/ui/queue/hello:2/cancel", back="/ui/queue")
    assert "Cancel hello:2?" in asked.words
    assert "params: who = 'world'" in asked.words
    assert order(queued) == [1, 2, 3]
    assert "hello:2 is cancelled" in queued.post("/ui/queue/hello:2/cancel", confirm="yes", back="/ui/queue").words
    assert show_run(queued.store, "hello:2").run.status is Status.CANCELLED


def test_params_and_priority_of_a_queued_run_are_changed(queued: Site) -> None:
    """INV-001: while it is QUEUED."""
    form = queued.get("/ui/queue/hello:2")
    assert form.all("input", name="param.who")[0]["value"] == "world"
    page = queued.post("/ui/queue/hello:2/edit", **{"param.who": "me", "priority": "7"})
    assert "hello:2: who = 'me', priority 7" in page.words
    changed = show_run(queued.store, "hello:2").run
    assert (dict(changed.params), changed.priority, order(queued)) == ({"who": "me"}, 7, [2, 1, 3])


def test_an_edit_that_changes_nothing_says_so(queued: Site) -> None:
    page = queued.post("/ui/queue/hello:2/edit", **{"param.who": "world", "priority": "0"})
    assert "hello:2 is unchanged" in page.words


def test_a_priority_that_is_no_number_is_refused(queued: Site) -> None:
    assert "'high' is not a priority" in queued.post("/ui/queue/hello:2/edit", priority="high").words


def test_a_run_that_has_started_is_not_edited(queued: Site) -> None:
    """INV-001."""
    queued.project.begin()
    assert "is no longer in the queue" in queued.get("/ui/queue/hello:1", status=422).words
    queued.post("/ui/queue/hello:1/edit", **{"param.who": "me"})
    assert show_run(queued.store, "hello:1").run.params["who"] == "world"


def test_who_may_only_read_moves_nothing(queued: Site) -> None:
    page = queued.get("/ui/queue", scope=Scope.READ)
    assert not [action for action in page.actions if action.startswith("/ui/queue")]
    assert not page.all("button", form="ask")
    assert queued.post("/ui/queue/hello:3/move", scope=Scope.READ, to="first").status == 403
    assert order(queued) == [1, 2, 3]


def test_parts_of_the_page_are_given_alone(queued: Site) -> None:
    part = queued.get("/ui/queue?fragment=head,ready,waiting")
    assert not part.all("html")
    assert [one["id"] for one in (*part.all("div"), *part.all("section")) if "data-fragment" in one] == [
        "fragment-head",
        "fragment-ready",
        "fragment-waiting",
    ]
