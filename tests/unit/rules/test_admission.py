"""The one function that delays or skips a run that was born (R-09)."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.model.spec import Condition, Gates, WhenFalse
from rota.model.states import Reason, WaitingFor
from rota.rules.admission import Admit, ConditionResult, Defer, Skip, decide

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
PASS = ConditionResult("a", "pass")
FALSE = ConditionResult("b", "false")
ERROR = ConditionResult("c", "error", "exit 3")
SKIPPING = Gates((Condition(name="a"),), when_false=WhenFalse.SKIP)
WAITING = Gates((Condition(name="a"),), when_false=WhenFalse.WAIT, recheck=timedelta(minutes=2))


def asked(gates: Gates, *results: ConditionResult, forced: bool = False, expires_at: datetime | None = None):
    return decide(gates, expires_at=expires_at, forced=forced, conditions=results, now=NOW)


def test_nothing_in_the_way_is_go() -> None:
    assert asked(SKIPPING) == Admit()
    assert asked(SKIPPING, PASS, PASS) == Admit()


def test_a_false_condition_skips_and_names_itself() -> None:
    admission = asked(SKIPPING, PASS, FALSE)
    assert isinstance(admission, Skip)
    assert admission.reason is Reason.CONDITION
    assert "b" in admission.why


def test_a_false_condition_waits_for_the_recheck_where_the_file_says_so() -> None:
    assert asked(WAITING, FALSE) == Defer(NOW + timedelta(minutes=2), WaitingFor.CONDITION)


@pytest.mark.parametrize("gates", [SKIPPING, WAITING])
@pytest.mark.parametrize("results", [(ERROR,), (FALSE, ERROR), (ERROR, FALSE)])
def test_an_error_ends_the_run_under_either_policy(gates: Gates, results: tuple[ConditionResult, ...]) -> None:
    admission = asked(gates, *results)
    assert isinstance(admission, Skip)
    assert admission.reason is Reason.CONDITION_ERROR
    assert "exit 3" in admission.why


def test_force_passes_conditions_but_not_the_age_of_the_run() -> None:
    """R-29."""
    assert asked(SKIPPING, FALSE, forced=True) == Admit()
    expired = asked(SKIPPING, forced=True, expires_at=NOW)
    assert isinstance(expired, Skip)


@pytest.mark.parametrize(
    ("left", "expected"), [(timedelta(), Skip), (-timedelta(seconds=1), Skip), (timedelta(milliseconds=1), Admit)]
)
def test_a_run_expires_at_its_very_instant(left: timedelta, expected: type) -> None:
    assert isinstance(asked(SKIPPING, expires_at=NOW + left), expected)
