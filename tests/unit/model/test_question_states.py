"""The states of a question: every pair of state and event, legal or not."""

from itertools import product

import pytest

from rota.model.errors import QuestionClosed
from rota.model.questions import TRANSITIONS, QuestionEvent, QuestionState, next_state

LEGAL = {
    (QuestionState.OPEN, QuestionEvent.ANSWER): QuestionState.ANSWERED,
    (QuestionState.OPEN, QuestionEvent.EXPIRE): QuestionState.EXPIRED,
    (QuestionState.OPEN, QuestionEvent.WITHDRAW): QuestionState.WITHDRAWN,
}


@pytest.mark.parametrize(("state", "event"), [*product(QuestionState, QuestionEvent)])
def test_only_an_open_question_ends(state: QuestionState, event: QuestionEvent) -> None:
    wanted = LEGAL.get((state, event))
    if wanted is not None:
        assert next_state(state, event, number=7) is wanted
        return
    with pytest.raises(QuestionClosed, match=f"question 7 is {state}"):
        next_state(state, event, number=7)


def test_the_table_has_no_other_moves() -> None:
    assert TRANSITIONS == LEGAL
