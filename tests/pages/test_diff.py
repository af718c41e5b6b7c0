"""Two runs side by side: on the page, on the command line and in the API."""

import pytest
from msgspec.structs import replace

from rota.model.budgets import Usage
from tests.pages.conftest import Site
from tests.pages.test_runs import BROKEN, DONE, play

PAID = replace(DONE, usage=Usage(tokens_in=900, tokens_out=100, usd=2_500_000, model="haiku"))
DEARER = replace(DONE, usage=Usage(tokens_in=1900, tokens_out=100, usd=5_000_000, model="opus"))


@pytest.fixture
def ran(site: Site) -> Site:
    """Two runs of `hello` that differ in everything that is compared."""
    play(site, "hello", PAID, output="one\nsame\n")
    text = (site.project.folder / "rota.yaml").read_text()
    site.project.applied(text.replace("command: [echo, hello]", "command: [echo, hello, you], env: {MODE: fast}"))
    site.project.ok("trigger", "hello", "--param", "who=you")
    site.project.carry_out([DEARER], output="two <b>\nsame\n")
    return site


def test_the_page_compares_a_run_with_the_one_before_it(ran: Site) -> None:
    page = ran.get("/ui/runs/hello:2/diff")
    for told in ('"world" "you"', "haiku opus", "$2.50 $5.00", "– MODE", "version 1 version 2", "+two <b>", "-one"):
        assert told in page.words
    assert "env.MODE added" in page.words
    assert "/ui/runs/hello:2/diff" in ran.get("/ui/runs/hello:2").links


def test_another_run_is_named_in_the_address(ran: Site) -> None:
    play(ran, "other", BROKEN)
    page = ran.get("/ui/runs/other:1/diff?with=hello:1")
    assert "job differs hello other" in page.words


def test_a_first_run_asks_for_another_one_and_an_unknown_one_is_told(ran: Site) -> None:
    assert "hello:1 is the first run of its job" in ran.get("/ui/runs/hello:1/diff").words
    assert "no run" in ran.get("/ui/runs/hello:1/diff?with=hello:77").words
    assert "are the same run" in ran.get("/ui/runs/hello:1/diff?with=hello:1").words


def test_the_command_and_the_api_tell_the_same(ran: Site) -> None:
    printed = ran.project.ok("diff", "hello:1", "hello:2")
    for told in ("haiku", "opus", "env.MODE added", "-one", "+two <b>", "the same: "):
        assert told in printed
    answer = ran.api.get("/runs/hello:1/diff?with=hello:2")
    assert answer == ran.project.json("diff", "hello:1", "hello:2")
    assert [row["name"] for row in answer["facts"] if not row["same"]][:2] == ["definition", "param who"]
    assert answer["duration_ms"] == 0


def test_a_run_leads_to_the_runs_beside_it(ran: Site) -> None:
    page = ran.get("/ui/runs/hello:2")
    assert [link["href"] for link in page.all("a", rel="prev")] == ["/ui/runs/hello:1"]
    assert not page.all("a", rel="next")
    assert [link["href"] for link in ran.get("/ui/runs/hello:1").all("a", rel="next")] == ["/ui/runs/hello:2"]


def test_long_outputs_are_compared_from_their_ends(site: Site) -> None:
    for word in ("a", "b"):
        play(site, "hello", DONE, output="".join(f"{word} {number} {'<' * 300}\n" for number in range(3000)))
    page = site.get("/ui/runs/hello:2/diff")
    assert "only the last 1,000 lines of hello:1 are compared" in page.words
    assert "more lines: rota diff prints all of them" in page.words
    assert len(page.html.encode()) <= 100_000
