"""`rota verify` knows questions: each open one has a live subject, each answered one its effect."""

import pytest

from rota.model.questions import Question
from rota.operations.verify.report import Check
from rota.testing.scene import Scene
from tests.engine.conftest import audit
from tests.engine.test_answers import waiting
from tests.engine.test_making import WAITS, put
from tests.engine.test_making import asking as proposing
from tests.engine.test_permissions import begin, permit
from tests.engine.test_questions import answer, asked
from tests.scene import tamper

pytestmark = pytest.mark.anyio


def told(scene: Scene) -> list[str]:
    return [one.text for one in audit(scene).violations if one.check is Check.QUESTION]


async def answered_call(scene: Scene, text: str) -> Question:
    await begin(scene)
    permit(scene)
    return answer(scene, asked(scene)[0], text)


async def test_a_question_about_a_proposal_that_is_gone(unaudited: Scene) -> None:
    put(unaudited, proposing("watch"), policy=WAITS)
    tamper(unaudited, "UPDATE job SET provisional_at = NULL")
    assert told(unaudited) == ["question 1 is open, but its job does not wait for approval"]


@pytest.mark.parametrize("choice", ["approve", "reject"])
async def test_an_answered_proposal_that_still_waits(unaudited: Scene, choice: str) -> None:
    put(unaudited, proposing("watch"), policy=WAITS)
    end = f"state = 'answered', answer = '{choice}', answered_by = 'a', door = 'cli', ended_at = asked_at + 1"
    tamper(unaudited, f"UPDATE question SET {end}")
    assert told(unaudited) == [
        f"question 1 is answered with {choice}, but its job still waits for approval",
        "it waits for approval without a question about its definition",
    ]


async def test_an_answer_that_released_no_run(unaudited: Scene) -> None:
    await waiting(unaudited)
    end = "state = 'answered', answer = 'yes', answered_by = 'a', door = 'cli', ended_at = asked_at + 1"
    tamper(unaudited, f"UPDATE question SET {end}")
    assert told(unaudited) == ["question 1 is answered, but its run still waits for the answer"]


async def test_an_open_question_of_a_run_that_is_gone(unaudited: Scene) -> None:
    await waiting(unaudited)
    tamper(unaudited, "DELETE FROM live")
    assert told(unaudited) == ["question 1 is open, but the run that waits for it has ended"]


async def test_an_open_permission_of_a_run_that_is_gone(unaudited: Scene) -> None:
    await begin(unaudited)
    permit(unaudited)
    tamper(unaudited, "DELETE FROM live")
    assert told(unaudited) == ["question 1 is open, but its run has ended"]


async def test_an_answer_that_gave_no_grant(unaudited: Scene) -> None:
    await answered_call(unaudited, "allow always")
    assert told(unaudited) == []
    tamper(unaudited, "DELETE FROM standing_grant")
    assert told(unaudited) == ["question 1 is answered with allow always, but there is no standing grant"]


async def test_a_grant_that_no_person_gave(unaudited: Scene) -> None:
    await answered_call(unaudited, "allow always")
    tamper(unaudited, "UPDATE question SET answer = 'allow once'")
    assert told(unaudited) == ["question 1 has a standing grant, but no person allowed the call for always"]
