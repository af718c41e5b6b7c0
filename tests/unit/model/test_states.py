"""The life of a run is a table: every pair of status and event is legal or refused, and every reason has one status."""

from itertools import product

import pytest

from rota.model.errors import IllegalTransition
from rota.model.states import (
    FINAL,
    OLDER_WORDS,
    REASONS,
    SHOWN,
    TRANSITIONS,
    Held,
    Reason,
    RunEvent,
    Status,
    WaitingFor,
    allowed_from,
    next_status,
)

LEGAL = {
    "QUEUED": {"dispatch": "DISPATCHED", "start": "RUNNING", "skip": "SKIPPED", "cancel": "CANCELLED"},
    "DISPATCHED": {
        "start": "RUNNING",
        "release": "QUEUED",
        "fail": "FAILED",
        "skip": "SKIPPED",
        "cancel": "CANCELLED",
    },
    "RUNNING": {"complete": "COMPLETED", "fail": "FAILED", "cancel": "CANCELLED"},
}


@pytest.mark.parametrize(("status", "event"), list(product(Status, RunEvent)))
def test_every_pair_of_status_and_event_is_legal_or_refused_r_01(status, event):
    target = LEGAL.get(status.value, {}).get(event.value)
    if target is not None:
        assert next_status(status, event) is Status(target)
        return
    with pytest.raises(IllegalTransition) as refused:
        next_status(status, event)
    assert status.value in refused.value.message
    assert event.value in refused.value.message
    for allowed in LEGAL.get(status.value, {"final": ""}):
        assert allowed in refused.value.hint


def test_nothing_can_happen_to_a_final_run():
    assert {status for status in Status if not allowed_from(status)} == FINAL
    assert {status for status in Status if status.final} == FINAL


def test_every_status_but_queued_is_entered_by_some_event():
    assert set(TRANSITIONS.values()) == set(Status)


def test_outside_dispatched_is_shown_as_running_r_01():
    """DEC-006."""
    assert [status.shown for status in Status if status is not Status.DISPATCHED] == list(SHOWN)
    assert Status.DISPATCHED.shown is Status.RUNNING


def test_every_reason_belongs_to_exactly_one_status():
    given = [reason for reasons in REASONS.values() for reason in reasons]
    assert sorted(given) == sorted(Reason)


def test_reasons_belong_to_final_statuses_that_need_one():
    assert set(REASONS) == FINAL - {Status.COMPLETED}


def test_no_value_is_both_stored_and_derived_as_what_a_run_waits_for_r_02():
    assert not {value.value for value in WaitingFor} & {value.value for value in Held}


def test_older_words_lead_to_final_statuses():
    """DEC-006."""
    assert set(OLDER_WORDS.values()) <= FINAL
    assert not set(OLDER_WORDS) & {status.value for status in Status}
