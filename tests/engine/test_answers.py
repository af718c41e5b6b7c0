"""Runs that ask a person: they end, and go on in the same session when the answer has come."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from rota.model.budgets import Usage
from rota.model.errors import QuestionClosed, TooManyQuestions
from rota.model.proposals import Author
from rota.model.questions import MAX_CONTINUATIONS, Question
from rota.model.records import Outcome, Run
from rota.model.spec import JobSpec, Member, OverlapPolicy, Retry, SessionMode, Workspace
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.operations.explain import explain
from rota.operations.questions import answers
from rota.operations.questions.asking import Asking, StoredQuestion, ask_person
from rota.operations.run_actions import cancel_run
from rota.store.tables import questions, runs
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.agent_jobs import agent
from tests.engine.conftest import every
from tests.engine.test_groups import group
from tests.engine.test_questions import ANNA, answer, asked
from tests.engine.test_sessions import Seeing, seeing

__all__ = ["seeing"]
pytestmark = pytest.mark.anyio
SAID = Outcome(Status.COMPLETED, exit_code=0, summary="half done", session_id="s-1", usage=Usage(usd=250_000))
FIVE = timedelta(minutes=5)


def asking(name: str = "talk", **changes: Any) -> JobSpec:
    return replace(agent(name), **changes)


def ask(scene: Scene, job: str = "talk", text: str = "Deploy?", **more: Any) -> StoredQuestion:
    run = scene.history(job)[-1]
    author = Author("agent:helper", run.id, run.handle)
    wanted = Asking(text, more.pop("choices", ("yes", "no")), **more)
    return scene.store.write(partial(ask_person, author=author, wanted=wanted, now=scene.clock.now()))


async def begin(scene: Scene, spec: JobSpec, ending: Outcome = SAID) -> None:
    scene.declare(spec)
    scene.processes.scripts[spec.name] = Script(takes=FIVE, ending=ending)
    if spec.schedule.manual:
        scene.trigger(spec.name)
    await scene.settle()


def last(scene: Scene, job: str = "talk") -> Run:
    return scene.history(job)[-1]


def unread(scene: Scene) -> int:
    job = scene.job("talk")
    return len(scene.store.read(partial(questions.unread, job_id=job.id)))


async def waiting(scene: Scene, spec: JobSpec | None = None, **more: Any) -> Question:
    """Return the question of a run that has ended, and whose next run waits for the answer."""
    await begin(scene, spec or asking())
    question = ask(scene, **more).question
    await scene.advance("5m")
    assert last(scene).waiting_for is WaitingFor.ANSWER
    return question


async def test_a_run_that_asked_goes_on_in_its_session_with_the_answer(scene: Scene, seeing: Seeing) -> None:
    question = await waiting(scene)
    first, second = scene.history("talk")
    assert (first.status, first.result_summary) == ("COMPLETED", "asked question 1 · half done")
    assert (second.trigger, second.chain_id, second.retry_of, second.slot) == ("answer", first.id, first.id, None)
    await scene.advance("3h")
    assert last(scene).status is Status.QUEUED
    answer(scene, question, "yes")
    await scene.advance("5m")
    brief = seeing.briefs[-1]
    assert brief.session is not None
    assert (brief.session.id, brief.session.usd, brief.answered) == ("s-1", 0.25, True)
    assert [(one.number, one.text, one.answer) for one in brief.answers] == [(1, "Deploy?", "yes")]
    assert scene.told("talk") == [("COMPLETED", None), ("COMPLETED", None)]


async def test_explain_names_the_command_that_answers(scene: Scene) -> None:
    await waiting(scene, timeout=timedelta(hours=1))
    view = explain(scene.store, "talk", state=scene.settings.state, now=scene.clock.now())
    waits = next(line.text for line in view.run_lines if line.label == "waits")
    assert " (in 55 min); answer it with `rota answer 1`" in waits


async def test_an_answer_before_the_end_of_the_run_is_not_waited_for(scene: Scene, seeing: Seeing) -> None:
    await begin(scene, asking())
    question = ask(scene).question
    answer(scene, question, "no")
    await scene.advance("10m")
    assert len(scene.history("talk")) == 2
    assert seeing.briefs[-1].answers[0].answer == "no"


async def test_the_same_question_again_is_not_asked_twice(scene: Scene) -> None:
    await begin(scene, asking())
    assert ask(scene).question.number == ask(scene, text=" Deploy?\x1b ").question.number
    await scene.advance("5m")
    assert len(asked(scene)) == 1


async def test_two_questions_are_both_waited_for(scene: Scene, seeing: Seeing) -> None:
    await begin(scene, asking())
    one, two = ask(scene).question, ask(scene, text="Where?", choices=()).question
    await scene.advance("5m")
    answer(scene, two, "Berlin")
    await scene.advance("5m")
    assert last(scene).waiting_for is WaitingFor.ANSWER
    answer(scene, one, "yes")
    await scene.advance("5m")
    assert [each.answer for each in seeing.briefs[-1].answers] == ["yes", "Berlin"]


async def test_without_an_answer_the_run_is_skipped(scene: Scene) -> None:
    question = await waiting(scene, timeout=timedelta(hours=1))
    await scene.advance("1h")
    assert scene.told("talk") == [("COMPLETED", None), ("SKIPPED", "no_answer")]
    assert last(scene).error == "no answer came to question 1"
    with pytest.raises(QuestionClosed, match="is expired"):
        answer(scene, question, "yes")


async def test_the_default_counts_if_no_answer_comes(scene: Scene, seeing: Seeing) -> None:
    await waiting(scene, timeout=timedelta(hours=1), fallback="no")
    await scene.advance("65m")
    assert seeing.briefs[-1].answers[0].answer == "no"
    assert scene.told("talk")[-1] == ("COMPLETED", None)


async def test_a_question_that_expires_before_the_end_of_its_run_skips_the_next(scene: Scene) -> None:
    await begin(scene, asking())
    ask(scene, timeout=timedelta(minutes=1))
    await scene.advance("10m")
    assert scene.told("talk") == [("COMPLETED", None), ("SKIPPED", "no_answer")]


async def test_a_withdrawn_question_skips_the_run(scene: Scene) -> None:
    question = await waiting(scene)
    now = scene.clock.now()
    scene.store.write(partial(answers.withdraw, number=question.number, by=ANNA, now=now))
    assert scene.told("talk")[-1] == ("SKIPPED", "no_answer")


async def test_a_cancelled_run_withdraws_its_question(scene: Scene) -> None:
    question = await waiting(scene)
    cancel_run(scene.store, last(scene).handle, now=scene.clock.now())
    assert asked(scene)[0].state == "withdrawn"
    with pytest.raises(QuestionClosed):
        answer(scene, question, "yes")


async def test_a_run_that_fails_withdraws_its_question(scene: Scene) -> None:
    await begin(scene, asking(), Outcome(Status.FAILED, Reason.TIMED_OUT, session_id="s-1"))
    ask(scene)
    await scene.advance("5m")
    assert scene.told("talk") == [("FAILED", "timed_out")]
    assert (asked(scene)[0].state, asked(scene)[0].why) == ("withdrawn", "its run ended FAILED")


async def test_the_next_instant_counts_from_the_end_of_the_whole_chain(scene: Scene) -> None:
    await begin(scene, asking(schedule=every("1h")))
    question = ask(scene).question
    await scene.advance("5m")
    assert scene.job("talk").next_at is None
    await scene.advance("3h")
    assert len(scene.history("talk")) == 2
    answer(scene, question, "yes")
    await scene.advance("5m")
    assert scene.job("talk").next_at == scene.clock.now() + timedelta(hours=1)


async def test_a_waiting_run_counts_for_overlap(scene: Scene) -> None:
    overlap = replace(agent("talk").overlap, policy=OverlapPolicy.QUEUE)
    question = await waiting(scene, asking(overlap=overlap))
    scene.trigger("talk")
    await scene.settle()
    assert [run.waiting_for for run in scene.history("talk")[1:]] == ["answer", "predecessor"]
    answer(scene, question, "yes")
    await scene.advance("10m")
    assert [run.status for run in scene.history("talk")] == ["COMPLETED"] * 3


async def test_a_continuation_costs_no_attempt_and_its_retry_keeps_session_and_answer(
    scene: Scene, seeing: Seeing
) -> None:
    spec = asking(retry=Retry(max_attempts=2, backoff=timedelta(minutes=1), jitter=None))
    question = await waiting(scene, spec)
    scene.processes.scripts["talk"] = Script(ending=Outcome(Status.FAILED, Reason.TIMED_OUT))
    answer(scene, question, "yes")
    await scene.settle()
    scene.processes.scripts["talk"] = Script(ending=SAID)
    await scene.advance("5m")
    assert [(run.trigger, run.status) for run in scene.history("talk")] == [
        (Trigger.MANUAL, "COMPLETED"),
        (Trigger.ANSWER, "FAILED"),
        (Trigger.RETRY, "COMPLETED"),
    ]
    assert seeing.briefs[1] == seeing.briefs[2]
    assert seeing.briefs[2].answered


async def test_a_second_question_continues_once_more(scene: Scene, seeing: Seeing) -> None:
    question = await waiting(scene)
    answer(scene, question, "yes")
    await scene.settle()
    again = ask(scene, text="Sure?").question
    await scene.advance("5m")
    answer(scene, again, "no")
    await scene.advance("5m")
    assert [run.attempt for run in scene.history("talk")] == [1, 2, 3]
    assert [[one.text for one in brief.answers] for brief in seeing.briefs] == [[], ["Deploy?"], ["Sure?"]]
    assert seeing.briefs[-1].session is not None
    assert seeing.briefs[-1].session.usd == 0.5


async def test_a_chain_does_not_continue_for_ever(scene: Scene) -> None:
    await begin(scene, asking())
    often = {"retry": {"outages": MAX_CONTINUATIONS}}
    scene.store.write(partial(runs.note_decisions, run_id=last(scene).id, decisions=often))
    with pytest.raises(TooManyQuestions, match="the chain of talk:1 has 50 runs that continued"):
        ask(scene)
    assert asked(scene) == []


async def test_a_member_of_a_group_that_asked_keeps_its_group_waiting(scene: Scene) -> None:

    scene.declare(asking(), asking("later"), group("both", Member("talk"), Member("later")))
    for name in ("talk", "later"):
        scene.processes.scripts[name] = Script(takes=FIVE, ending=SAID)
    scene.trigger("both")
    await scene.settle()
    question = ask(scene).question
    await scene.advance("10m")
    assert scene.history("later")[0].status is Status.QUEUED
    answer(scene, question, "yes")
    await scene.advance("10m")
    assert scene.told("later") == [("COMPLETED", None)]
    assert scene.told("both") == [("COMPLETED", None)]


@pytest.mark.parametrize("changes", [{"workspace": Workspace.SCRATCH}, {"adapter": "ollama"}])
async def test_the_next_run_gets_the_answer_where_none_can_wait(
    scene: Scene, seeing: Seeing, changes: dict[str, Any]
) -> None:
    spec = agent("talk", **changes)
    await begin(scene, spec)
    question = ask(scene).question
    assert not question.waits
    await scene.advance("5m")
    assert scene.told("talk") == [("COMPLETED", None)]
    answer(scene, question, "yes")
    scene.trigger("talk")
    await scene.advance("5m")
    scene.trigger("talk")
    await scene.advance("5m")
    assert [[one.answer for one in brief.answers] for brief in seeing.briefs] == [[], ["yes"], []]
    assert asked(scene)[0].used_by == scene.history("talk")[1].id


async def test_an_answer_stays_until_a_run_that_got_it_completes(scene: Scene, seeing: Seeing) -> None:
    spec = agent("talk", workspace=Workspace.SCRATCH)
    await begin(scene, spec)
    answer(scene, ask(scene).question, "yes")
    await scene.advance("5m")
    scene.processes.scripts["talk"] = Script(ending=Outcome(Status.FAILED, Reason.TIMED_OUT))
    scene.trigger("talk")
    await scene.settle()
    assert unread(scene) == 1
    scene.processes.scripts["talk"] = Script(ending=SAID)
    scene.trigger("talk")
    await scene.settle()
    assert [len(brief.answers) for brief in seeing.briefs] == [0, 1, 1]
    assert unread(scene) == 0


async def test_a_session_that_resumes_anyway_goes_on_too(scene: Scene, seeing: Seeing) -> None:
    question = await waiting(scene, agent("talk", session=SessionMode.RESUME))
    answer(scene, question, "yes")
    await scene.advance("5m")
    assert seeing.briefs[-1].answered


@pytest.mark.parametrize("moment", ["asked", "ended", "answered"])
async def test_a_kill_between_two_steps_loses_and_doubles_nothing(scene: Scene, seeing: Seeing, moment: str) -> None:
    await begin(scene, asking())
    question = ask(scene).question
    if moment == "asked":
        await scene.crash()
        await scene.start()
    await scene.advance("5m")
    if moment == "ended":
        await scene.crash()
        await scene.start()
    if moment == "answered":
        await scene.crash()
    answer(scene, question, "yes")
    if moment == "answered":
        await scene.start()
    await scene.advance("10m")
    assert scene.told("talk") == [("COMPLETED", None), ("COMPLETED", None)]
    assert [[one.answer for one in brief.answers] for brief in seeing.briefs] == [[], ["yes"]]
