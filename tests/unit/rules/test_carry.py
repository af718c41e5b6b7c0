"""What a run is told of the runs before it."""

from rota.model.records import SUMMARY_LIMIT
from rota.model.spec import Carry
from rota.rules.prompts import NOTE, carried_text, with_carried

BOTH = (Carry.LAST_SUMMARY, Carry.STATE)


def test_what_is_carried_is_called_data_and_each_part_has_its_label() -> None:
    text = carried_text(BOTH, last_summary="two are stale", state={"seen": [1, 2]})
    assert text.split("\n\n") == [
        NOTE,
        "Summary of the last completed run:\ntwo are stale",
        'State of this job:\n{"seen": [1, 2]}',
    ]


def test_a_job_that_carries_nothing_gets_nothing() -> None:
    assert carried_text((), last_summary="two are stale", state={"seen": 1}) == ""
    assert with_carried("Do it.", "") == "Do it."


def test_without_a_completed_run_there_is_no_summary() -> None:
    assert carried_text((Carry.LAST_SUMMARY,), last_summary=None, state={}) == ""


def test_a_state_is_told_also_when_it_is_empty() -> None:
    assert carried_text((Carry.STATE,), last_summary=None, state={}).endswith("State of this job:\n{}")


def test_a_summary_is_bounded() -> None:
    text = carried_text((Carry.LAST_SUMMARY,), last_summary="x" * 5000, state={})
    assert len(text) < SUMMARY_LIMIT + 200


def test_it_stands_after_the_task() -> None:
    assert with_carried("Do it.", "data") == "Do it.\n\ndata"
