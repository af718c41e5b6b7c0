"""A tally is read once, and its parts are what its keys count."""

from datetime import timedelta

from rota.model.states import Status, Trigger
from rota.rules.stats import RunTimes, counted, figures, histogram, length_at, parts, reasons, run_tally, sum_of

HOUR = 3_600_000
NOON = 500_000 * HOUR


def ended(status: Status, reason: str | None = None, *, took: int, count: int = 1) -> dict[str, int]:
    """Return what some runs add that started late by a tenth of their duration."""
    started = NOON - took
    times = RunTimes(Trigger.SCHEDULE, started - took // 10, started - 5, started - 1, started, 1)
    return {key: amount * count for key, amount in run_tally(times, status, reason, at=NOON).items()}


WHOLE = sum_of(
    [
        ended(Status.COMPLETED, took=900, count=6),
        ended(Status.FAILED, "exit_code", took=2 * HOUR, count=2),
        ended(Status.FAILED, "timed_out", took=90_000),
        ended(Status.CANCELLED, "requested", took=50),
        {"S.overlap": 7, "u.usd.helper|d35": 20, "u.runs.helper|d35": 1, "u.in.helper|C.x": 5, "calls": 1},
    ]
)


def test_ends_are_counted_by_status_and_by_reason() -> None:
    found = parts(WHOLE)
    assert [found.count(status) for status in (Status.COMPLETED, Status.FAILED, Status.SKIPPED, Status.CANCELLED)] == [
        6,
        3,
        7,
        1,
    ]
    assert reasons(WHOLE, Status.FAILED) == {"exit_code": 2, "timed_out": 1}


def test_histograms_leave_out_sums_and_the_names_of_models() -> None:
    found = parts(WHOLE)
    assert set(found.buckets) == {"d", "w", "l", "h", "hf"}
    assert sum(found.buckets["d"].values()) == 10
    assert found.buckets["hf"] == {2: 2, 1: 1}
    assert found.used == {"usd": 20, "runs": 1, "in": 5}


def test_figures_say_what_the_single_questions_say() -> None:
    found = figures(WHOLE)
    assert (found.runs, found.skipped, found.late) == (10, 7, WHOLE["late"])
    assert found.failed == counted(WHOLE, Status.FAILED)
    assert found.success_rate == 6 / 9
    assert found.duration_p50 == length_at(histogram(WHOLE, "d"), 0.5)
    assert found.duration_p95 == length_at(histogram(WHOLE, "d"), 0.95)
    assert found.duration_p95 is not None
    assert found.duration_p95 > timedelta(hours=1)
    assert (found.usd, found.paid_runs, found.tokens) == (20, 1, 5)


def test_an_empty_tally_has_no_figures() -> None:
    found = figures({})
    assert (found.runs, found.success_rate, found.duration_p50, found.usd) == (0, None, None, 0)
