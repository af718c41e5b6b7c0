"""What a run is expected to cost, whether that fits, what it did cost, and how that is said (R-19)."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from rota.model.budgets import Account, Exceeded, Per, Price, Unit, Usage, Window
from rota.model.spec import Spend
from rota.model.states import Reason, WaitingFor
from rota.rules.admission import Admit, Defer, Skip
from rota.rules.budgets import (
    Charge,
    Estimate,
    EstimateOrigin,
    Settlement,
    cost_of,
    estimate_of,
    judge,
    say_amount,
    say_gate,
    say_usage,
    say_window,
    settle_at,
    used_of,
)

NOW = datetime(2026, 11, 15, tzinfo=UTC)
WINDOW = Window(NOW, NOW + timedelta(days=1))
DAY = Account("day", Unit.TOKENS, 1000, Per.DAY)


def charge(account: Account = DAY, *, used: int = 0, estimate: int = 100) -> Charge:
    return Charge(account, WINDOW, used, 0, Estimate(estimate, EstimateOrigin.JOB))


@pytest.mark.parametrize(
    ("spend", "account", "largest", "agent", "expected"),
    [
        (Spend("day", 7), replace(DAY, estimate=9), 8, 6, Estimate(7, EstimateOrigin.JOB)),
        (Spend("day", 0), replace(DAY, estimate=9), 8, None, Estimate(0, EstimateOrigin.JOB)),
        (Spend("day"), replace(DAY, estimate=9), 8, None, Estimate(8, EstimateOrigin.HISTORY)),
        (Spend("day"), replace(DAY, estimate=9), 0, None, Estimate(1, EstimateOrigin.HISTORY)),
        (Spend("day"), replace(DAY, unit=Unit.USD, estimate=9), None, 6, Estimate(6, EstimateOrigin.AGENT)),
        (Spend("day"), replace(DAY, estimate=9), None, 6, Estimate(9, EstimateOrigin.ACCOUNT)),
        (Spend("day"), replace(DAY, unit=Unit.REQUESTS), None, None, Estimate(1, EstimateOrigin.UNIT)),
        (Spend("day", 7), replace(DAY, unit=Unit.RUNS), 8, None, Estimate(1, EstimateOrigin.UNIT)),
        (Spend("day", 7, Unit.USD), replace(DAY, estimate=9), None, None, Estimate(9, EstimateOrigin.ACCOUNT)),
    ],
)
def test_the_estimate_comes_from_the_job_its_history_the_agent_or_the_account(
    spend, account, largest, agent, expected
) -> None:
    """R-19: in this order; an estimate in another unit than the account now has says nothing."""
    assert estimate_of(replace(spend, most=agent), account, largest=largest) == expected


def test_a_run_that_just_fits_goes() -> None:
    assert judge([charge(used=900)]) == Admit()


def test_a_run_that_does_not_fit_waits_for_the_next_window() -> None:
    """R-19: defer."""
    assert judge([charge(used=901)]) == Defer(WINDOW.until, WaitingFor.BUDGET)


def test_one_account_that_skips_decides() -> None:
    """R-19: skip."""
    skipping = replace(DAY, name="other", policy=Exceeded.SKIP)
    verdict = judge([charge(used=901), charge(skipping, used=950)])
    text = "other has no room for 100 tokens more: 950 of 1,000 tokens used or reserved"
    assert verdict == Skip(Reason.BUDGET, text)


def test_an_account_that_warns_never_stops_a_run() -> None:
    """R-19: warn, also for a run that is dearer than the whole limit."""
    warns = replace(DAY, policy=Exceeded.WARN)
    assert judge([charge(warns, used=5000, estimate=2000)]) == Admit()
    assert charge(warns, used=5000).answer == "warn"


def test_a_run_that_can_never_fit_is_skipped_whatever_the_policy() -> None:
    """R-19: it would wait for ever."""
    verdict = judge([charge(estimate=1001)])
    assert isinstance(verdict, Skip)
    assert "more than its whole limit of 1,000 tokens" in verdict.why


PRICES = {"sonnet": Price(3_000_000, 15_000_000)}


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage(usd=5, tokens_in=9, model="sonnet"), 5),
        (Usage(tokens_in=1_000_000, tokens_out=1_000_000, model="sonnet"), 18_000_000),
        (Usage(tokens_in=1, tokens_out=0, model="sonnet"), 3),
        (Usage(tokens_out=2, model="sonnet"), 30),
        (Usage(tokens_in=1, model="opus"), None),
        (Usage(tokens_in=1), None),
        (Usage(model="sonnet"), None),
    ],
)
def test_money_is_as_reported_else_by_the_price_of_the_model_else_unknown(usage: Usage, cost: int | None) -> None:
    """R-19: prices; never 0 for want of knowledge."""
    assert cost_of(usage, PRICES) == cost


def test_a_price_is_rounded_up() -> None:
    assert cost_of(Usage(tokens_in=1, model="tiny"), {"tiny": Price(1, 1)}) == 1


def test_input_from_a_cache_has_its_own_rate() -> None:
    usage = Usage(tokens_in=400_000, tokens_cached=300_000, tokens_out=0, model="m")
    assert cost_of(usage, {"m": Price(3_000_000, 15_000_000)}) == 1_200_000
    assert cost_of(usage, {"m": Price(3_000_000, 15_000_000, cached_input=600_000)}) == 480_000


def test_no_more_than_all_input_comes_from_a_cache() -> None:
    usage = Usage(tokens_in=10, tokens_cached=50, model="m")
    assert cost_of(usage, {"m": Price(3_000_000, 1, cached_input=1_000_000)}) == 10


@pytest.mark.parametrize(
    ("unit", "usage", "used"),
    [
        (Unit.RUNS, None, 1),
        (Unit.REQUESTS, None, None),
        (Unit.REQUESTS, Usage(tokens_in=3), None),
        (Unit.REQUESTS, Usage(requests=5), 5),
        (Unit.REQUESTS, Usage(requests=5, counted=4), 1),
        (Unit.TOKENS, Usage(tokens_in=3, tokens_out=4), 7),
        (Unit.TOKENS, Usage(tokens_in=3), 3),
        (Unit.TOKENS, Usage(requests=3), None),
        (Unit.USD, Usage(usd=7), 7),
        (Unit.USD, Usage(tokens_in=3), None),
    ],
)
def test_what_a_run_used_in_each_unit(unit: Unit, usage: Usage | None, used: int | None) -> None:
    """R-19: requests that were charged one by one are not charged again."""
    assert used_of(unit, usage) == used


def test_a_run_settles_at_what_it_used() -> None:
    found = settle_at(Unit.TOKENS, Usage(tokens_in=30), estimate=50, reserved=50, spent=0)
    assert found == Settlement(30, measured=True)


def test_a_run_that_says_nothing_settles_at_what_was_reserved() -> None:
    """R-19."""
    assert settle_at(Unit.TOKENS, None, estimate=50, reserved=50, spent=0) == Settlement(50, measured=False)


def test_requests_that_were_counted_are_settled_as_they_were() -> None:
    usage = Usage(requests=9, counted=7)
    assert settle_at(Unit.REQUESTS, usage, estimate=5, reserved=8, spent=8) == Settlement(10, measured=True)


def test_a_run_that_never_started_settles_at_what_it_had_spent() -> None:
    assert settle_at(Unit.REQUESTS, None, estimate=None, reserved=3, spent=3) == Settlement(3, measured=True)


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        ({}, ""),
        ({"requests": 1}, "1 request"),
        ({"tokens_in": 1, "usd_millionths": 0}, "$0.00 · 1 in / ? out tokens"),
        ({"tokens_out": 1}, "$? · ? in / 1 out tokens"),
        ({"tokens_in": 0, "tokens_out": 1}, "$? · 0 in / 1 out tokens"),
    ],
)
def test_a_cost_that_nobody_knows_is_a_question_mark(usage: dict, text: str) -> None:
    """R-19: never 0."""
    assert say_usage(usage) == text


def test_amounts_and_windows_are_said_as_people_read_them() -> None:
    assert say_amount(1_234_500_000, Unit.USD) == "$1,234.50"
    assert say_amount(4_000_000, Unit.TOKENS) == "4,000,000 tokens"
    assert say_window(NOW, Per.MONTH, "UTC") == "November 2026"
    assert say_window(NOW, Per.WEEK, "UTC") == "week of Sun 15 Nov 2026"
    assert say_window(NOW, Per.HOUR, "Europe/Madrid") == "Sun 15 Nov 2026 01:00"
    assert say_gate({}) == "its accounts no longer exist"
