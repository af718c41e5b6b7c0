"""Functions that ask a person: `ctx.ask` returns None first, and the answer in the next run, once."""

from datetime import timedelta
from typing import Any

import pytest

from rota.operations.verify.verify import verify
from rota.store.tables import questions
from rota.testing.scene import Scene
from tests.engine.conftest import function
from tests.engine.test_functions import play
from tests.engine.test_questions import answer, asked

pytestmark = pytest.mark.anyio
HOUR = timedelta(hours=1)


class Deploying:
    """A function that asks before it deploys; notes what it gets."""

    def __init__(self, *, fails: int = 0, again: bool = False, **options: Any) -> None:
        self.got: list[str | None] = []
        self._options = {"choices": ["yes", "no"], "timeout": HOUR, **options}
        self._fails = fails
        self._again = again

    def __call__(self, context: Any) -> str:
        got = context.ask("Deploy to production?", **self._options)
        if self._again:
            assert context.ask("Deploy to production?", **self._options) == got
        self.got.append(got)
        if got is not None and self._fails:
            self._fails -= 1
            raise RuntimeError("no network")
        return f"got {got}"


def deploys(scene: Scene, deploying: Deploying) -> Deploying:
    scene.table.functions = {"deploy": deploying}
    scene.declare(function("deploy"))
    return deploying


async def run(scene: Scene, times: int = 1) -> None:
    for _ in range(times):
        scene.trigger("deploy")
        await play(scene)


def clean(scene: Scene) -> bool:
    return not verify(scene.store, scene.settings.state, now=scene.clock.now()).violations


async def test_the_next_run_gets_the_answer_exactly_once(scene: Scene) -> None:
    deploying = deploys(scene, Deploying())
    await run(scene)
    (question,) = asked(scene)
    assert (question.text, question.choices, question.waits) == ("Deploy to production?", ("yes", "no"), False)
    assert (question.run, question.asked_by) == ("deploy:1", "run:deploy (deploy:1)")
    answer(scene, question, "yes")
    await run(scene, 2)
    assert deploying.got == [None, "yes", None]
    assert [one.result_summary for one in scene.history("deploy")] == ["got None", "got yes", "got None"]
    newest, first = asked(scene)
    assert first.used_by == scene.history("deploy")[1].id
    assert (newest.is_open, newest.run) == (True, "deploy:3")
    assert clean(scene)


async def test_without_an_answer_no_run_waits_and_no_person_is_asked_twice(scene: Scene) -> None:
    deploying = deploys(scene, Deploying(again=True))
    await run(scene, 3)
    assert deploying.got == [None, None, None]
    assert scene.told("deploy") == [("COMPLETED", None)] * 3
    assert [one.is_open for one in asked(scene)] == [True]
    assert clean(scene)


async def test_the_default_is_the_answer_when_the_time_is_over(scene: Scene) -> None:
    deploying = deploys(scene, Deploying(default="no"))
    await run(scene)
    await scene.advance("1h")
    assert [(one.state, one.answer) for one in asked(scene)] == [("expired", "no")]
    await run(scene, 2)
    assert deploying.got == [None, "no", None]
    assert clean(scene)


async def test_without_a_default_the_next_run_asks_again(scene: Scene) -> None:
    deploying = deploys(scene, Deploying())
    await run(scene)
    await scene.advance("1h")
    await run(scene)
    assert deploying.got == [None, None]
    assert [one.state for one in asked(scene)] == ["open", "expired"]


async def test_a_run_that_fails_leaves_its_answer_to_the_next(scene: Scene) -> None:
    deploying = deploys(scene, Deploying(fails=1, again=True))
    await run(scene)
    answer(scene, asked(scene)[0], "yes")
    await run(scene, 2)
    assert deploying.got == [None, "yes", "yes"]
    job = scene.job("deploy")
    assert scene.store.read(lambda db: questions.unread(db, job.id)) == []
    assert clean(scene)


async def test_the_run_that_asked_gets_an_answer_that_came_meanwhile(scene: Scene) -> None:
    got: list[str | None] = []

    def work(context: Any) -> None:
        got.append(context.ask("Which branch?"))
        answer(scene, asked(scene)[0], "main")
        got.append(context.ask("Which branch?"))

    scene.table.functions = {"deploy": work}
    scene.declare(function("deploy"))
    await run(scene)
    assert got == [None, "main"]
    assert asked(scene)[0].used_by == scene.history("deploy")[0].id


async def test_a_default_that_is_no_choice_fails_the_run(scene: Scene) -> None:
    deploys(scene, Deploying(default="perhaps"))
    await run(scene)
    (ended,) = scene.history("deploy")
    assert (ended.status, ended.reason) == ("FAILED", "exception")
    assert asked(scene) == []


async def test_an_async_function_asks_in_the_same_way(scene: Scene) -> None:
    got: list[str | None] = []

    async def work(context: Any) -> None:
        got.append(context.ask("Which branch?"))

    scene.table.functions = {"deploy": work}
    scene.declare(function("deploy"))
    await run(scene)
    answer(scene, asked(scene)[0], "main")
    await run(scene)
    assert got == [None, "main"]
