"""Questions to people: proposals are questions, and the first answer counts."""

from datetime import timedelta
from functools import partial

import pytest
from msgspec.structs import replace

from rota.engine.transactions.questions import ask
from rota.model.errors import JobProvisional, QuestionChanged, QuestionClosed, TooManyQuestions
from rota.model.questions import Door, Question, QuestionState, Subject
from rota.operations.agents.proposals import remove_all
from rota.operations.questions import answers, views
from rota.operations.questions.answers import Answerer
from rota.operations.run_actions import trigger
from rota.store.tables import questions
from rota.store.tables.questions import NewQuestion
from rota.testing.scene import Scene
from tests.engine.test_making import WAITS, allow, asking, put

pytestmark = pytest.mark.anyio
ANNA = Answerer("user:anna", Door.CLI)


def asked(scene: Scene) -> list[Question]:
    return list(views.list_questions(scene.store, state=None))


def answer(scene: Scene, question: Question, text: str, by: Answerer = ANNA) -> Question:
    now, digest = scene.clock.now(), question.digest
    return scene.store.write(partial(answers.answer, number=question.number, text=text, digest=digest, by=by, now=now))


async def test_a_proposal_is_a_question_and_its_approval_lets_the_job_fire(scene: Scene) -> None:
    put(scene, asking("watch"), policy=WAITS)
    (question,) = asked(scene)
    assert (question.text, question.choices) == ("Approve the job watch?", ("approve", "reject"))
    after = answer(scene, question, "approve", Answerer("telegram:7", Door.TELEGRAM))
    assert (after.state, after.answer, after.answered_by, after.door) == (
        "answered",
        "approve",
        "telegram:7",
        "telegram",
    )
    await scene.advance("10m")
    assert len(scene.history("watch")) == 1


async def test_a_rejected_proposal_is_removed(scene: Scene) -> None:
    put(scene, asking("watch"), policy=WAITS)
    answer(scene, asked(scene)[0], "Reject")
    await scene.advance("1h")
    assert scene.history("watch") == []
    put(scene, asking("watch"), policy=WAITS)  # its author may propose it again
    assert [one.state for one in asked(scene)] == ["open", "answered"]


async def test_approve_ends_in_the_same_answer(scene: Scene) -> None:
    put(scene, asking("watch"), policy=WAITS)
    allow(scene, "watch")
    assert [(one.state, one.answer) for one in asked(scene)] == [("answered", "approve")]


async def test_an_edited_proposal_refuses_the_old_answer(scene: Scene) -> None:
    put(scene, asking("watch"), policy=WAITS)
    (first,) = asked(scene)
    put(scene, asking("watch", task="and delete everything"), policy=WAITS)
    with pytest.raises(QuestionChanged):
        answer(scene, first, "approve")
    second, old = asked(scene)
    assert (second.state, old.state, old.why) == ("open", "withdrawn", "the job changed")
    with pytest.raises(QuestionChanged):
        answer(scene, replace(second, digest=first.digest), "approve")
    with pytest.raises(JobProvisional):
        trigger(scene.store, "watch", now=scene.clock.now())
    assert answer(scene, second, "approve").state == "answered"


async def test_of_two_answers_the_first_counts_and_a_replayed_one_is_refused(scene: Scene) -> None:
    put(scene, asking("watch"), policy=WAITS)
    (question,) = asked(scene)
    answer(scene, question, "approve")
    for text in ("reject", "approve"):
        with pytest.raises(QuestionClosed, match="question 1 is answered"):
            answer(scene, question, text)
    assert asked(scene)[0].answer == "approve"


async def test_a_removed_proposal_withdraws_its_question(scene: Scene) -> None:
    put(scene, asking("watch"), policy=WAITS)
    (question,) = asked(scene)
    scene.store.write(partial(remove_all, names=["watch"], now=scene.clock.now()))
    with pytest.raises(QuestionClosed, match="is withdrawn"):
        answer(scene, question, "approve")


async def test_the_database_keeps_a_finished_question(scene: Scene) -> None:
    put(scene, asking("watch"), policy=WAITS)
    answer(scene, asked(scene)[0], "approve")
    ended = questions.end  # conditional: a finished row is not found
    assert not scene.store.write(lambda db: ended(db, 1, QuestionState.EXPIRED, now=scene.clock.now()))


async def test_further_questions_than_the_limit_are_refused(scene: Scene) -> None:
    job = put(scene, asking("watch"), policy=WAITS)
    new = NewQuestion(Subject.JOB, job.id, "ok?", "d", "agent", scene.clock.now(), run_id="r")
    for _ in range(19):
        scene.store.write(partial(ask, new=new, job=job.name))
    with pytest.raises(TooManyQuestions):
        scene.store.write(partial(ask, new=new, job=job.name))
    assert scene.store.read(lambda db: questions.count_open(db, job.id)).of_job == 20


async def test_an_open_question_expires_with_its_default(scene: Scene) -> None:
    job, now = put(scene, asking("watch")), scene.clock.now()
    until = now + timedelta(hours=2)
    new = NewQuestion(Subject.JOB, job.id, "ok?", "d", "agent", now, run_id="r", expires_at=until, fallback="no")
    question = scene.store.write(partial(ask, new=new, job=job.name))
    await scene.advance("119m")
    assert asked(scene)[0].is_open
    await scene.advance("1m")
    assert [(one.state, one.answer, one.answered_by) for one in asked(scene)] == [("expired", "no", None)]
    with pytest.raises(QuestionClosed):
        answer(scene, question, "yes")
