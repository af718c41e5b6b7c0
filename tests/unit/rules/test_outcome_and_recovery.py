"""What an ending means, and what is done with the runs of a dead process (R-08, R-23, R-26)."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from rota.model.records import ERROR_LIMIT, SUMMARY_LIMIT, Outcome
from rota.model.spec import JobSpec, Kind, OnRestart, Overlap, OverlapPolicy, Work
from rota.model.states import Reason, Status, Trigger
from rota.rules.liveness import STARTS, crash_loop, stepped_back
from rota.rules.outcome import LeftBehind, Recovery, decide_recovery, ends_alone, is_plain, lost_too_often, settle

STOPPED = Outcome(Status.FAILED, Reason.SHUTDOWN, error="stopped")
RUNNING = LeftBehind(
    status=Status.RUNNING,
    in_process=False,
    keeper_alive=False,
    outcome_left=False,
    losses=0,
    on_restart=OnRestart.ADOPT,
)


def test_a_run_that_was_stopped_because_somebody_asked_is_cancelled() -> None:
    """R-08."""
    assert settle(STOPPED, Reason.REPLACED) == Outcome(Status.CANCELLED, Reason.REPLACED)


def test_a_run_that_was_stopped_by_a_shutdown_is_failed() -> None:
    """CON-003, R-08: CANCELLED is only what somebody asked for."""
    assert settle(STOPPED, None).reason is Reason.SHUTDOWN


@pytest.mark.parametrize(
    "outcome",
    [Outcome(Status.COMPLETED, exit_code=0), Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=1)],
)
def test_a_run_that_ended_by_itself_stays_what_it_was_although_a_cancel_came(outcome: Outcome) -> None:
    assert settle(outcome, Reason.REQUESTED) == outcome


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome(Status.COMPLETED), True),
        (Outcome(Status.FAILED, Reason.EXCEPTION, error="no"), True),
        (STOPPED, False),
        (Outcome(Status.COMPLETED, scheduler_state={"seen": 1}), False),
    ],
)
def test_an_end_is_plain_where_neither_a_wish_nor_shared_state_counts(outcome: Outcome, expected: bool) -> None:
    """R-08: who was stopped is FAILED or CANCELLED by what was asked, so that is looked at first."""
    assert is_plain(outcome) is expected
    if expected:
        assert settle(outcome, Reason.REQUESTED) == settle(outcome, None)


def test_texts_are_bounded() -> None:
    """R-21."""
    long = settle(Outcome(Status.FAILED, Reason.EXCEPTION, error="é" * 5000, summary="ü" * 5000), None)
    assert (len(long.error or ""), len(long.summary or "")) == (ERROR_LIMIT, SUMMARY_LIMIT)


@pytest.mark.parametrize(("losses", "expected"), [(0, False), (1, False), (2, True)])
def test_the_third_loss_is_one_too_many(losses: int, expected: bool) -> None:
    """R-01."""
    assert lost_too_often(losses) is expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"keeper_alive": True}, Recovery.ADOPT),
        ({"keeper_alive": True, "on_restart": OnRestart.KILL}, Recovery.STOP),
        ({"outcome_left": True}, Recovery.READ_OUTCOME),
        ({"outcome_left": True, "keeper_alive": True}, Recovery.READ_OUTCOME),
        ({}, Recovery.FAIL_RESTARTED),
        ({"in_process": True}, Recovery.FAIL_RESTARTED),
        ({"in_process": True, "outcome_left": True}, Recovery.FAIL_RESTARTED),
        ({"status": Status.DISPATCHED}, Recovery.REQUEUE),
        ({"status": Status.DISPATCHED, "losses": 2}, Recovery.FAIL_LOST),
    ],
)
def test_what_really_happened_decides(changes: dict, expected: Recovery) -> None:
    """DEC-008, RISK-3, R-23."""
    assert decide_recovery(replace(RUNNING, **changes)) is expected


@pytest.mark.parametrize(
    ("before", "after", "back"),
    [(100.0, 100.0, None), (100.0, 99.1, None), (100.0, 99.0, None), (100.0, 98.5, 1.5), (100.0, 200.0, None)],
)
def test_only_a_fall_of_more_than_a_second_is_a_step(before: float, after: float, back: float | None) -> None:
    """R-26."""
    expected = None if back is None else timedelta(seconds=back)
    assert stepped_back(timedelta(seconds=before), timedelta(seconds=after)) == expected


def test_more_than_five_unclean_starts_are_a_crash_loop() -> None:
    """R-23."""
    assert not crash_loop(STARTS)
    assert crash_loop(STARTS + 1)


DONE = Outcome(Status.COMPLETED)
FREE = JobSpec("free", Work(Kind.FUNCTION, function="f"), overlap=Overlap(OverlapPolicy.ALLOW))


def test_a_started_run_of_which_any_number_may_run_ends_alone_when_it_completes() -> None:
    """R-12."""
    assert ends_alone(DONE, FREE, Trigger.MANUAL)


@pytest.mark.parametrize(
    "outcome", [Outcome(Status.FAILED, Reason.EXIT_CODE), STOPPED, Outcome(Status.COMPLETED, state={"a": 1})]
)
def test_an_end_that_is_retried_counted_or_leaves_state_concerns_its_job(outcome: Outcome) -> None:
    """DEC-001, DEC-007."""
    assert not ends_alone(outcome, FREE, Trigger.MANUAL)


@pytest.mark.parametrize("trigger", sorted(set(Trigger) - {Trigger.MANUAL}))
def test_an_end_that_may_move_an_instant_a_group_or_a_chain_concerns_others(trigger: Trigger) -> None:
    """R-06, R-15, DEC-001."""
    assert not ends_alone(DONE, FREE, trigger)


@pytest.mark.parametrize("policy", sorted(set(OverlapPolicy) - {OverlapPolicy.ALLOW}))
def test_an_end_that_others_may_wait_for_concerns_them(policy: OverlapPolicy) -> None:
    """R-11, R-12."""
    assert not ends_alone(DONE, replace(FREE, overlap=Overlap(policy)), Trigger.MANUAL)


@pytest.mark.parametrize("kind", [Kind.GROUP, Kind.POLL])
def test_the_end_of_a_group_or_a_poll_concerns_others(kind: Kind) -> None:
    """R-15, R-16."""
    assert not ends_alone(DONE, replace(FREE, work=replace(FREE.work, kind=kind)), Trigger.MANUAL)
