"""The page of the digest."""

from rota.model.records import Outcome
from rota.model.states import Reason, Status
from tests.pages.conftest import Site

FAILED = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3, error="exit 3: <b>no such table</b>")


def test_it_shows_what_failed_and_what_needs_attention_as_text(site: Site) -> None:
    site.api.project.ok("trigger", "hello")
    site.api.project.carry_out([FAILED])
    page = site.get("/ui/digest")
    assert "1 failed since" in page.words
    assert "hello:1 exit_code exit 3: <b>no such table</b>" in page.words
    assert "Needs attention hello FAILED exit_code" in page.words


def test_the_span_can_be_chosen_and_an_unknown_one_is_the_last_digest(site: Site) -> None:
    assert "no runs ended since" in site.get("/ui/digest?since=7d").words
    assert "no runs ended since" in site.get("/ui/digest?since=never").words


def test_the_api_and_the_command_answer_the_same(site: Site) -> None:
    site.api.project.ok("trigger", "hello")
    site.api.project.carry_out([FAILED])
    assert site.api.get("/digest") == site.api.project.json("digest")
