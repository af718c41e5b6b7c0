"""Whether and when a failed run is tried again, and how long a failing job is held back (DEC-007)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.records import Outcome
from rota.model.spec import Jitter, RepeatedFailure, Retry
from rota.model.states import REASONS, Reason, Status
from rota.rules.outcome import backing_off, backoff, next_attempt, not_retried, say_retry

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
FAILED = Outcome(Status.FAILED, Reason.EXIT_CODE)
NEVER_RETRIED = (Reason.UNKILLABLE, Reason.MEMBERS_FAILED)


def tried(outcome: Outcome, retry: Retry | None = None, *, attempt: int = 1, asked: Reason | None = None) -> object:
    found = next_attempt(retry or Retry(), outcome, attempt=attempt, run_id="run", finished_at=NOON, asked=asked)
    return None if found is None else found - NOON


def test_there_are_three_attempts_by_default_dec_007() -> None:
    assert [tried(FAILED, attempt=attempt) for attempt in (1, 2, 3)] == [10 * SECOND, 20 * SECOND, None]


@pytest.mark.parametrize("reason", [reason for reason in REASONS[Status.FAILED] if reason not in NEVER_RETRIED])
def test_every_failure_counts_also_a_crash_and_one_before_the_start(reason: Reason) -> None:
    assert tried(Outcome(Status.FAILED, reason)) == 10 * SECOND


@pytest.mark.parametrize("reason", NEVER_RETRIED)
def test_a_tree_that_lives_on_and_a_group_are_not_tried_again(reason: Reason) -> None:
    assert tried(Outcome(Status.FAILED, reason)) is None
    assert not_retried(Retry(), reason, attempt=1)


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(Status.COMPLETED),
        *(Outcome(Status.SKIPPED, reason) for reason in REASONS[Status.SKIPPED]),
        *(Outcome(Status.CANCELLED, reason) for reason in REASONS[Status.CANCELLED]),
    ],
)
def test_only_a_failure_is_tried_again(outcome: Outcome) -> None:
    assert tried(outcome) is None


def test_a_run_that_somebody_wanted_stopped_is_not_tried_again_though_it_failed() -> None:
    assert tried(FAILED, asked=Reason.REQUESTED) is None
    assert "requested" in (not_retried(Retry(), Reason.EXIT_CODE, attempt=1, asked=Reason.REQUESTED) or "")


def test_retry_false_means_one_attempt() -> None:
    assert tried(FAILED, Retry(max_attempts=1)) is None


def test_the_wait_grows_by_the_factor_up_to_the_limit() -> None:
    retry = Retry(max_attempts=9, backoff=3 * SECOND, factor=3.0, max=50 * SECOND)
    waits = [backoff(retry, attempt=attempt, run_id="run") for attempt in range(1, 6)]
    assert waits == [3 * SECOND, 9 * SECOND, 27 * SECOND, 50 * SECOND, 50 * SECOND]


def test_a_backoff_of_nothing_is_no_wait() -> None:
    assert backoff(Retry(backoff=timedelta()), attempt=7, run_id="run") == timedelta()


def test_jitter_is_the_same_for_the_same_run_and_differs_between_runs() -> None:
    retry = Retry(jitter=Jitter(up_to=timedelta(seconds=5)))
    waits = {backoff(retry, attempt=1, run_id=f"run {number}") for number in range(20)}
    assert len(waits) > 10
    assert backoff(retry, attempt=1, run_id="run 3") == backoff(retry, attempt=1, run_id="run 3")


@given(
    seconds=st.floats(0, 1e6),
    factor=st.floats(1, 100),
    limit=st.integers(0, 10**7),
    attempt=st.integers(1, 100),
    jitter=st.none()
    | st.builds(Jitter, up_to=st.timedeltas(timedelta(), timedelta(days=9)))
    | st.builds(Jitter, percent=st.floats(0, 50)),
    run_id=st.text(max_size=5),
)
def test_a_wait_is_never_longer_than_the_limit_nor_shorter_than_the_backoff_without_jitter(
    seconds: float, factor: float, limit: int, attempt: int, jitter: Jitter | None, run_id: str
) -> None:
    plain = Retry(backoff=timedelta(seconds=seconds), factor=factor, max=timedelta(seconds=limit))
    jittered = Retry(backoff=plain.backoff, factor=factor, max=plain.max, jitter=jitter)
    wait = backoff(jittered, attempt=attempt, run_id=run_id)
    assert backoff(plain, attempt=attempt, run_id=run_id) <= wait <= plain.max


def test_a_job_is_held_back_from_some_number_of_failures_on_longer_each_time() -> None:
    repeated = RepeatedFailure(after=3, backoff_max=timedelta(minutes=5))
    held = [backing_off(repeated, failures=failures, finished_at=NOON) for failures in range(1, 8)]
    minutes = [None if until is None else (until - NOON).total_seconds() / 60 for until in held]
    assert minutes == [None, None, 1, 2, 4, 5, 5]


def test_a_job_without_the_policy_is_never_held_back() -> None:
    assert backing_off(None, failures=1000, finished_at=NOON) is None


def test_a_very_long_row_of_failures_overflows_nothing() -> None:
    assert backing_off(RepeatedFailure(), failures=10**6, finished_at=NOON) == NOON + timedelta(days=1)


def test_a_policy_is_told_in_words() -> None:
    assert say_retry(Retry(max_attempts=1)) == "none"
    assert say_retry(Retry(factor=1.0)) == "3 attempts, 10 s apart"
    assert say_retry(Retry()) == "3 attempts, 10 s apart, ×2 up to 10 min"
