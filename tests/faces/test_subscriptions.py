"""Windows of subscriptions as people see them: how full, when they reset, what is kept (R-19)."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from rota.model.agents import SubscriptionWindow
from rota.model.records import Outcome
from rota.model.states import Status
from tests.faces.conftest import Project

FILE = """timezone: Europe/Madrid
budgets: {claude-window: {of: subscription, keep: 30%, provider: anthropic}}
jobs: {review: {prompt: look, agent: claude}}
"""
DONE = Outcome(Status.COMPLETED, exit_code=0, provider="anthropic")


def report(project: Project, *windows: SubscriptionWindow) -> None:
    project.ok("trigger", "review")
    project.carry_out([replace(DONE, windows=windows)])


@pytest.fixture
def told(project: Project) -> Project:
    project.applied(FILE)
    now = project.clock.now()
    five = SubscriptionWindow("five_hour", 0.825, now + timedelta(hours=2))
    report(project, five, SubscriptionWindow("seven_day", None, now + timedelta(days=9)))
    return project


def test_without_a_report_it_says_so(project: Project) -> None:
    project.applied(FILE)
    assert "windows of anthropic: not reported\n" in project.ok("agents")
    [one] = project.json("agents")["subscriptions"]
    assert (one["provider"], one["windows"], one["closed_until"]) == ("anthropic", [], None)
    assert one["budgets"] == [{"name": "claude-window", "keep": 0.3}]


def test_agents_show_how_full_the_windows_are_and_when_they_reset(told: Project) -> None:
    text = told.ok("agents")
    assert "windows of anthropic: five_hour 82.5 % used, resets " in text
    assert "; seven_day not reported, resets " in text
    assert "claude-window keeps 30 % of each window of anthropic\nruns of anthropic wait until " in text
    [one] = told.json("agents")["subscriptions"]
    assert [(each["name"], each["used"]) for each in one["windows"]] == [("five_hour", 0.825), ("seven_day", None)]
    assert one["closed_until"] == one["windows"][0]["resets_at"]


def test_budgets_show_them_too_and_one_by_its_name(told: Project) -> None:
    assert "windows of anthropic: five_hour 82.5 % used" in told.ok("budgets")
    assert "runs of anthropic wait until" in told.ok("budgets", "claude-window")
    assert told.json("budgets", "claude-window") == {"subscriptions": told.json("budgets")["subscriptions"]}


def test_a_report_from_before_a_reset_is_no_longer_shown_as_now(told: Project) -> None:
    told.clock.advance(timedelta(hours=3))
    text = told.ok("agents")
    assert "five_hour not reported since its reset " in text
    assert "wait until" not in text


def test_the_export_has_it(told: Project) -> None:
    text = told.ok("export")
    assert "claude-window: {of: subscription, provider: anthropic, keep: 30%}" in text.replace('"', "")


def test_verify_and_check_are_content(told: Project) -> None:
    told.ok("verify")
    told.ok("check")
