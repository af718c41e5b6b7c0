"""`budgets: {x: {of: subscription}}`: what is read, what is refused, and how it is written again."""

from pathlib import Path

import pytest
from tests.unit.declare.test_budget_keys import account_refused, read, refused

from rota.declare.plan import StoredSettings, settings_differences
from rota.model.budgets import Subscription

JOBS = "jobs: {a: {prompt: look, agent: claude}}\n"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("{of: subscription, keep: 30%}", Subscription("x", 300_000)),
        ("{of: subscription, keep: 12.5 %, provider: anthropic}", Subscription("x", 125_000, "anthropic")),
        ("{of: subscription, keep: 1%, provider: anthropic/work}", Subscription("x", 10_000, "anthropic/work")),
    ],
)
def test_what_is_written_is_meant(tmp_path: Path, written: str, meant: Subscription) -> None:
    settings = read(tmp_path, f"budgets: {{x: {written}}}\n{JOBS}").settings
    assert (settings.subscriptions, settings.budgets) == ({"x": meant}, {})


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("{of: subscription}", "budgets.x: has no `keep`"),
        ("{of: subscription, keep: 30}", "budgets.x.keep: 30 is not a percentage"),
        ("{of: subscription, keep: lots}", 'budgets.x.keep: "lots" is not a percentage'),
        ("{of: subscription, keep: 0%}", 'budgets.x.keep: "0%" is not between 1% and 99%'),
        ("{of: subscription, keep: 100%}", 'budgets.x.keep: "100%" is not between 1% and 99%'),
        ("{of: plan, keep: 30%}", 'budgets.x.of: "plan" is not one of subscription'),
        ("{of: subscription, keep: 30%, per: day}", "budgets.x.per: unknown key"),
        ("{of: subscription, keep: 30%, provider: 'a b'}", "budgets.x.provider:"),
    ],
)
def test_each_refusal_is_at_its_place(tmp_path: Path, written: str, told: str) -> None:
    assert account_refused(tmp_path, written).startswith(told)


def test_a_job_does_not_name_it(tmp_path: Path) -> None:
    text = "budgets: {x: {of: subscription, keep: 30%}}\njobs: {a: {prompt: look, agent: claude, budget: x}}\n"
    [problem] = refused(tmp_path, text)
    assert problem.startswith('jobs.a.budget: "x" is no account')


def test_a_provider_without_an_agent_is_noted(tmp_path: Path) -> None:
    text = "budgets: {x: {of: subscription, keep: 30%, provider: antropic}}\n"
    assert "budgets.x: no job has an agent of antropic" in read(tmp_path, text + JOBS).notes
    right = text.replace("antropic", "anthropic")
    assert not [note for note in read(tmp_path, right + JOBS).notes if "budgets" in note]


def test_a_change_is_planned(tmp_path: Path) -> None:
    settings = read(tmp_path, f"budgets: {{x: {{of: subscription, keep: 30%}}}}\n{JOBS}").settings
    told = settings_differences(settings, StoredSettings(subscriptions={"x": Subscription("x", 500_000, "openai")}))
    said = "budget x keeps 50 % of each window of openai -> keeps 30 % of each window of every subscription"
    assert said in told
