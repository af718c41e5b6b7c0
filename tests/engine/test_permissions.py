"""Permission of single tool calls: a person decides, a standing grant decides for equal calls."""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from rota.model.agents import Access
from rota.model.errors import AnswerRefused, QuestionChanged, ToolsRefused
from rota.model.proposals import Author, Limits
from rota.model.questions import Door
from rota.operations.project.apply import change_to
from rota.operations.questions.answers import Answerer
from rota.operations.questions.grants import GrantView, list_grants, revoke_grant
from rota.operations.questions.permissions import CALL_LIMIT, CallDecision, look, request
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.agent_jobs import agent
from tests.engine.test_answers import SAID
from tests.engine.test_questions import answer, asked

pytestmark = pytest.mark.anyio
RM = {"command": "rm -r build"}


async def begin(scene: Scene, **keys: Any) -> None:
    scene.declare(agent("talk", **{"access": Access.ASK, **keys}))
    scene.processes.scripts["talk"] = Script(takes=timedelta(hours=1), ending=SAID)
    scene.trigger("talk")
    await scene.settle()


def author(scene: Scene, access: Access = Access.ASK) -> Author:
    run = scene.history("talk")[-1]
    return Author("agent:claude", run.id, run.handle, limits=Limits("claude", access))


def permit(scene: Scene, given: Mapping[str, Any] = RM, tool: str = "Bash") -> CallDecision:
    now = scene.clock.now()
    return scene.store.write(partial(request, author=author(scene), tool=tool, given=given, now=now))


def decided(scene: Scene, verdict: CallDecision) -> CallDecision:
    assert verdict.question is not None
    return scene.store.read(partial(look, number=verdict.question, now=scene.clock.now()))


def granted(scene: Scene) -> list[GrantView]:
    return list(list_grants(scene.store, now=scene.clock.now()))


@pytest.mark.parametrize(("text", "allowed"), [("allow once", True), ("allow always", True), ("deny", False)])
async def test_a_person_decides_about_the_exact_call(scene: Scene, text: str, *, allowed: bool) -> None:
    await begin(scene)
    verdict = permit(scene)
    (question,) = asked(scene)
    assert question.call == {"tool": "Bash", "input": RM}
    assert decided(scene, verdict).question == question.number
    answer(scene, question, text)
    assert decided(scene, verdict).allowed is allowed
    assert len(granted(scene)) == (text == "allow always")


async def test_without_an_answer_in_time_the_call_is_denied(scene: Scene) -> None:
    await begin(scene)
    verdict = permit(scene)
    await scene.advance("10m")
    assert (decided(scene, verdict).allowed, decided(scene, verdict).question) == (False, None)
    assert asked(scene)[0].state == "expired"


async def test_the_end_of_the_run_withdraws_the_question(scene: Scene) -> None:
    await begin(scene)
    await scene.advance("55m")
    permit(scene)
    await scene.advance("5m")
    assert (asked(scene)[0].state, asked(scene)[0].why) == ("withdrawn", "its run has ended")


async def test_a_standing_grant_permits_exactly_this_call(scene: Scene) -> None:
    await begin(scene)
    permit(scene)
    answer(scene, asked(scene)[0], "allow always")
    assert permit(scene).allowed
    assert permit(scene).allowed
    assert not permit(scene, {"command": "rm -r build src"}).allowed
    assert not permit(scene, tool="Write").allowed
    assert granted(scene)[0].grant.uses == 2


async def test_a_grant_is_void_when_the_definition_changes(scene: Scene) -> None:
    await begin(scene)
    permit(scene)
    answer(scene, asked(scene)[0], "allow always")
    job, now = scene.job("talk"), scene.clock.now()
    spec = replace(job.spec, description="another")
    scene.store.write(partial(change_to, job=job, spec=spec, source="test", tzdata="now", now=now))
    assert granted(scene)[0].state == "void"
    assert permit(scene) == CallDecision(why="the definition of the job changed after this run started")


async def test_an_answer_after_a_change_of_the_definition_is_refused(scene: Scene) -> None:
    await begin(scene)
    permit(scene)
    job, now = scene.job("talk"), scene.clock.now()
    spec = replace(job.spec, description="another")
    scene.store.write(partial(change_to, job=job, spec=spec, source="test", tzdata="now", now=now))
    with pytest.raises(QuestionChanged):
        answer(scene, asked(scene)[0], "allow always")
    assert granted(scene) == []


async def test_a_revoked_or_expired_grant_permits_nothing(scene: Scene) -> None:
    await begin(scene, answered_by=())
    permit(scene)
    answer(scene, asked(scene)[0], "allow always")
    revoke_grant(scene.store, 1, by="user:anna", now=scene.clock.now())
    assert granted(scene)[0].state == "revoked"
    assert permit(scene).question is not None
    answer(scene, asked(scene)[0], "allow always")
    assert permit(scene).allowed
    late = scene.clock.now() + timedelta(days=30)
    assert list_grants(scene.store, now=late)[0].state == "expired"
    wanted = partial(request, author=author(scene), tool="Bash", given=RM, now=late)
    assert scene.store.write(wanted).question is not None


async def test_the_same_call_again_is_the_same_question(scene: Scene) -> None:
    await begin(scene)
    assert permit(scene).question == permit(scene).question


async def test_a_call_that_no_person_can_check_is_denied(scene: Scene) -> None:
    await begin(scene)
    verdict = permit(scene, {"command": "x" * CALL_LIMIT})
    assert (verdict.allowed, verdict.question) == (False, None)


async def test_only_a_run_with_this_access_may_ask(scene: Scene) -> None:
    await begin(scene)
    for other in (Author(), author(scene, Access.FULL)):
        wanted = partial(request, author=other, tool="Bash", given=RM, now=scene.clock.now())
        with pytest.raises(ToolsRefused):
            scene.store.write(wanted)


async def test_only_the_listed_actors_may_answer(scene: Scene) -> None:
    await begin(scene, answered_by=("user:bob",))
    permit(scene)
    with pytest.raises(AnswerRefused):
        answer(scene, asked(scene)[0], "allow once")
    assert answer(scene, asked(scene)[0], "deny", Answerer("user:bob", Door.CLI)).answer == "deny"
