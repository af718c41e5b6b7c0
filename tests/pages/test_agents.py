"""The page of agents and budgets: costs, accounts, holds, and proposals with exactly what they would do."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from rota.http.pages.page import LARGEST
from rota.model.agents import SubscriptionWindow
from rota.model.budgets import Usage
from rota.model.records import Outcome
from rota.model.states import Status
from rota.operations.admin.access import Scope
from rota.operations.jobs import show_job
from tests.faces.test_made_by_agents import FILE
from tests.faces.test_subscriptions import FILE as KEPT
from tests.faces.test_subscriptions import report
from tests.faces.test_tools import DAILY, Tools
from tests.pages.conftest import Site
from tests.pages.test_runs import DONE

NAME = str(DAILY["name"])
MANY = "{approval: required, max_active: 50, creations_per_hour: 50}"
LONG = "'" * 20_000
TASK = "Look at <CI>.\nThen tell."


@pytest.fixture
def proposed(site: Site) -> Site:
    """A project in which a job waits for approval."""
    Tools(site.project.applied(FILE)).call("schedule_job", **{**DAILY, "task": TASK})
    return site


def test_without_agents_and_budgets_the_page_says_so(site: Site) -> None:
    site.project.applied("jobs: {plain: {command: 'true'}}")
    words = site.get("/ui/agents").words
    assert "No budgets" in words
    assert "No agent ran in the last 14 days" in words


def test_accounts_show_what_is_used_left_and_forecast(site: Site) -> None:
    words = site.get("/ui/agents").words
    for told in ("day", "0 of 100", "100 left", "Forecast"):
        assert told in words


def test_what_agents_used_is_shown_by_day_and_job(site: Site) -> None:
    site.project.applied(FILE)
    site.project.ok("trigger", "nightly")
    used = Usage(tokens_in=1200, tokens_out=300, usd=420_000)
    site.project.carry_out([replace(DONE, usage=used)])
    page = site.get("/ui/agents")
    assert "$0.42" in page.words
    assert "1,500" in page.words
    assert "/ui/jobs/nightly" in page.links


def test_a_proposal_shows_its_exact_prompt_access_and_fires(proposed: Site) -> None:
    page = proposed.get("/ui/agents")
    assert "waits for your approval" in page.words
    assert "Look at <CI>. Then tell." in page.words
    assert "would start" in page.words


def test_a_proposal_has_a_page_of_its_own(proposed: Site) -> None:
    page = proposed.get(f"/ui/agents/{NAME}")
    assert "Look at <CI>. Then tell." in page.words
    assert f"/ui/agents/{NAME}/approve" in page.actions
    assert f"/ui/agents/{NAME}" in proposed.get("/").links


def test_the_prompt_of_a_proposal_is_a_text_of_its_own(proposed: Site) -> None:
    response = proposed.browser().get(f"/ui/agents/{NAME}/prompt")
    assert response.text == TASK
    assert response.headers["content-type"] == "text/plain; charset=utf-8"


def test_a_job_that_waits_for_nobody_has_no_page_of_a_proposal(proposed: Site) -> None:
    assert "plain" in proposed.get("/ui/agents/plain", status=409).words


@pytest.fixture
def crowded(site: Site) -> Site:
    """A project with many long proposals."""
    tools = Tools(site.project.applied(FILE.replace("{approval: required}", MANY)))
    for number in range(14):
        tools.call("schedule_job", **{**DAILY, "name": f"watch-{number}", "task": f"{number:02}{LONG[2:]}"})
    return site


def test_a_page_of_many_long_proposals_stays_small_and_leads_to_each(crowded: Site) -> None:
    page = crowded.get("/ui/agents")
    assert len(page.html.encode()) <= LARGEST
    assert "20,000 characters, these are the first 2,000" in page.words
    assert {f"/ui/agents/watch-{number}" for number in range(14)} <= set(page.links)


def test_a_proposal_is_approved_only_where_its_prompt_was_read(crowded: Site) -> None:
    """An approval is for exactly what was seen."""
    assert not [action for action in crowded.get("/ui/agents").actions if action.endswith("/approve")]
    page = crowded.get("/ui/agents/watch-3")
    assert len(page.html.encode()) <= LARGEST
    assert "/ui/agents/watch-3/approve" in page.actions
    assert "/ui/agents/watch-3/prompt" in page.links, "five bytes for each character do not fit the page"


def test_a_proposal_is_approved_as_it_was_shown(proposed: Site) -> None:
    digest = proposed.get("/ui/agents").all("input", name="digest")[0]["value"]
    assert "is approved" in proposed.post(f"/ui/agents/{NAME}/approve", digest=digest).words
    assert show_job(proposed.store, NAME).job.provisional_at is None


def test_a_proposal_that_changed_since_is_not_approved(proposed: Site) -> None:
    """An approval is for exactly what was seen."""
    proposed.post(f"/ui/agents/{NAME}/approve", digest="0" * 64)
    assert show_job(proposed.store, NAME).job.provisional_at is not None


def test_a_proposal_is_turned_down_after_a_question(proposed: Site) -> None:
    assert f"Reject {NAME}?" in proposed.post(f"/ui/agents/{NAME}/refuse").words
    assert "is rejected" in proposed.post(f"/ui/agents/{NAME}/refuse", confirm="yes").words
    assert show_job(proposed.store, NAME).job.retired_at is not None


def test_who_may_not_do_everything_approves_nothing(proposed: Site) -> None:
    assert "Approve" not in proposed.get("/ui/agents", scope=Scope.RUN).words
    assert proposed.post(f"/ui/agents/{NAME}/approve", Scope.RUN, digest="x").status == 403


def test_an_outcome_without_usage_is_unknown_and_not_nothing(site: Site) -> None:
    """R-19: unknown cost shows `?`, never 0."""
    site.project.applied(FILE)
    site.project.ok("trigger", "nightly")
    site.project.carry_out([Outcome(Status.COMPLETED, exit_code=0)])
    assert "last 14 days: ?, ? tokens, 1 run" in site.get("/ui/agents").words


def test_the_dashboard_shows_them(site: Site) -> None:
    site.project.applied(KEPT)
    reset = site.project.clock.now() + timedelta(hours=2)
    report(site.project, SubscriptionWindow("five_hour", 0.825, reset), SubscriptionWindow("<b>", 0.1))
    page = site.get("/ui/agents")
    for words in ("Subscriptions", "five_hour", "82.5 % used", "claude-window keeps 30 %", "<b>"):
        assert words in page.words
